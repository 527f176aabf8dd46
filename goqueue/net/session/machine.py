"""The rules of a connection, without the connection: frames in, events out; calls in, frames out.

Both ends run this machine. `receive` takes one frame and returns at most one event; `next_frame` returns the next
frame to send. Nothing here waits, reads a clock or knows a socket, so that a test can join two in any order.

The answer to bad input depends on its reach (G14). A body that cannot be read, an unknown kind, too many requests:
an error to that request, and the session goes on. A frame that belongs to no request, a second request with an id
that is still in use, anything but hello at the start: an error with correlation id 0, and the session is closed.
"""

from abc import ABC, abstractmethod
from enum import Enum, auto

from goqueue.errors import Closed, GoQueueError, ProtocolError
from goqueue.net.session.events import Event, SessionClosed
from goqueue.net.wire.codec import NOBODY, Frame, Opening, encode, open_frame, read_body
from goqueue.net.wire.errors import TooManyRequests
from goqueue.net.wire.failures import error_body, error_of
from goqueue.net.wire.kinds import KINDS, Body
from goqueue.net.wire.limits import Limits
from goqueue.net.wire.messages import Error, Part
from goqueue.net.wire.parts import Assembly, Outbox, Room, message_too_large

LOWEST_VERSION = 1
HIGHEST_VERSION = 1
_PART = KINDS[Part]


class SessionState(Enum):
    NEW = auto()
    GREETING = auto()
    OPEN = auto()
    LEAVING = auto()
    CLOSED = auto()


class Step(Enum):
    """A step of the session; sent by one end and received by the other, it moves both alike."""

    HELLO = auto()
    WELCOME = auto()
    GO_AWAY = auto()
    CLOSE = auto()


TRANSITIONS = {
    (SessionState.NEW, Step.HELLO): SessionState.GREETING,
    (SessionState.GREETING, Step.WELCOME): SessionState.OPEN,
    (SessionState.OPEN, Step.GO_AWAY): SessionState.LEAVING,
    (SessionState.LEAVING, Step.GO_AWAY): SessionState.LEAVING,
    (SessionState.NEW, Step.CLOSE): SessionState.CLOSED,
    (SessionState.GREETING, Step.CLOSE): SessionState.CLOSED,
    (SessionState.OPEN, Step.CLOSE): SessionState.CLOSED,
    (SessionState.LEAVING, Step.CLOSE): SessionState.CLOSED,
    (SessionState.CLOSED, Step.CLOSE): SessionState.CLOSED,
}
GREETED = (SessionState.OPEN, SessionState.LEAVING)


class Session(ABC):
    """The part that both ends share: framing, parts, state, the requests under way, and the end."""

    def __init__(self, limits: Limits | None = None, room: Room | None = None) -> None:
        self.limits = limits or Limits()
        self.state = SessionState.NEW
        self._outbox = Outbox(self.limits)
        self._assembly = Assembly(self.limits, room)
        self._under_way: dict[int, type[Body]] = {}

    @property
    def under_way(self) -> tuple[int, ...]:
        """The ids of the requests that have no answer yet, oldest first."""
        return tuple(self._under_way)

    @property
    def bytes_waiting(self) -> int:
        """Bytes that `next_frame` still has to return. To bound memory, the owner stops reading while it grows."""
        return self._outbox.bytes_waiting

    @property
    def is_drained(self) -> bool:
        """Go-away was said, and everything is answered and sent: time to close the transport."""
        return self.state is SessionState.LEAVING and not self._under_way and not self._outbox

    def next_frame(self) -> bytes | None:
        return self._outbox.next_frame()

    def receive(self, data: bytes) -> Event | None:
        """Take one frame of the other end. Never raises for its contents."""
        if self.state is SessionState.CLOSED:
            return None
        try:
            if self.state in GREETED:
                return self._take(open_frame(data, self.limits.frame_size_max))
            return self._take_greeting(read_body(open_frame(data, self.limits.hello_size_max)))
        except ProtocolError as error:
            return self.close(error)

    def forget_parts(self) -> None:
        """Drop incomplete messages: nothing more will come."""
        self._assembly.clear()

    def close(self, error: GoQueueError | None = None) -> SessionClosed:
        """End the session; with an error, tell the other end why. Unsent frames are dropped."""
        self._outbox.clear()
        if error is not None and self.state is not SessionState.CLOSED:
            self._send_error(error, size_max=self.limits.hello_size_max)
        self._step(Step.CLOSE)
        return SessionClosed(error or Closed("the session was closed"))

    @abstractmethod
    def _take_greeting(self, frame: Frame) -> Event:
        """A frame before both ends have greeted. `ProtocolError` closes the session."""

    @abstractmethod
    def _take_notice(self, frame: Frame) -> Event:
        """A frame that neither asks nor answers. `ProtocolError` closes the session."""

    @abstractmethod
    def _take_message(self, opening: Opening) -> Event:
        """A whole request or answer."""

    @abstractmethod
    def _take_part_of(self, correlation: int) -> Event | None:
        """The event that refuses parts with this id; None if they are allowed."""

    @abstractmethod
    def _turn_down(self, correlation: int, error: GoQueueError) -> Event:
        """Refuse a bad message with this id."""

    def _take(self, opening: Opening) -> Event | None:
        if opening.correlation == NOBODY:
            return self._take_notice(read_body(opening))
        if opening.kind == _PART:
            return self._take_part(opening)
        return self._take_message(opening)

    def _take_part(self, opening: Opening) -> Event | None:
        correlation = opening.correlation
        event = self._take_part_of(correlation)
        if event is not None:
            return event
        try:
            whole = self._whole_message(opening)
        except (ProtocolError, TooManyRequests) as error:
            return self._turn_down(correlation, error)
        return self._take_message(whole) if whole else None

    def _whole_message(self, opening: Opening) -> Opening | None:
        part = read_body(opening).body
        assert isinstance(part, Part)
        content = self._assembly.add(opening.correlation, part)
        if content is None:
            return None
        whole = open_frame(content, self.limits.message_size_max)
        if whole.correlation != opening.correlation or whole.kind == _PART:
            raise ProtocolError("the message in the parts is of another correlation id, or a part itself")
        return whole

    def _closed_by(self, body: Error) -> SessionClosed:
        self._outbox.clear()
        self._step(Step.CLOSE)
        return SessionClosed(error_of(body))

    def _step(self, step: Step) -> None:
        self.state = TRANSITIONS[self.state, step]

    def _send(
        self, body: Body, correlation: int = NOBODY, throttle_ms: int = 0, *, is_lone: bool = False
    ) -> bytes | None:
        """`is_lone`: no frame waits, and the caller sends this one now, if it is returned."""
        message = encode(body, correlation, throttle_ms)
        if len(message) > self.limits.message_size_max:
            raise message_too_large(len(message), self.limits.message_size_max)
        if is_lone and len(message) <= self._outbox.frame_size_max:
            return message
        self._outbox.put(correlation, message)
        return None

    def _send_error(
        self, error: GoQueueError, correlation: int = NOBODY, throttle_ms: int = 0, size_max: int | None = None
    ) -> None:
        """Send the error in any case: without its details if they are too large."""
        body = error_body(error)
        message = encode(body, correlation, throttle_ms)
        if len(message) > (size_max or self.limits.message_size_max):
            message = encode(body._replace(details={}, records=()), correlation, throttle_ms)
        self._outbox.put(correlation, message)
