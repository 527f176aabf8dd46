"""How many messages of each lane lie in a stretch of the log, from the lane's position on."""

from collections.abc import Sequence

from goqueue.core.ledger.shares import Counts, lanes_in
from goqueue.core.offsetset import OffsetSet
from goqueue.core.records.batch import Envelope, records_of
from goqueue.core.slices.batchindex import BatchIndex
from goqueue.core.slices.deliverable import batches_in, body_at
from goqueue.types import Buffer, Offset


def count_lanes(data: Buffer, places: Sequence[Offset], hidden: OffsetSet, counts: Counts) -> None:
    """Add the messages of these batches to `counts`; `hidden` are offsets that are never delivered."""
    view = memoryview(data)
    for position, envelope in batches_in(view):
        lanes = [lane for lane in lanes_in(envelope.priority_mask) if places[lane] < envelope.end_offset]
        if lanes:
            index = BatchIndex(envelope, bytes(records_of(envelope, body_at(view, position, envelope))))
            for lane in lanes:
                counts[lane] += _count(index, envelope, lane, places[lane], hidden)


def _count(index: BatchIndex, envelope: Envelope, lane: int, place: Offset, hidden: OffsetSet) -> int:
    first, last = envelope.base_offset, envelope.end_offset - 1
    if place <= first and not hidden.count(first, last):  # as most often
        return index.lanes.count(lane)
    offsets = [first + each for each in index.places_of(index.flags_of(lane))]
    return sum(1 for offset in offsets if offset >= place and offset not in hidden)
