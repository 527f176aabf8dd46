"""The address of a broker: given, or from the environment, or the default."""

from reprlib import repr as shortened
from urllib.parse import urlsplit

from goqueue.client.link.arguments import refusal
from goqueue.environment import URL_VARIABLE, url_in_environment

DEFAULT_PORT = 7710
DEFAULT_URL = f"ws://127.0.0.1:{DEFAULT_PORT}"


def address_of(url: str | None) -> tuple[str, int]:
    name, given = ("url", url) if url is not None else (URL_VARIABLE, url_in_environment() or DEFAULT_URL)
    address = _parsed(given)
    if address is None:
        raise refusal(f"{name}={shortened(given)} is not an address like {DEFAULT_URL}{_hint(given)}")
    return address


def _hint(url: object) -> str:
    """For addresses that are almost right."""
    if not isinstance(url, str):
        return ""
    if url.startswith(("http://", "https://")):
        return ": clients speak websocket, on the broker's other port"
    return "" if "://" in url else ": it begins with ws://"


def _parsed(url: object) -> tuple[str, int] | None:
    if not isinstance(url, str):
        return None
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, DEFAULT_PORT if parts.port is None else parts.port
    except ValueError:  # brackets without an address in them, a port beyond the last
        return None
    return (host, port) if parts.scheme == "ws" and host and port else None
