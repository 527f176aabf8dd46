"""Sends the answers of a connection to the client.

Answers are put into the session; one task sends those of a turn in one write. When the client does not take them,
tasks that would add more wait for room, so that memory stays bounded.
"""

from contextlib import suppress

import trio

from goqueue.actors.front.responders import Haste
from goqueue.errors import Closed, GoQueueError, ProtocolError
from goqueue.net.session.server import ServerSession
from goqueue.net.transport.transport import Transport
from goqueue.net.wire.errors import ConnectionLost
from goqueue.net.wire.kinds import Answer

BYTES_WAITING_MAX = 2 * 1024 * 1024
"""Limit of answers that the client has not taken; beyond it nothing more is read from the client."""
WRITE_SIZE = 64 * 1024
"""Limit of the answers that are sent in one write, unless the last one makes it more."""
LATER_SECONDS_MAX = 0.005
"""Limit of how long an answer for which nobody waits is kept, so that others are sent together with it."""
LATER_ANSWERS_MAX = 8
"""Limit of such answers: half of the settlements that a client has under way, so it never waits for them."""
ENDINGS = (ConnectionLost, ProtocolError, Closed)


class FrameResponder:
    """Answers one request of a connection."""

    __slots__ = ("_correlation", "_writer")

    def __init__(self, writer: "AnswerWriter", correlation: int) -> None:
        self._writer = writer
        self._correlation = correlation

    @property
    def request_id(self) -> str:
        return str(self._correlation)

    def answer(self, answer: Answer, throttle_ms: int = 0, haste: Haste = Haste.AT_ONCE) -> None:
        self._writer.answer(self._correlation, answer, throttle_ms, haste)

    def refuse(self, error: GoQueueError) -> None:
        self._writer.refuse(self._correlation, error)


class AnswerWriter:
    def __init__(self, session: ServerSession, transport: Transport) -> None:
        self._session = session
        self._transport = transport
        self._something_to_send = trio.Event()
        self._something_waits = trio.Event()
        """Set when there are answers; `_something_to_send` only when they are to be sent now."""
        self._later_count = 0
        self._waiting_for_sent = trio.lowlevel.ParkingLot()
        self._is_sending = False
        self._has_ended = False

    @property
    def bytes_waiting(self) -> int:
        return self._session.bytes_waiting

    def answer(self, correlation: int, answer: Answer, throttle_ms: int = 0, haste: Haste = Haste.AT_ONCE) -> None:
        """Sent without one more turn of the event loop, if it is alone."""
        is_lone = haste is Haste.AT_ONCE and not self._session.bytes_waiting and self._transport.is_clear
        frame = self._session.answer(correlation, answer, throttle_ms, is_lone=is_lone)
        if frame is not None and self._transport.post(frame):
            if self._waiting_for_sent:
                self._waiting_for_sent.unpark_all()
        elif haste is Haste.LATER:
            self._send_later()
        else:
            self.speak_up()

    def _send_later(self) -> None:
        self._later_count += 1
        if self._later_count == LATER_ANSWERS_MAX:
            self._something_to_send.set()
        self._something_waits.set()

    def refuse(self, correlation: int, error: GoQueueError) -> None:
        self._session.refuse(correlation, error)
        self.speak_up()

    def go_away(self, reason: str) -> None:
        self._session.go_away(reason)
        self.speak_up()

    def speak_up(self) -> None:
        """The session may have something to send."""
        self._something_to_send.set()
        self._something_waits.set()

    def has_room(self) -> bool:
        return self._session.bytes_waiting <= BYTES_WAITING_MAX

    async def wait_for_room(self) -> None:
        while not self.has_room():
            await self._waiting_for_sent.park()

    async def wait_until_drained(self) -> None:
        """Until every request is answered and every answer is sent, or the connection has ended."""
        while not (self._has_ended or (self._session.is_drained and not self._is_sending)):
            await self._waiting_for_sent.park()

    async def write(self, connection: trio.CancelScope) -> None:
        with suppress(*ENDINGS):
            while True:
                await self._something_waits.wait()
                if not self._something_to_send.is_set():
                    with trio.move_on_after(LATER_SECONDS_MAX):
                        await self._something_to_send.wait()
                self._something_to_send, self._something_waits, self._later_count = trio.Event(), trio.Event(), 0
                await self.flush()
        connection.cancel()

    async def flush(self) -> None:
        await self._transport.drain()
        while frames := self._next_frames():
            self._is_sending = True
            await self._transport.send(*frames)
            self._is_sending = False
            self._waiting_for_sent.unpark_all()

    def _next_frames(self) -> list[bytes]:
        """The answers that wait, in one write; a large one goes alone, or ends it."""
        frames, size = list[bytes](), 0
        while size < WRITE_SIZE and (frame := self._session.next_frame()) is not None:
            frames.append(frame)
            size += len(frame)
        return frames

    def end(self) -> None:
        self._has_ended = True
        self._waiting_for_sent.unpark_all()
