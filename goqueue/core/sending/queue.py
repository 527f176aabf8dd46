"""The send queue of a producer for one partition: messages that wait, and batches that are under way, in order.

A lone message leaves at once. While others are under way messages gather, so that batches grow with the load:
the next one leaves when all of these are answered, or when it has 64 KiB, or is 5 ms old, and takes up to 256 KiB.
At most five are under way. What was sent together stays together, unless it is larger than a batch may be.

Sequences make repeats harmless. A batch keeps its sequence for as long as it may have been written. When the
broker refuses some records, the rest of their batch is smaller, and everything behind it was refused as out of
order, so it is certainly unwritten: it is numbered anew and sent again, in the old order. Nothing is sent again
before every answer has come, or is known never to come.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import NamedTuple

from goqueue.core.log.producers import SEQUENCES
from goqueue.core.sending.chunk import Chunk

UNDER_WAY_MAX = 5
BATCH_MESSAGES, BATCH_BYTES, LINGER_SECONDS = 100, 64 * 1024, 0.005
BATCH_BYTES_MAX = 256 * 1024
BATCH_MESSAGES_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Gathering:
    """When a batch is large or old enough to leave though others are under way."""

    messages: int = BATCH_MESSAGES
    """From this number on messages linger for 5 ms at most, however long fewer may linger."""
    bytes: int = BATCH_BYTES
    linger_seconds: float = LINGER_SECONDS


@dataclass(eq=False, slots=True)
class OutBatch:
    chunks: list[Chunk]
    """In the order in which they were added."""
    count: int
    sequence: int = 0
    is_sent: bool = False
    """Sent, and no answer has come."""
    attempt: int = 1
    """The number of the attempt; an answer to an earlier one no longer counts."""
    may_be_written: bool = False
    """Its connection was lost before the answer: it keeps its sequence until it is answered."""
    is_given_up: bool = False
    """No caller waits for it any more; it only keeps its sequences for the batches behind it, which follow them."""

    withdrawn: frozenset[object] = frozenset()
    """The calls that have given up and whose messages are still in it."""

    @property
    def since(self) -> float:
        """When its oldest message was added."""
        return self.chunks[0].since

    @property
    def is_awaited(self) -> bool:
        """Whether a call waits for one of its messages."""
        return not self.withdrawn or not all(chunk.call in self.withdrawn for chunk in self.chunks)

    def withdraw(self, calls: Collection[object]) -> None:
        self.withdrawn |= frozenset(calls)

    def body(self) -> bytes:
        pieces: list[bytes] = []
        first = 0
        for chunk in self.chunks:
            chunk.encode(first, pieces)
            first += len(chunk)
        return b"".join(pieces)

    def numbers_of(self, calls: Collection[object]) -> list[int]:
        """The numbers of the records of these calls."""
        each_record = [chunk.call for chunk in self.chunks for _ in range(len(chunk))]
        return [number for number, call in enumerate(each_record) if call in calls]

    def split(self, bad: Collection[int]) -> tuple[list[Chunk], list[Chunk]]:
        """The records of these numbers, and the others."""
        dropped, kept, first = [], [], 0
        numbers, passed = sorted(bad), 0
        for chunk in self.chunks:
            begin, passed = passed, bisect_left(numbers, first + len(chunk), passed)
            mine = [number - first for number in numbers[begin:passed]]
            first += len(chunk)
            dropped += [chunk.picked(mine)] if mine else []
            kept += [chunk.without(frozenset(mine))] if mine else [chunk]
        return dropped, [chunk for chunk in kept if len(chunk)]


class ExpiredMessages(NamedTuple):
    unwritten: list[Chunk]
    unknown: list[Chunk]
    """These may be written or not, and no next sequence fits both."""
    begins_anew: bool
    """So the send queue goes on as another producer."""


@dataclass(slots=True, eq=False)
class _Waiting:
    chunk: Chunk
    size: int
    count: int


@dataclass(slots=True)
class SendQueue:
    gathering: Gathering = field(default_factory=Gathering)
    _waiting: deque[_Waiting] = field(default_factory=deque)
    _waiting_messages: int = 0
    _waiting_bytes: int = 0
    _under_way: list[OutBatch] = field(default_factory=list)
    _sequence: int = 0
    _is_mending: bool = False
    """Something has to be sent again, once every answer has come."""
    _repeats: deque[OutBatch] = field(default_factory=deque)

    def __len__(self) -> int:
        """Messages that are not settled."""
        return self._waiting_messages + sum(batch.count for batch in self._under_way if not batch.is_given_up)

    def has_nothing_to_send(self) -> bool:
        """Known without looking closer: everything is under way, or there is nothing."""
        return not (self._waiting or self._repeats or self._is_mending)

    @property
    def is_full(self) -> bool:
        """The waiting messages fill the next batch."""
        return self._waiting_bytes >= BATCH_BYTES_MAX or self._waiting_messages >= BATCH_MESSAGES_MAX

    def add(self, chunk: Chunk, now: float) -> bool:
        """Add messages; returns whether a batch may leave because of them: not when they only join messages that
        linger."""
        size, count, before = chunk.size, len(chunk), self._waiting_messages
        chunk.since = now
        self._waiting.append(_Waiting(chunk, size, count))
        self._waiting_messages += count
        self._waiting_bytes += size
        return not before or self.is_enough or before < self.gathering.messages <= before + count

    @property
    def is_enough(self) -> bool:
        """Whether enough bytes wait for a batch to leave though others are under way."""
        return self._waiting_bytes >= self.gathering.bytes

    # Sending

    def next_batch(self, now: float, *, others_under_way: bool = False) -> OutBatch | None:
        """The next batch to send now; call until there is none. `others_under_way`: batches of other send queues
        are."""
        if self._may_end_mending:
            self._end_mending()
        if self._repeats:
            return self._next_repeat()
        deadline = self.next_deadline(now, others_under_way=others_under_way)
        if deadline is None or deadline > now:
            return None
        before = self._waiting_messages
        chunks = self._take_waiting()
        batch = OutBatch(chunks, before - self._waiting_messages, self._sequence, is_sent=True)
        self._sequence = (self._sequence + batch.count) % SEQUENCES
        self._under_way.append(batch)
        return batch

    def next_deadline(self, now: float, *, others_under_way: bool = False) -> float | None:
        """When the waiting messages leave; None when there are none, or they wait for answers."""
        if self._repeats or self._may_end_mending:
            return now
        if self._is_mending or not self._waiting or len(self._under_way) >= UNDER_WAY_MAX:
            return None
        if self.is_enough or not (self._under_way or others_under_way):
            return now
        linger = self.gathering.linger_seconds
        if self._waiting_messages >= self.gathering.messages:
            linger = min(linger, LINGER_SECONDS)
        return self._waiting[0].chunk.since + linger

    def _take_waiting(self) -> list[Chunk]:
        first = self._cut_first()
        chunks, size, count = [first.chunk], first.size, first.count
        while self._waiting:
            item = self._waiting[0]
            if size + item.size > BATCH_BYTES_MAX or count + item.count > BATCH_MESSAGES_MAX:
                break
            chunks.append(self._waiting.popleft().chunk)
            size, count = size + item.size, count + item.count
        self._waiting_bytes -= size
        self._waiting_messages -= count
        return chunks

    def _cut_first(self) -> _Waiting:
        item = self._waiting.popleft()
        if item.size <= BATCH_BYTES_MAX and item.count <= BATCH_MESSAGES_MAX:
            return item
        fits, rest = item.chunk.cut(BATCH_BYTES_MAX, BATCH_MESSAGES_MAX)
        size, count = fits.size, len(fits)
        if len(rest):
            self._waiting.appendleft(_Waiting(rest, item.size - size, item.count - count))
        return _Waiting(fits, size, count)

    # Answers

    def awaits(self, batch: OutBatch, attempt: int) -> bool:
        """Whether an answer to this attempt still counts."""
        return batch.is_sent and batch.attempt == attempt and batch in self._under_way

    def is_oldest(self, batch: OutBatch) -> bool:
        return self._under_way[0] is batch

    def confirmed(self, batch: OutBatch) -> None:
        self._under_way.remove(batch)

    def refused(self, batch: OutBatch, bad: Collection[int]) -> list[Chunk]:
        """The broker wrote nothing of the batch because of these records. Returns them; the rest is sent again."""
        batch.is_sent = batch.may_be_written = False
        dropped, batch.chunks = batch.split(bad)
        count = sum(map(len, dropped))
        batch.count -= count
        behind = self._under_way[self._under_way.index(batch) + 1 :]
        for later in behind:  # refused as out of order, or about to be, whether or not we hear of it
            later.sequence = (later.sequence - count) % SEQUENCES
            later.may_be_written = False
        self._sequence = (self._sequence - count) % SEQUENCES
        if not batch.count:
            self._under_way.remove(batch)
        self._begin_mending()
        return [] if batch.is_given_up else dropped

    def unanswered(self, batch: OutBatch) -> None:
        """The connection was lost: the batch may have been written, and is sent again as it is."""
        batch.is_sent, batch.may_be_written = False, True
        self._begin_mending()

    def adopt(self, batch: OutBatch) -> None:
        """Take over a batch that may have been written, into an empty queue: it is sent again as it is, before all
        others."""
        self._under_way.append(batch)
        self._sequence = (batch.sequence + batch.count) % SEQUENCES
        self.unanswered(batch)

    def not_written(self, batch: OutBatch) -> None:
        """Refused as a whole for now: out of order behind another one, or no room."""
        batch.is_sent = False
        self._begin_mending()

    def forgotten(self) -> list[Chunk]:
        """The partition has forgotten this producer: begin anew. Returns the messages that may have been
        written."""
        lost = [batch for batch in self._under_way if batch.may_be_written or batch.is_given_up]
        unknown = [chunk for batch in lost if not batch.is_given_up for chunk in batch.chunks]
        self._under_way = [batch for batch in self._under_way if batch not in lost]
        self._sequence = 0
        for batch in self._under_way:
            batch.is_sent, batch.sequence = False, self._sequence
            self._sequence = (self._sequence + batch.count) % SEQUENCES
        self._begin_mending()
        return unknown

    def expire(self, now: float, seconds_max: float) -> "ExpiredMessages":
        """Give up messages of this age, and none that is younger. A batch keeps its sequences while others that may
        be written follow it."""

        def is_late(chunk: Chunk) -> bool:
            return chunk.since + seconds_max <= now

        unwritten, unknown, late = self._take_late(is_late), list[Chunk](), list[OutBatch]()
        for batch in list(self._under_way):
            if is_late(batch.chunks[-1]) or not batch.is_awaited:
                late.append(batch)
            elif batch.since + seconds_max <= now:
                calls = {chunk.call for chunk in filter(is_late, batch.chunks)}
                self._withdraw_from(batch, calls - batch.withdrawn, unwritten, unknown)
        return self._expired(late, unwritten, unknown)

    def _expired(self, late: list[OutBatch], unwritten: list[Chunk], unknown: list[Chunk]) -> "ExpiredMessages":
        if not late:
            return ExpiredMessages(unwritten, unknown, begins_anew=False)
        if any(batch.is_sent or batch.may_be_written for batch in self._under_way if batch not in late):
            return ExpiredMessages(unwritten, unknown + self._give_up(late), begins_anew=False)
        return self._expire_all_written(late, unwritten, unknown)

    def _give_up(self, late: list[OutBatch]) -> list[Chunk]:
        unknown = [chunk for batch in late if not batch.is_given_up for chunk in batch.chunks]
        for batch in late:
            batch.is_given_up = True
        return unknown

    def _expire_all_written(
        self, late: list[OutBatch], unwritten: list[Chunk], unknown: list[Chunk]
    ) -> "ExpiredMessages":
        for batch in self._under_way:
            batch.may_be_written |= batch.is_sent
        unsent = [batch for batch in late if not (batch.may_be_written or batch.is_given_up)]
        self._under_way = [batch for batch in self._under_way if batch not in unsent]
        refused = [chunk for batch in unsent for chunk in batch.chunks]
        return ExpiredMessages(refused + unwritten, unknown + self.forgotten(), begins_anew=True)

    def _take_late(self, is_late: Callable[[Chunk], bool]) -> list[Chunk]:
        dropped = []
        while self._waiting and is_late(self._waiting[0].chunk):
            item = self._waiting.popleft()
            self._waiting_messages -= item.count
            self._waiting_bytes -= item.size
            dropped.append(item.chunk)
        return dropped

    def withdraw(self, call: object, count_max: int) -> "ExpiredMessages":
        """Give up the messages of one call, which are so many at most. Those that were sent stay in their batch as
        long as other calls wait for it, and may be written with it."""
        unwritten, unknown = self._take_waiting_of(call, count_max), list[Chunk]()
        for batch in [batch for batch in self._under_way if not batch.is_given_up]:
            self._withdraw_from(batch, {call}, unwritten, unknown)
        late = [batch for batch in self._under_way if batch.is_given_up or not batch.is_awaited]
        if all(batch.is_given_up for batch in late):
            return ExpiredMessages(unwritten, unknown, begins_anew=False)
        return self._expired(late, unwritten, unknown)

    def _withdraw_from(
        self, batch: OutBatch, calls: Collection[object], unwritten: list[Chunk], unknown: list[Chunk]
    ) -> None:
        """Add the messages of these calls to those that are not written, or to those of which nobody knows."""
        mine = [chunk for chunk in batch.chunks if chunk.call in calls]
        if mine and (batch.is_sent or batch.may_be_written):
            batch.withdraw(calls)
            unknown += mine
        elif mine:
            unwritten += self.refused(batch, batch.numbers_of(calls))

    def _take_waiting_of(self, call: object, count_max: int) -> list[Chunk]:
        """Most often the oldest ones give up first: the search ends with the last message of the call."""
        found = list[_Waiting]()
        for item in self._waiting:
            if item.chunk.call is call:
                found.append(item)
                count_max -= item.count
                if count_max <= 0:
                    break
        for item in found:
            self._waiting.remove(item)
            self._waiting_messages -= item.count
            self._waiting_bytes -= item.size
        return [item.chunk for item in found]

    def drop_all(self) -> list[Chunk]:
        """Remove and return all messages that are not settled; the send queue is as new afterwards."""
        chunks = [chunk for batch in self._under_way if not batch.is_given_up for chunk in batch.chunks]
        chunks += [item.chunk for item in self._waiting]
        self._under_way.clear()
        self._repeats.clear()
        self._waiting.clear()
        self._waiting_messages = self._waiting_bytes = self._sequence = 0
        self._is_mending = False
        return chunks

    # Mending: wait for all answers, then send again in order.

    def _begin_mending(self) -> None:
        self._is_mending = True
        self._repeats.clear()

    @property
    def _may_end_mending(self) -> bool:
        return self._is_mending and not any(batch.is_sent for batch in self._under_way)

    def _end_mending(self) -> None:
        self._is_mending = False
        self._repeats.extend(self._under_way)

    def _next_repeat(self) -> OutBatch:
        batch = self._repeats.popleft()
        batch.is_sent = True
        batch.attempt += 1
        return batch
