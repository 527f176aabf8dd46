"""Joining small neighbouring segments into one file.

The file takes the name of the first; it holds every batch of all of them at the same offsets, and neighbouring
empty envelopes become one. The order makes a crash harmless at every step:

1. The new log is durable under a temporary name.
2. Its seal replaces the first segment's seal. Until the log is renamed the seal fits no file, as none of them ends
   where it says, so a start scans.
3. One rename gives the new log its name, and the folder is synced.
4. Only then are the other files removed. A start that finds some of them left reads the whole new log once more
   before it removes them.
"""

from goqueue.core.log.merging import SegmentSpan, runs_to_merge
from goqueue.storage.log.log import Log
from goqueue.storage.log.segment import Segment
from goqueue.types import Offset


async def merge_small(log: Log, end: Offset) -> None:
    """Join small segments that lie below `end`, where it is worth it."""
    segments = [each for each in log.finished_segments() if each.end_offset <= end]
    spans = [SegmentSpan(each.base_offset, each.end_offset, _size(log, each)) for each in segments]
    for run in runs_to_merge(spans, log.config.segment_bytes):
        await log.merge([segments[number] for number in run])


def _size(log: Log, segment: Segment) -> int:
    """Empty segments become part of a neighbour's gap. A damaged one counts as full, so it is not merged."""
    if segment.summary.damaged:
        return log.config.segment_bytes + 1
    return segment.summary.size if segment.summary.records else 0
