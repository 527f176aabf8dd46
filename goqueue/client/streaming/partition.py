"""One partition of a stream's consumer: its positions of reading, handing out, handling and committing.

    committed ≤ handled ≤ position ≤ fetch_at         unless the program has sought elsewhere

`position` is the next offset to be handed out. The messages handed out last are in work until the program asks for
more; then they are handled. A commit backwards takes that back for all messages handed out by then. Messages that
were fetched and not handed out may be dropped at any time, and are fetched again.
"""

import logging
from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

from goqueue.client.consuming.delivery import DeliveredSlice, Kinds, LeasedMessage, Origin, ReceivedDelivery
from goqueue.client.consuming.names import NO_NAMES
from goqueue.client.reading.message import Message
from goqueue.client.schemas.codec import Codec
from goqueue.core.records.batch import Attribute, Envelope
from goqueue.core.slices.deliverable import FOR_GROUP_HEADER
from goqueue.errors import GoQueueError, SchemaMisfit
from goqueue.net.wire.groups import AssignedPartition
from goqueue.types import Buffer, Microseconds, Offset

logger = logging.getLogger("goqueue.client")

Key: TypeAlias = tuple[str, int]
"""A topic and the number of a partition."""

_HOLDS_FOR_ONE_GROUP = int(Attribute.HOLDS_FOR_ONE_GROUP)


class StreamOwner(NamedTuple):
    """The owner of the messages, and their classes."""

    group: str
    member: str
    instance: int
    consumer: object
    kinds: Kinds
    codec: Codec | None = None
    skips_misfits: bool = False
    """Messages that do not fit the consumer's schema are passed over."""


class _Piece(NamedTuple):
    messages: Iterator[Any]
    end: Offset
    """The position once all of them were handed out."""
    size: int


class _Stand(NamedTuple):
    """The offset of a commit backwards, and the end of the messages handed out by then."""

    at: Offset
    handed_out: Offset

    def cut(self, offset: Offset) -> "_Stand":
        """Messages from this offset on were taken back."""
        return _Stand(min(self.at, offset), min(self.handed_out, offset))


class StreamPartition:
    def __init__(self, assigned: AssignedPartition) -> None:
        self.assigned = assigned
        self.committed: Offset | None = None
        self.resets = 0
        """The number of resets, as far as is known."""
        self.sent: Offset | None = None
        """The last offset that was sent in a commit, even if the answer was lost."""
        self.position: Offset | None = None
        self.handed_out_to: Offset = 0
        """The offset behind the last message that was handed out."""
        self.fetch_at: Offset = 0
        self.work_from: Offset | None = None
        """The first offset that is in work."""
        self._stand: _Stand | None = None
        self.is_open = self.is_known = self.is_paused = self.is_leaving = self.is_revoked = False
        """In this order: the program was told of the assignment; the committed offset is known; the program has
        paused it; it will be released; the program was told of that."""
        self.moves = 0
        """The number of times that others have moved it."""
        self.is_behind = True
        """The broker probably has more messages."""
        self.trouble: GoQueueError | None = None
        """Why it cannot be read further."""
        self.rests_until = 0.0
        self.fails_since: float | None = None
        """Since when it fails; it is asked again at `rests_until`."""
        self.bytes_ahead = 0
        self._pieces: deque[_Piece] = deque()

    def __repr__(self) -> str:
        return f"{self.assigned.topic}/{self.assigned.partition}"

    @property
    def key(self) -> Key:
        return self.assigned.topic, self.assigned.partition

    @property
    def is_read(self) -> bool:
        is_ready = self.is_open and self.is_known and self.position is not None
        return is_ready and not self.is_paused and not self.is_leaving

    @property
    def is_doubtful(self) -> bool:
        """Another member may have had it since its committed offset was read."""
        return not self.is_known and self.committed is not None

    @property
    def handled(self) -> Offset | None:
        return self.position if self.work_from is None else self.work_from

    @property
    def is_owed(self) -> bool:
        """Messages were handed out and not committed, and the program has not committed backwards itself."""
        return self.committed is not None and self.to_commit(self.handed_out_to) > self.committed

    def stay(self) -> None:
        """It stays assigned. A program that was told of its release is told of the assignment again."""
        self.is_open = self.is_open and not self.is_revoked
        self.is_leaving = self.is_revoked = False

    # Position

    def learn(self, committed: Offset, resets: int) -> bool:
        """Take the committed offset. False when others have moved it since, and reading begins there again. A reset
        counts as a move even to the same offset."""
        is_same = resets == self.resets and committed in (self.committed, self.sent)
        is_ours = self.committed is None or is_same
        if self.position is None or not is_ours:
            self.move_to(committed)
        self.moves += not is_ours
        self.committed, self.resets, self.is_known = committed, resets, True
        return is_ours

    def move_to(self, offset: Offset) -> None:
        """Go on there. Messages in work are no longer tracked."""
        self.work_from = self._stand = None
        self._read_from(offset)

    def step_back(self, offset: Offset | None = None) -> None:
        """Messages from this offset on did not reach the program, and are read again; by default the prefetch."""
        offset = self.position if offset is None else offset
        if offset is not None:
            if self.work_from is not None and self.work_from >= offset:
                self.work_from = None
            self._stand = self._stand and self._stand.cut(offset)
            handed_out_to = min(self.handed_out_to, offset)
            self._read_from(offset)
            self.handed_out_to = handed_out_to

    def _read_from(self, offset: Offset) -> None:
        self.position = self.fetch_at = self.handed_out_to = offset
        self._pieces.clear()
        self.bytes_ahead, self.is_behind, self.trouble = 0, True, None

    # The prefetch

    def add(self, messages: Iterator[Any], end: Offset, size: int) -> None:
        self._pieces.append(_Piece(messages, end, size))
        self.fetch_at = end
        self.bytes_ahead += size

    def take(self, count_max: int) -> list[Any]:
        """The next messages, at most `count_max`. They are not in work yet."""
        taken: list[Any] = []
        while self._pieces and len(taken) < count_max:
            piece = self._pieces[0]
            some = list(islice(piece.messages, count_max - len(taken)))
            taken += some
            if some:
                self.handed_out_to = some[-1].offset + 1
            if len(taken) < count_max:
                self.position = max(self.position or 0, piece.end)
                self.bytes_ahead -= piece.size
                self._pieces.popleft()
            else:
                self.position = some[-1].offset + 1
        return taken

    def take_next(self) -> Any | None:
        """The next message of the same fetch, so that the last one is handled; None when there is no more of it."""
        message = next(self._pieces[0].messages, None) if self._pieces and self.is_read else None
        if message is not None:
            self.work_from = message.offset
            self.position = self.handed_out_to = message.offset + 1
        return message

    @property
    def is_at_trouble(self) -> bool:
        return self.trouble is not None and not self._pieces

    # Work

    def begin_work(self, first: Offset) -> None:
        self.work_from = first if self.work_from is None else min(self.work_from, first)

    def end_work(self, to: Offset) -> None:
        """The program says that everything below is handled."""
        self._stand = None
        if self.work_from is not None and self.position is not None:
            self.work_from = None if to >= self.position else max(self.work_from, to)

    def stand(self, at: Offset, handed_out: Offset) -> None:
        """The program has committed backwards, when messages up to `handed_out` were handed out."""
        self._stand = _Stand(at, handed_out)

    def to_commit(self, handled: Offset) -> Offset:
        """The offset for an automatic commit. A commit backwards stands until more is handled than was handed out
        by then."""
        return handled if self._stand is None or handled > self._stand.handed_out else self._stand.at


class StreamDelivery(ReceivedDelivery):
    """The messages of one partition from one fetch. There is no lease, so there is no receipt."""

    __slots__ = ("moves", "stream")

    def __init__(self, stream: StreamPartition, owner: StreamOwner, size: int) -> None:
        topic, uuid, partition = stream.assigned
        super().__init__(Origin(owner.group, topic, uuid, partition, 0), NO_NAMES, size, owner.consumer)
        self.codec = owner.codec
        self.stream = stream
        self.moves = stream.moves

    def attempt_of(self, offset: Offset) -> int:  # noqa: ARG002
        """A stream does not count deliveries: each is taken for the first."""
        return 1

    def receipt_of(self, offset: Offset) -> None:  # noqa: ARG002
        return None


class StreamSlice(DeliveredSlice):
    """Skips messages for another group."""

    def __init__(self, stream: StreamPartition, owner: StreamOwner, data: Buffer) -> None:
        super().__init__(StreamDelivery(stream, owner, len(data)), data, owner.kinds)
        self._group = owner.group.encode()
        self._skips_misfits = owner.skips_misfits

    def messages(self, start: Offset, end: Offset | None, now: Microseconds) -> Iterator[Message]:
        found = super().messages(start, end, now)
        return filter(_fits, found) if self._skips_misfits else found

    def _messages_in(
        self, envelope: Envelope, stored: memoryview, start: Offset, end: Offset | None, now: Microseconds
    ) -> Iterator[Message]:
        found = super()._messages_in(envelope, stored, start, end, now)
        if envelope.attributes & _HOLDS_FOR_ONE_GROUP:
            return filter(self._is_for_us, found)
        return found

    def _is_for_us(self, message: Message) -> bool:
        return message.headers.get(FOR_GROUP_HEADER, self._group) == self._group


def _fits(message: Any) -> bool:
    try:
        message.decode_body()
    except SchemaMisfit as error:
        logger.warning(
            "%s/%d offset %d is passed over: %s", message.topic, message.partition, message.offset, error
        )
        return False
    return True


def moves_of(message: object) -> int:
    """The number of moves of its partition by others when it was fetched."""
    delivery = message.delivery if isinstance(message, LeasedMessage) else None
    return delivery.moves if isinstance(delivery, StreamDelivery) else 0


def stream_of(message: object) -> StreamPartition | None:
    """The partition that handed it out; None when it is no message of a stream."""
    delivery = message.delivery if isinstance(message, LeasedMessage) else None
    return delivery.stream if isinstance(delivery, StreamDelivery) else None
