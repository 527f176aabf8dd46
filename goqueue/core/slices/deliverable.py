"""Which records of a slice of the log are delivered to a group.

Most batches are plain: every offset of their range is a message for all groups, so the batch is one run and none of
its records is read. If the envelope says otherwise, or compaction has left gaps, the records are walked. Control
records, delayed originals, expired messages and messages for another group are not delivered.

The batches come from a read, which has checked them: their checksums are not verified again here.
"""

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import NamedTuple

from goqueue.core.ledger.attempts import AttemptRun
from goqueue.core.offsetset import Run
from goqueue.core.records.batch import ENVELOPE, ENVELOPE_SIZE, Attribute, Envelope, records_of
from goqueue.core.records.record import (
    EXPIRES_AT,
    EXPIRES_AT_HEADER,
    Flag,
    RecordPlace,
    headers_at,
    walk_records,
)
from goqueue.types import Buffer, Microseconds, Offset

EVERYTHING = 2**63
FOR_GROUP_HEADER = "goqueue-for-group"
"""The one group that a record with the flag `FOR_ONE_GROUP` is meant for."""
_HIDDEN, _FOR_ONE_GROUP = int(Flag.CONTROL | Flag.DELAYED), int(Flag.FOR_ONE_GROUP)
_EXPIRING = int(Attribute.HOLDS_EXPIRING)
_SPECIAL = int(
    Attribute.CONTROL | Attribute.HOLDS_DELAYED | Attribute.HOLDS_EXPIRING | Attribute.HOLDS_FOR_ONE_GROUP
)


_SHAPE = Struct(">8xIIQI4xH")
"""The fields of an envelope: length of the body, last offset delta, base offset, count, attributes."""


class Reader(NamedTuple):
    """The group that records are chosen for, and the time."""

    group: str
    now: Microseconds


class LastBatch(NamedTuple):
    """The batch that was scanned last. The rest of it is read next, as a whole."""

    base: Offset
    size: int


NO_BATCH = LastBatch(EVERYTHING, 0)


class Deliverable(NamedTuple):
    runs: tuple[Run, ...]
    scanned_to: Offset
    """Everything before it was scanned: it lies behind the last message, or behind the slice when that has no
    more."""
    data: memoryview
    """The whole batches that hold the runs."""
    last_batch: LastBatch = NO_BATCH


def find_deliverable(data: Buffer, start: Offset, count_max: int, reader: Reader) -> Deliverable:
    """The first `count_max` messages, from `start` on, of the whole batches in `data`."""
    view, runs, room, unpack = memoryview(data), list[Run](), count_max, _SHAPE.unpack_from
    begin = end = position = 0
    scanned_to, last_batch = start, NO_BATCH
    while room > 0 and position < len(view):
        length, delta, base, count, attributes = unpack(view, position)
        after, last = position + ENVELOPE_SIZE + length, base + delta
        if count != delta + 1 or attributes & _SPECIAL:
            found = messages_in(view, position, start, reader)
        else:
            found = [Run(base if base > start else start, last)] if last >= start else []
        if found:
            begin, end = (begin if runs else position), after
            room -= join(runs, found, room)
        scanned_to = max(start, last + 1) if room > 0 else runs[-1].last + 1
        last_batch, position = LastBatch(base, after - position), after
    return Deliverable(tuple(runs), scanned_to, view[begin:end], last_batch)


def messages_in(view: memoryview, position: int, start: Offset, reader: Reader) -> list[Run]:
    """The messages of one batch, by a look at each record."""
    envelope, runs = _envelope_at(view, position), list[Run]()
    records = memoryview(records_of(envelope, body_at(view, position, envelope)))
    expires = bool(envelope.attributes & _EXPIRING)
    for place in walk_records(records, envelope.record_count):
        offset = envelope.base_offset + place.relative_offset
        if offset >= start and _is_for(records, place, reader, expires):
            join(runs, [Run(offset, offset)], 1)
    return runs


def is_plain(envelope: Envelope) -> bool:
    """Every offset of its range is a message for all groups."""
    return envelope.record_count == envelope.last_offset_delta + 1 and is_for_everybody(envelope)


def is_for_everybody(envelope: Envelope) -> bool:
    """Every record of the batch is a message for all groups, at any time."""
    return not envelope.attributes & _SPECIAL


def batches_in(view: memoryview) -> Iterator[tuple[int, Envelope]]:
    """Where each batch begins, and its envelope."""
    position = 0
    while position < len(view):
        envelope = _envelope_at(view, position)
        yield position, envelope
        position += envelope.size


def _envelope_at(view: memoryview, position: int) -> Envelope:
    return Envelope._make(ENVELOPE.unpack_from(view, position)[3:])


def join(runs: list[Run], found: Sequence[Run], room: int = EVERYTHING) -> int:
    """Add at most `room` of these messages, neighbours together; returns how many were added."""
    added = 0
    for first, last in found:
        if added >= room:
            break
        end = min(last + 1, first + room - added)
        added += end - first
        if runs and runs[-1].last + 1 == first:
            runs[-1] = Run(runs[-1].first, end - 1)
        else:
            runs.append(Run(first, end - 1))
    return added


def _is_for(records: memoryview, place: RecordPlace, reader: Reader, expires: bool) -> bool:
    if place.flags & _HIDDEN:
        return False
    if not expires and not place.flags & _FOR_ONE_GROUP:
        return True
    headers = headers_at(records, place)
    if place.flags & _FOR_ONE_GROUP and headers.get(FOR_GROUP_HEADER) != reader.group.encode():
        return False
    expiry = headers.get(EXPIRES_AT_HEADER)
    return expiry is None or EXPIRES_AT.unpack(expiry)[0] > reader.now


def body_at(view: memoryview, position: int, envelope: Envelope) -> memoryview:
    return view[position + ENVELOPE_SIZE : position + envelope.size]


def base_offset(batches: Buffer) -> Offset:
    """The base offset of the first batch."""
    return int(_SHAPE.unpack_from(batches)[2])


def those_inside(waiting: list[Run | AttemptRun], envelope: Envelope) -> Iterator[Run]:
    """The parts of the waiting runs that lie in this batch. `waiting` is in reverse order; runs that end in the
    batch are removed from it."""
    base, end = envelope.base_offset, envelope.end_offset
    while waiting and waiting[-1].first < end:
        run = waiting[-1]
        if run.last >= base:
            yield Run(max(run.first, base), min(run.last, end - 1))
        if run.last >= end:
            break
        waiting.pop()
