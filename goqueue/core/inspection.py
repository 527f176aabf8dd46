"""The one check that every record passes before it is first accepted (G16).

The loop in `_inspect_fast` runs for every message that is ever published, so it only finds out whether
anything is wrong. What is wrong, and with which records, is told by a second, slower walk.
"""

from struct import Struct
from typing import NamedTuple

import msgpack
from crc32c import crc32c

from goqueue.core.record import (
    BROKER_HEADER_PREFIX,
    BROKER_HEADERS_SIZE_MAX,
    CHECKSUMMED_FROM,
    DUE_TIME,
    FLAGS_FROM_CLIENTS,
    HEADER,
    HEADER_SIZE,
    HEADERS_LENGTH,
    HEADERS_SIZE_MAX,
    MAGIC,
    TIMESTAMP_MAX,
    VALUE_SIZE_MAX,
    VERSION,
    Flag,
)
from goqueue.errors import BadRecord, BatchRefused, CorruptMessage, InvalidMessage, TooLarge
from goqueue.types import LANE_COUNT, Buffer, Microseconds

_FAST_HEADER = Struct(">IIQQHHI")  # magic, version and flags as one word; priority and reserved as another
_PLAIN_WORD = MAGIC << 16 | VERSION << 8
_LANE_WORDS = frozenset(priority << 8 for priority in range(LANE_COUNT))


class Contents(NamedTuple):
    """What an envelope says of its records."""

    priority_mask: int
    highest_timestamp: Microseconds
    flags: int


def inspect_records(body: Buffer, count: int, allowed_flags: int = FLAGS_FROM_CLIENTS) -> Contents:
    """Check a body's every record; `BatchRefused` names each bad one, `InvalidMessage` a broken whole."""
    contents = _inspect_fast(memoryview(body), count, allowed_flags)
    if contents is None:
        raise _explain(memoryview(body), count, allowed_flags)
    return contents


def _inspect_fast(view: memoryview, count: int, allowed_flags: int) -> Contents | None:
    """What the records hold, or None when any of them is bad."""
    unpack, checksum = _FAST_HEADER.unpack_from, crc32c
    good_words = _PLAIN_WORD | allowed_flags
    size, position, highest, words = len(view), 0, 0, 0
    lanes: set[int] = set()
    for index in range(count):
        if size - position < HEADER_SIZE:
            return None
        word, crc, offset, timestamp, lane, key_size, value_size = unpack(view, position)
        end = position + HEADER_SIZE + key_size + value_size
        if end > size or offset != index or checksum(view[position + CHECKSUMMED_FROM : end]) != crc:
            return None
        if word != _PLAIN_WORD:
            if word | good_words != good_words or word & ~0xFF != _PLAIN_WORD:
                return None
            if _section_fault(view[end - value_size : end], word & 0xFF, allowed_flags) is not None:
                return None
            words |= word
        elif value_size > VALUE_SIZE_MAX:
            return None
        if timestamp > highest:
            highest = timestamp
        lanes.add(lane)
        position = end
    if position != size or count < 1 or highest > TIMESTAMP_MAX or not lanes <= _LANE_WORDS:
        return None
    return Contents(sum(1 << (lane >> 8) for lane in lanes), highest, words & 0xFF)


def _explain(view: memoryview, count: int, allowed_flags: int) -> InvalidMessage:
    faults: list[BadRecord] = []
    position = 0
    for index in range(count):
        end = _record_end(view, position)
        if end is None:
            return InvalidMessage(f"the batch ends within record {index} of {count}; encode it again", index=index)
        fault = _record_fault(view[position:end], index, allowed_flags)
        if fault is not None:
            faults.append(BadRecord(index, fault))
        position = end
    if count < 1 or position != len(view):
        return InvalidMessage(
            f"the batch says it holds {count} records, but they end at byte {position} of {len(view)}"
        )
    assert faults, "the fast check refused a batch that the slow one finds sound"
    return BatchRefused(faults)


def _record_end(view: memoryview, position: int) -> int | None:
    if len(view) - position < HEADER_SIZE:
        return None
    *_, key_size, value_size = HEADER.unpack_from(view, position)
    end = position + HEADER_SIZE + key_size + value_size
    return end if end <= len(view) else None


def _record_fault(record: memoryview, index: int, allowed_flags: int) -> InvalidMessage | None:
    magic, version, flags, crc, offset, timestamp, priority, reserved, key_size, _ = HEADER.unpack_from(record)
    if magic != MAGIC:
        return InvalidMessage(f"not a record: it begins with {magic:#06x} instead of 'GQ'")
    if version != VERSION:
        return InvalidMessage(f"record version {version} is unknown; this broker speaks version {VERSION}")
    if flags & ~allowed_flags:
        return InvalidMessage(f"flags {flags & ~allowed_flags:#04x} are not for clients, or unknown")
    if crc32c(record[CHECKSUMMED_FROM:]) != crc:
        return CorruptMessage("the checksum does not match; the record changed on its way, send it again")
    if offset != index:
        return InvalidMessage(f"relative offset {offset} where {index} belongs")
    if timestamp > TIMESTAMP_MAX:
        return InvalidMessage(f"timestamp {timestamp} is beyond {TIMESTAMP_MAX} µs")
    if priority >= LANE_COUNT or reserved:
        return InvalidMessage(f"priority {priority} is not one of 0 to {LANE_COUNT - 1}")
    return _section_fault(record[HEADER_SIZE + key_size :], flags, allowed_flags)


def _section_fault(section: memoryview, flags: int, allowed_flags: int) -> InvalidMessage | None:
    """What is wrong with a value section, if anything."""
    if flags & Flag.DELAYED:
        if len(section) < DUE_TIME.size:
            return InvalidMessage("flagged as delayed, but without a due time")
        section = section[DUE_TIME.size :]
    if flags & Flag.HEADERS:
        size = _headers_size(section)
        if size is None:
            return InvalidMessage("flagged as having headers, but they do not fit into the record")
        fault = _headers_fault(section[HEADERS_LENGTH.size : size], allowed_flags)
        if fault is not None:
            return fault
        section = section[size:]
    if flags & Flag.TOMBSTONE and len(section):
        return InvalidMessage("a tombstone has no value")
    if len(section) > VALUE_SIZE_MAX:
        return TooLarge(f"the value has {len(section)} bytes; {VALUE_SIZE_MAX} are allowed")
    return None


def _headers_size(section: memoryview) -> int | None:
    """The size of the headers with their length field, or None when they do not fit."""
    if len(section) < HEADERS_LENGTH.size:
        return None
    size: int = HEADERS_LENGTH.size + HEADERS_LENGTH.unpack_from(section)[0]
    return size if size <= len(section) else None


def _headers_fault(packed: memoryview, allowed_flags: int) -> InvalidMessage | None:
    from_client = allowed_flags == FLAGS_FROM_CLIENTS
    limit = HEADERS_SIZE_MAX if from_client else HEADERS_SIZE_MAX + BROKER_HEADERS_SIZE_MAX
    if len(packed) > limit:
        return TooLarge(f"the headers have {len(packed)} bytes; {limit} are allowed")
    try:
        headers = msgpack.unpackb(packed)
    except (ValueError, TypeError, OverflowError, RecursionError, msgpack.UnpackException) as error:
        return InvalidMessage(f"the headers are not msgpack: {error}")
    if not isinstance(headers, dict):
        return InvalidMessage("the headers are not a map")
    for name, value in headers.items():
        if not isinstance(name, str) or not isinstance(value, bytes):
            return InvalidMessage(f"header {name!r} does not map text to bytes")
        if from_client and name.startswith(BROKER_HEADER_PREFIX):
            return InvalidMessage(f"header {name!r}: names that begin with 'goqueue-' are the broker's")
    return None
