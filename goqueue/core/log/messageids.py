"""What a partition remembers of the ids that clients gave their messages.

A repeat within two minutes of the first append is answered with the first offset and not written again. It does
not prolong its own time. Memory is bounded: beyond `IDS_MAX` the oldest are forgotten early.

Only the ids of messages that clients publish count. A message that the broker writes, such as a fired delay, is no
repeat of the original.

Cancelling a delayed message frees its id: a later publish with it is a new message. Whether a publish comes before
or after is decided by the order of the log. A message that was moved or has fired keeps its id.

What is remembered is a function of notes and cancels alone, in log order: each note first forgets, by its own
append time, what is too old. So a partition that starts again and reads its log's last two minutes knows what it
knew before.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from goqueue.core.records.record import (
    FLAGS_FROM_CLIENTS,
    MESSAGE_ID_HEADER,
    MESSAGE_ID_SIZE_MAX,
    Flag,
    headers_at,
    walk_records,
)
from goqueue.errors import InvalidMessage
from goqueue.types import Buffer, Microseconds, Offset

REMEMBERED_FOR: Microseconds = 120 * 1_000_000
IDS_MAX = 100_000
_DELAYED = int(Flag.DELAYED)


class GivenId(NamedTuple):
    """An id, and which record of its batch has it."""

    relative_offset: int
    message_id: bytes
    is_delayed: bool = False


class NotedId(NamedTuple):
    message_id: bytes
    offset: Offset
    append_time: Microseconds


def check_message_id(message_id: object) -> bytes:
    if not isinstance(message_id, bytes):
        raise InvalidMessage(f"a message id is bytes, not {type(message_id).__name__}")
    if not 1 <= len(message_id) <= MESSAGE_ID_SIZE_MAX:
        raise InvalidMessage(
            f"a message id has 1 to {MESSAGE_ID_SIZE_MAX} bytes, not {len(message_id)}; "
            "shorten it, or send a digest of it"
        )
    return message_id


def ids_in(records: Buffer, count: int) -> list[GivenId]:
    """The ids of a checked body, in order."""
    view, found = memoryview(records), list[GivenId]()
    for place in walk_records(view, count):
        if not place.flags & ~FLAGS_FROM_CLIENTS:
            message_id = headers_at(view, place).get(MESSAGE_ID_HEADER)
            if message_id is not None:
                found.append(GivenId(place.relative_offset, message_id, bool(place.flags & _DELAYED)))
    return found


class MessageIds:
    def __init__(self, ids_max: int = IDS_MAX) -> None:
        self._ids_max = ids_max
        self._noted: OrderedDict[bytes, NotedId] = OrderedDict()
        self._delayed: dict[Offset, bytes] = {}
        """The ids of delayed messages, by offset: a cancel names the offset."""

    @classmethod
    def rebuilt(cls, notes: Iterable[NotedId], ids_max: int = IDS_MAX) -> "MessageIds":
        ids = cls(ids_max)
        for note in notes:
            ids.note(*note)
        return ids

    def __len__(self) -> int:
        return len(self._noted)

    def __iter__(self) -> Iterator[NotedId]:
        """What is remembered, oldest first."""
        return iter(self._noted.values())

    def find(self, message_id: bytes, now: Microseconds) -> Offset | None:
        """The offset of the first message with this id, unless that was two minutes ago."""
        noted = self._noted.get(message_id)
        return noted.offset if noted is not None and not _is_over(noted, now) else None

    @property
    def has_delayed(self) -> bool:
        """Whether a cancel may free some id."""
        return bool(self._delayed)

    def note(
        self, message_id: bytes, offset: Offset, append_time: Microseconds, *, is_delayed: bool = False
    ) -> None:
        """A message with this id is in the log."""
        self.forget(append_time)
        if message_id in self._noted:
            return
        self._noted[message_id] = NotedId(message_id, offset, append_time)
        if is_delayed:
            self._delayed[offset] = message_id
        if len(self._noted) > self._ids_max:
            self._forget_oldest()

    def free(self, offset: Offset) -> None:
        """The delayed message at this offset was cancelled: its id may be used again."""
        message_id = self._delayed.pop(offset, None)
        if message_id is not None:
            del self._noted[message_id]

    def forget(self, now: Microseconds) -> None:
        """Forget ids that are too old. Append times never fall, so the oldest come first."""
        while self._noted and _is_over(next(iter(self._noted.values())), now):
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        _, noted = self._noted.popitem(last=False)
        self._delayed.pop(noted.offset, None)


class Claims:
    """The ids of one append, which may repeat each other. It only reads `ids`: note them once the append has
    succeeded."""

    def __init__(self, ids: MessageIds, now: Microseconds) -> None:
        self._ids, self._now = ids, now
        self._claimed: dict[bytes, Offset] = {}

    def find(self, message_id: bytes) -> Offset | None:
        """The offset that the first message with this id has, or will have when the append succeeds."""
        first = self._ids.find(message_id, self._now)
        return self._claimed.get(message_id) if first is None else first

    def repeats(self, given: Sequence[GivenId]) -> dict[int, Offset | None]:
        """Which records of a batch repeat an id, and the first one's offset; None if it is in this batch."""
        own, found = set[bytes](), dict[int, Offset | None]()
        for relative_offset, message_id, _ in given:
            first = self.find(message_id)
            if first is not None or message_id in own:
                found[relative_offset] = first
            own.add(message_id)
        return found

    def claim(self, message_id: bytes, offset: Offset) -> Offset | None:
        """None: this is the first, and it will have this offset. Else the offset of the first."""
        first = self.find(message_id)
        if first is None:
            self._claimed[message_id] = offset
        return first


def _is_over(noted: NotedId, now: Microseconds) -> bool:
    return now - noted.append_time >= REMEMBERED_FOR
