"""Reads from a log what it says about delayed messages, and the messages themselves.

Segments and batches know whether they hold anything about delays: other segments are not read, and other batches
not parsed.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

import trio

from goqueue.core.delays.events import DelayEvent, delay_events
from goqueue.core.offsetset import OffsetSet
from goqueue.core.records.batch import ABOUT_DELAYS, ENVELOPE_SIZE
from goqueue.core.slices.deliverable import batches_in, body_at
from goqueue.core.slices.picking import picked_records
from goqueue.errors import DamagedData
from goqueue.storage.log.log import Log
from goqueue.types import Offset

SCAN_SIZE = 64 * 1024
READ_SIZE_MAX = 64 * 1024
NEIGHBOURS = 256
"""Maximum distance between wanted offsets that are read together."""
RECORD_SIZE_GUESS = READ_SIZE_MAX // NEIGHBOURS
NOWHERE: Offset = 2**63

Apply: TypeAlias = Callable[[Sequence[DelayEvent]], Awaitable[None]]


async def apply_delays(log: Log, start: Offset, apply: Apply) -> None:
    """Pass all events about delays between `start` and the high watermark to `apply`, in order."""
    start, end = max(start, log.log_start), log.high_watermark
    for segment in log.segments_about_delays():
        if segment.end_offset > start:
            await _apply_segment(log, max(start, segment.base_offset), min(segment.end_offset, end), apply)


async def _apply_segment(log: Log, offset: Offset, end: Offset, apply: Apply) -> None:
    while offset < end:
        try:
            found = await log.read(offset, SCAN_SIZE)
        except DamagedData as damage:
            offset = damage.end_offset
            continue
        await apply([event for event in _events_in(memoryview(found.data)) if event.at >= offset])
        offset = found.next_offset
        await trio.lowlevel.checkpoint()


def _events_in(data: memoryview) -> list[DelayEvent]:
    events: list[DelayEvent] = []
    for position, envelope in batches_in(data):
        if envelope.attributes & ABOUT_DELAYS:
            body = body_at(data, position, envelope)
            events += delay_events(
                envelope.attributes, envelope.base_offset, envelope.wall_time, envelope.record_count, body
            )
    return events


async def read_originals(log: Log, offsets: Sequence[Offset], bytes_max: int) -> tuple[dict[Offset, bytes], Offset]:
    """The records at these offsets that can be read, and from which offset on there was no room for more."""
    found: dict[Offset, bytes] = {}
    wanted = OffsetSet.of(offsets)
    at, size, each = 0, 0, RECORD_SIZE_GUESS
    while (run := wanted.first_run(max(at, log.log_start))) is not None:  # a purge may come meanwhile
        try:
            data = await log.read(run.first, min(READ_SIZE_MAX, each * _span(wanted, run.first)))
        except DamagedData as damage:
            at = damage.end_offset
            continue
        at = max(data.next_offset, run.first + 1)
        for offset, record in picked_records(data.data, wanted):
            found[offset] = bytes(record)
            size, each = size + len(record), ENVELOPE_SIZE + len(record)
        if size > bytes_max:
            return found, at
    return found, NOWHERE


def _span(wanted: OffsetSet, first: Offset) -> int:
    """The number of records from this wanted one to the last wanted one of its neighbours."""
    *_, run = wanted.runs(first, first + NEIGHBOURS)
    return run.last - first + 1
