"""The records of batches that are rows, and the positions of their parts, as arrays and without objects for each.

As for `client.read`: no control records, no delayed originals, none that has expired, none outside of the range.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

import msgpack
import numpy as np
import numpy.typing as npt

from goqueue.client.reading.message import HIDDEN, sound_batches
from goqueue.core.records.batch import ENVELOPE_SIZE, ZSTD, Attribute, Envelope, records_of
from goqueue.core.records.record import EXPIRES_AT, EXPIRES_AT_HEADER, HEADER_SIZE, HEADERS_LENGTH, Flag
from goqueue.errors import CorruptMessage
from goqueue.spark.json.arrow import Longs, Truths
from goqueue.spark.reading.records import Bodies, find_records
from goqueue.types import Buffer, Microseconds, Offset

UNPACKED_SIZE_MAX = 4 * 1024 * 1024
"""Limit of compressed batches that are unpacked at once, and one batch more; it also bounds the rows at once."""

_HEADERS, _EXPIRING = int(Flag.HEADERS), int(Attribute.HOLDS_EXPIRING)


@dataclass(frozen=True, slots=True)
class WantedRows:
    topic: str
    partition: int
    start: Offset
    end: Offset
    now: Microseconds
    """Messages that have expired by then are no rows."""


def rows_of(data: Buffer, wanted: WantedRows) -> "Iterator[Rows]":
    """The rows of whole batches, which are checked first."""
    view = memoryview(data)
    batches = [
        (position + ENVELOPE_SIZE, envelope)
        for position, envelope in sound_batches(wanted.topic, wanted.partition, view)
        if envelope.record_count and envelope.base_offset < wanted.end and envelope.end_offset > wanted.start
    ]
    for bodies, envelopes in _unpacked(view, batches):
        rows = _chosen(bodies, envelopes, wanted)
        if len(rows):
            yield rows


class Rows:
    """Records of one piece of memory. `data` is all of it, the others have an entry for each record."""

    def __init__(self, data: Buffer, positions: Longs, heads: npt.NDArray[np.void], offsets: Longs) -> None:
        self.data = data
        self.positions = positions
        self.heads = heads
        self.offsets = offsets
        self.keys_at = positions + HEADER_SIZE
        self.sections_at: Longs = self.keys_at + heads["key_size"]
        """The beginning of the value section, which may begin with headers."""
        self.ends = self.sections_at + heads["value_size"]
        self.with_headers = np.flatnonzero(heads["flags"] & _HEADERS)
        """The numbers of records with headers."""
        self.values_at = self._values_at()

    def _values_at(self) -> Longs:
        """Behind the headers. Nothing else can be there: a record with a due time is no row."""
        if not len(self.with_headers):
            return self.sections_at
        lengths = np.ndarray(len(self.data) - HEADERS_LENGTH.size + 1, ">u4", self.data, strides=(1,))
        places: Longs = self.sections_at[self.with_headers]
        found: Longs = self.sections_at.copy()
        found[self.with_headers] += HEADERS_LENGTH.size + lengths[places].astype(np.int64)
        return found

    def __len__(self) -> int:
        return len(self.positions)

    def only(self, is_row: Truths) -> "Rows":
        if is_row.all():
            return self
        return Rows(self.data, self.positions[is_row], self.heads[is_row], self.offsets[is_row])

    def headers_of(self, number: int) -> Mapping[str, bytes]:
        """The headers of a record that has some."""
        begin = int(self.sections_at[number]) + HEADERS_LENGTH.size
        return _unpacked_headers(bytes(memoryview(self.data)[begin : self.values_at[number]]))


@lru_cache(256)
def _unpacked_headers(packed: bytes) -> Mapping[str, bytes]:
    """Cached, as neighbouring messages often have the same headers."""
    found: Mapping[str, bytes] = msgpack.unpackb(packed)
    return found


def _chosen(bodies: Bodies, envelopes: Sequence[Envelope], wanted: WantedRows) -> Rows:
    positions, heads = find_records(bodies)
    offsets = np.repeat(np.array([each.base_offset for each in envelopes]), bodies.counts)
    offsets += heads["relative_offset"]
    is_row = (offsets >= wanted.start) & (offsets < wanted.end) & ((heads["flags"] & HIDDEN) == 0)
    if not is_row.all():
        positions, heads, offsets = positions[is_row], heads[is_row], offsets[is_row]
    rows = Rows(bodies.data, positions, heads, offsets)
    _refuse_what_overlaps(rows, wanted)
    expires = any(envelope.attributes & _EXPIRING for envelope in envelopes)
    return rows.only(_unexpired(rows, wanted.now)) if expires else rows


def _refuse_what_overlaps(rows: Rows, wanted: WantedRows) -> None:
    """Arrow does not check: a wrong length would make it read memory outside of the log's bytes."""
    nexts = np.append(rows.positions[1:], len(rows.data))
    if (rows.ends > nexts[: len(rows)]).any() or (rows.values_at > rows.ends).any():
        raise CorruptMessage(f"a record of {wanted.topic}/{wanted.partition} is longer than its batch has room for")


def _unexpired(rows: Rows, now: Microseconds) -> Truths:
    is_row = np.ones(len(rows), np.bool_)
    for number in rows.with_headers.tolist():
        expiry = rows.headers_of(number).get(EXPIRES_AT_HEADER)
        is_row[number] = expiry is None or EXPIRES_AT.unpack(expiry)[0] > now
    return is_row


# Compressed or not


def _unpacked(
    view: memoryview, batches: Sequence[tuple[int, Envelope]]
) -> Iterator[tuple[Bodies, Sequence[Envelope]]]:
    """If nothing is compressed, all batches as they are."""
    if not any(envelope.attributes & ZSTD for _, envelope in batches):
        if batches:
            starts, envelopes = zip(*batches, strict=True)
            yield _bodies(view, starts, [envelope.length for envelope in envelopes], envelopes), envelopes
        return
    for group in _groups(view, batches):
        pieces, envelopes = zip(*group, strict=True)
        sizes = [len(piece) for piece in pieces]
        starts = (0, *accumulate(sizes[:-1]))
        yield _bodies(b"".join(pieces), starts, sizes, envelopes), envelopes


def _groups(view: memoryview, batches: Sequence[tuple[int, Envelope]]) -> Iterator[list[tuple[Buffer, Envelope]]]:
    group, size = list[tuple[Buffer, Envelope]](), 0
    for start, envelope in batches:
        records = records_of(envelope, view[start : start + envelope.length])
        group.append((records, envelope))
        size += len(records)
        if size >= UNPACKED_SIZE_MAX:
            yield group
            group, size = [], 0
    if group:
        yield group


def _bodies(data: Buffer, starts: Sequence[int], sizes: Sequence[int], envelopes: Sequence[Envelope]) -> Bodies:
    begin = np.array(starts, np.int64)
    counts = np.array([envelope.record_count for envelope in envelopes], np.int64)
    return Bodies(data, begin, begin + np.array(sizes, np.int64), counts)
