"""Taking records out of the middle of a log, segment after segment, the oldest first.

A delayed original goes before, or together with, the record that says how it ended. Nothing goes out of a segment
that is damaged, though. So what says that a delay in such a one has ended stays wherever it lies: else a start
without a delay index would find that message pending, and deliver it (G8).
"""

from collections.abc import Iterable

from goqueue.core.log.compaction import ends_one_of
from goqueue.core.offsetset import OffsetSet
from goqueue.core.records.batch import Envelope
from goqueue.core.records.record import RecordPlace
from goqueue.storage.log.log import Log
from goqueue.storage.log.rewriting import Keeps
from goqueue.storage.log.segment import Segment


async def thin(log: Log, segments: Iterable[Segment], keeps: Keeps) -> None:
    """Keep only these records, and what must not go while others stay. Give the segments in their order."""
    untouched = OffsetSet()

    def keeps_or_must(envelope: Envelope, place: RecordPlace, records: memoryview) -> bool:
        return keeps(envelope, place, records) or ends_one_of(untouched, records, place)

    for segment in segments:
        if not await log.compact(segment, keeps_or_must if untouched else keeps):
            untouched.add(segment.base_offset, segment.end_offset - 1)
