"""What the log says about delayed messages, record by record. The log is the truth; all else is made from this.

A delayed original is hidden, and its offset is the name of the delay. Later records say what became of it:

    control, key "delay-cancel"    value: offset                 it will never be delivered
    control, key "delay-move"      value: offset, due            it is due at another time
    fired, header below            the message itself, as an ordinary one: it was delivered, unless it has a time
                                   at which it expires, and was written then or later

Numbers are 8 bytes, big-endian; times are µs since 1970. A record about an offset that is no longer pending has no
effect: the first record that ends a delay ends it. Nor has a record of another form.
"""

from collections.abc import Callable, Iterator, Mapping
from struct import Struct
from typing import NamedTuple, TypeAlias

from goqueue.core.records.batch import ABOUT_DELAYS, ZSTD, Attribute, Batch, accept, decompress
from goqueue.core.records.record import (
    DELAY_BIT,
    EXPIRES_AT,
    EXPIRES_AT_HEADER,
    FLAGS_FROM_BROKER,
    HEADER_SIZE,
    Flag,
    RecordPlace,
    encode_record,
    headers_at,
    walk_records,
)
from goqueue.types import Buffer, Microseconds, Offset

CANCEL, MOVE = b"delay-cancel", b"delay-move"
DELAYED_FROM_HEADER = "goqueue-delayed-from"
"""Header of a fired message: the offset of its original, in digits."""
_TARGET, _MOVED = Struct(">Q"), Struct(">QQ")
_CONTROL, _DELAYED, _FIRED = int(Flag.CONTROL), int(Flag.DELAYED), int(Flag.FIRED)


class DelayedRecord(NamedTuple):
    """The original of a delayed message."""

    offset: Offset
    at: Offset
    """The offset of the record that says so: here the original itself."""
    due: Microseconds


class Moved(NamedTuple):
    offset: Offset
    at: Offset
    due: Microseconds


class Cancelled(NamedTuple):
    offset: Offset
    at: Offset
    time: Microseconds


class Fired(NamedTuple):
    offset: Offset
    at: Offset
    time: Microseconds


class Lapsed(NamedTuple):
    """It fired when it had expired: no reader ever sees it."""

    offset: Offset
    at: Offset
    time: Microseconds


DelayEvent: TypeAlias = DelayedRecord | Moved | Cancelled | Fired | Lapsed


def due_time(due: int, wall_time: Microseconds) -> Microseconds:
    """A record says when it is due, or after how long: counted from the broker's wall clock at the append."""
    return wall_time + (due & ~DELAY_BIT) if due & DELAY_BIT else due


def delay_events(
    attributes: int, base_offset: Offset, wall_time: Microseconds, count: int, body: Buffer
) -> Iterator[DelayEvent]:
    """The events of a batch, in order. Most batches have none, and their records are not read.

    All times are those of the wall clock at the append. The append time may be hours ahead of it.
    """
    if not attributes & ABOUT_DELAYS:
        return
    records = memoryview(decompress(body) if attributes & ZSTD else body)
    for place in walk_records(records, count):
        event = _event(records, place, base_offset + place.relative_offset, wall_time)
        if event is not None:
            yield event


def _event(records: memoryview, place: RecordPlace, offset: Offset, time: Microseconds) -> DelayEvent | None:
    begin = place.position + HEADER_SIZE
    if place.flags & _DELAYED:
        due = _TARGET.unpack_from(records, begin + place.key_size)[0]
        return DelayedRecord(offset, offset, due_time(due, time))
    if place.flags & _CONTROL:
        value = begin + place.key_size
        reads = _CONTROLS.get(bytes(records[begin:value]))
        return reads(records[value : place.end], offset, time) if reads is not None else None
    return _fired(headers_at(records, place), offset, time) if place.flags & _FIRED else None


def _fired(headers: Mapping[str, bytes], offset: Offset, time: Microseconds) -> DelayEvent | None:
    """The wall clock at the append, as the log has it, decides whether it had expired: the same after a crash."""
    origin, expiry = headers.get(DELAYED_FROM_HEADER, b""), headers.get(EXPIRES_AT_HEADER)
    if not origin.isdigit():
        return None
    has_expired = expiry is not None and EXPIRES_AT.unpack(expiry)[0] <= time
    return (Lapsed if has_expired else Fired)(int(origin), offset, time)


def _cancelled(value: memoryview, offset: Offset, time: Microseconds) -> DelayEvent | None:
    return Cancelled(_TARGET.unpack(value)[0], offset, time) if len(value) == _TARGET.size else None


def _moved(value: memoryview, offset: Offset, _: Microseconds) -> DelayEvent | None:
    if len(value) != _MOVED.size:
        return None
    target, due = _MOVED.unpack(value)
    return Moved(target, offset, due)


_CONTROLS: dict[bytes, Callable[[memoryview, Offset, Microseconds], DelayEvent | None]] = {
    CANCEL: _cancelled,
    MOVE: _moved,
}


def target_of(records: memoryview, place: RecordPlace) -> Offset | None:
    """The original that a cancel, move or fired record is about; None for other records."""
    event = _event(records, place, 0, 0)
    return event.offset if isinstance(event, Cancelled | Moved | Fired | Lapsed) else None


def moved_by(records: memoryview, place: RecordPlace) -> Offset | None:
    """The original that a control record is about, if it is about a delay."""
    return target_of(records, place) if place.flags & _CONTROL else None


# Control records that the broker writes


def cancel_batch(offset: Offset, now: Microseconds) -> Batch:
    return _control(CANCEL, _TARGET.pack(offset), now)


def move_batch(offset: Offset, due: Microseconds, now: Microseconds) -> Batch:
    return _control(MOVE, _MOVED.pack(offset, due), now)


def _control(kind: bytes, value: bytes, now: Microseconds) -> Batch:
    record = encode_record(0, now, value, key=kind, flags=Flag.CONTROL)
    return accept(record, 1, attributes=int(Attribute.CONTROL), allowed_flags=FLAGS_FROM_BROKER)
