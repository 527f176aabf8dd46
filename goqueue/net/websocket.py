"""Frames as binary websocket messages, over any stream.

trio-websocket does the work; what is set and guarded here was found by trying. Its receive buffer of 4 KiB costs a
factor of three, a queue of one message stalls pipelining. Its reader runs in a nursery of the caller's, and what it
raises (a refused handshake, bytes that confuse a parser below it) would end everything beside it; and when the
stream ends during the handshake, both ends wait for ever. So its reader is run under watch.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias, cast

import trio
from trio_websocket import (
    ConnectionClosed,
    ConnectionRejected,
    WebSocketConnection,
    WebSocketRequest,
    wrap_client_stream,
    wrap_server_stream,
)
from wsproto.utilities import LocalProtocolError

from goqueue.errors import Closed, GoQueueError
from goqueue.net.errors import ConnectionLost, HandshakeRefused, ProtocolError
from goqueue.net.limits import FRAME_SIZE_MAX

Headers: TypeAlias = Sequence[tuple[bytes, bytes]]

RECEIVE_BUFFER_SIZE = 256 * 1024
MESSAGE_QUEUE_SIZE = 8
HANDSHAKE_TIMEOUT = 10
CLOSE_TIMEOUT = 5

ORDERLY_CODES = (1000, 1001, 1005)
"""Done, going away, and no code given."""
TEXT_REFUSED = 1003


class WebsocketTransport:
    def __init__(self, connection: WebSocketConnection) -> None:
        self._connection = connection
        self._is_closed = False
        self._is_torn = False

    async def send(self, frame: bytes) -> None:
        if self._is_closed:
            raise Closed("the connection was closed")
        if self._is_torn:
            raise ConnectionLost("a frame was cut short; the connection cannot be used any more")
        self._is_torn = True
        try:
            await self._connection.send_message(frame)
        except ConnectionClosed as error:
            raise _loss(error) from None
        except LocalProtocolError:
            raise ConnectionLost("the other end has closed the connection") from None
        self._is_torn = False

    async def receive(self) -> bytes | None:
        try:
            message = await self._connection.get_message()
        except ConnectionClosed as error:
            self._check_order(error)
            return None
        if isinstance(message, str):
            await self._close(TEXT_REFUSED, "binary messages only")
            raise ProtocolError("a text message came; frames are binary messages")
        return message

    async def aclose(self) -> None:
        await self._close(1000, "")

    def _check_order(self, error: ConnectionClosed) -> None:
        in_order = error.reason is not None and error.reason.code in ORDERLY_CODES
        if not self._is_closed and not in_order:
            raise _loss(error) from None

    async def _close(self, code: int, reason: str) -> None:
        self._is_closed = True
        with trio.move_on_after(CLOSE_TIMEOUT):
            await self._connection.aclose(code, reason)


async def connect_websocket(
    nursery: trio.Nursery,
    stream: trio.abc.Stream,
    host: str,
    path: str = "/",
    *,
    headers: Headers = (),
    frame_size_max: int = FRAME_SIZE_MAX,
) -> WebsocketTransport:
    """Shake hands as the client. `host` is what the Host header says, port included."""

    async def wrap(watch: trio.Nursery) -> WebSocketConnection:
        return await wrap_client_stream(
            watch,
            cast(trio.SocketStream, stream),
            host,
            path,
            extra_headers=list(headers),
            message_queue_size=MESSAGE_QUEUE_SIZE,
            max_message_size=frame_size_max,
            receive_buffer_size=RECEIVE_BUFFER_SIZE,
        )

    return WebsocketTransport(await _shake_hands(nursery, stream, wrap))


async def accept_websocket(
    nursery: trio.Nursery,
    stream: trio.abc.Stream,
    refusal_of: Callable[[Headers], str | None],
    *,
    frame_size_max: int = FRAME_SIZE_MAX,
) -> WebsocketTransport:
    """Shake hands as the server. `refusal_of` sees the headers and says why not: answered with 403."""

    async def wrap(watch: trio.Nursery) -> WebSocketConnection:
        request = await wrap_server_stream(watch, stream, MESSAGE_QUEUE_SIZE, frame_size_max, RECEIVE_BUFFER_SIZE)
        refusal = refusal_of(_headers_of(request))
        if refusal is None:
            return await request.accept()
        await request.reject(403, extra_headers=[(b"Connection", b"close")], body=refusal.encode())
        raise HandshakeRefused(refusal)

    return WebsocketTransport(await _shake_hands(nursery, stream, wrap))


def _headers_of(request: WebSocketRequest) -> Headers:
    """All of them: the library takes Host out and keeps it to itself."""
    host = request._event.host
    return [(b"host", host.encode("utf-8")), *request.headers]


class _Watch:
    """Stands in for the nursery that the library wants, and notices how its reader ends."""

    def __init__(self, nursery: trio.Nursery, handshake: trio.CancelScope) -> None:
        self._nursery, self._handshake = nursery, handshake
        self.failure: Exception | None = None

    def start_soon(self, reader: Callable[[], Awaitable[None]]) -> None:
        self._nursery.start_soon(self._watch, reader, name="websocket reader")

    async def _watch(self, reader: Callable[[], Awaitable[None]]) -> None:
        try:
            await reader()
        except Exception as error:
            # Whatever the other end's bytes led to, it is the end of this connection and of nothing else.
            self.failure = error
        finally:
            self._handshake.cancel()


async def _shake_hands(
    nursery: trio.Nursery,
    stream: trio.abc.Stream,
    wrap: Callable[[trio.Nursery], Awaitable[WebSocketConnection]],
) -> WebSocketConnection:
    try:
        with trio.move_on_after(HANDSHAKE_TIMEOUT) as handshake:
            watch = _Watch(nursery, handshake)
            return await wrap(cast(trio.Nursery, watch))
        raise _handshake_failure(watch.failure)
    except BaseException:
        await trio.aclose_forcefully(stream)
        raise


def _handshake_failure(failure: Exception | None) -> GoQueueError:
    if isinstance(failure, ConnectionRejected):
        said = (failure.body or b"").decode("utf-8", "replace")[:1024]
        return HandshakeRefused(f"the other end refused with status {failure.status_code}: {said}")
    if failure is not None:
        return HandshakeRefused(f"the other end does not speak websocket: {failure}")
    return ConnectionLost("the connection ended, or was silent too long, before it was open")


def _loss(error: ConnectionClosed) -> ConnectionLost:
    reason = error.reason
    if reason is None:
        return ConnectionLost("the connection ended")
    return ConnectionLost(f"the connection ended with code {reason.code} {reason.reason or ''}".rstrip())
