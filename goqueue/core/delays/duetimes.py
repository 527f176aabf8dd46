"""When the pending messages of a partition are due: a map of offsets to times, in ten bytes for each.

A dict of a million ints takes over a hundred bytes for each of them. Here offsets are cut into chunks of 4,096, and
a chunk is two columns: the low bits of its offsets, in order, and their due times. A change moves a few kilobytes,
whatever the total. Offsets mostly come in rising order, and then an addition is an append.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from operator import lt

from goqueue.core.records.record import DELAY_BIT, DELAY_MAX, TIMESTAMP_MAX
from goqueue.errors import InvalidMessage
from goqueue.types import Microseconds, Offset

CHUNK_BITS = 12
LOW_BITS = (1 << CHUNK_BITS) - 1


def moved_due(due: Microseconds | None, delay: Microseconds | None) -> int:
    """When a moved message is due, in the format of records: at a time, or after a delay."""
    if (due is None) == (delay is None):
        raise InvalidMessage("a delayed message is moved to a time or by a delay; give one of them")
    if due is not None and due <= TIMESTAMP_MAX:
        return due
    if delay is not None and delay <= DELAY_MAX:
        return delay | DELAY_BIT
    raise InvalidMessage("the delay is too long, or ends beyond the year 3111")


def check_edges(edges: Sequence[Microseconds]) -> None:
    if any(late < early for early, late in pairwise(edges)):
        raise InvalidMessage("the times between which is counted have to rise")


class _Chunk:
    __slots__ = ("dues", "lows")

    def __init__(self) -> None:
        self.lows = array("H")
        self.dues = array("Q")

    def place(self, low: int) -> tuple[int, bool]:
        """Where this offset is, or belongs; and whether it is there."""
        lows = self.lows
        if not lows or low > lows[-1]:
            return len(lows), False
        place = bisect_left(lows, low)
        return place, lows[place] == low

    def set(self, low: int, due: Microseconds) -> None:
        place, is_there = self.place(low)
        if is_there:
            self.dues[place] = due
        else:
            self.lows.insert(place, low)
            self.dues.insert(place, due)

    def set_all(self, lows: Sequence[int], dues: Sequence[Microseconds]) -> None:
        """In rising order."""
        if self.place(lows[0])[0] == len(self.lows):
            self.lows.extend(lows)
            self.dues.extend(dues)
        else:
            for low, due in zip(lows, dues, strict=True):
                self.set(low, due)


class DueTimes:
    def __init__(self) -> None:
        self._chunks: dict[int, _Chunk] = {}

    def __getitem__(self, offset: Offset) -> Microseconds:
        due = self.get(offset)
        if due is None:
            raise KeyError(offset)
        return due

    def get(self, offset: Offset) -> Microseconds | None:
        chunk = self._chunks.get(offset >> CHUNK_BITS)
        if chunk is None:
            return None
        place, is_there = chunk.place(offset & LOW_BITS)
        return chunk.dues[place] if is_there else None

    def set(self, offset: Offset, due: Microseconds) -> None:
        self._chunk(offset >> CHUNK_BITS).set(offset & LOW_BITS, due)

    def set_all(self, offsets: Sequence[Offset], dues: Sequence[Microseconds]) -> None:
        """Many at once; quick if the offsets rise, as those of new messages do."""
        if not all(map(lt, offsets, islice(offsets, 1, None))):
            for offset, due in zip(offsets, dues, strict=True):
                self.set(offset, due)
            return
        begin = 0
        while begin < len(offsets):
            number = offsets[begin] >> CHUNK_BITS
            end = bisect_left(offsets, number + 1 << CHUNK_BITS, begin)
            self._chunk(number).set_all(_lows(offsets[begin:end]), dues[begin:end])
            begin = end

    def remove(self, offset: Offset) -> None:
        """It is there."""
        number = offset >> CHUNK_BITS
        chunk = self._chunks[number]
        place, is_there = chunk.place(offset & LOW_BITS)
        assert is_there, f"offset {offset} has no due time"
        del chunk.lows[place], chunk.dues[place]
        if not chunk.lows:
            del self._chunks[number]

    def remove_below(self, end: Offset) -> None:
        """Remove all offsets below `end`."""
        last = end >> CHUNK_BITS
        for number in [number for number in self._chunks if number < last]:
            del self._chunks[number]
        chunk = self._chunks.get(last)
        if chunk is not None:
            place, _ = chunk.place(end & LOW_BITS)
            del chunk.lows[:place], chunk.dues[:place]
            if not chunk.lows:
                del self._chunks[last]

    def chunks(self) -> Iterator[list[tuple[Offset, Microseconds]]]:
        """The offsets and due times of each chunk that there is now, so that the caller may let others run."""
        for number, chunk in list(self._chunks.items()):
            base = number << CHUNK_BITS
            yield [(base + low, due) for low, due in zip(chunk.lows, chunk.dues, strict=True)]

    def counts_until(self, now: Microseconds) -> Iterator[int]:
        """How many of each of them are due."""
        for chunk in list(self._chunks.values()):
            is_due = chunk.dues and min(chunk.dues) <= now
            yield sum(due <= now for due in chunk.dues) if is_due else 0

    def earliest_of_each(self) -> Iterator[Microseconds]:
        """The earliest due time of each of them."""
        return (min(chunk.dues) for chunk in list(self._chunks.values()) if chunk.dues)

    def _chunk(self, number: int) -> _Chunk:
        chunk = self._chunks.get(number)
        if chunk is None:
            chunk = self._chunks[number] = _Chunk()
        return chunk


def _lows(offsets: Sequence[Offset]) -> Sequence[int]:
    """The low bits of rising offsets of one chunk, which mostly follow each other without gaps."""
    first, last = offsets[0] & LOW_BITS, offsets[-1] & LOW_BITS
    has_gaps = last - first >= len(offsets)
    return [offset & LOW_BITS for offset in offsets] if has_gaps else range(first, last + 1)
