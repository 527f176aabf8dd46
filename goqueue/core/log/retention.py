"""Which segments have outlived their time, or must make room.

Age is counted in append time, the broker's own, so that a client's wrong clock can neither keep a segment for
ever nor throw it away. Only whole segments go, oldest first: none goes while an older one stays.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from goqueue.types import Microseconds


@dataclass(frozen=True, slots=True)
class SegmentAge:
    size: int
    last_append_time: Microseconds


def count_expired(
    segments: Sequence[SegmentAge],
    now: Microseconds,
    *,
    retention_age: Microseconds | None,
    retention_bytes: int | None,
) -> int:
    """How many of the oldest segments go. The last one goes only by age: it is being written to."""
    return max(_too_old(segments, now, retention_age), _too_many(segments, retention_bytes))


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
