"""What a producer has for one partition: messages that wait, and batches that are under way, in order.

A lone message leaves at once. While others are under way messages gather, so that batches grow with the load:
the next one leaves when it has 100 messages, 64 KiB or 5 ms, and takes up to 256 KiB. At most five are under
way.

Sequences make repeats harmless. A batch keeps its sequence for as long as it may have been written. When the
broker refuses some records, the rest of their batch is smaller, and everything behind it was refused as out of
order, so it is certainly unwritten: it is numbered anew and sent again, in the old order. Nothing is sent again
before every answer has come, or is known never to come.
"""

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from goqueue.core.producers import SEQUENCES

Entry = TypeVar("Entry")

UNDER_WAY_MAX = 5
BATCH_MESSAGES, BATCH_BYTES, LINGER_SECONDS = 100, 64 * 1024, 0.005
BATCH_BYTES_MAX = 256 * 1024
BATCH_MESSAGES_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Gathering:
    """When a batch is large or old enough to leave though others are under way."""

    messages: int = BATCH_MESSAGES
    bytes: int = BATCH_BYTES
    linger_seconds: float = LINGER_SECONDS


@dataclass(eq=False, slots=True)
class OutBatch(Generic[Entry]):
    entries: list[Entry]
    sequence: int = 0
    is_sent: bool = False
    """Sent, and no answer has come."""
    attempt: int = 1
    """Of how many; an answer to an earlier one says nothing any more."""
    may_be_written: bool = False
    """Its connection was lost before the answer: it keeps its sequence until it is answered."""


@dataclass(slots=True)
class SendRow(Generic[Entry]):
    gathering: Gathering = field(default_factory=Gathering)
    _waiting: deque[tuple[Entry, int, float]] = field(default_factory=deque)
    _waiting_bytes: int = 0
    _under_way: list[OutBatch[Entry]] = field(default_factory=list)
    _sequence: int = 0
    _is_mending: bool = False
    """Something has to be sent again, once every answer has come."""
    _repeats: deque[OutBatch[Entry]] = field(default_factory=deque)

    def __len__(self) -> int:
        """Messages that are not settled."""
        return len(self._waiting) + sum(len(batch.entries) for batch in self._under_way)

    def add(self, entry: Entry, size: int, now: float) -> None:
        self._waiting.append((entry, size, now))
        self._waiting_bytes += size

    # Sending

    def next_batch(self, now: float) -> OutBatch[Entry] | None:
        """The batch that is to be sent now, in its turn; call until there is none."""
        if self._is_mending or self._repeats:
            return self._next_repeat()
        deadline = self.next_deadline(now)
        if deadline is None or deadline > now:
            return None
        batch = OutBatch(self._take_waiting(), self._sequence, is_sent=True)
        self._sequence = (self._sequence + len(batch.entries)) % SEQUENCES
        self._under_way.append(batch)
        return batch

    def next_deadline(self, now: float) -> float | None:
        """When the waiting messages leave; None when there are none, or they wait for answers."""
        if self._repeats:
            return now
        if self._is_mending or not self._waiting or len(self._under_way) >= UNDER_WAY_MAX:
            return None
        enough = len(self._waiting) >= self.gathering.messages or self._waiting_bytes >= self.gathering.bytes
        if not self._under_way or enough:
            return now
        return self._waiting[0][2] + self.gathering.linger_seconds

    def _take_waiting(self) -> list[Entry]:
        entries: list[Entry] = []
        size = 0
        while self._waiting and len(entries) < BATCH_MESSAGES_MAX:
            if entries and size + self._waiting[0][1] > BATCH_BYTES_MAX:
                break
            entry, entry_size, _ = self._waiting.popleft()
            entries.append(entry)
            size += entry_size
        self._waiting_bytes -= size
        return entries

    # Answers

    def awaits(self, batch: OutBatch[Entry], attempt: int) -> bool:
        """Whether an answer to this attempt still counts."""
        return batch.is_sent and batch.attempt == attempt and batch in self._under_way

    def is_oldest(self, batch: OutBatch[Entry]) -> bool:
        return self._under_way[0] is batch

    def confirmed(self, batch: OutBatch[Entry]) -> None:
        self._under_way.remove(batch)

    def refused(self, batch: OutBatch[Entry], bad: Collection[int]) -> list[Entry]:
        """The broker wrote nothing of it, for the sake of these records; the rest is sent again. The bad ones."""
        batch.is_sent = batch.may_be_written = False
        dropped = [entry for number, entry in enumerate(batch.entries) if number in bad]
        batch.entries = [entry for number, entry in enumerate(batch.entries) if number not in bad]
        behind = self._under_way[self._under_way.index(batch) + 1 :]
        for later in behind:  # refused as out of order, or about to be, whether or not we hear of it
            later.sequence = (later.sequence - len(dropped)) % SEQUENCES
            later.may_be_written = False
        self._sequence = (self._sequence - len(dropped)) % SEQUENCES
        if not batch.entries:
            self._under_way.remove(batch)
        self._begin_mending()
        return dropped

    def unanswered(self, batch: OutBatch[Entry]) -> None:
        """The connection was lost: it may have been written, and is sent again as it is."""
        batch.is_sent, batch.may_be_written = False, True
        self._begin_mending()

    def not_written(self, batch: OutBatch[Entry]) -> None:
        """Refused as a whole for now: out of order behind another one, or no room."""
        batch.is_sent = False
        self._begin_mending()

    def forgotten(self) -> list[Entry]:
        """The partition knows nothing of us any more: begin anew. What may have been written is given back."""
        unknown = [entry for batch in self._under_way if batch.may_be_written for entry in batch.entries]
        self._under_way = [batch for batch in self._under_way if not batch.may_be_written]
        self._sequence = 0
        for batch in self._under_way:
            batch.is_sent, batch.sequence = False, self._sequence
            self._sequence = (self._sequence + len(batch.entries)) % SEQUENCES
        self._begin_mending()
        return unknown

    def drop_all(self) -> list[Entry]:
        """Everything that is not settled; the row is empty afterwards."""
        entries = [entry for batch in self._under_way for entry in batch.entries]
        entries += [entry for entry, _, _ in self._waiting]
        self._under_way.clear()
        self._repeats.clear()
        self._waiting.clear()
        self._waiting_bytes = 0
        return entries

    # Mending: wait for all answers, then send again in order.

    def _begin_mending(self) -> None:
        self._is_mending = True
        self._repeats.clear()

    def _next_repeat(self) -> OutBatch[Entry] | None:
        if self._is_mending:
            if any(batch.is_sent for batch in self._under_way):
                return None
            self._is_mending = False
            self._repeats.extend(self._under_way)
        if not self._repeats:
            return None
        batch = self._repeats.popleft()
        batch.is_sent = True
        batch.attempt += 1
        return batch
