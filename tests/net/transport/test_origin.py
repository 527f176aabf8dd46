"""Which pages may call a broker."""

import pytest

from goqueue.net.transport.origin import Address, AllowedCallers, refusal_of

LOCAL = [Address("127.0.0.1", 7710), Address("127.0.0.1", 7711)]
EVERYWHERE = [Address("0.0.0.0", 7710), Address("::", 7711)]
NAMED = [Address("192.168.1.5", 7710)]


def refusal(
    host: str, origin: str | None, listening: list[Address], configured: tuple[str, ...] = ()
) -> str | None:
    headers = [(b"Host", host.encode()), (b"Accept", b"*/*")]
    if origin is not None:
        headers.append((b"Origin", origin.encode()))
    return refusal_of(headers, listening, AllowedCallers(configured))


@pytest.mark.parametrize(
    ("host", "origin", "listening", "configured"),
    [
        ("127.0.0.1:7710", None, LOCAL, ()),
        ("127.0.0.1", None, LOCAL, ()),
        ("127.9.9.9:7710", None, LOCAL, ()),
        ("localhost:7710", None, LOCAL, ()),
        ("LOCALHOST:7710", None, LOCAL, ()),
        ("[::1]:7710", None, LOCAL, ()),
        ("[::1]", None, LOCAL, ()),
        ("localhost:8000", None, LOCAL, ()),
        ("192.168.1.5:7710", None, NAMED, ()),
        ("queue.example.com", None, EVERYWHERE, ("queue.example.com",)),
        ("Queue.Example.com:7710", None, EVERYWHERE, ("queue.EXAMPLE.com",)),
        ("127.0.0.1:7710", "http://127.0.0.1:7710", LOCAL, ()),
        ("127.0.0.1:7710", "http://127.0.0.1:7711", LOCAL, ()),
        ("127.0.0.1:7710", "http://localhost:7711", LOCAL, ()),
        ("localhost:7710", "http://[::1]:7710", LOCAL, ()),
        ("localhost:8000", "http://localhost:8000", LOCAL, ()),
        ("queue.example.com", "https://queue.example.com", EVERYWHERE, ("queue.example.com",)),
        ("queue.example.com", "https://queue.example.com:443", EVERYWHERE, ("queue.example.com",)),
        ("192.168.1.5:7710", "http://192.168.1.5:7710", NAMED, ()),
    ],
)
def test_allowed(host: str, origin: str | None, listening: list[Address], configured: tuple[str, ...]) -> None:
    assert refusal(host, origin, listening, configured) is None


@pytest.mark.parametrize(
    ("host", "listening", "configured"),
    [
        ("evil.example:7710", LOCAL, ()),
        ("localhost.evil.example:7710", LOCAL, ()),
        ("127.0.0.1.nip.io:7710", LOCAL, ()),
        ("127.0.0.1@evil.example", LOCAL, ()),
        ("evil.example/127.0.0.1", LOCAL, ()),
        ("evil.example#@127.0.0.1", LOCAL, ()),
        ("192.168.1.5:7710", LOCAL, ()),
        ("0.0.0.0:7710", EVERYWHERE, ()),
        ("[::]:7710", EVERYWHERE, ()),
        ("[::1:7710", LOCAL, ()),
        ("127.0.0.1:port", LOCAL, ()),
        ("127.0.0.1:99999", LOCAL, ()),
        ("127.1", LOCAL, ()),
        ("", LOCAL, ()),
        ("evil.queue.example.com", EVERYWHERE, ("queue.example.com",)),
        ("queue.example.com.evil.example", EVERYWHERE, ("queue.example.com",)),
    ],
)
def test_a_host_that_is_neither_loopback_nor_configured_is_refused(
    host: str, listening: list[Address], configured: tuple[str, ...]
) -> None:
    assert "neither loopback nor configured" in (refusal(host, None, listening, configured) or "allowed")


@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "",
        "http://evil.example",
        "http://evil.example:7710",
        "http://localhost.evil.example:7710",
        "http://127.0.0.1:3000",
        "http://127.0.0.1",
        "https://127.0.0.1",
        "http://user@127.0.0.1:7710",
        "http://127.0.0.1:7710/path",
        "http://127.0.0.1:7710 http://evil.example",
        "file://127.0.0.1:7710",
        "chrome-extension://127.0.0.1:7710",
        "127.0.0.1:7710",
        "http://[::1",
        "http://127.0.0.1:port",
    ],
)
def test_an_origin_that_is_not_the_brokers_own_is_refused(origin: str) -> None:
    assert "not this broker's own" in (refusal("127.0.0.1:7710", origin, LOCAL) or "allowed")


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(b"Origin", b"http://127.0.0.1:7710")],
        [(b"host", b"127.0.0.1"), (b"Host", b"evil.example")],
        [(b"host", b"127.0.0.1"), (b"origin", b"http://127.0.0.1"), (b"Origin", b"null")],
    ],
)
def test_headers_come_once(headers: list[tuple[bytes, bytes]]) -> None:
    assert "one Host" in (refusal_of(headers, LOCAL) or "allowed")


def test_bytes_that_are_no_text_are_refused() -> None:
    assert refusal_of([(b"Host", b"\xff\xfe\x00")], LOCAL) is not None


@pytest.mark.parametrize(
    ("host", "called", "is_allowed"),
    [
        ("10.1.2.3:7711", "10.1.2.3", True),
        ("[fd00::1]:7711", "fd00::1", True),
        ("10.1.2.4:7711", "10.1.2.3", False),
        ("rebound.example:7711", "10.1.2.3", False),
        ("10.1.2.3:7711", None, False),
    ],
)
def test_the_address_that_a_connection_came_to_is_allowed_by_its_digits(
    host: str, called: str | None, *, is_allowed: bool
) -> None:
    """Names can be rebound, addresses cannot."""
    assert (refusal_of([(b"host", host.encode())], EVERYWHERE, called=called) is None) is is_allowed


def test_a_page_that_the_operator_named_may_call() -> None:
    headers = [(b"host", b"localhost:7711"), (b"origin", b"https://console.example")]
    assert refusal_of(headers, LOCAL) is not None
    assert refusal_of(headers, LOCAL, AllowedCallers(origins=("https://console.example",))) is None
