"""The read cache of a partition: what was read from its log and is likely to be wanted by the next delivery.

`StretchCache` keeps what was cut out of the log for one lane and is left after a delivery. Lanes that are far apart
share no reads, and each delivery takes a few records of each lane; without the cache a batch would be read and
taken apart several times for each lane. A lane that is read continuously is read in larger pieces.

`BatchCache` keeps batches of which few messages were wanted: the next delivery takes more of them. A group that
keeps the order of keys holds messages of a batch back and delivers them later, so all that it reads is kept.

Both are emptied when something has changed in the part of the log that was read. `BatchIndexes` are true of a batch
wherever it lies, so they stay.
"""

from typing import NamedTuple

from goqueue.core.slices.batchindex import BatchIndexes
from goqueue.core.slices.cachebudget import CacheBudget, CacheEntries
from goqueue.core.slices.deliverable import batches_in
from goqueue.core.slices.lanestretch import LaneStretch
from goqueue.types import Buffer, Offset

BATCH_BYTES_MAX = 512 * 1024
BATCHES_AT_A_TIME = 4
"""Limit of the batches in one read that are kept. In a read with more of them batches are small, and to find them
here would cost as much as to read them."""


class CachedBatch(NamedTuple):
    base: Offset
    end: Offset
    data: bytes


class BatchCache:
    def __init__(self, budget: CacheBudget, bytes_max: int = BATCH_BYTES_MAX) -> None:
        self.kept: CacheEntries[Offset, CachedBatch] = CacheEntries(budget, bytes_max)
        """By base offset."""

    def holding(self, offset: Offset, past_changes: int) -> CachedBatch | None:
        """The batch that holds this offset."""
        self.kept.follow(past_changes)
        return next((batch for batch in self.kept if batch.base <= offset < batch.end), None)

    def note(self, data: Buffer, past_changes: int) -> None:
        """Keep these batches, which were read and found sound when the log had this number of changes."""
        view = memoryview(data)
        found = [(envelope, position) for position, envelope in batches_in(view)]
        if len(found) > BATCHES_AT_A_TIME or past_changes != self.kept.past_changes:
            return
        for envelope, position in found:
            known = self.kept.use(envelope.base_offset)
            if known is not None and len(known.data) == envelope.size:
                continue
            batch = bytes(view[position : position + envelope.size])
            kept = CachedBatch(envelope.base_offset, envelope.end_offset, batch)
            self.kept.keep(kept.base, kept, len(batch))


STRETCH_BYTES_MAX = 1024 * 1024
"""Limit for all lanes and readers of a partition together."""
LARGER_READS_MAX = 64
"""Limit of the offsets that are remembered as beginnings of larger reads."""


class StretchCache:
    def __init__(self, budget: CacheBudget, bytes_max: int = STRETCH_BYTES_MAX) -> None:
        self.kept: CacheEntries[LaneStretch, LaneStretch] = CacheEntries(budget, bytes_max)
        self._read_on: dict[tuple[int, Offset], int] = {}
        """The lane and offset where a stretch ended that served more than one delivery, and how many bytes to read
        there."""

    def holding(self, lane: int, place: Offset, past_changes: int) -> LaneStretch | None:
        """The stretch that holds this offset of a lane."""
        self.kept.follow(past_changes)
        stretches = (each for each in self.kept if each.lane == lane and each.start <= place < each.end)
        return next(stretches, None)

    def how_much(self, lane: int, place: Offset, likely: int) -> int:
        """The number of bytes to read from this offset on; `likely` are enough for one delivery."""
        return max(likely, self._read_on.pop((lane, place), 0))

    def note_used(self, stretch: LaneStretch, place: Offset, past_changes: int) -> None:
        """The stretch was used up to this offset. The rest is kept, if nothing in the log has changed since it was
        read."""
        is_left = place < stretch.end
        if is_left and stretch.is_for_all and past_changes == self.kept.past_changes:
            self.kept.keep(stretch, stretch, stretch.bytes_kept)
        elif self.kept.drop(stretch) and not is_left:
            self._read_on[stretch.lane, place] = 2 * stretch.bytes_read
            if len(self._read_on) > LARGER_READS_MAX:
                del self._read_on[next(iter(self._read_on))]


class PartitionCache:
    """Everything that a partition keeps from its log."""

    def __init__(self, budget: CacheBudget) -> None:
        self.indexes = BatchIndexes(budget)
        self.stretches = StretchCache(budget)
        self.batches = BatchCache(budget)

    def close(self) -> None:
        for each in (self.indexes, self.stretches, self.batches):
            each.kept.close()
