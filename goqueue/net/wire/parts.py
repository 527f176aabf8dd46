"""Messages larger than a frame: cut on the way out, put together on the way in.

A part names the correlation id of its message, the size of the whole, and where its piece lies. The parts of one
message come in order; other frames may come between them, so that a large answer does not hold up small ones.
"""

from collections import deque
from dataclasses import dataclass, field

from goqueue.errors import ProtocolError
from goqueue.net.wire.codec import encode
from goqueue.net.wire.errors import FrameTooLarge, TooManyRequests
from goqueue.net.wire.limits import Limits
from goqueue.net.wire.messages import Part

PART_OVERHEAD = 32
"""More than the bytes of a part that are not its piece."""
PASSED_OVER_MAX = 1024


def message_too_large(size: int, size_max: int) -> FrameTooLarge:
    return FrameTooLarge(
        f"the message has {size} bytes; {size_max} are allowed, send smaller ones", size_max=size_max
    )


@dataclass(slots=True)
class _Outgoing:
    correlation: int
    message: bytes
    position: int = 0


class Outbox:
    """Frames that wait to be sent. Each message in turn gives one frame, then goes behind the others.

    The other end bounds how many messages it puts together at once, and so no more than that are cut at once; those
    beyond wait in a row of their own, where they hold up nothing that fits a frame.
    """

    def __init__(self, limits: Limits) -> None:
        self.frame_size_max = limits.frame_size_max
        self.bytes_waiting = 0
        self._limits = limits
        self._in_turn: deque[_Outgoing] = deque()
        self._uncut: deque[_Outgoing] = deque()
        self._cut_count = 0
        self._cut_bytes = 0

    def __len__(self) -> int:
        return len(self._in_turn) + len(self._uncut)

    def put(self, correlation: int, message: bytes) -> None:
        self.bytes_waiting += len(message)
        if len(message) <= self.frame_size_max:
            self._in_turn.append(_Outgoing(correlation, message))
        else:
            self._uncut.append(_Outgoing(correlation, message))
            self._begin_cutting()

    def clear(self) -> None:
        self._in_turn.clear()
        self._uncut.clear()
        self.bytes_waiting = self._cut_count = self._cut_bytes = 0

    def next_frame(self) -> bytes | None:
        if not self._in_turn:
            return None
        item = self._in_turn.popleft()
        if len(item.message) <= self.frame_size_max:
            self.bytes_waiting -= len(item.message)
            return item.message
        return self._next_part(item)

    def _next_part(self, item: _Outgoing) -> bytes:
        piece = item.message[item.position : item.position + self.frame_size_max - PART_OVERHEAD]
        part = Part(len(item.message), item.position, piece)
        item.position += len(piece)
        self.bytes_waiting -= len(piece)
        if item.position < len(item.message):
            self._in_turn.append(item)
        else:
            self._end_cutting(item)
        return encode(part, item.correlation)

    def _begin_cutting(self) -> None:
        while self._uncut and self._has_room_for(self._uncut[0]):
            item = self._uncut.popleft()
            self._cut_count += 1
            self._cut_bytes += len(item.message)
            self._in_turn.append(item)

    def _has_room_for(self, item: _Outgoing) -> bool:
        if self._cut_count == 0:
            return True
        total = self._cut_bytes + len(item.message)
        return self._cut_count < self._limits.partial_messages_max and total <= self._limits.partial_bytes_max

    def _end_cutting(self, item: _Outgoing) -> None:
        self._cut_count -= 1
        self._cut_bytes -= len(item.message)
        self._begin_cutting()


@dataclass(slots=True)
class _Incoming:
    total_size: int
    content: bytearray = field(default_factory=bytearray)


class Room:
    """What all that share it may hold together of messages that are not whole, in bytes."""

    __slots__ = ("left",)

    def __init__(self, size: int) -> None:
        self.left = size

    def take(self, size: int) -> None:
        if size > self.left:
            raise TooManyRequests("this end holds as many unfinished large messages as it can; try again later")
        self.left -= size

    def give_back(self, size: int) -> None:
        self.left += size


class Assembly:
    """Messages of which some parts have come.

    One that is refused is passed over: the parts of it that are still on their way are no new offence. So that this
    memory is bounded too, the oldest of those is forgotten when there are very many.
    """

    def __init__(self, limits: Limits, room: Room | None = None) -> None:
        self._limits = limits
        self._room = room or Room(limits.partial_bytes_max)
        self._partial: dict[int, _Incoming] = {}
        self._passed_over: dict[int, None] = {}

    def add(self, correlation: int, part: Part) -> bytearray | None:
        """The message when this part completes it. Raises when the message is refused."""
        if correlation in self._passed_over:
            if part.position:
                self._pass_by(correlation, part)
                return None
            del self._passed_over[correlation]
        try:
            return self._gather(correlation, part)
        except (ProtocolError, TooManyRequests):
            self._pass_over(correlation)
            raise

    def __contains__(self, correlation: int) -> bool:
        return correlation in self._partial

    def drop(self, correlation: int) -> None:
        """Its message is of no use any more."""
        message = self._partial.pop(correlation, None)
        if message is not None:
            self._room.give_back(len(message.content))

    def clear(self) -> None:
        for correlation in list(self._partial):
            self.drop(correlation)

    def _pass_over(self, correlation: int) -> None:
        self.drop(correlation)
        self._passed_over[correlation] = None
        if len(self._passed_over) > PASSED_OVER_MAX:
            del self._passed_over[next(iter(self._passed_over))]

    def _pass_by(self, correlation: int, part: Part) -> None:
        if part.position + len(part.piece) >= part.total_size:
            del self._passed_over[correlation]

    def _gather(self, correlation: int, part: Part) -> bytearray | None:
        message = self._partial.get(correlation)
        if message is None:
            message = self._begin(correlation, part)
        self._check(message, part)
        self._room.take(len(part.piece))
        message.content += part.piece
        if len(message.content) < message.total_size:
            return None
        self.drop(correlation)
        return message.content

    def _begin(self, correlation: int, part: Part) -> _Incoming:
        limits = self._limits
        if part.total_size > limits.message_size_max:
            raise message_too_large(part.total_size, limits.message_size_max)
        announced = sum(each.total_size for each in self._partial.values()) + part.total_size
        if len(self._partial) >= limits.partial_messages_max or announced > limits.partial_bytes_max:
            raise TooManyRequests("too many large messages are under way at once; send one after the other")
        return self._partial.setdefault(correlation, _Incoming(part.total_size))

    def _check(self, message: _Incoming, part: Part) -> None:
        if part.total_size != message.total_size:
            raise ProtocolError(f"a part speaks of {part.total_size} bytes, the first of {message.total_size}")
        if part.position != len(message.content):
            raise ProtocolError(f"a part begins at {part.position}; the next one begins at {len(message.content)}")
        if not part.piece or part.position + len(part.piece) > part.total_size:
            raise ProtocolError(f"a part of {len(part.piece)} bytes is empty or reaches beyond its message")
