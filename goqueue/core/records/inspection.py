"""The one check that every record passes before it is first accepted (G16).

The loop in `_inspect_fast` runs for every message that is ever published, so it only finds out whether
anything is wrong. What is wrong, and with which records, is told by a second, slower walk.
"""

import struct
from typing import NamedTuple

import msgpack
from crc32c import crc32c

from goqueue.core.records.columns import find_sound, shape_of
from goqueue.core.records.record import (
    BROKER_HEADER_PREFIX,
    BROKER_HEADERS_SIZE_MAX,
    CHECKSUMMED_FROM,
    DELAY_BIT,
    DELAY_MAX,
    DUE_TIME,
    EXPIRES_AT,
    EXPIRES_AT_HEADER,
    FLAGS_FROM_CLIENTS,
    HEADER,
    HEADER_SIZE,
    HEADERS_LENGTH,
    HEADERS_SIZE_MAX,
    MAGIC,
    MESSAGE_ID_HEADER,
    MESSAGE_ID_SIZE_MAX,
    TIMESTAMP_MAX,
    VALUE_SIZE_MAX,
    VERSION,
    Flag,
)
from goqueue.errors import BadRecord, BatchRefused, CorruptMessage, InvalidMessage, TooLarge
from goqueue.types import LANE_COUNT, Buffer, Microseconds

_FAST_HEADER = struct.Struct(">IIQQHHI")  # magic, version and flags as one word; priority and reserved as another
_PLAIN_WORD = MAGIC << 16 | VERSION << 8
# Plain numbers: `&` with an IntFlag costs as much as a checksum, and these are used for each record with headers.
_HEADERS, _TOMBSTONE, _DELAYED = int(Flag.HEADERS), int(Flag.TOMBSTONE), int(Flag.DELAYED)
_LONGEST = DELAY_BIT | DELAY_MAX
COPIED_SIZE_MAX = 4_096
COLUMNS_FROM = 128
"""Minimum number of records for a check by columns; fewer are walked faster."""
_LANE_WORDS = frozenset(priority << 8 for priority in range(LANE_COUNT))
_SIZES = {MESSAGE_ID_HEADER: (1, MESSAGE_ID_SIZE_MAX), EXPIRES_AT_HEADER: (EXPIRES_AT.size, EXPIRES_AT.size)}
"""The minimum and maximum sizes, in bytes, of the broker's headers that clients may set."""


class Contents(NamedTuple):
    """What an envelope says of its records."""

    priority_mask: int
    highest_timestamp: Microseconds
    flags: int
    holds_ids: bool = False
    holds_expiring: bool = False


def inspect_records(body: Buffer, count: int, allowed_flags: int = FLAGS_FROM_CLIENTS) -> Contents:
    """Check a body's every record; `BatchRefused` names each bad one, `InvalidMessage` a broken whole."""
    contents = _inspect_fast(body, count, allowed_flags)
    if contents is None:
        raise _explain(memoryview(body), count, allowed_flags)
    return contents


def _inspect_fast(body: Buffer, count: int, allowed_flags: int) -> Contents | None:
    """What the records hold, or None when any of them is bad."""
    if count >= COLUMNS_FROM and isinstance(body, bytes):
        contents = _inspect_uniform(body, count)
        if contents is not None:
            return contents
    try:
        return _walk(body, count, allowed_flags)
    except struct.error:  # a record's header would lie beyond the end
        return None


def _inspect_uniform(body: bytes, count: int) -> Contents | None:
    """What the records hold, or None when they are not all alike, or any of them may be bad."""
    shape = shape_of(body, count)
    sound = find_sound(body, count, shape) if shape is not None else None
    if sound is None or sound.lane not in _LANE_WORDS or sound.highest_timestamp > TIMESTAMP_MAX:
        return None
    return Contents(1 << (sound.lane >> 8), sound.highest_timestamp, 0)


def _walk(body: Buffer, count: int, allowed_flags: int) -> Contents | None:
    """To copy a small record is faster than to view it. One that would end beyond the body is cut short here: its
    checksum, or else the position at the end, tells."""
    unpack, checksum, view = _FAST_HEADER.unpack_from, crc32c, memoryview(body)
    position = highest = words = 0
    last_lane = -1
    lanes: set[int] = set()
    names: set[str] = set()
    for index in range(count):
        word, crc, offset, timestamp, lane, key_size, value_size = unpack(body, position)
        begin = position + CHECKSUMMED_FROM
        position += HEADER_SIZE + key_size + value_size
        if word == _PLAIN_WORD and value_size < COPIED_SIZE_MAX:
            if checksum(body[begin:position]) != crc or offset != index:
                return None
        else:
            if checksum(view[begin:position]) != crc or offset != index:
                return None
            section = view[position - value_size : position]
            if len(section) != value_size or not _is_sound(word, key_size, section, allowed_flags, names):
                return None
            words |= word
        if timestamp > highest:
            highest = timestamp
        if lane != last_lane:
            lanes.add(lane)
            last_lane = lane
    if position != len(view) or count < 1 or highest > TIMESTAMP_MAX or not lanes <= _LANE_WORDS:
        return None
    mask = sum(1 << (lane >> 8) for lane in lanes)
    return Contents(mask, highest, words & 0xFF, MESSAGE_ID_HEADER in names, EXPIRES_AT_HEADER in names)


def _is_sound(word: int, key_size: int, section: memoryview, allowed_flags: int, names: set[str]) -> bool:
    """Whether a record that is large, or has flags, is sound."""
    if word & ~(_PLAIN_WORD | allowed_flags) or word & ~0xFF != _PLAIN_WORD:
        return False
    if _deletes_nothing(word, key_size, allowed_flags):
        return False
    return _section_fault(section, word & 0xFF, allowed_flags, names) is None


def _deletes_nothing(flags: int, key_size: int, allowed_flags: int) -> bool:
    """A client's tombstone without a key. The broker moves those that older versions have accepted."""
    return bool(flags & _TOMBSTONE) and not key_size and allowed_flags == FLAGS_FROM_CLIENTS


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
    if _deletes_nothing(flags, key_size, allowed_flags):
        return InvalidMessage("a tombstone deletes a key; give the key, or an empty value instead of none")
    return _section_fault(record[HEADER_SIZE + key_size :], flags, allowed_flags, set())


def _section_fault(section: memoryview, flags: int, allowed_flags: int, names: set[str]) -> InvalidMessage | None:
    """What is wrong with a value section, if anything. The names of the broker's headers in it are added to
    `names`."""
    if flags & _DELAYED:
        if len(section) < DUE_TIME.size:
            return InvalidMessage("flagged as delayed, but without a due time")
        if (due := DUE_TIME.unpack_from(section)[0]) > TIMESTAMP_MAX and not DELAY_BIT < due <= _LONGEST:
            return InvalidMessage("its delay is zero or too long, or it is due beyond the year 3111")
        section = section[DUE_TIME.size :]
    if flags & _HEADERS:
        size = _headers_size(section)
        if size is None:
            return InvalidMessage("flagged as having headers, but they do not fit into the record")
        fault = headers_fault(section[HEADERS_LENGTH.size : size], allowed_flags, names)
        if fault is not None:
            return fault
        section = section[size:]
    if flags & _TOMBSTONE and len(section):
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


def headers_fault(packed: memoryview, allowed_flags: int, names: set[str]) -> InvalidMessage | None:
    """What is wrong with packed headers, if anything. The names of the broker's among them are added to `names`."""
    limit = HEADERS_SIZE_MAX + BROKER_HEADERS_SIZE_MAX
    if len(packed) > limit:
        return TooLarge(f"the headers have {len(packed)} bytes; {HEADERS_SIZE_MAX} are allowed")
    try:
        headers = msgpack.unpackb(packed)
    except (ValueError, TypeError, OverflowError, RecursionError, msgpack.UnpackException) as error:
        return InvalidMessage(f"the headers are not msgpack: {error}")
    if not isinstance(headers, dict):
        return InvalidMessage("the headers are not a map")
    own: dict[str, bytes] = {}
    for name, value in headers.items():
        if not isinstance(name, str) or not isinstance(value, bytes):
            return InvalidMessage(f"header {name!r} does not map text to bytes")
        if name.startswith(BROKER_HEADER_PREFIX):
            own[name] = value
    names.update(own)
    return own_headers_fault(own, allowed_flags) or _size_fault(headers, own, len(packed))


def own_headers_fault(own: dict[str, bytes], allowed_flags: int) -> InvalidMessage | None:
    """What is wrong with the broker's headers, if anything: one that a client may not set, or of a wrong size."""
    for name, value in own.items():
        sizes = _SIZES.get(name)
        if sizes is not None and not sizes[0] <= len(value) <= sizes[1]:
            least, most = sizes
            wanted = f"{least}" if least == most else f"{least} to {most}"
            return InvalidMessage(f"header {name!r} has {len(value)} bytes; it has to have {wanted}")
        if sizes is None and allowed_flags == FLAGS_FROM_CLIENTS:
            return InvalidMessage(f"header {name!r}: names that begin with 'goqueue-' are the broker's")
    return None


def _size_fault(headers: dict[str, bytes], own: dict[str, bytes], size: int) -> InvalidMessage | None:
    """A program's headers and the broker's each have their own room; packed anew only where it may be too small."""
    if size <= (BROKER_HEADERS_SIZE_MAX if own else HEADERS_SIZE_MAX):
        return None
    own_size = len(msgpack.packb(own))
    if own_size > BROKER_HEADERS_SIZE_MAX:
        return TooLarge(f"the broker's headers have {own_size} bytes; {BROKER_HEADERS_SIZE_MAX} are allowed")
    others = len(msgpack.packb({name: value for name, value in headers.items() if name not in own}))
    others += size - len(msgpack.packb(headers))  # what is there twice, or not packed the shortest way
    if others > HEADERS_SIZE_MAX:
        return TooLarge(f"the headers have {others} bytes; {HEADERS_SIZE_MAX} are allowed")
    return None
