"""Splits ranges of offsets into tasks, from numbers alone.

A range of offsets is one partition's share of a query. It is cut so that there are at least as many tasks as
requested (`minPartitions`), and so that none is too large: a task that fails is repeated as a whole, and a large
one leaves the other cores without work.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from goqueue.types import Offset

OFFSETS_MAX = 1_000_000
"""Maximum number of offsets that one task reads, if its messages are small."""
BYTES_MAX = 128 * 1024 * 1024
"""Limit of the estimated bytes that one task reads."""


@dataclass(frozen=True, slots=True)
class OffsetRange:
    topic: str
    uuid: UUID
    partition: int
    start: Offset
    end: Offset
    bytes_each: float = 0.0
    """The estimated bytes of a record; 0 if not known."""

    @property
    def count(self) -> int:
        return self.end - self.start


def split(ranges: Sequence[OffsetRange], tasks_min: int = 1) -> list[OffsetRange]:
    """The same offsets in at least `tasks_min` pieces, if there are enough offsets; none is empty."""
    ranges = [each for each in ranges if each.count > 0]
    total = sum(each.count for each in ranges)
    return [piece for each in ranges for piece in _cut(each, _pieces(each, total, tasks_min))]


def _pieces(one: OffsetRange, total: int, tasks_min: int) -> int:
    """By its part of all offsets, rounded up: together they are as many as requested, or a few more."""
    share = -(-one.count * tasks_min // total)
    return min(one.count, max(share, -(-one.count // offsets_max(one.bytes_each))))


def offsets_max(bytes_each: float) -> int:
    """Maximum number of offsets that a task reads, for records of this size."""
    if bytes_each <= 0:
        return OFFSETS_MAX
    return max(1, min(OFFSETS_MAX, int(BYTES_MAX / bytes_each)))


def _cut(one: OffsetRange, pieces: int) -> Iterator[OffsetRange]:
    """Into pieces that differ by one offset at most."""
    for number in range(pieces):
        start, end = (one.start + one.count * each // pieces for each in (number, number + 1))
        yield replace(one, start=start, end=end)
