"""The records of one lane in a stretch of the log, and none of other lanes.

A batch of one priority is one run, and stays as it is. From one that holds several, the records of the lane are cut
out: they go into a batch of the same range, as compaction writes them. So a delivery holds each record once, though
each lane is read by itself.

Lanes are at different positions in the log, and one delivery takes a few records of each. So a stretch is read and
cut once, and the rest of it is kept for the next deliveries (readcache.py).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from goqueue.core.ledger.entries import LaneOffsets
from goqueue.core.ledger.shares import LANES
from goqueue.core.offsetset import OffsetSet, Run
from goqueue.core.records.batch import Envelope, records_of
from goqueue.core.slices.batchindex import BatchIndex, BatchIndexes, with_records
from goqueue.core.slices.deliverable import (
    EVERYTHING,
    Reader,
    batches_in,
    body_at,
    is_for_everybody,
    is_plain,
    messages_in,
)
from goqueue.types import Buffer, Offset

PIECE_BYTES, RECORD_BYTES = 512, 16
"""The estimated memory for a piece and for a record, beside the records themselves."""


class OfLane(NamedTuple):
    offsets: OffsetSet
    scanned_to: Offset
    """The lane was scanned before this offset."""
    parts: list[Buffer]

    def without(self, others: OffsetSet, indexes: BatchIndexes) -> "OfLane":
        """Without these offsets and their records: they may be redelivered in the same delivery, and each record
        travels once."""
        if not self.offsets.common(others):
            return self
        offsets = self.offsets.without(others)
        runs = list(offsets.runs())
        return self._replace(
            offsets=offsets, parts=[cut for part in self.parts for cut in indexes.cut_down(part, runs)]
        )


class WantedRecords(NamedTuple):
    """The first `count_max` messages of a lane, from `start` on."""

    lane: int
    start: Offset
    count_max: int


class _Piece(NamedTuple):
    """The records of the lane in one batch."""

    begin: int
    """The number of the stretch's records before this piece."""
    envelope: Envelope
    places: Sequence[int]
    """The offset of each record within the batch."""
    records: Buffer
    """The batch as it lies in the log, if all of its records are of the lane; else the records that were cut
    out."""
    positions: Sequence[int] = ()
    """Where each record begins that was cut out, and where the last one ends."""

    def between(self, begin: int, after: int, lane: int) -> Buffer:
        """A batch with the piece's part of these records of the stretch. A batch of this lane alone stays as it
        is."""
        if not self.positions:
            return self.records
        first, after = max(begin - self.begin, 0), min(after - self.begin, len(self.places))
        records = self.records
        if after - first < len(self.places):
            records = records[self.positions[first] : self.positions[after]]
        return with_records(self.envelope, records, after - first, lane)


class LaneStretch:
    __slots__ = (
        "_bases",
        "_begins",
        "_mask",
        "_pieces",
        "_size",
        "bytes_kept",
        "bytes_read",
        "end",
        "is_for_all",
        "lane",
        "start",
    )

    def __init__(self, lane: int, start: Offset, bytes_read: int = 0) -> None:
        self.lane = lane
        self.start = self.end = start
        """Everything of the lane from `start` to `end` is here."""
        self.is_for_all = True
        """Whether it is the same for all readers at any time: nothing in it expires, or is meant for one group."""
        self.bytes_read = bytes_read
        """The number of bytes that were read for it, of all lanes."""
        self.bytes_kept = PIECE_BYTES
        """The estimated memory that it takes."""
        self._size = 0
        self._pieces: list[_Piece] = []
        self._begins: list[int] = []
        self._bases: list[Offset] = []
        self._mask = 0
        """The offsets of all records as bits, from the first base on."""

    def __len__(self) -> int:
        return self._size

    # Taking

    def first(self, place: Offset, count_max: int) -> OfLane:
        """The first `count_max` records from this offset on, which lies in the stretch."""
        assert self.start <= place <= self.end, f"{place} is not between {self.start} and {self.end}"
        begin = self._count_before(place)
        after = min(begin + count_max, self._size)
        is_cut = after == begin + count_max
        end = self._offset(after - 1) + 1 if is_cut else self.end
        return OfLane(self._between(place, end), end, self._parts(begin, after))

    def _count_before(self, place: Offset) -> int:
        number = bisect_right(self._bases, place) - 1
        if number < 0:
            return 0
        piece = self._pieces[number]
        return piece.begin + bisect_left(piece.places, place - piece.envelope.base_offset)

    def _offset(self, number: int) -> Offset:
        piece = self._pieces[bisect_right(self._begins, number) - 1]
        return piece.envelope.base_offset + piece.places[number - piece.begin]

    def _between(self, place: Offset, end: Offset) -> OffsetSet:
        found = OffsetSet()
        base = max(place, self._bases[0]) if self._bases else end
        if end > base:
            found.add_mask(base, self._mask >> base - self._bases[0] & (1 << end - base) - 1)
        return found

    def _parts(self, begin: int, after: int) -> list[Buffer]:
        if begin >= after:
            return []
        pieces = self._pieces[bisect_right(self._begins, begin) - 1 : bisect_left(self._begins, after)]
        return [piece.between(begin, after, self.lane) for piece in pieces]

    # Cutting

    def add_whole(self, envelope: Envelope, stored: memoryview) -> None:
        """Add a batch behind all others, of which every offset is a message of this lane."""
        own = memoryview(bytes(stored))  # a view would keep all that was read in memory
        piece = _Piece(self._size, envelope, range(envelope.record_count), own)
        self._add(piece, (1 << envelope.record_count) - 1)

    def add_some(self, index: BatchIndex, records: bytes, chosen: bytes) -> None:
        """Add the flagged records of a batch behind all others."""
        places = index.places_of(chosen)
        cut, positions = index.cut_out(records, chosen, places)
        self._add(_Piece(self._size, index.envelope, places, cut, positions), index.mask_of(chosen, places))

    def _add(self, piece: _Piece, mask: int) -> None:
        self._pieces.append(piece)
        self._begins.append(piece.begin)
        self._bases.append(piece.envelope.base_offset)
        self._size += len(piece.places)
        self._mask |= mask << piece.envelope.base_offset - self._bases[0]
        self.bytes_kept += len(piece.records) + PIECE_BYTES + RECORD_BYTES * len(piece.places)


def cut_lane(
    data: Buffer, end: Offset, wanted: WantedRecords, reader: Reader, indexes: BatchIndexes
) -> LaneStretch:
    """The stretch of the lane in `data`, which is whole batches up to `end`, from the wanted offset on.

    If batches show different records to different readers, it holds no more than is wanted: it is not kept for
    other readers.
    """
    view, stretch = memoryview(data), LaneStretch(wanted.lane, wanted.start, len(data))
    for position, envelope in batches_in(view):
        if envelope.end_offset <= wanted.start:
            continue
        is_for_all = stretch.is_for_all and is_for_everybody(envelope)
        if not is_for_all and len(stretch) >= wanted.count_max:
            return stretch
        stretch.end = envelope.end_offset
        if envelope.priority_mask >> wanted.lane & 1:
            stretch.is_for_all = is_for_all
            _add(stretch, envelope, view[position : position + envelope.size], reader, indexes)
    stretch.end = max(stretch.end, end)
    return stretch


def messages_by_lane(data: Buffer, wanted: Run, reader: Reader, indexes: BatchIndexes) -> list[LaneOffsets]:
    """The messages of this range that are in `data`, which is whole batches, by their lanes."""
    seen = 0
    for _, envelope in batches_in(memoryview(data)):
        seen |= envelope.priority_mask
    return [_all_of(lane, data, wanted, reader, indexes) for lane in LANES if seen >> lane & 1]


def _all_of(lane: int, data: Buffer, wanted: Run, reader: Reader, indexes: BatchIndexes) -> LaneOffsets:
    asked = WantedRecords(lane, wanted.first, EVERYTHING)
    stretch = cut_lane(data, wanted.last + 1, asked, reader, indexes)
    found = stretch.first(wanted.first, len(stretch) + 1).offsets
    return LaneOffsets(lane, found.common(OffsetSet([wanted])))


def _add(
    stretch: LaneStretch, envelope: Envelope, stored: memoryview, reader: Reader, indexes: BatchIndexes
) -> None:
    if is_plain(envelope) and envelope.priority_mask == 1 << stretch.lane:
        stretch.add_whole(envelope, stored)
        return
    records = bytes(records_of(envelope, body_at(stored, 0, envelope)))
    index = indexes.index_of_records(envelope, records)
    chosen = index.flags_of(stretch.lane)
    if not is_for_everybody(envelope):
        chosen = index.only(chosen, OffsetSet(messages_in(stored, 0, stretch.start, reader)))
    if any(chosen):
        stretch.add_some(index, records, chosen)
