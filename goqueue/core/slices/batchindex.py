"""An index of a batch: where each record lies, its lane and its key. It serves batches that are delivered in parts.

A group that keeps the order of keys, one with redeliveries, and one with several lanes takes some records of a
batch, then some more of it. So a batch is indexed once, and the indexes of the last few batches are cached.
Records of one shape are indexed by columns (core/records/columns.py), others are walked.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, compress
from operator import xor
from struct import Struct

from crc32c import crc32c

from goqueue.core.ledger.attempts import AttemptRun
from goqueue.core.ledger.keys import Keyed
from goqueue.core.offsetset import OffsetSet, Run
from goqueue.core.records.batch import ZSTD, Envelope, records_of, seal_envelope
from goqueue.core.records.columns import RECORDS_MAX, lanes_of, shape_of
from goqueue.core.records.record import HEADER_SIZE
from goqueue.core.slices.cachebudget import CacheBudget, CacheEntries
from goqueue.core.slices.deliverable import batches_in, body_at, those_inside
from goqueue.core.slices.picking import picked_records
from goqueue.types import LANE_COUNT, Buffer, Offset

INDEX_BYTES_MAX = 1024 * 1024
"""Limit of the cached indexes of a partition: some 16,000 records with keys. The newest stays whatever its size, as
a large batch is delivered in many parts."""
EMPTY_BYTES, NUMBER_BYTES = 500, 40
"""The estimated memory of an index without records, and of a number in a list."""

_PLACE = Struct(">8xQ8xBxHI")
"""The fields of a record: its offset within the batch, its lane, and the sizes of its key and its value section."""
_SIZES = Struct(">26xHI")
_LENGTH, _COUNT, _ATTRIBUTES, _MASK, _CRC = map(
    Envelope._fields.index, ("length", "record_count", "attributes", "priority_mask", "body_crc")
)
_ONLY = {1 << lane: lane for lane in range(LANE_COUNT)}
"""The lane of a batch with a single priority, by its mask."""
_IS_IN = [bytes(byte == lane for byte in range(256)) for lane in range(LANE_COUNT)]
"""For each lane a table for `translate`: 1 for its number, 0 for every other byte."""
_AS_DIGITS = b"01" + bytes(254)
_BIT = (1).__lshift__
_NO_KEY = hash(b"")
NUMBERS = tuple(range(RECORDS_MAX))
"""Made once: to make these numbers takes longer than to choose among them."""


class BatchIndex:
    __slots__ = ("_hashes", "_keyed", "_offsets", "_positions", "envelope", "has_keys", "lanes")

    def __init__(self, envelope: Envelope, records: bytes, *, with_keys: bool = False) -> None:
        self.envelope = envelope
        self.has_keys = with_keys
        self._keyed: Sequence[Offset] = ()
        """The offsets of the records that have a key."""
        self._hashes: list[int] = []
        """The hash of each of these keys."""
        self._offsets: Sequence[Offset]
        self._positions: Sequence[int]
        self.lanes: bytes
        """The lane of each record."""
        count = envelope.record_count
        shape = shape_of(records, count) if self.is_whole else None
        if shape is None and with_keys and self.is_whole and envelope.priority_mask in _ONLY:
            self._walk_plainly(records, _ONLY[envelope.priority_mask])
        elif shape is None:
            self._walk(records)
        else:
            self._offsets = range(envelope.base_offset, envelope.end_offset)
            self._positions = range(0, (count + 1) * shape.size, shape.size)
            self.lanes = lanes_of(records, shape)
            if with_keys and shape.key_size:
                keys = [
                    records[at + HEADER_SIZE : at + HEADER_SIZE + shape.key_size] for at in self._positions[:-1]
                ]
                self._keyed, self._hashes = self._offsets, list(map(xor, map(hash, keys), self.lanes))

    @property
    def is_whole(self) -> bool:
        """Every offset of its range is a record."""
        return self.envelope.record_count == self.envelope.last_offset_delta + 1

    def _walk_plainly(self, records: bytes, lane: int) -> None:
        """A whole batch of one priority with keys, as most are: it takes only the sizes."""
        unpack, position, hashes, positions = _SIZES.unpack_from, 0, list[int](), list[int]()
        note_hash, note_position = hashes.append, positions.append
        for _ in range(self.envelope.record_count):
            note_position(position)
            key_size, value_size = unpack(records, position)
            begin = position + HEADER_SIZE
            position = begin + key_size
            note_hash(hash(records[begin:position]) ^ lane)
            position += value_size
        if _NO_KEY ^ lane in hashes:
            self._walk(records)
            return
        self._positions, self.lanes = array("I", [*positions, position]), bytes([lane]) * len(hashes)
        self._offsets = self._keyed = range(self.envelope.base_offset, self.envelope.end_offset)
        self._hashes = hashes

    def _walk(self, records: bytes) -> None:
        unpack, position, base, with_keys = _PLACE.unpack_from, 0, self.envelope.base_offset, self.has_keys
        offsets, positions, lanes, keyed = list[Offset](), list[int](), bytearray(), list[Offset]()
        for _ in range(self.envelope.record_count):
            relative, lane, key_size, value_size = unpack(records, position)
            offset = base + relative
            offsets.append(offset)
            positions.append(position)
            lanes.append(lane)
            position += HEADER_SIZE
            if with_keys and key_size:
                keyed.append(offset)
                self._hashes.append(hash(records[position : position + key_size]) ^ lane)
            position += key_size + value_size
        self._keyed = keyed
        self._positions, self.lanes = array("I", [*positions, position]), bytes(lanes)
        self._offsets = range(offsets[0], offsets[-1] + 1) if offsets and self.is_whole else array("Q", offsets)

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def bytes_kept(self) -> int:
        """The estimated memory that it takes."""
        columns = [each for each in (self._offsets, self._positions) if isinstance(each, array)]
        numbers = len(self._hashes) + (len(self._keyed) if isinstance(self._keyed, list) else 0)
        packed = len(self.lanes) + sum(each.itemsize * len(each) for each in columns)
        return EMPTY_BYTES + packed + NUMBER_BYTES * numbers

    # Positions

    def place(self, first: Offset, last: Offset) -> tuple[int, int, int]:
        """Where the records from one offset to another begin and end, and how many they are."""
        offsets, positions = self._offsets, self._positions
        if isinstance(offsets, range):  # as most often
            begin, end = max(first - offsets.start, 0), min(last + 1 - offsets.start, len(offsets))
        else:
            begin = bisect_left(offsets, first)
            end = bisect_left(offsets, last + 1, begin)
        return positions[begin], positions[end], end - begin

    # Lanes

    def flags_of(self, lane: int) -> bytes:
        """For each record a byte: whether it is of this lane."""
        return self.lanes.translate(_IS_IN[lane])

    def only(self, chosen: bytes, allowed: OffsetSet) -> bytes:
        """The flagged records that are allowed, as flags."""
        return bytes(flag and offset in allowed for flag, offset in zip(chosen, self._offsets, strict=True))

    def places_of(self, chosen: bytes) -> list[int]:
        """The offsets of the flagged records within the batch."""
        if self.is_whole:
            numbers = NUMBERS if len(chosen) <= len(NUMBERS) else range(len(chosen))
            return list(compress(numbers, chosen))
        return [offset - self.envelope.base_offset for offset in compress(self._offsets, chosen)]

    def mask_of(self, chosen: bytes, places: Iterable[int]) -> int:
        """The same as bits."""
        return int(chosen.translate(_AS_DIGITS)[::-1], 2) if self.is_whole else sum(map(_BIT, places))

    def cut_out(self, records: bytes, chosen: bytes, places: Iterable[int]) -> tuple[bytes, Sequence[int]]:
        """The flagged records one after the other: their bytes, and where each begins and the last one ends."""
        positions = self._positions
        if isinstance(positions, range):
            size = positions.step
            cut = b"".join([records[at : at + size] for at in map(size.__mul__, places)])
            return cut, range(0, len(cut) + size, size)
        bounds = zip(compress(positions, chosen), compress(positions[1:], chosen), strict=True)
        parts = [records[begin:end] for begin, end in bounds]
        return b"".join(parts), array("I", accumulate(map(len, parts), initial=0))

    # Keys

    def keyed(self, first: Offset, last: Offset) -> Iterator[Keyed]:
        """The offset and a hash of each record from one offset to another that has a key. A key has another hash in
        another lane."""
        assert self.has_keys
        begin, end = bisect_left(self._keyed, first), bisect_left(self._keyed, last + 1)
        return zip(self._keyed[begin:end], self._hashes[begin:end], strict=True)


class BatchIndexes:
    def __init__(self, budget: CacheBudget | None = None, bytes_max: int = INDEX_BYTES_MAX) -> None:
        self.kept: CacheEntries[tuple[Offset, int, int], BatchIndex] = CacheEntries(
            budget or CacheBudget(), bytes_max, count_min=1
        )
        """By base offset, length and checksum of the body, which together name a batch."""

    def keys_in(self, data: Buffer, wanted: OffsetSet, found: dict[Offset, int] | None = None) -> dict[Offset, int]:
        """The hashes of the wanted records that have a key, by offset and in order, added to `found`. The batches
        have been checked before."""
        view, found = memoryview(data), {} if found is None else found
        for position, envelope in batches_in(view):
            runs = list(wanted.runs(envelope.base_offset, envelope.end_offset - 1))
            if runs:
                body = body_at(view, position, envelope)
                index = self.index_of(envelope, body, with_keys=True)
                for run in runs:
                    found.update(index.keyed(*run))
        return found

    def cut_down(self, data: Buffer, runs: Iterable[Run | AttemptRun]) -> list[Buffer]:
        """Batches that hold these records, named in order, and no others. Offsets stay."""
        view, kept, waiting = memoryview(data), list[Buffer](), list(runs)[::-1]
        for position, envelope in batches_in(view):
            wanted = list(those_inside(waiting, envelope))
            count = sum(last - first + 1 for first, last in wanted)
            if count == envelope.last_offset_delta + 1 == envelope.record_count:
                kept.append(view[position : position + envelope.size])
            elif count:
                kept += self._smaller(envelope, body_at(view, position, envelope), wanted)
        return kept

    def _smaller(self, envelope: Envelope, body: memoryview, wanted: Iterable[Run]) -> Iterator[Buffer]:
        records = memoryview(records_of(envelope, body))
        index = self.index_of(envelope, body)
        places = [index.place(*run) for run in wanted]
        count = sum(count for _, _, count in places)
        if count:
            yield with_records(envelope, b"".join([records[begin:end] for begin, end, _ in places]), count)

    def index_of(self, envelope: Envelope, body: memoryview, *, with_keys: bool = False) -> BatchIndex:
        index = self.kept.use(_name(envelope))
        if index is None or (with_keys and not index.has_keys):
            index = self._keep(BatchIndex(envelope, bytes(records_of(envelope, body)), with_keys=with_keys))
        return index

    def index_of_records(self, envelope: Envelope, records: bytes) -> BatchIndex:
        """The same for records that are unpacked already."""
        return self.kept.use(_name(envelope)) or self._keep(BatchIndex(envelope, records))

    def _keep(self, index: BatchIndex) -> BatchIndex:
        self.kept.keep(_name(index.envelope), index, index.bytes_kept)
        return index


def _name(envelope: Envelope) -> tuple[Offset, int, int]:
    return envelope.base_offset, envelope.length, envelope.body_crc


def with_records(envelope: Envelope, records: Buffer, count: int, lane: int | None = None) -> bytes:
    """A batch of the same range with only `count` of its records. The times in the envelope stay: they are true of
    fewer records, too."""
    fields = list(envelope)
    fields[_LENGTH], fields[_COUNT], fields[_CRC] = len(records), count, crc32c(records)
    fields[_ATTRIBUTES] &= ~ZSTD
    if lane is not None:
        fields[_MASK] = 1 << lane
    return seal_envelope(Envelope._make(fields)) + records


def key_at(data: Buffer, offset: Offset) -> bytes | None:
    """The key itself of one message; None when it has none, or is not there."""
    for _, record in picked_records(data, OffsetSet([(offset, offset)])):
        key_size, _ = _SIZES.unpack_from(record)
        return bytes(record[HEADER_SIZE : HEADER_SIZE + key_size]) or None
    return None
