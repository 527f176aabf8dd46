"""Records of one shape: a batch in which every record has the same sizes, and none has flags.

Most batches are of one kind of message, and many kinds have one size. Then each byte of the header is a column with
a fixed stride, which Python compares a thousand records at a time, in a third of the time that a walk from record
to record takes. All other batches are for the walk: nothing here ever says that a record is bad.
"""

from functools import lru_cache
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from goqueue.core.records.record import HEADER_SIZE, MAGIC, VERSION
from goqueue.types import Microseconds

RECORDS_MIN = 8
"""Minimum number of records; fewer are walked as fast."""
RECORDS_MAX = 8_192
SIZE_MAX = 4_096

_PLAIN = MAGIC.to_bytes(2, "big") + bytes([VERSION, 0])
_SIZES = Struct(">26xHI")
_TIMESTAMP_AT, _OFFSET_AT, _LANE_AT, _SIZES_AT = 16, 8, 24, 26
_SHAPE_COLUMNS = (*range(HEADER_SIZE - 1, _SIZES_AT - 1, -1), 0, 1, 2, 3)
_HIGH_BYTES = bytes(number >> 8 for number in range(RECORDS_MAX))
_LOW_BYTES = bytes(number & 0xFF for number in range(RECORDS_MAX))


class Shape(NamedTuple):
    size: int
    """The size of a whole record."""
    key_size: int
    value_size: int


class Sound(NamedTuple):
    """What is known of records that were all found sound."""

    lane: int
    highest_timestamp: Microseconds


def shape_of(body: bytes, count: int) -> Shape | None:
    """The shape of all records; None when they differ, or have flags, or are too few or too large."""
    if not RECORDS_MIN <= count <= RECORDS_MAX or len(body) < HEADER_SIZE * count:
        return None
    key_size, value_size = _SIZES.unpack_from(body)
    size = HEADER_SIZE + key_size + value_size
    if size * count != len(body) or size > SIZE_MAX:
        return None
    for at in _SHAPE_COLUMNS:  # no function for each: where batches are small this is most of the work
        column = body[at::size]
        if column.count(column[0]) != count:
            return None
    return Shape(size, key_size, value_size) if body[:4] == _PLAIN else None


def _is_same(column: bytes, count: int) -> bool:
    return column.count(column[:1]) == count


def find_sound(body: bytes, count: int, shape: Shape) -> Sound | None:
    """Check what `shape_of` has not: checksums, offsets from 0 on, one priority. None: let the walk say more."""
    size = shape.size
    if not _offsets_rise(body, count, size) or not all(_is_same(body[at::size], count) for at in (24, 25)):
        return None
    taken = _checked(size, count).unpack(body)
    if tuple(map(crc32c, taken[1::2])) != taken[::2]:
        return None
    return Sound(int.from_bytes(body[_LANE_AT : _LANE_AT + 2], "big"), _highest_timestamp(body, count, size))


def _offsets_rise(body: bytes, count: int, size: int) -> bool:
    small = all(body[at::size].count(0) == count for at in range(_OFFSET_AT, _OFFSET_AT + 6))
    return small and body[14::size] == _HIGH_BYTES[:count] and body[15::size] == _LOW_BYTES[:count]


def _highest_timestamp(body: bytes, count: int, size: int) -> Microseconds:
    if all(_is_same(body[at::size], count) for at in range(_TIMESTAMP_AT, _TIMESTAMP_AT + 8)):
        return int.from_bytes(body[_TIMESTAMP_AT : _TIMESTAMP_AT + 8], "big")
    return max(int(timestamp) for (timestamp,) in Struct(f">16xQ{size - 24}x").iter_unpack(body))


def lanes_of(body: bytes, shape: Shape) -> bytes:
    """The priority of each record."""
    return body[_LANE_AT :: shape.size]


def offsets_of(body: bytes, count: int, shape: Shape) -> tuple[int, ...] | None:
    """The offset of each record within the batch; None unless all of them fit into two bytes."""
    size = shape.size
    if any(body[at::size].count(0) != count for at in range(_OFFSET_AT, _OFFSET_AT + 6)):
        return None
    columns = bytearray(2 * count)
    columns[::2], columns[1::2] = body[_OFFSET_AT + 6 :: size], body[_OFFSET_AT + 7 :: size]
    return Struct(f">{count}H").unpack(columns)


def values_of(body: bytes, count: int, shape: Shape) -> tuple[bytes, ...]:
    """The value of each record."""
    return _values(shape, count).unpack(body)


# One format for a whole batch: it takes all records apart in one call. The same few shapes and counts recur.


@lru_cache(16)
def _checked(size: int, count: int) -> Struct:
    return Struct(">" + f"4xI{size - 8}s" * count)


@lru_cache(16)
def _values(shape: Shape, count: int) -> Struct:
    return Struct(f"{HEADER_SIZE + shape.key_size}x{shape.value_size}s" * count)
