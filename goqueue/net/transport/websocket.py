"""Frames as binary websocket messages, over any stream.

`frames.py` has the frames, `handshake.py` the opening; this file moves bytes between them and a stream.
There is no task of its own and no queue: `receive` reads the stream, and answers pings on the way. So nothing is
read that no task waits for, and a small request and its answer take as few turns of the event loop as they can
(docs/decisions has the figures).

A peer that sends without end must not starve other tasks: the streams below do not let them run by themselves, so
this does, every few frames.
"""

import math
from collections.abc import Callable
from contextlib import suppress

import trio

from goqueue.errors import Closed, ProtocolError
from goqueue.net.transport.frames import (
    BINARY,
    CLOSE,
    PING,
    PONG,
    TEXT,
    Breach,
    FrameReader,
    ReceivedFrame,
    decode_close,
    encode_close,
    encode_frame,
)
from goqueue.net.transport.handshake import HANDSHAKE_TIMEOUT, Headers, shake_hands_as_client, shake_hands_as_server
from goqueue.net.wire.errors import ConnectionLost
from goqueue.net.wire.limits import FRAME_SIZE_MAX

__all__ = ["HANDSHAKE_TIMEOUT", "Headers", "WebsocketTransport", "accept_websocket", "connect_websocket"]

RECEIVE_SIZE = 256 * 1024
SEND_SIZE = 256 * 1024
"""Size of one send; the time that the other end takes for it tells whether it is alive."""
TURN_STEPS_MAX = 32
"""Limit of frames that are parsed without a pause; then other tasks run."""
CLOSE_TIMEOUT = 5

ORDERLY_CODES = (1000, 1001, 1005)
"""Done, going away, and no code given."""
TEXT_REFUSED = 1003
STREAM_ERRORS = (trio.BrokenResourceError, trio.ClosedResourceError)


class WebsocketTransport:
    def __init__(self, stream: trio.abc.Stream, first: bytes, *, is_client: bool, frame_size_max: int) -> None:
        """`first` are the bytes behind the handshake."""
        self._stream = stream
        self._masks = is_client
        self._frames = FrameReader(masked=not is_client, size_max=frame_size_max)
        self._frames.feed(first)
        self._has_said_goodbye = False
        self._is_closed = False
        """Closed by this end."""
        self._loss: ConnectionLost | None = None
        self._is_over = False
        self._has_ended = trio.Event()
        self._is_receiving = False
        self._is_sending = False
        self._is_torn = False
        self._rest = b""
        """The unsent rest of a posted frame."""
        self._send_now: Callable[[bytes], int] | None = getattr(stream, "send_now", None)
        self._senders = trio.lowlevel.ParkingLot()
        self._receiving_since = math.inf
        self._sending_since = math.inf
        self._taken_at = -math.inf
        """When the other end last took a part of a large frame."""

    async def send(self, *frames: bytes) -> None:
        if self._is_closed:
            raise Closed("the connection was closed")
        if self._is_over:
            raise self._loss or ConnectionLost("the other end has closed the connection")
        await self._send(b"".join([encode_frame(BINARY, frame, masked=self._masks) for frame in frames]))

    @property
    def is_clear(self) -> bool:
        is_lost = self._is_closed or self._has_said_goodbye or self._is_torn or self._is_over
        return not (is_lost or self._is_sending or self._rest) and self._send_now is not None

    def post(self, frame: bytes) -> bool:
        assert self._send_now is not None, "only a clear way takes what is posted"
        data = encode_frame(BINARY, frame, masked=self._masks)
        self._rest = data[self._send_now(data) :]
        return not self._rest

    async def drain(self) -> None:
        if self._rest:
            await self._send(b"")

    async def receive(self) -> bytes | None:
        if self._is_closed:
            return None
        self._is_receiving = True
        try:
            while (received := await self._next_received()) is not None:
                if received.opcode == BINARY:
                    return received.payload
                await self._take_control(received)
        finally:
            self._is_receiving = False
        if self._loss is not None and not self._is_closed:
            raise self._loss
        return None

    def detach(self) -> tuple[trio.abc.Stream, FrameReader]:
        """Give away the stream and what was received of it. The transport is of no use afterwards."""
        self._is_closed = True
        return self._stream, self._frames

    async def aclose(self) -> None:
        await self._close(1000, "")

    @property
    def silent_since(self) -> float:
        """Since when this end waits for the other, to take what is sent or to send. Infinity if it does not."""
        if self._is_sending:
            return self._sending_since
        return max(self._receiving_since, self._taken_at)

    async def ping(self) -> None:
        """Ask for a sign of life. While this end is sending, it waits for one already."""
        if not self._is_sending and not self._is_over:
            await self._say(PING, b"")

    async def give_up(self, reason: str) -> None:
        """The other end is gone without a close: end the connection."""
        self._end(ConnectionLost(reason))
        await trio.aclose_forcefully(self._stream)

    # In

    async def _next_received(self) -> ReceivedFrame | None:
        """The next message or control frame; None once the connection has ended."""
        frames = self._frames
        while not self._is_over:
            if frames.steps >= TURN_STEPS_MAX:
                frames.steps = 0
                await trio.lowlevel.checkpoint()
            try:
                received = frames.next()
            except Breach as breach:
                await self._say_goodbye(breach.code, breach.reason)
                self._end(_loss(breach.code, breach.reason))
            else:
                if received is not None:
                    return received
                await self._read_on()
        return None

    async def _take_control(self, received: ReceivedFrame) -> None:
        if received.opcode == TEXT:
            await self._close(TEXT_REFUSED, "binary messages only")
            raise ProtocolError("a text message came; frames are binary messages")
        if received.opcode == PING:
            await self._say(PONG, received.payload)
        elif received.opcode == CLOSE:
            await self._take_goodbye(received.payload)

    async def _read_on(self) -> None:
        self._receiving_since = trio.current_time()
        try:
            data = await self._stream.receive_some(RECEIVE_SIZE)
        except STREAM_ERRORS:
            data = b""
        finally:
            self._receiving_since = math.inf
        if data:
            self._frames.feed(data if type(data) is bytes else bytes(data))
        else:
            self._end(ConnectionLost("the connection ended"))

    async def _take_goodbye(self, payload: bytes) -> None:
        try:
            code, reason = decode_close(payload)
        except Breach as breach:
            code, reason = breach.code, breach.reason
        await self._say_goodbye(code, reason)
        self._end(None if code in ORDERLY_CODES else _loss(code, reason))

    def _end(self, loss: ConnectionLost | None) -> None:
        if not self._is_over:
            self._loss, self._is_over = loss, True
            self._has_ended.set()

    # Out

    async def _send(self, data: bytes) -> None:
        while self._is_sending:
            await self._senders.park()
        if self._is_torn:
            raise ConnectionLost("a frame was cut short; the connection cannot be used any more")
        if self._has_said_goodbye:
            raise ConnectionLost("the connection is being closed")
        self._is_sending = self._is_torn = True
        if self._rest:
            data, self._rest = self._rest + data, b""
        try:
            await self._send_all(data)
            self._is_torn = False
        except STREAM_ERRORS:
            raise ConnectionLost("the connection ended") from None
        finally:
            self._is_sending = False
            self._senders.unpark()

    async def _send_all(self, data: bytes) -> None:
        """A large frame is sent in pieces. A small send proves nothing: the system's buffer has room for it."""
        self._sending_since = trio.current_time()
        if len(data) <= SEND_SIZE:
            await self._stream.send_all(data)
            return
        view = memoryview(data)
        for begin in range(0, len(data), SEND_SIZE):
            await self._stream.send_all(view[begin : begin + SEND_SIZE])
            self._sending_since = self._taken_at = trio.current_time()

    async def _say(self, opcode: int, payload: bytes) -> None:
        """Send a control frame, if that is still possible."""
        with suppress(ConnectionLost):
            await self._send(encode_frame(opcode, payload, masked=self._masks))

    async def _say_goodbye(self, code: int, reason: str) -> None:
        """Send the close frame once, and nothing after it."""
        with suppress(ConnectionLost):
            await self._send(encode_close(code, reason, masked=self._masks))
            self._has_said_goodbye = True

    async def _close(self, code: int, reason: str) -> None:
        with trio.move_on_after(CLOSE_TIMEOUT):
            if not self._is_closed:
                self._is_closed = True
                if not self._is_over:
                    await self._say_goodbye(code, reason)
            await self._wait_for_the_end()
        await trio.aclose_forcefully(self._stream)

    async def _wait_for_the_end(self) -> None:
        """Frames before the other end's close are dropped."""
        if not self._has_said_goodbye:
            return
        if self._is_receiving:
            await self._has_ended.wait()
        self._is_receiving = True
        while (received := await self._next_received()) is not None:
            if received.opcode == CLOSE:
                self._end(None)


async def connect_websocket(
    stream: trio.abc.Stream,
    host: str,
    path: str = "/",
    *,
    headers: Headers = (),
    frame_size_max: int = FRAME_SIZE_MAX,
) -> WebsocketTransport:
    """Shake hands as the client. `host` is the Host header, with the port."""
    first = await shake_hands_as_client(stream, host, path, headers)
    return WebsocketTransport(stream, first, is_client=True, frame_size_max=frame_size_max)


async def accept_websocket(
    stream: trio.abc.Stream,
    refusal_of: Callable[[Headers], str | None],
    *,
    frame_size_max: int = FRAME_SIZE_MAX,
) -> WebsocketTransport:
    """Shake hands as the server. `refusal_of` gets the headers and returns the reason for a refusal (403)."""
    first = await shake_hands_as_server(stream, refusal_of)
    return WebsocketTransport(stream, first, is_client=False, frame_size_max=frame_size_max)


def _loss(code: int, reason: str) -> ConnectionLost:
    return ConnectionLost(f"the connection ended with code {code} {reason}".rstrip())
