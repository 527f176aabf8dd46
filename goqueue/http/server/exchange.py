"""One request and its answer, as a handler has them."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import trio

from goqueue.http.server.errors import BodyTooLarge, HttpError, Overloaded
from goqueue.http.server.machine import CONTINUE, LAST_CHUNK, Head, answer_head, chunk

JSON = "application/json"
NO_BODY = (204, 304)
SKIPPED_BYTES_MAX = 256 * 1024
"""Limit of what is read of a body that nobody wants, to keep the connection."""


@dataclass(frozen=True, slots=True)
class Response:
    """An answer whose body is complete."""

    status: int = 200
    body: bytes = b""
    content_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)


def whole_answer(response: Response) -> bytes:
    """The answer of a connection that has no request, and ends."""
    headers = {"content-type": response.content_type, **response.headers}
    return answer_head(response.status, headers, len(response.body), is_last=True) + response.body


class Carrier(Protocol):
    """The connection, as an exchange uses it."""

    leaving: trio.Event
    """Set when the broker is going away: what is open for long ends soon."""

    async def next_part(self) -> bytes: ...

    def keep(self, size: int) -> None: ...

    def reserve(self, size: int) -> None: ...

    async def send(self, data: bytes) -> None: ...

    async def unless_gone(
        self, work: Callable[[], Awaitable[None]], on_gone: Callable[[], None] | None = None
    ) -> bool: ...


class Exchange:
    """A handler reads the body once and in one way. It answers once: with a response, or in pieces."""

    def __init__(self, carrier: Carrier, head: Head, request_id: str, address: str | None) -> None:
        self.head = head
        self.request_id = request_id
        self.address = address
        self.is_last = head.is_last
        """The connection ends behind the answer."""
        self.status: int | None = None
        """The status of the answer, once it has begun."""
        self._carrier = carrier
        self._has_begun_body = self._is_in_chunks = False

    @property
    def leaving(self) -> trio.Event:
        return self._carrier.leaving

    # The body

    async def body(self, size_max: int) -> bytes:
        """The whole body. `BodyTooLarge` as soon as it is known to be larger."""
        self._check_size(self.head.length or 0, size_max)
        data = bytearray()  # no list of parts: these may be tiny
        while part := await self.next_part():
            self._check_size(len(data) + len(part), size_max)
            if len(part) == self.head.length:
                return part
            data += part
        return bytes(data)

    def _check_size(self, size: int, size_max: int) -> None:
        if size > size_max:
            self.is_last = True
            raise BodyTooLarge(f"the body has at most {size_max:,} bytes here; send less at a time", limit=size_max)

    async def next_part(self) -> bytes:
        """The next part of the body; nothing at its end. A client that waits for leave to send it gets it now."""
        if not self._has_begun_body:
            self._has_begun_body = True
            if self.head.expects_continue and self.head.length != 0:
                await self._carrier.send(CONTINUE)
        try:
            return await self._carrier.next_part()
        except HttpError:  # where the next request begins, nobody knows
            self.is_last = True
            raise

    def keep(self, size: int) -> None:
        """Only so many bytes of the body are still kept; a body that is read by parts has no limit in all."""
        self._carrier.keep(size)

    @property
    def has_unread_body(self) -> bool:
        """The client waits for leave to send its body, and got none: it may send it or not. Or there is more to
        come than is worth reading."""
        return not self._has_begun_body and (
            self.head.expects_continue or (self.head.length or 0) > SKIPPED_BYTES_MAX
        )

    async def unless_gone(
        self, work: Callable[[], Awaitable[None]], on_gone: Callable[[], None] | None = None
    ) -> bool:
        """Work, as long as the client is there. When it goes the work is cancelled, or with `on_gone` told so, and
        ends by itself. Returns whether the client is there. For long polls and streams, once the body was read."""
        return await self._carrier.unless_gone(work, on_gone)

    # The answer

    def reserve(self, size: int) -> None:
        """An answer of about this size is being made. `Overloaded` if there is no room for it."""
        self._carrier.reserve(size)

    async def answer(self, response: Response) -> None:
        status, body = self._begin(response.status), response.body
        head = answer_head(
            status, self._headers(response), -1 if status in NO_BODY else len(body), is_last=self._ends_connection
        )
        try:
            await self._carrier.send(head + body if self.head.method != "HEAD" else head)
        except Overloaded:  # nothing of it was sent
            self.status = None
            raise

    async def begin(self, response: Response) -> None:
        """The head of an answer whose body comes in pieces. To a client that does not know chunks it ends with the
        connection."""
        status = self._begin(response.status)
        self._is_in_chunks = self.head.knows_chunks
        self.is_last |= not self._is_in_chunks
        length = None if self._is_in_chunks else -1
        await self._carrier.send(
            answer_head(status, self._headers(response), length, is_last=self._ends_connection)
        )

    async def send(self, piece: bytes) -> None:
        if piece and self.head.method != "HEAD":
            await self._carrier.send(chunk(piece) if self._is_in_chunks else piece)

    async def end(self) -> None:
        """The end of an answer in pieces. Without it the client sees that something is missing."""
        if self._is_in_chunks and self.head.method != "HEAD":
            await self._carrier.send(LAST_CHUNK)

    def _begin(self, status: int) -> int:
        assert self.status is None, "a request is answered once"
        self.status = status
        return status

    def _headers(self, response: Response) -> Mapping[str, str]:
        headers = {"request-id": self.request_id, **response.headers}
        return headers if response.status in NO_BODY else {"content-type": response.content_type, **headers}

    @property
    def _ends_connection(self) -> bool:
        return self.is_last or self.has_unread_body or self._carrier.leaving.is_set()
