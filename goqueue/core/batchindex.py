"""Where each record of a batch lies, its lane and its key: for what is handed out in parts, here and there.

A group that keeps the order of keys, one whose messages come again, and one with several lanes takes some records of
a batch, then some more of it. So a batch is looked at once, and what was found is remembered for the next time, of
the last few batches. Records of one shape are looked at by columns (uniform.py), others are walked.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from struct import Struct

from crc32c import crc32c

from goqueue.core.batch import ZSTD, Envelope, records_of, seal_envelope
from goqueue.core.deliverable import batches_in, body_at, records_at, those_inside
from goqueue.core.keyorder import Keyed
from goqueue.core.ledgerattempts import AttemptRun
from goqueue.core.offsetset import OffsetSet, Run
from goqueue.core.record import HEADER_SIZE
from goqueue.core.uniform import lanes_of, shape_of
from goqueue.types import Buffer, Offset

RECORDS_REMEMBERED = 16_384
"""Of all batches together; the newest is remembered whatever its size."""

_PLACE = Struct(">8xQ8xBxHI")
"""Of a record: its offset within the batch, its lane, and how long its key and its value section are."""
_KEY_SIZE = Struct(">26xH")
_OTHERS_AS_ZERO = [bytes(b"1"[0] if byte == lane else b"0"[0] for byte in range(256)) for lane in range(8)]


class BatchIndex:
    __slots__ = ("_by_lane", "_key_sizes", "_keyed", "_masks", "_offsets", "_positions", "envelope", "lanes")

    def __init__(self, envelope: Envelope, records: bytes) -> None:
        self.envelope = envelope
        self._keyed: list[Keyed] | None = None
        self._by_lane: dict[int, list[int]] = {}
        self._masks: dict[int, int] = {}
        self._offsets: Sequence[Offset]
        self._positions: Sequence[int]
        self._key_sizes: Sequence[int]
        self.lanes: bytes
        """Of each record."""
        count = envelope.record_count
        shape = shape_of(records, count) if self.is_whole else None
        if shape is None:
            self._walk(records, envelope.base_offset)
        else:
            self._offsets = range(envelope.base_offset, envelope.end_offset)
            self._positions = range(0, (count + 1) * shape.size, shape.size)
            self.lanes, self._key_sizes = lanes_of(records, shape), [shape.key_size] * count

    @property
    def is_whole(self) -> bool:
        """Every offset of its range is a record."""
        return self.envelope.record_count == self.envelope.last_offset_delta + 1

    def _walk(self, records: bytes, base: Offset) -> None:
        unpack, position, positions = _PLACE.unpack_from, 0, list[int]()
        found, note = list[tuple[int, int, int, int]](), positions.append
        for _ in range(self.envelope.record_count):
            place = unpack(records, position)
            note(position)
            found.append(place)
            position += HEADER_SIZE + place[2] + place[3]
        note(position)
        relative, lanes, self._key_sizes, _ = zip(*found, strict=True) if found else ((), (), (), ())
        self._positions, self.lanes = positions, bytes(lanes)
        self._offsets = range(base, base + len(found)) if self.is_whole else [base + each for each in relative]

    def __len__(self) -> int:
        return len(self._offsets)

    # Places

    def place(self, first: Offset, last: Offset) -> tuple[int, int, int]:
        """Where the records from one offset to another begin and end, and how many they are."""
        begin = bisect_left(self._offsets, first)
        end = bisect_left(self._offsets, last + 1, begin)
        return self._positions[begin], self._positions[end], end - begin

    def offset(self, number: int) -> Offset:
        return self._offsets[number]

    def cut_out(self, records: Buffer, numbers: Iterable[int]) -> bytes:
        """These records, and no others."""
        positions, records = self._positions, bytes(records)
        return b"".join([records[positions[number] : positions[number + 1]] for number in numbers])

    # Lanes

    def numbers_of(self, lane: int, start: Offset, count_max: int | None = None) -> Sequence[int]:
        """Which records, from this offset on, are of this lane; the first so many."""
        numbers = self._by_lane.get(lane)
        if numbers is None:
            numbers = [number for number, found in enumerate(self.lanes) if found == lane]
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
            mask = self._masks[lane] = int(self.lanes.translate(_OTHERS_AS_ZERO[lane])[::-1], 2)
        first, last = numbers[0], numbers[-1]
        offsets.add_mask(self._offsets[first], mask >> first & (1 << last - first + 1) - 1)

    # Keys

    def keyed(self, records: Buffer) -> list[Keyed]:
        """Of each record that has a key its offset and a hash, which differs from lane to lane."""
        if self._keyed is None:
            records = bytes(records)
            self._keyed = [
                (offset, hash(records[position + HEADER_SIZE : position + HEADER_SIZE + size]) ^ lane)
                for offset, position, size, lane in zip(
                    self._offsets, self._positions, self._key_sizes, self.lanes, strict=False
                )
                if size
            ]
        return self._keyed


class BatchIndexes:
    def __init__(self) -> None:
        self._remembered: dict[tuple[Offset, int, int], BatchIndex] = {}
        """By base offset, length and checksum of the body, which together name a batch."""
        self._records = 0

    def keys_in(self, data: Buffer, wanted: OffsetSet) -> list[Keyed]:
        """Of those that are wanted and have a key, in order. The batches have been checked before."""
        view, found = memoryview(data), list[Keyed]()
        for position, envelope in batches_in(view):
            runs = list(wanted.runs(envelope.base_offset, envelope.end_offset - 1))
            if runs:
                body = body_at(view, position, envelope)
                keyed = self.index_of(envelope, body).keyed(records_of(envelope, body))
                for first, last in runs:
                    found += keyed[bisect_left(keyed, (first,)) : bisect_left(keyed, (last + 1,))]
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

    def index_of(self, envelope: Envelope, body: memoryview) -> BatchIndex:
        name = (envelope.base_offset, envelope.length, envelope.body_crc)
        index = self._remembered.pop(name, None)
        if index is None:
            index = BatchIndex(envelope, bytes(records_of(envelope, body)))
            self._records += len(index)
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
