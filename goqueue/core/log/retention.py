"""Which segments have outlived their time, must make room, or were read by every group.

Age is counted in append time, the broker's own, so that a client's wrong clock can neither keep a segment for
ever nor throw it away. Only whole segments go, oldest first: none goes while an older one stays.

With `retention=acked` nothing goes by age. A segment goes once every group is done with it, and a topic without
groups keeps everything. A group that reads the topic and has no progress on this partition, because it is about to
begin or its ledger was lost, holds everything.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import takewhile
from typing import NamedTuple

from goqueue.core.log.merging import SegmentSpan
from goqueue.types import Microseconds, Offset


class RemovalCause(Enum):
    RETENTION = "retention"
    """Their age, the size of the log, or that all groups are done with them."""
    PURGE = "purge"
    """A client asked for it."""
    LIMIT = "limit"
    """The topic is full and drops its oldest messages."""
    COMPACTION = "compaction"
    """There is a newer message with the same key."""


@dataclass(frozen=True, slots=True)
class SegmentAge:
    size: int
    last_append_time: Microseconds
    end_offset: Offset = 0


class GroupStanding(NamedTuple):
    group: str
    committed: Offset | None
    """The first offset that the group is not done with; None: it has not begun."""


def slowest_of(groups: Iterable[GroupStanding]) -> GroupStanding | None:
    """The group that holds the most; None without groups."""
    return min(
        groups, key=lambda each: (-1 if each.committed is None else each.committed, each.group), default=None
    )


class KeptSegments(NamedTuple):
    """Finished segments that wait for a group, or for any group."""

    first: Offset
    last: Offset
    """The offsets of the oldest of them."""
    segments: int
    size: int


def kept_for(segments: Sequence[SegmentSpan], committed: Offset | None) -> KeptSegments | None:
    """The segments that a group is not done with; None: there are none."""
    kept = [each for each in segments if committed is None or each.end_offset > committed]
    if not kept:
        return None
    return KeptSegments(kept[0].base_offset, kept[0].end_offset - 1, len(kept), sum(each.size for each in kept))


def count_expired(
    segments: Sequence[SegmentAge],
    now: Microseconds,
    *,
    retention_age: Microseconds | None,
    retention_bytes: int | None,
    done_to: Offset | None = None,
    segment_age: Microseconds = 0,
) -> int:
    """How many of the oldest segments go. The last one is being written to: it goes by age, or by acks when nothing
    was written to it for `segment_age`.

    `done_to`: every group is done with all messages before it, and durably so; None unless acks decide.
    """
    return max(
        _too_old(segments, now, retention_age),
        _too_many(segments, retention_bytes),
        _done(segments, now, done_to, segment_age),
    )


def _too_old(segments: Sequence[SegmentAge], now: Microseconds, retention_age: Microseconds | None) -> int:
    if retention_age is None:
        return 0
    for number, segment in enumerate(segments):
        if segment.last_append_time + retention_age > now:
            return number
    return len(segments)


def _too_many(segments: Sequence[SegmentAge], retention_bytes: int | None) -> int:
    """As many as must go so that the rest has at most this size, the last one apart."""
    if retention_bytes is None:
        return 0
    total = sum(segment.size for segment in segments)
    for number, segment in enumerate(segments[:-1]):
        if total <= retention_bytes:
            return number
        total -= segment.size
    return max(0, len(segments) - 1)


def _done(
    segments: Sequence[SegmentAge], now: Microseconds, done_to: Offset | None, segment_age: Microseconds
) -> int:
    if done_to is None:
        return 0
    count = sum(1 for _ in takewhile(lambda segment: segment.end_offset <= done_to, segments))
    is_written_to = count == len(segments) and count and segments[-1].last_append_time + segment_age > now
    return count - 1 if is_written_to else count
