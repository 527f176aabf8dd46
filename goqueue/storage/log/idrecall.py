"""Recalls message ids when a partition starts: those of the last two minutes of its log.

These are the two minutes before the last append: the time of the clock does not matter, so a restart with a jump of
the clock recalls neither too much nor too little. Only segments whose summary says that they hold ids are read,
from the index entry at which the two minutes begin, and only batches that hold ids are decoded. Once an id of a
delayed message is found, segments and batches that may cancel it are read, too.
"""

from contextlib import suppress

import trio

from goqueue.core.delays.events import Cancelled, delay_events
from goqueue.core.log.messageids import IDS_MAX, REMEMBERED_FOR, MessageIds, ids_in
from goqueue.core.records.batch import ENVELOPE_SIZE, Attribute, parse_envelope, records_of
from goqueue.environment import File
from goqueue.errors import DiskFailed, UnknownFormat
from goqueue.storage.log.index import BEGINNING, IndexEntry
from goqueue.storage.log.log import Log
from goqueue.storage.log.scan import FoundBatch
from goqueue.storage.log.segment import Segment
from goqueue.types import Microseconds


async def recall_ids(log: Log, ids_max: int = IDS_MAX) -> MessageIds:
    ids = MessageIds(ids_max)
    since = log.append_time - REMEMBERED_FOR
    for segment in log.segments_since(since):
        if segment.summary.holds_ids or (segment.summary.holds_delayed and ids.has_delayed):
            with suppress(DiskFailed, UnknownFormat):  # a reader gets the error; it must not stop the start
                await _recall(segment, since, ids)
    return ids


async def _recall(segment: Segment, since: Microseconds, ids: MessageIds) -> None:
    with segment.volume.reader(segment.path()) as file:
        scanner = segment.scanner(file, await _place_before(since, segment, file))
        while items := await scanner.next():
            for item in items:
                if isinstance(item, FoundBatch) and item.envelope.append_time >= since:
                    _note(item, ids)
            await trio.lowlevel.checkpoint()  # reads from memory do not wait, and others want to run


async def _place_before(since: Microseconds, segment: Segment, file: File) -> IndexEntry:
    """The last index entry before which everything is older. Append times never fall, so it is a binary search."""
    index = await segment.index(file)
    older, unknown = 0, len(index)
    while older < unknown:
        middle = (older + unknown) // 2
        envelope = parse_envelope(await file.read(index.place(middle).position, ENVELOPE_SIZE))
        if envelope is not None and envelope.append_time < since:
            older = middle + 1
        else:  # young, or damaged: to begin before it is only slower
            unknown = middle
    return index.place(older - 1) if older else BEGINNING


def _note(found: FoundBatch, ids: MessageIds) -> None:
    envelope = found.envelope
    if envelope.attributes & Attribute.HOLDS_IDS:
        for number, message_id, is_delayed in ids_in(records_of(envelope, found.body), envelope.record_count):
            ids.note(message_id, envelope.base_offset + number, envelope.append_time, is_delayed=is_delayed)
    if envelope.attributes & Attribute.CONTROL and ids.has_delayed:
        _free_cancelled(found, ids)


def _free_cancelled(found: FoundBatch, ids: MessageIds) -> None:
    envelope = found.envelope
    for event in delay_events(
        envelope.attributes, envelope.base_offset, envelope.wall_time, envelope.record_count, found.body
    ):
        if isinstance(event, Cancelled):
            ids.free(event.offset)
