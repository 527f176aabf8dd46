"""Where each record of a batch lies, and its key: for what is handed out in parts, here and there.

A group that keeps the order of keys, and one whose messages come again, takes some records of a batch, then some
more of it. So a batch is walked once, and what was found is remembered for the next time, of the last few batches.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from struct import Struct

from crc32c import crc32c

from goqueue.core.batch import ZSTD, Envelope, records_of, seal_envelope
from goqueue.core.deliverable import batches_in, body_at, records_at, those_inside
from goqueue.core.keyorder import Keyed
from goqueue.core.ledgerattempts import AttemptRun
from goqueue.core.offsetset import OffsetSet, Run
from goqueue.core.record import HEADER_SIZE
from goqueue.types import Buffer, Offset

RECORDS_REMEMBERED = 8_192
"""Of all batches together; the newest is remembered whatever its size."""

_PLACE = Struct(">8xQ10xHI")
"""Of a record: its offset within the batch, and how long its key and its value section are."""


class BatchIndex:
    __slots__ = ("_offsets", "_positions", "envelope", "keyed")

    def __init__(self, envelope: Envelope, records: bytes) -> None:
        self.envelope = envelope
        self.keyed: list[Keyed] = []
        offsets, positions = self._walk(records, envelope.base_offset)
        self._offsets, self._positions = array("Q", offsets), array("I", positions)

    def _walk(self, records: bytes, base: Offset) -> tuple[list[Offset], list[int]]:
        unpack, position, keyed = _PLACE.unpack_from, 0, self.keyed
        offsets, positions = list[Offset](), list[int]()
        for _ in range(self.envelope.record_count):
            relative, key_size, value_size = unpack(records, position)
            offset = base + relative
            offsets.append(offset)
            positions.append(position)
            position += HEADER_SIZE
            if key_size:
                keyed.append((offset, hash(records[position : position + key_size])))
            position += key_size + value_size
        positions.append(position)
        return offsets, positions

    def __len__(self) -> int:
        return len(self._offsets)

    def place(self, first: Offset, last: Offset) -> tuple[int, int, int]:
        """Where the records from one offset to another begin and end, and how many they are."""
        begin = bisect_left(self._offsets, first)
        end = bisect_left(self._offsets, last + 1, begin)
        return self._positions[begin], self._positions[end], end - begin

    def keys(self, first: Offset, last: Offset) -> list[Keyed]:
        return self.keyed[bisect_left(self.keyed, (first,)) : bisect_left(self.keyed, (last + 1,))]


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
                index = self._index_of(envelope, body_at(view, position, envelope))
                for run in runs:
                    found += index.keys(*run)
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
        """What the envelope says of priorities and times stays: it is true of fewer records, too."""
        records = memoryview(records_of(envelope, body))
        index = self._index_of(envelope, body)
        places = [index.place(*run) for run in wanted]
        smaller = b"".join([records[begin:end] for begin, end, _ in places])
        count = sum(count for _, _, count in places)
        if count:
            plain = envelope.attributes & ~ZSTD
            changed = envelope._replace(
                length=len(smaller), record_count=count, attributes=plain, body_crc=crc32c(smaller)
            )
            yield seal_envelope(changed) + smaller

    def _index_of(self, envelope: Envelope, body: memoryview) -> BatchIndex:
        name = (envelope.base_offset, envelope.length, envelope.body_crc)
        index = self._remembered.pop(name, None)
        if index is None:
            index = BatchIndex(envelope, bytes(records_of(envelope, body)))
            self._records += len(index)
        self._remembered[name] = index  # the last to be forgotten
        while self._records > RECORDS_REMEMBERED and len(self._remembered) > 1:
            self._records -= len(self._remembered.pop(next(iter(self._remembered))))
        return index


def key_at(data: Buffer, offset: Offset) -> bytes | None:
    """The key itself of one message; None when it has none, or is not there."""
    for _, record in records_at(data, [Run(offset, offset)]):
        _, key_size, _ = _PLACE.unpack_from(record)
        return record[HEADER_SIZE : HEADER_SIZE + key_size] or None
    return None
