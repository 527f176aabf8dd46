"""Frames as binary websocket messages, over any stream.

wsproto knows the protocol; here is only what moves bytes between it and a stream. There is no task of its own and
no queue: whoever receives reads the stream, and pings are answered on the way. So nothing is read that nobody
waits for, and a small request and its answer take as few turns of the event loop as they can
(docs/decisions/websockets.md has the figures).

What the other end sends may confuse the parsers below in ways of their own. Whatever they raise, it is the end of
this connection and of nothing else.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TypeAlias

import trio
from wsproto import ConnectionType, WSConnection
from wsproto.connection import ConnectionState
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Event,
    Ping,
    RejectConnection,
    RejectData,
    Request,
    TextMessage,
)
from wsproto.utilities import LocalProtocolError, RemoteProtocolError

from goqueue.errors import Closed, GoQueueError
from goqueue.net.errors import ConnectionLost, HandshakeRefused, ProtocolError
from goqueue.net.limits import FRAME_SIZE_MAX

Headers: TypeAlias = Sequence[tuple[bytes, bytes]]

RECEIVE_SIZE = 256 * 1024
HANDSHAKE_TIMEOUT = 10
CLOSE_TIMEOUT = 5
REFUSAL_SIZE_MAX = 1024

ORDERLY_CODES = (1000, 1001, 1005)
"""Done, going away, and no code given."""
TEXT_REFUSED, TOO_LARGE = 1003, 1009
STREAM_ERRORS = (trio.BrokenResourceError, trio.ClosedResourceError)


class WebsocketTransport:
    def __init__(self, stream: trio.abc.Stream, websocket: WSConnection, frame_size_max: int) -> None:
        self._stream = stream
        self._websocket = websocket
        self._frame_size_max = frame_size_max
        self._events = websocket.events()
        self._partial = bytearray()
        """Of a message that comes in pieces."""
        self._is_closed = False
        """By us."""
        self._loss: ConnectionLost | None = None
        self._has_ended = trio.Event()
        self._is_receiving = False
        self._is_sending = False
        self._is_torn = False
        self._senders = trio.lowlevel.ParkingLot()

    async def send(self, frame: bytes) -> None:
        if self._is_closed:
            raise Closed("the connection was closed")
        if self._has_ended.is_set():
            raise self._loss or ConnectionLost("the other end has closed the connection")
        await self._send_event(BytesMessage(data=frame))

    async def receive(self) -> bytes | None:
        if not self._is_closed:
            self._is_receiving = True
            try:
                return await self._receive()
            finally:
                self._is_receiving = False
        return None

    async def _receive(self) -> bytes | None:
        while not self._has_ended.is_set():
            frame = await self._next_frame()
            if frame is not None:
                return frame
        if self._loss is not None and not self._is_closed:
            raise self._loss
        return None

    async def aclose(self) -> None:
        await self._close(1000, "")

    # In

    async def _next_frame(self) -> bytes | None:
        """One step: a frame, if it has led to one."""
        event = next(self._events, None)
        if event is None:
            await self._read_on()
        elif isinstance(event, BytesMessage):
            return await self._take_piece(event)
        elif isinstance(event, CloseConnection):
            await self._take_close(event)
        elif isinstance(event, Ping):
            await self._answer(event.response())
        elif isinstance(event, TextMessage):
            await self._close(TEXT_REFUSED, "binary messages only")
            raise ProtocolError("a text message came; frames are binary messages")
        return None

    async def _read_on(self) -> None:
        try:
            data = await self._stream.receive_some(RECEIVE_SIZE)
        except STREAM_ERRORS:
            data = b""
        if not data:
            self._end(ConnectionLost("the connection ended"))
            return
        try:
            self._websocket.receive_data(bytes(data))
        except Exception as error:
            self._end(ConnectionLost(f"the other end does not speak websocket: {error}"))
        self._events = self._websocket.events()

    async def _take_piece(self, event: BytesMessage) -> bytes | None:
        if len(self._partial) + len(event.data) > self._frame_size_max:
            reason = f"a frame has at most {self._frame_size_max} bytes"
            await self._answer(CloseConnection(code=TOO_LARGE, reason=reason))
            self._end(_loss(TOO_LARGE, reason))
            return None
        if event.message_finished and not self._partial:
            return bytes(event.data)
        self._partial += event.data
        if not event.message_finished:
            return None
        frame, self._partial = bytes(self._partial), bytearray()
        return frame

    async def _take_close(self, event: CloseConnection) -> None:
        """The other end closes, or wsproto has found that it breaks the rules."""
        await self._answer(CloseConnection(code=event.code, reason=event.reason))
        self._end(None if event.code in ORDERLY_CODES else _loss(event.code, event.reason))

    def _end(self, loss: ConnectionLost | None) -> None:
        if not self._has_ended.is_set():
            self._loss = loss
            self._has_ended.set()

    # Out

    async def _send_event(self, event: Event) -> None:
        while self._is_sending:
            await self._senders.park()
        if self._is_torn:
            raise ConnectionLost("a frame was cut short; the connection cannot be used any more")
        try:
            data = self._websocket.send(event)
        except LocalProtocolError:
            raise ConnectionLost("the other end has closed the connection") from None
        self._is_sending = self._is_torn = True
        try:
            await self._stream.send_all(data)
            self._is_torn = False
        except STREAM_ERRORS:
            raise ConnectionLost("the connection ended") from None
        finally:
            self._is_sending = False
            self._senders.unpark()

    async def _answer(self, event: Event) -> None:
        """Say it if it can still be said."""
        with suppress(ConnectionLost):
            await self._send_event(event)

    async def _close(self, code: int, reason: str) -> None:
        with trio.move_on_after(CLOSE_TIMEOUT):
            if not self._is_closed:
                self._is_closed = True
                await self._answer(CloseConnection(code=code, reason=reason))
            await self._wait_for_the_end()
        await trio.aclose_forcefully(self._stream)

    async def _wait_for_the_end(self) -> None:
        """What comes before the other end's goodbye is of no use any more."""
        if self._websocket.state is not ConnectionState.LOCAL_CLOSING or self._is_torn:
            return
        if self._is_receiving:
            await self._has_ended.wait()
        self._is_receiving = True
        while not self._has_ended.is_set():
            event = next(self._events, None)
            if event is None:
                await self._read_on()
            elif isinstance(event, CloseConnection):
                self._end(None)


async def connect_websocket(
    stream: trio.abc.Stream,
    host: str,
    path: str = "/",
    *,
    headers: Headers = (),
    frame_size_max: int = FRAME_SIZE_MAX,
) -> WebsocketTransport:
    """Shake hands as the client. `host` is what the Host header says, port included."""
    websocket = WSConnection(ConnectionType.CLIENT)

    async def shake_hands() -> None:
        await stream.send_all(websocket.send(Request(host=host, target=path, extra_headers=list(headers))))
        event = await _next_event(websocket, stream)
        if isinstance(event, RejectConnection):
            raise HandshakeRefused(await _refusal(websocket, stream, event))
        if not isinstance(event, AcceptConnection):
            raise HandshakeRefused("the other end does not speak websocket")

    await _in_time(stream, shake_hands)
    return WebsocketTransport(stream, websocket, frame_size_max)


async def accept_websocket(
    stream: trio.abc.Stream,
    refusal_of: Callable[[Headers], str | None],
    *,
    frame_size_max: int = FRAME_SIZE_MAX,
) -> WebsocketTransport:
    """Shake hands as the server. `refusal_of` sees the headers and says why not: answered with 403."""
    websocket = WSConnection(ConnectionType.SERVER)

    async def shake_hands() -> None:
        event = await _next_event(websocket, stream)
        if not isinstance(event, Request):
            raise HandshakeRefused("the other end does not ask for a websocket")
        refusal = refusal_of([(b"host", event.host.encode("utf-8")), *event.extra_headers])
        if refusal is not None:
            await stream.send_all(_forbidden(websocket, refusal.encode()))
            raise HandshakeRefused(refusal)
        await stream.send_all(websocket.send(AcceptConnection()))

    await _in_time(stream, shake_hands)
    return WebsocketTransport(stream, websocket, frame_size_max)


async def _in_time(stream: trio.abc.Stream, shake_hands: Callable[[], Awaitable[None]]) -> None:
    try:
        with trio.move_on_after(HANDSHAKE_TIMEOUT):
            await shake_hands()
            return
        raise ConnectionLost("the other end was silent too long")
    except GoQueueError:
        await trio.aclose_forcefully(stream)
        raise
    except Exception as error:
        await trio.aclose_forcefully(stream)
        if isinstance(error, STREAM_ERRORS):
            raise ConnectionLost("the connection ended before it was open") from None
        raise HandshakeRefused(f"the other end does not speak websocket: {error}") from None
    except BaseException:
        await trio.aclose_forcefully(stream)
        raise


async def _next_event(websocket: WSConnection, stream: trio.abc.Stream) -> Event:
    while True:
        for event in websocket.events():
            return event
        data = await stream.receive_some(RECEIVE_SIZE)
        if not data:
            raise ConnectionLost("the connection ended before it was open")
        try:
            websocket.receive_data(bytes(data))
        except RemoteProtocolError as error:
            if error.event_hint is not None:
                await stream.send_all(websocket.send(error.event_hint))
            raise


def _forbidden(websocket: WSConnection, reason: bytes) -> bytes:
    headers = [(b"content-length", b"%d" % len(reason)), (b"connection", b"close")]
    head = websocket.send(RejectConnection(status_code=403, headers=headers, has_body=True))
    return head + websocket.send(RejectData(data=reason, body_finished=True))


async def _refusal(websocket: WSConnection, stream: trio.abc.Stream, rejection: RejectConnection) -> str:
    said = b""
    while rejection.has_body and len(said) < REFUSAL_SIZE_MAX:
        event = await _next_event(websocket, stream)
        said += event.data if isinstance(event, RejectData) else b""
        if not isinstance(event, RejectData) or event.body_finished:
            break
    words = said[:REFUSAL_SIZE_MAX].decode("utf-8", "replace")
    return f"the other end refused with status {rejection.status_code}: {words}"


def _loss(code: int, reason: str | None) -> ConnectionLost:
    return ConnectionLost(f"the connection ended with code {code} {reason or ''}".rstrip())
