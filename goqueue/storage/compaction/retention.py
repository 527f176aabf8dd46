"""Retention of a log: removes expired messages, except those that are still to be delivered."""

from itertools import takewhile

from goqueue.core.log.compaction import keeps_pending
from goqueue.core.log.retention import RemovalCause, SegmentAge, count_expired
from goqueue.core.offsetset import OffsetSet
from goqueue.core.records.batch import Envelope
from goqueue.core.records.record import RecordPlace
from goqueue.storage.compaction.merging import merge_small
from goqueue.storage.compaction.thinning import thin
from goqueue.storage.log.log import Log
from goqueue.storage.log.segment import Segment
from goqueue.types import Microseconds, Offset

NOTHING = OffsetSet()


async def retain(
    log: Log, now: Microseconds, pending: OffsetSet = NOTHING, done_to: Offset | None = None
) -> Offset:
    """Remove expired segments up to the first that holds pending offsets; from there on, keep only those offsets.

    Below the offset that is returned, only pending offsets are left. Below `done_to` every group is done, durably.
    """
    expired = _expired(log, now, done_to)
    removable = list(takewhile(lambda segment: not _holds_any(segment, pending), expired))
    if removable:
        await log.delete_before(removable[-1].end_offset, RemovalCause.RETENTION)
    kept = expired[len(removable) :]
    if kept and kept[-1].end_offset == log.end_offset:
        log.roll()

    def keeps(envelope: Envelope, place: RecordPlace, records: memoryview) -> bool:
        return keeps_pending(pending, envelope.base_offset + place.relative_offset, records, place)

    await thin(log, kept, keeps, RemovalCause.RETENTION)
    if kept:
        await merge_small(log, kept[-1].end_offset)
    return kept[-1].end_offset if kept else log.log_start


def _expired(log: Log, now: Microseconds, done_to: Offset | None) -> list[Segment]:
    segments, config = log.visible_segments(), log.config
    ages = [SegmentAge(each.summary.size, each.summary.last_append_time, each.end_offset) for each in segments]
    count = count_expired(
        ages,
        now,
        retention_age=config.retention_age,
        retention_bytes=config.retention_bytes,
        done_to=done_to if config.retention_acked else None,
        segment_age=config.segment_age,
    )
    return segments[:count]


def _holds_any(segment: Segment, offsets: OffsetSet) -> bool:
    return offsets.count(segment.base_offset, segment.end_offset - 1) > 0
