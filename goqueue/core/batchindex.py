"""Where each record of a batch lies, its lane and its key: for what is handed out in parts, here and there.

A group that keeps the order of keys, one whose messages come again, and one with several lanes takes some records
of a batch, then some more of it. So a batch is looked at once, and what was found is remembered for the next time,
of the last few batches. Records of one shape are looked at by columns (uniform.py), others are walked.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress
from operator import xor
from struct import Struct

from crc32c import crc32c

from goqueue.core.batch import ZSTD, Envelope, records_of, seal_envelope
from goqueue.core.deliverable import batches_in, body_at, records_at, those_inside
from goqueue.core.keyorder import Keyed
from goqueue.core.ledgerattempts import AttemptRun
from goqueue.core.offsetset import OffsetSet, Run
from goqueue.core.record import HEADER_SIZE
from goqueue.core.uniform import lanes_of, shape_of
from goqueue.types import LANE_COUNT, Buffer, Offset

RECORDS_REMEMBERED = 16_384
"""Of all batches together; the newest is remembered whatever its size."""

_PLACE = Struct(">8xQ8xBxHI")
"""Of a record: its offset within the batch, its lane, and how long its key and its value section are."""
_KEY_SIZE = Struct(">26xH")
_SIZES = Struct(">26xHI")
_ONLY = {1 << lane: lane for lane in range(LANE_COUNT)}
"""The lane of a batch that has one alone, by its mask."""
_IS_IN = [bytes(byte == lane for byte in range(256)) for lane in range(LANE_COUNT)]
_AS_DIGITS = [each.translate(b"01" + bytes(254)) for each in _IS_IN]


class BatchIndex:
    __slots__ = ("_by_lane", "_keyed", "_masks", "_offsets", "_positions", "envelope", "has_keys", "lanes")

    def __init__(self, envelope: Envelope, records: bytes, *, with_keys: bool = False) -> None:
        self.envelope = envelope
        self.has_keys = with_keys
        self._keyed: list[Keyed] = []
        self._by_lane: dict[int, list[int]] = {}
        self._masks: dict[int, int] = {}
        self._offsets: Sequence[Offset]
        self._positions: Sequence[int]
        self.lanes: bytes
        """Of each record."""
        count = envelope.record_count
        shape = shape_of(records, count) if self.is_whole else None
        if shape is None and with_keys and self.is_whole and envelope.priority_mask in _ONLY:
            self._walk_plainly(records, _ONLY[envelope.priority_mask])
        elif shape is None:
            (self._walk_with_keys if with_keys else self._walk)(records, envelope.base_offset)
        else:
            self._offsets = range(envelope.base_offset, envelope.end_offset)
            self._positions = range(0, (count + 1) * shape.size, shape.size)
            self.lanes = lanes_of(records, shape)
            if with_keys and shape.key_size:
                keys = [
                    records[at + HEADER_SIZE : at + HEADER_SIZE + shape.key_size] for at in self._positions[:-1]
                ]
                self._keyed = list(zip(self._offsets, map(xor, map(hash, keys), self.lanes), strict=True))

    @property
    def is_whole(self) -> bool:
        """Every offset of its range is a record."""
        return self.envelope.record_count == self.envelope.last_offset_delta + 1

    def _walk(self, records: bytes, base: Offset) -> None:
        unpack, position = _PLACE.unpack_from, 0
        offsets, positions, lanes = list[Offset](), list[int](), bytearray()
        for _ in range(self.envelope.record_count):
            relative, lane, key_size, value_size = unpack(records, position)
            offsets.append(base + relative)
            positions.append(position)
            lanes.append(lane)
            position += HEADER_SIZE + key_size + value_size
        self._keep(offsets, [*positions, position], lanes)

    def _walk_plainly(self, records: bytes, lane: int) -> None:
        """One that is whole and of one priority, with keys: most batches are, and the sizes are all it takes."""
        unpack, position, keys, positions = _SIZES.unpack_from, 0, list[bytes](), list[int]()
        for _ in range(self.envelope.record_count):
            positions.append(position)
            key_size, value_size = unpack(records, position)
            position += HEADER_SIZE
            keys.append(records[position : position + key_size])
            position += key_size + value_size
        self._positions, self.lanes = array("I", [*positions, position]), bytes([lane]) * len(keys)
        self._offsets = range(self.envelope.base_offset, self.envelope.end_offset)
        hashes = map(lane.__xor__, map(hash, keys))
        self._keyed = list(zip(self._offsets, hashes, strict=True))
        if not all(keys):
            self._keyed = [keyed for keyed, key in zip(self._keyed, keys, strict=True) if key]

    def _walk_with_keys(self, records: bytes, base: Offset) -> None:
        """The same with one step more."""
        unpack, position, keyed = _PLACE.unpack_from, 0, self._keyed
        offsets, positions, lanes = list[Offset](), list[int](), bytearray()
        for _ in range(self.envelope.record_count):
            relative, lane, key_size, value_size = unpack(records, position)
            offset = base + relative
            offsets.append(offset)
            positions.append(position)
            lanes.append(lane)
            position += HEADER_SIZE
            if key_size:
                keyed.append((offset, hash(records[position : position + key_size]) ^ lane))
            position += key_size + value_size
        self._keep(offsets, [*positions, position], lanes)

    def _keep(self, offsets: list[Offset], positions: list[int], lanes: bytearray) -> None:
        self._positions, self.lanes = array("I", positions), bytes(lanes)
        self._offsets = range(offsets[0], offsets[-1] + 1) if offsets and self.is_whole else array("Q", offsets)

    def __len__(self) -> int:
        return len(self._offsets)

    # Places

    def place(self, first: Offset, last: Offset) -> tuple[int, int, int]:
        """Where the records from one offset to another begin and end, and how many they are."""
        offsets, positions = self._offsets, self._positions
        if isinstance(offsets, range):  # as most often
            begin, end = max(first - offsets.start, 0), min(last + 1 - offsets.start, len(offsets))
        else:
            begin = bisect_left(offsets, first)
            end = bisect_left(offsets, last + 1, begin)
        return positions[begin], positions[end], end - begin

    def offset(self, number: int) -> Offset:
        return self._offsets[number]

    def cut_out(self, records: Buffer, numbers: Iterable[int]) -> bytes:
        """These records, and no others."""
        positions, records = self._positions, bytes(records)
        if isinstance(positions, range):
            size = positions.step
            return b"".join([records[at : at + size] for at in map(size.__mul__, numbers)])
        return b"".join([records[positions[number] : positions[number + 1]] for number in numbers])

    # Lanes

    def numbers_of(self, lane: int, start: Offset, count_max: int | None = None) -> Sequence[int]:
        """Which records, from this offset on, are of this lane; the first so many."""
        numbers = self._by_lane.get(lane)
        if numbers is None:
            numbers = list(compress(range(len(self)), self.lanes.translate(_IS_IN[lane])))
            self._by_lane[lane] = numbers
        begin = bisect_left(numbers, bisect_left(self._offsets, start))
        return numbers[begin : None if count_max is None else begin + count_max]

    def add_to(self, offsets: OffsetSet, lane: int, numbers: Sequence[int]) -> None:
        """Those of a lane between the first and the last of these numbers, of which none is left out."""
        if not self.is_whole:
            offsets.update(OffsetSet((self._offsets[number], self._offsets[number]) for number in numbers))
            return
        mask = self._masks.get(lane)
        if mask is None:
            mask = self._masks[lane] = int(self.lanes.translate(_AS_DIGITS[lane])[::-1], 2)
        first, last = numbers[0], numbers[-1]
        offsets.add_mask(self._offsets[first], mask >> first & (1 << last - first + 1) - 1)

    # Keys

    def keyed(self, first: Offset, last: Offset) -> list[Keyed]:
        """Of each record from one offset to another that has a key, its offset and a hash, which is another one in
        another lane."""
        assert self.has_keys
        return self._keyed[bisect_left(self._keyed, (first,)) : bisect_left(self._keyed, (last + 1,))]


class BatchIndexes:
    def __init__(self) -> None:
        self._remembered: dict[tuple[Offset, int, int], BatchIndex] = {}
        """By base offset, length and checksum of the body, which together name a batch."""
        self._records = 0

    def keys_in(self, data: Buffer, wanted: OffsetSet) -> dict[Offset, int]:
        """Of those that are wanted and have a key, in order. The batches have been checked before."""
        view, found = memoryview(data), dict[Offset, int]()
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
        name = (envelope.base_offset, envelope.length, envelope.body_crc)
        index = self._remembered.pop(name, None)
        if index is None or (with_keys and not index.has_keys):
            self._records += envelope.record_count if index is None else 0
            index = BatchIndex(envelope, bytes(records_of(envelope, body)), with_keys=with_keys)
        self._remembered[name] = index  # the last to be forgotten
        while self._records > RECORDS_REMEMBERED and len(self._remembered) > 1:
            self._records -= len(self._remembered.pop(next(iter(self._remembered))))
        return index


def with_records(envelope: Envelope, records: bytes, count: int, lane: int | None = None) -> bytes:
    """A batch of the same range with only so many of its records. What the envelope says of times stays: it is true
    of fewer records, too."""
    mask = envelope.priority_mask if lane is None else 1 << lane
    changed = envelope._replace(
        length=len(records),
        record_count=count,
        attributes=envelope.attributes & ~ZSTD,
        priority_mask=mask,
        body_crc=crc32c(records),
    )
    return seal_envelope(changed) + records


def key_at(data: Buffer, offset: Offset) -> bytes | None:
    """The key itself of one message; None when it has none, or is not there."""
    for _, record in records_at(data, [Run(offset, offset)]):
        (key_size,) = _KEY_SIZE.unpack_from(record)
        return record[HEADER_SIZE : HEADER_SIZE + key_size] or None
    return None
