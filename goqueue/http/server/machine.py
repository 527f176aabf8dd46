"""The server's end of one HTTP connection, without its socket: bytes in, events out.

h11 parses heads. What it reads leniently is refused before it sees it, because a proxy in front of the broker may
read it in another way, and then the two disagree where one request ends and the next begins (request smuggling):
two lengths, a length beside chunks, line ends without CR, folded lines. Answers are composed here, byte by byte:
there are two kinds only, one whose length is known and one in chunks.

    head, (body part)*, body end, then the next head: each after the request before it was answered

A refusal is raised. It is answered, and then the connection ends: where a request was not understood, nobody knows
where the next one begins.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import TypeAlias

import h11

from goqueue.http.server.bodies import ChunkedBody, IncomingBody, LengthBody
from goqueue.http.server.errors import HeadTooLarge, InvalidRequest, UnsupportedRequest

HEAD_SIZE_MAX = 16 * 1024
PARSED_SIZE_MAX = 2 * HEAD_SIZE_MAX
"""Limit of what h11 keeps of a head, which arrives there whole."""

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"

_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d{1,18})[ \t]*\r\n", re.IGNORECASE)
_LENGTH_NAME = re.compile(rb"\r\ncontent-length[ \t]*:", re.IGNORECASE)
_CODING_NAME = re.compile(rb"\r\ntransfer-encoding[ \t]*:", re.IGNORECASE)
_TOKEN = re.compile(rb"[-!#$%&'*+.^_`|~0-9A-Za-z]")
_FOLDED = re.compile(rb"\r\n[ \t]")
_STATUS_LINES = {
    each.value: f"HTTP/1.1 {each.value} {each.phrase}\r\n".encode() for each in HTTPStatus if each.value >= 200
}

Headers: TypeAlias = Sequence[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a request. Names of headers are in lower case."""

    method: str
    target: bytes
    headers: Headers
    length: int | None
    """The size of the body; None if it comes in chunks."""
    is_last: bool
    """The client sends no other request on this connection."""
    knows_chunks: bool
    expects_continue: bool

    def values(self, name: bytes) -> list[bytes]:
        return [value for each, value in self.headers if each == name]


@dataclass(frozen=True, slots=True)
class BodyPart:
    data: bytes


class BodyEnd:
    """The request is complete."""


class NeedsData:
    """Give it more bytes."""


class Ended:
    """The client has sent its last byte, between two requests."""


BODY_END, NEEDS_DATA, ENDED = BodyEnd(), NeedsData(), Ended()
Event: TypeAlias = Head | BodyPart | BodyEnd | NeedsData | Ended


class HttpMachine:
    def __init__(self) -> None:
        self._buffer = bytearray()
        """What has come and was not told yet."""
        self._body: IncomingBody | None = None
        """The body that is arriving."""
        self._is_over = False

    @property
    def is_in_body(self) -> bool:
        """The head was told, and the end of the body was not."""
        return self._body is not None

    @property
    def has_begun(self) -> bool:
        """Bytes of the next head are there."""
        return bool(self._buffer)

    def receive(self, data: bytes | bytearray) -> None:
        """Bytes of the client; none at all is its end."""
        if not data:
            self._is_over = True
        self._buffer += data

    def next_event(self) -> Event:
        return self._next_head() if self._body is None else self._next_part(self._body)

    def _next_head(self) -> Event:
        buffer = self._buffer
        while buffer.startswith(b"\r\n"):  # some clients end a body with a line too many
            del buffer[:2]
        end = buffer.find(b"\r\n\r\n", 0, HEAD_SIZE_MAX)
        if end < 0:
            return self._wait_for_head()
        raw = bytes(buffer[: end + 4])
        head = _head(raw)
        del buffer[: end + 4]
        self._body = ChunkedBody() if head.length is None else LengthBody(head.length)
        return head

    def _wait_for_head(self) -> Event:
        if self._buffer:
            _check_lines(bytes(self._buffer[:HEAD_SIZE_MAX]))
        if len(self._buffer) >= HEAD_SIZE_MAX:
            raise HeadTooLarge(f"the head of a request has at most {HEAD_SIZE_MAX:,} bytes; send fewer headers")
        if not self._is_over:
            return NEEDS_DATA
        if self._buffer:
            raise InvalidRequest("the connection ended within the head of a request")
        return ENDED

    def _next_part(self, body: IncomingBody) -> Event:
        part = body.take(self._buffer)
        if part:
            return BodyPart(part)
        if part is None:
            if self._is_over:
                raise InvalidRequest("the connection ended within the body of a request")
            return NEEDS_DATA
        self._body = None
        return BODY_END


def _check_lines(head: bytes) -> None:
    """The head may be cut anywhere."""
    if head != b"\r" and not _TOKEN.match(head):
        raise InvalidRequest("this is not HTTP/1.1, which begins with a method; here is no TLS either")
    lines = head.count(b"\r\n")
    if not lines == head.count(b"\n") == head.count(b"\r") - head.endswith(b"\r"):
        raise InvalidRequest("lines end with CR and LF, and neither stands anywhere else")


def _check_raw(head: bytes) -> None:
    _check_lines(head)
    if b"\0" in head:
        raise InvalidRequest("a head has no NUL in it")
    if _FOLDED.search(head):
        raise InvalidRequest("a header stands on one line")
    lengths, has_coding = len(_LENGTH_NAME.findall(head)), _CODING_NAME.search(head) is not None
    if lengths > 1 or (lengths and (has_coding or not _LENGTH.search(head))):
        raise InvalidRequest("a request has one Content-Length, a plain number, or comes in chunks, not both")


def _parsed(raw: bytes) -> h11.Request:
    parser = h11.Connection(h11.SERVER, max_incomplete_event_size=PARSED_SIZE_MAX)
    parser.receive_data(raw)
    try:
        request = parser.next_event()
    except h11.RemoteProtocolError as error:
        why = str(error).partition(": bytearray")[0]
        raise InvalidRequest(f"this is not HTTP/1.1: {why}") from error
    assert isinstance(request, h11.Request), "the head is complete"
    return request


def _head(raw: bytes) -> Head:
    _check_raw(raw)
    request = _parsed(raw)
    headers = [(bytes(name), bytes(value)) for name, value in request.headers]
    version = bytes(request.http_version)
    if version not in (b"1.1", b"1.0"):
        raise UnsupportedRequest("this server speaks HTTP/1.1")
    is_chunked = any(name == b"transfer-encoding" for name, _ in headers)
    if is_chunked and version == b"1.0":
        raise InvalidRequest("HTTP/1.0 knows no chunks; send a Content-Length")
    length = _LENGTH.search(raw)
    tokens = [
        token.strip().lower() for name, value in headers if name == b"connection" for token in value.split(b",")
    ]
    return Head(
        request.method.decode("ascii"),
        bytes(request.target),
        headers,
        None if is_chunked else int(length[1]) if length else 0,
        is_last=b"close" in tokens or (version == b"1.0" and b"keep-alive" not in tokens),
        knows_chunks=version == b"1.1",
        expects_continue=version == b"1.1"
        and any(name == b"expect" and value.lower() == b"100-continue" for name, value in headers),
    )


# Answers


def answer_head(status: int, headers: Mapping[str, str], length: int | None, *, is_last: bool) -> bytes:
    """`length`: that of the body, None if it comes in chunks, -1 if it has none by its status or ends with the
    connection. `is_last`: the connection ends behind this answer."""
    lines = [_STATUS_LINES[status]]
    lines += [f"{name}: {value}\r\n".encode("latin-1") for name, value in headers.items()]
    if length is None:
        lines.append(b"transfer-encoding: chunked\r\n")
    elif length >= 0:
        lines.append(b"content-length: %d\r\n" % length)
    if is_last:
        lines.append(b"connection: close\r\n")
    lines.append(b"\r\n")
    return b"".join(lines)


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)
