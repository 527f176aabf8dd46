"""Joining small neighbouring segments into one file.

The file takes the name of the first; it holds every batch of all of them at the same offsets, and neighbouring
empty envelopes become one. The order makes a crash harmless at every step:

1. The new log is durable under a temporary name.
2. Its seal replaces that of the first segment. Until the log is renamed it does not fit: it ends where none of the
   files there does, so a start scans.
3. One rename puts the log in place, and the folder is synced.
4. Only then do the other files go. A start that finds some of them left reads the new log once more, from end to
   end, before it removes them.
"""

from goqueue.core.log.merging import SegmentSpan, runs_to_merge
from goqueue.storage.log.log import Log
from goqueue.storage.log.segment import Segment
from goqueue.types import Offset


async def merge_small(log: Log, end: Offset) -> None:
    """Join what lies below `end`, as far as it is worth it."""
    segments = [each for each in log.finished_segments() if each.end_offset <= end]
    spans = [SegmentSpan(each.base_offset, each.end_offset, _size(log, each)) for each in segments]
    for run in runs_to_merge(spans, log.config.segment_bytes):
        await log.merge([segments[number] for number in run])


def _size(log: Log, segment: Segment) -> int:
    """Empty ones become a part of a neighbour's gap. A damaged one counts as one that nothing can be added to."""
    if segment.summary.damaged:
        return log.config.segment_bytes + 1
    return segment.summary.size if segment.summary.records else 0
