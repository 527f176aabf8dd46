"""Which neighbouring segments compaction joins, so that a log's files stay few.

Compaction leaves small segments behind, down to a single empty envelope. A run of neighbours is joined when it is
no larger than one segment may be. A large segment must not be copied again and again for the sake of small ones
behind it, so a run waits until the others make up half of its largest, or until there are many of them. About
`NEIGHBOURS_MAX` files are left for each segment's worth of bytes.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from goqueue.types import Offset

NEIGHBOURS_MAX = 8
SPAN_MAX = 2**31
"""Limit of the offsets in one segment: its index holds them relative to its base."""


class SegmentSpan(NamedTuple):
    base_offset: Offset
    end_offset: Offset
    size: int


def runs_to_merge(segments: Sequence[SegmentSpan], size_max: int) -> list[range]:
    """The numbers of segments to join, run by run. Give them in order; a gap in offsets ends a run."""
    return [run for run in _fitting_runs(segments, size_max) if _is_worth_it([segments[each].size for each in run])]


def _fitting_runs(segments: Sequence[SegmentSpan], size_max: int) -> Iterator[range]:
    begin, size = 0, 0
    for number, segment in enumerate(segments):
        follows = number > begin and segments[number - 1].end_offset == segment.base_offset
        fits = size + segment.size <= size_max and segment.end_offset - segments[begin].base_offset < SPAN_MAX
        if number > begin and not (follows and fits):
            yield range(begin, number)
            begin, size = number, 0
        size += segment.size
    yield range(begin, len(segments))


def _is_worth_it(sizes: Iterable[int]) -> bool:
    *smaller, largest = sorted(sizes) or [0]
    return len(smaller) >= NEIGHBOURS_MAX or (bool(smaller) and 2 * sum(smaller) >= largest)
