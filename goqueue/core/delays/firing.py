"""Delayed messages as they are delivered, made from the bytes of their originals.

Nothing is taken apart that stays as it is, and nothing is checked again: each original passed the check when it was
published, and the log's checksums when it was read. New are its offset in the batch, a flag, and a header that says
where it came from. The id stays behind: a repeat of it is answered with the offset of the original.
"""

from collections.abc import Sequence
from typing import TypeAlias

import msgpack
from crc32c import crc32c

from goqueue.core.delays.events import DELAYED_FROM_HEADER, Fired
from goqueue.core.records.batch import NO_PRODUCER, Batch, held_attributes
from goqueue.core.records.inspection import Contents
from goqueue.core.records.record import (
    DUE_TIME,
    EXPIRES_AT_HEADER,
    HEADER,
    HEADER_HEAD,
    HEADER_SIZE,
    HEADER_TAIL,
    HEADERS_LENGTH,
    MAGIC,
    MESSAGE_ID_HEADER,
    VERSION,
    Flag,
    unpack_headers,
)
from goqueue.types import Microseconds, Offset

Original: TypeAlias = tuple[Offset, bytes]
"""An offset, and the delayed record that lies there."""

_HEADERS, _DELAYED, _NEW = int(Flag.HEADERS), int(Flag.DELAYED), int(Flag.FIRED | Flag.HEADERS)
_LONE_HEADER: bytes = msgpack.packb({DELAYED_FROM_HEADER: b""})[:-1]
"""All headers of a message that had none, up to the size of the digits."""


def fired_batch(originals: Sequence[Original]) -> Batch:
    """The batch that delivers these messages, in this order."""
    parts: list[bytes] = []
    priorities = highest = flags = 0
    names: set[str] = set()
    for number, (offset, record) in enumerate(originals):
        _, _, was, _, _, timestamp, priority, _, key_size, _ = HEADER.unpack_from(record)
        key_end = HEADER_SIZE + key_size
        headers, value_at = _headers(record, was, key_end, offset, names)
        value_size = len(headers) + len(record) - value_at
        tail = HEADER_TAIL.pack(number, timestamp, priority, 0, key_size, value_size)
        checksummed = b"".join((tail, record[HEADER_SIZE:key_end], headers, record[value_at:]))
        is_now = was & ~_DELAYED | _NEW
        parts += (HEADER_HEAD.pack(MAGIC, VERSION, is_now, crc32c(checksummed)), checksummed)
        flags, priorities, highest = flags | is_now, priorities | 1 << priority, max(highest, timestamp)
    contents = Contents(priorities, highest, flags, holds_expiring=EXPIRES_AT_HEADER in names)
    return Batch(b"".join(parts), len(originals), held_attributes(contents), priorities, highest, NO_PRODUCER)


def _headers(record: bytes, flags: int, key_end: int, offset: Offset, names: set[str]) -> tuple[bytes, int]:
    """The fired record's headers with their length, and where the original's value begins. The original's header
    names are added to `names`."""
    value_at, origin = key_end + DUE_TIME.size, b"%d" % offset
    if flags & _HEADERS:
        headers, value_at = unpack_headers(record, value_at)
        names.update(headers)
        kept = {name: value for name, value in headers.items() if name != MESSAGE_ID_HEADER}
        packed: bytes = msgpack.packb({**kept, DELAYED_FROM_HEADER: origin})
    else:
        packed = _LONE_HEADER + bytes((len(origin),)) + origin
    return HEADERS_LENGTH.pack(len(packed)) + packed, value_at


def fired_events(origins: Sequence[Offset], base: Offset, time: Microseconds) -> list[Fired]:
    """The events of a fired batch that is written at `base`, as `delay_events` reads them. None of its messages
    expires."""
    return [Fired(origin, at, time) for at, origin in enumerate(origins, base)]
