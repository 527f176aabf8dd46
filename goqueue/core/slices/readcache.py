"""The read cache: what was read from a log and is likely to be wanted by the next delivery.

`StretchCache` keeps what was cut out of the log for one lane and is left after a delivery. Lanes that are far apart
share no reads, and each delivery takes a few records of each lane; without the cache a batch would be read and
taken apart several times for each lane. A lane that is read continuously is read in larger pieces.

`BatchCache` keeps the batches that were read last, for a group that keeps the order of keys: it holds messages of a
batch back and delivers them later, a few at a time.

Each cache has a bound of its own. `CacheBudget` bounds all caches of a node together: over it, the cache that was
used longest ago is emptied. A cache is also emptied when something has changed in the part of the log that was
read.
"""

from typing import Protocol

from goqueue.core.slices.deliverable import batches_in
from goqueue.core.slices.lanestretch import LaneStretch
from goqueue.types import Buffer, Offset

CACHE_BYTES_MAX = 32 * 1024 * 1024


class Cache(Protocol):
    def forget_all(self) -> None:
        """Empty the cache, without a note to the budget: it knows."""


class CacheBudget:
    def __init__(self, bytes_max: int = CACHE_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._bytes_of: dict[Cache, int] = {}
        """In the order of their last use."""
        self.bytes_kept = 0

    def note(self, keeper: Cache, size: int) -> None:
        """This cache was just used, and keeps `size` bytes now."""
        self.bytes_kept += size - self._bytes_of.pop(keeper, 0)
        if size:
            self._bytes_of[keeper] = size
        while self.bytes_kept > self._bytes_max:
            oldest = next(iter(self._bytes_of))
            self.bytes_kept -= self._bytes_of.pop(oldest)
            oldest.forget_all()


BATCH_BYTES_MAX = 512 * 1024
BATCHES_AT_A_TIME = 4
"""Limit of the batches in one read that are kept. In a read with more of them batches are small, and to find them
here would cost as much as to read them."""


class CachedBatch:
    __slots__ = ("base", "data", "end")

    def __init__(self, base: Offset, end: Offset, data: bytes) -> None:
        self.base, self.end, self.data = base, end, data


class BatchCache:
    def __init__(self, room: CacheBudget, bytes_max: int = BATCH_BYTES_MAX) -> None:
        self._room = room
        self._bytes_max = bytes_max
        self._kept: dict[Offset, CachedBatch] = {}
        """By base offset, in the order of the last read."""
        self._bytes = 0
        self._past_changes = 0

    def holding(self, offset: Offset, past_changes: int) -> CachedBatch | None:
        """The batch that holds this offset. `past_changes`: the number of changes in what readers could see of the
        log."""
        if past_changes != self._past_changes:
            self._past_changes = past_changes
            self.forget_all()
            self._room.note(self, 0)
        for batch in self._kept.values():
            if batch.base <= offset < batch.end:
                return batch
        return None

    def note(self, data: Buffer, past_changes: int) -> None:
        """Keep these batches, which were read and found sound when the log had this number of changes."""
        view = memoryview(data)
        found = [(envelope, position) for position, envelope in batches_in(view)]
        if len(found) > BATCHES_AT_A_TIME or past_changes != self._past_changes:
            return
        for envelope, position in found:
            batch = bytes(view[position : position + envelope.size])
            self._keep(CachedBatch(envelope.base_offset, envelope.end_offset, batch))
        self._room.note(self, self._bytes)

    def forget_all(self) -> None:
        self._kept.clear()
        self._bytes = 0

    def _keep(self, batch: CachedBatch) -> None:
        if batch.base in self._kept:
            self._forget(batch.base)
        self._kept[batch.base] = batch
        self._bytes += len(batch.data)
        while self._bytes > self._bytes_max:
            self._forget(next(iter(self._kept)))

    def _forget(self, base: Offset) -> None:
        self._bytes -= len(self._kept.pop(base).data)


STRETCH_BYTES_MAX = 1024 * 1024
"""Limit for all lanes and readers of a partition together."""
LARGER_READS_MAX = 64
"""Limit of the offsets that are remembered as beginnings of larger reads."""


class StretchCache:
    def __init__(self, room: CacheBudget, bytes_max: int = STRETCH_BYTES_MAX) -> None:
        self._room = room
        self._bytes_max = bytes_max
        self._kept: dict[LaneStretch, None] = {}
        """In the order of their last use."""
        self._bytes = 0
        self._past_changes = 0
        self._read_on: dict[tuple[int, Offset], int] = {}
        """The lane and offset where a stretch ended that served more than one delivery, and how many bytes to read
        there."""

    def holding(self, lane: int, place: Offset, past_changes: int) -> LaneStretch | None:
        """The stretch that holds this offset of a lane. `past_changes`: the number of changes in what readers could
        see of the log."""
        if past_changes != self._past_changes:
            self._past_changes = past_changes
            self.forget_all()
            self._room.note(self, 0)
        for stretch in self._kept:
            if stretch.lane == lane and stretch.start <= place < stretch.end:
                return stretch
        return None

    def forget_all(self) -> None:
        self._kept.clear()
        self._bytes = 0

    def how_much(self, lane: int, place: Offset, likely: int) -> int:
        """The number of bytes to read from this offset on; `likely` are enough for one delivery."""
        return max(likely, self._read_on.pop((lane, place), 0))

    def note_used(self, stretch: LaneStretch, place: Offset, past_changes: int) -> None:
        """The stretch was used up to this offset. The rest is kept, if nothing in the log has changed since it was
        read."""
        was_kept = stretch in self._kept
        if was_kept:
            self._forget(stretch)
        if place < stretch.end:
            self._keep(stretch, past_changes)
        elif was_kept:
            self._read_on[stretch.lane, place] = 2 * stretch.bytes_read
            if len(self._read_on) > LARGER_READS_MAX:
                del self._read_on[next(iter(self._read_on))]
        self._room.note(self, self._bytes)

    def _keep(self, stretch: LaneStretch, past_changes: int) -> None:
        if stretch.is_for_all and past_changes == self._past_changes:
            self._kept[stretch] = None
            self._bytes += stretch.bytes_kept
            while self._bytes > self._bytes_max:
                self._forget(next(iter(self._kept)))

    def _forget(self, stretch: LaneStretch) -> None:
        del self._kept[stretch]
        self._bytes -= stretch.bytes_kept
