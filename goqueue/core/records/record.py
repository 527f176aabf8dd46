"""A record: one message as clients encode it, as it lies on disk and as readers get it back.

     0       2       3       4               8
    +-------+-------+-------+---------------+
    | "GQ"  | ver=1 | flags | CRC32C        |   the CRC covers everything behind it
    +-------+-------+-------+---------------+
    | offset, relative to the batch's base  |   8
    +---------------------------------------+
    | timestamp, µs since 1970              |   16
    +-------+-------+-------+---------------+
    | prio  | 0     |key len| value length  |   24 (1, 1, 2, 4 bytes)
    +-------+-------+-------+---------------+
    | key …                                 |   32
    +---------------------------------------+
    | value section …                       |
    +---------------------------------------+

All integers are big-endian and unsigned. The value section is, in this order: the due time (8 bytes, if
DELAYED; with the top bit set, the delay in µs instead), the headers (4-byte length and a msgpack map of text
to bytes, if HEADERS), the value. An empty key is no key.

Offsets are relative so that the broker, which alone knows the base, never touches a record: what a client
encoded is what the disk holds and what the CRC protects end to end.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntFlag
from struct import Struct
from typing import NamedTuple

import msgpack
from crc32c import crc32c

from goqueue.errors import TooLarge
from goqueue.types import Buffer, Microseconds, Offset, Priority

HEADER = Struct(">HBBIQQBBHI")
HEADER_SIZE = HEADER.size
HEADER_HEAD, HEADER_TAIL = Struct(">HBBI"), Struct(">QQBBHI")
MAGIC = 0x4751
VERSION = 1
CHECKSUMMED_FROM = 8
"""The position of the first byte that the CRC covers."""

KEY_SIZE_MAX = 65_535
VALUE_SIZE_MAX = 16 * 1024 * 1024
HEADERS_SIZE_MAX = 64 * 1024
BROKER_HEADERS_SIZE_MAX = 4 * 1024
BROKER_HEADER_PREFIX = "goqueue-"
MESSAGE_ID_HEADER = "goqueue-message-id"
MESSAGE_ID_SIZE_MAX = 128
"""The id that a client gave a message, 1 to 128 bytes: a repeat within two minutes is not written again."""
EXPIRES_AT_HEADER = "goqueue-expires-at"
"""When a message expires: 8 bytes, µs since 1970. Readers pass over it from then on."""
EXPIRES_AT = Struct(">Q")
TIMESTAMP_MAX = 2**55 - 1
"""The year 3111. Below it a timestamp and a priority mask share eight bytes of index."""
DELAY_BIT = 1 << 63
DELAY_MAX = TIMESTAMP_MAX // 2
"""Limit of a delay, some 570 years: whenever it is written, its end still fits into a due time."""

DUE_TIME = Struct(">Q")
HEADERS_LENGTH = Struct(">I")
_NORMAL = int(Priority.NORMAL)


class Flag(IntFlag):
    HEADERS = 1
    TOMBSTONE = 2
    DELAYED = 4
    CONTROL = 8
    COMMIT = 16
    FIRED = 32
    FOR_ONE_GROUP = 64


NO_FLAGS = Flag(0)
# Plain numbers: the complement of an IntFlag leaves out the bits that have no name, and these must be refused.
FLAGS_FROM_CLIENTS = int(Flag.HEADERS | Flag.TOMBSTONE | Flag.DELAYED)
FLAGS_FROM_BROKER = 127
_HEADERS, _DELAYED = int(Flag.HEADERS), int(Flag.DELAYED)
"""Plain numbers for the loops: `&` with an IntFlag costs as much as a checksum."""


@dataclass(frozen=True, slots=True)
class Record:
    """A record taken apart. `due` is as stored: a time, or with `DELAY_BIT` a delay."""

    offset: Offset
    timestamp: Microseconds
    value: bytes
    key: bytes | None = None
    headers: Mapping[str, bytes] = field(default_factory=dict)
    priority: Priority = Priority.NORMAL
    flags: Flag = NO_FLAGS
    due: int | None = None


class RecordPlace(NamedTuple):
    """Where a record lies in its batch's body, and what its header says."""

    position: int
    end: int
    flags: int
    relative_offset: int
    timestamp: Microseconds
    priority: int
    key_size: int


def encode_record(
    relative_offset: int,
    timestamp: Microseconds,
    value: bytes,
    *,
    key: bytes | None = None,
    headers: Mapping[str, bytes] | None = None,
    priority: int = Priority.NORMAL,
    flags: int = 0,
    due: int | None = None,
) -> bytes:
    """The record's bytes. Limits are checked by `inspect_records`, through which every way in passes."""
    key = key or b""
    if len(key) > KEY_SIZE_MAX:
        raise TooLarge(f"the key has {len(key)} bytes; {KEY_SIZE_MAX} are allowed")
    prefix = b""
    if due is not None:
        flags |= Flag.DELAYED
        prefix = DUE_TIME.pack(due)
    if headers:
        flags |= Flag.HEADERS
        prefix += pack_headers(headers)
    checksummed = b"".join(
        (
            HEADER_TAIL.pack(relative_offset, timestamp, priority, 0, len(key), len(prefix) + len(value)),
            key,
            prefix,
            value,
        )
    )
    return HEADER_HEAD.pack(MAGIC, VERSION, flags, crc32c(checksummed)) + checksummed


def encode_value(relative_offset: int, timestamp: Microseconds, value: bytes) -> bytes:
    """A record that has nothing but a value: the same bytes as `encode_record` makes, in half the time."""
    checksummed = HEADER_TAIL.pack(relative_offset, timestamp, _NORMAL, 0, 0, len(value)) + value
    return HEADER_HEAD.pack(MAGIC, VERSION, 0, crc32c(checksummed)) + checksummed


def walk_records(body: Buffer, count: int) -> Iterator[RecordPlace]:
    """The position of each record, in order, by lengths alone. The body has been checked before."""
    position = 0
    for _ in range(count):
        _, _, flags, _, relative, timestamp, priority, _, key_size, value_size = HEADER.unpack_from(body, position)
        end = position + HEADER_SIZE + key_size + value_size
        yield RecordPlace(position, end, flags, relative, timestamp, priority, key_size)
        position = end


def decode_records(body: Buffer, count: int, base_offset: Offset) -> Iterator[Record]:
    """The records of a checked body."""
    view = memoryview(body)
    for place in walk_records(body, count):
        yield _decode(view[place.position : place.end], place, base_offset)


def headers_at(body: memoryview, place: RecordPlace) -> Mapping[str, bytes]:
    """The headers of one record of a checked body; the rest of it is not read."""
    if not place.flags & _HEADERS:
        return {}
    begin = place.position + HEADER_SIZE + place.key_size
    return unpack_headers(body, begin + DUE_TIME.size if place.flags & _DELAYED else begin)[0]


def pack_headers(headers: Mapping[str, bytes]) -> bytes:
    """With their length, as they stand in a record."""
    packed: bytes = msgpack.packb(dict(headers))
    return HEADERS_LENGTH.pack(len(packed)) + packed


def unpack_headers(data: Buffer, begin: int) -> tuple[Mapping[str, bytes], int]:
    """The headers whose length is at this position, and where they end."""
    begin, size = begin + HEADERS_LENGTH.size, HEADERS_LENGTH.unpack_from(data, begin)[0]
    return msgpack.unpackb(data[begin : begin + size]), begin + size


def _decode(record: memoryview, place: RecordPlace, base_offset: Offset) -> Record:
    value_at = HEADER_SIZE + place.key_size
    due = None
    headers: Mapping[str, bytes] = {}
    key = bytes(record[HEADER_SIZE:value_at]) or None
    if place.flags & _DELAYED:
        due = DUE_TIME.unpack_from(record, value_at)[0]
        value_at += DUE_TIME.size
    if place.flags & _HEADERS:
        headers, value_at = unpack_headers(record, value_at)
    return Record(
        offset=base_offset + place.relative_offset,
        timestamp=place.timestamp,
        value=bytes(record[value_at:]),
        key=key,
        headers=headers,
        priority=Priority(place.priority),
        flags=Flag(place.flags),
        due=due,
    )
