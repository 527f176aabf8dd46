"""Which records of a slice of the log are of one lane, and the batches that hold them, and nothing of other lanes.

A batch of one priority is one run, and stays as it is. Of one that holds several, the records of the lane are cut
out: they go into a batch of the same range, as compaction writes them. So what a member is given holds each record
once, though each lane is read by itself.
"""

from collections.abc import Sequence
from typing import NamedTuple

from goqueue.core.batch import Envelope, records_of
from goqueue.core.batchindex import BatchIndexes, with_records
from goqueue.core.deliverable import Reader, batches_in, body_at, is_plain, messages_in
from goqueue.core.offsetset import OffsetSet
from goqueue.types import Buffer, Offset


class OfLane(NamedTuple):
    offsets: OffsetSet
    scanned_to: Offset
    """All of the lane before it was looked at."""
    parts: list[Buffer]


class Wanted(NamedTuple):
    """The first so many messages of a lane, from `start` on."""

    lane: int
    start: Offset
    count_max: int


def find_in_lane(data: Buffer, wanted: Wanted, reader: Reader, indexes: BatchIndexes) -> OfLane:
    """What is wanted, of the whole batches in `data`."""
    lane, start, count_max = wanted
    view, offsets, parts = memoryview(data), OffsetSet(), list[Buffer]()
    scanned_to = start
    for position, envelope in batches_in(view):
        room = count_max - len(offsets)
        if room <= 0:
            break
        scanned_to = max(start, envelope.end_offset)
        if envelope.end_offset <= start or not envelope.priority_mask >> lane & 1:
            continue
        if envelope.priority_mask == 1 << lane and is_plain(envelope):
            first = max(start, envelope.base_offset)
            last = min(envelope.end_offset, first + room) - 1
            offsets.add(first, last)
            parts.append(view[position : position + envelope.size])
            scanned_to = last + 1
        else:
            found = _Mixed(view, position, envelope, indexes).take(lane, start, room, reader)
            offsets.update(found.offsets)
            parts += found.parts
            scanned_to = found.scanned_to
    return OfLane(offsets, scanned_to, parts)


class _Mixed:
    """A batch of which some records may be chosen."""

    def __init__(self, view: memoryview, position: int, envelope: Envelope, indexes: BatchIndexes) -> None:
        self._view, self._position, self._envelope = view, position, envelope
        self._body = body_at(view, position, envelope)
        self._index = indexes.index_of(envelope, self._body)

    def take(self, lane: int, start: Offset, room: int, reader: Reader) -> OfLane:
        index, envelope, offsets = self._index, self._envelope, OffsetSet()
        if is_plain(envelope):
            chosen = index.numbers_of(lane, start, room)
            if chosen:
                index.add_to(offsets, lane, chosen)
        else:
            chosen = self._allowed(index.numbers_of(lane, start), start, reader)[:room]
            offsets = OffsetSet((index.offset(number), index.offset(number)) for number in chosen)
        is_cut = len(chosen) == room
        end = index.offset(chosen[-1]) + 1 if is_cut else envelope.end_offset
        return OfLane(offsets, end, [self._cut_out(chosen, lane)] if chosen else [])

    def _allowed(self, numbers: Sequence[int], start: Offset, reader: Reader) -> list[int]:
        """Those of them that the group is handed."""
        messages = OffsetSet(messages_in(self._view, self._position, start, reader))
        return [number for number in numbers if self._index.offset(number) in messages]

    def _cut_out(self, numbers: Sequence[int], lane: int) -> Buffer:
        envelope = self._envelope
        if len(numbers) == envelope.record_count:
            return self._view[self._position : self._position + envelope.size]
        records = self._index.cut_out(records_of(envelope, self._body), numbers)
        return with_records(envelope, records, len(numbers), lane)
