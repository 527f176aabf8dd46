"""Taking records out of the middle of a log, segment after segment, the oldest first.

A delayed original is removed before, or together with, the record that says how its delay ended. But nothing is
removed from a damaged segment. So a record stays if it ends a delay whose original is in a damaged segment: else a
start without a delay index would find that message pending, and deliver it (G8).
"""

from collections.abc import Iterable

from goqueue.core.log.compaction import ends_one_of
from goqueue.core.log.retention import RemovalCause
from goqueue.core.offsetset import OffsetSet
from goqueue.core.records.batch import Envelope
from goqueue.core.records.record import RecordPlace
from goqueue.storage.log.log import Log
from goqueue.storage.log.rewriting import Keeps
from goqueue.storage.log.segment import Segment


async def thin(log: Log, segments: Iterable[Segment], keeps: Keeps, cause: RemovalCause) -> None:
    """Keep the records that `keeps` names, and those that end a delay whose original stays. Segments in order."""
    untouched = OffsetSet()

    def keeps_or_must(envelope: Envelope, place: RecordPlace, records: memoryview) -> bool:
        return keeps(envelope, place, records) or ends_one_of(untouched, records, place)

    for segment in segments:
        if not await log.compact(segment, keeps_or_must if untouched else keeps, cause):
            untouched.add(segment.base_offset, segment.end_offset - 1)
