"""Compaction by key of a whole log: first learn the newest offset of each key, then rewrite finished segments.

The first walk begins where the last run ended and stops when it knows as many keys as memory allows; the next
run goes on from there. Segments are rewritten oldest first, so a tombstone never goes before the message that it
deletes. A run ends before the first segment with message ids that a restart must still find.
"""

from goqueue.core.log.compaction import KEYS_MAX, NewestByKey, is_hidden, keeps_hidden, keeps_newest
from goqueue.core.log.messageids import REMEMBERED_FOR
from goqueue.core.log.retention import RemovalCause
from goqueue.core.offsetset import OffsetSet
from goqueue.core.records.batch import ENVELOPE_SIZE, Attribute, Envelope, parse_envelope, records_of
from goqueue.core.records.record import HEADER_SIZE, RecordPlace, walk_records
from goqueue.errors import DamagedData
from goqueue.storage.compaction.merging import merge_small
from goqueue.storage.compaction.thinning import thin
from goqueue.storage.log.log import Log
from goqueue.types import Microseconds, Offset

READ_SIZE = 1024 * 1024
NOTHING = OffsetSet()


async def compact_by_key(
    log: Log, now: Microseconds, pending: OffsetSet = NOTHING, keys_max: int = KEYS_MAX
) -> bool:
    """One run; True when another would find more to do. `pending` are the delayed originals to keep."""
    newest = NewestByKey(keys_max)
    await _learn(log, newest)

    def keeps(envelope: Envelope, place: RecordPlace, records: memoryview) -> bool:
        if envelope.attributes & Attribute.TRANSACTIONAL:
            return True  # whether it counts is known only with its transaction
        offset = envelope.base_offset + place.relative_offset
        if is_hidden(place.flags):
            return keeps_hidden(pending, offset, records, place)
        begin = place.position + HEADER_SIZE
        return keeps_newest(
            newest,
            records[begin : begin + place.key_size],
            place.flags,
            offset,
            age=now - envelope.append_time,
            tombstone_age=log.config.tombstone_age,
        )

    fresh_from = _first_fresh_id(log, max(now, log.append_time))
    end = min(newest.covered_to, fresh_from)
    await thin(
        log, [each for each in log.finished_segments() if each.base_offset < end], keeps, RemovalCause.COMPACTION
    )
    await merge_small(log, end)
    log.compacted_to = end
    return newest.full and end < fresh_from


def _first_fresh_id(log: Log, now: Microseconds) -> Offset:
    """The base offset of the first finished segment that a start would search for ids, else the end of the log."""
    for segment in log.finished_segments():
        if segment.summary.holds_ids and now - segment.summary.last_append_time < REMEMBERED_FOR:
            return segment.base_offset
    return log.end_offset


async def _learn(log: Log, newest: NewestByKey) -> None:
    offset = newest.covered_to = max(log.compacted_to, log.log_start)
    end = log.high_watermark
    while offset < end and not newest.full:
        try:
            found = await log.read(offset, READ_SIZE)
        except DamagedData as damage:
            offset = newest.covered_to = damage.end_offset
            continue
        _note_slice(newest, memoryview(found.data))
        offset = newest.covered_to = found.next_offset


def _note_slice(newest: NewestByKey, data: memoryview) -> None:
    position = 0
    while position < len(data):
        envelope = parse_envelope(data, position)
        assert envelope is not None, "a read returned a batch that is not sound"
        if not envelope.attributes & Attribute.TRANSACTIONAL:
            _note_batch(newest, envelope, data[position + ENVELOPE_SIZE : position + envelope.size])
        position += envelope.size


def _note_batch(newest: NewestByKey, envelope: Envelope, body: memoryview) -> None:
    records = memoryview(records_of(envelope, body))
    for place in walk_records(records, envelope.record_count):
        begin = place.position + HEADER_SIZE
        key = records[begin : begin + place.key_size]
        newest.note(key, place.flags, envelope.base_offset + place.relative_offset)
