"""Checks Host and Origin: which pages in a browser may talk to a broker.

A web page can make its visitor's browser connect to 127.0.0.1. Two headers that a page cannot forge give it away.
`Origin` names the page: it must be of the broker's own making. `Host` names what the browser believes to talk to:
it betrays a page that points its own name at 127.0.0.1 (DNS rebinding). Programs that are no browsers send no
Origin, and need none.
"""

from collections.abc import Sequence
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import urlsplit

DEFAULT_PORTS = {"http": 80, "https": 443}


class Address(NamedTuple):
    host: str
    port: int | None


class AllowedCallers(NamedTuple):
    """What the operator's settings allow beside the broker's own addresses."""

    hosts: Sequence[str] = ()
    """Names without a port."""
    origins: Sequence[str] = ()
    """The origins of pages, as a browser sends them: `https://console.example.com`."""


NOBODY_ELSE = AllowedCallers()


def refusal_of(
    headers: Sequence[tuple[bytes, bytes]],
    listening: Sequence[Address],
    allowed_callers: AllowedCallers = NOBODY_ELSE,
    called: str | None = None,
) -> str | None:
    """Why a handshake or request with these headers is refused; None when it is allowed.

    `listening` has each address of the broker, websocket and HTTP. `called` is the address to which the connection
    came: behind the address of all interfaces, programs may call by it. Names can be rebound, addresses cannot.
    """
    hosts, origins = _values(headers, b"host"), _values(headers, b"origin")
    if len(hosts) != 1 or len(origins) > 1:
        return "a request has one Host and at most one Origin"
    host = _parse(f"//{hosts[0]}")
    if host is None or not (
        _is_own(host.host, listening, allowed_callers.hosts) or _is_same_address(host.host, called)
    ):
        return (
            f"the host {hosts[0]!r} is neither loopback nor configured; use 127.0.0.1, or add the name to the"
            " setting `hosts`"
        )
    if not origins or origins[0] in allowed_callers.origins:
        return None
    return _origin_refusal(origins[0], host, listening, allowed_callers.hosts)


def _origin_refusal(
    text: str, host: Address, listening: Sequence[Address], configured_hosts: Sequence[str]
) -> str | None:
    refusal = (
        f"the origin {text!r} is not this broker's own; pages of other sites may not call it, unless the setting"
        " `origins` names theirs"
    )
    scheme, _, _ = text.partition("://")
    origin = _parse(text) if scheme in DEFAULT_PORTS else None
    if origin is None or not (
        _is_own(origin.host, listening, configured_hosts) or (origin.host == host.host and _is_address(host.host))
    ):
        return refusal
    # Ports may be forwarded, so the one that the browser called is as good as the one that we listen on.
    port = origin.port or DEFAULT_PORTS[scheme]
    called = host.port or DEFAULT_PORTS[scheme]
    return None if port == called or port in [each.port for each in listening] else refusal


def _values(headers: Sequence[tuple[bytes, bytes]], wanted: bytes) -> list[str]:
    return [value.decode("latin-1").strip() for name, value in headers if name.lower() == wanted]


def _parse(text: str) -> Address | None:
    """Host and port of an address, if it has nothing else: no user, path or query."""
    try:
        parts = urlsplit(text)
        if parts.hostname is None or parts.path or parts.query or parts.fragment or "@" in parts.netloc:
            return None
        return Address(parts.hostname, parts.port)
    except ValueError:
        return None


def _is_own(host: str, listening: Sequence[Address], configured_hosts: Sequence[str]) -> bool:
    return (
        _is_loopback(host)
        or host in [name.lower() for name in configured_hosts]
        or _is_listened_on(host, listening)
    )


def _is_loopback(host: str) -> bool:
    """By its letters, never by asking DNS: the attacker may answer there."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _is_same_address(host: str, called: str | None) -> bool:
    try:
        return called is not None and ip_address(host) == ip_address(called)
    except ValueError:
        return False


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _is_listened_on(host: str, listening: Sequence[Address]) -> bool:
    """The operator chose this address; the address of all interfaces is no name of a host."""
    return any(host == each.host.lower() and not _is_every_interface(host) for each in listening)


def _is_every_interface(host: str) -> bool:
    try:
        return ip_address(host).is_unspecified
    except ValueError:
        return False
