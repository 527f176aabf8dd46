"""Parses the address of a broker."""

from reprlib import repr as shortened
from urllib.parse import urlsplit

from goqueue.client.link.arguments import refusal

DEFAULT_PORT = 7710


def address_of(url: str) -> tuple[str, int]:
    address = _parsed(url)
    if address is None:
        raise refusal(f"url={shortened(url)} is not an address like ws://127.0.0.1:7710")
    return address


def _parsed(url: object) -> tuple[str, int] | None:
    if not isinstance(url, str):
        return None
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, DEFAULT_PORT if parts.port is None else parts.port
    except ValueError:  # brackets without an address in them, a port beyond the last
        return None
    return (host, port) if parts.scheme == "ws" and host and port else None
