"""A histogram of durations: counts in buckets, so that it costs nothing to keep.

Each bucket is a quarter wider than the one before, from 10 µs to ten minutes. A percentile is the upper end of its
bucket, so it is never too low, and at most a quarter too high; the highest is exact.
"""

from bisect import bisect_left
from collections.abc import Sequence

FIRST_SECONDS = 0.000_01
GROWTH = 1.25
BUCKETS = 82


class Histogram:
    __slots__ = ("_counts", "count", "highest", "sum")

    bounds: Sequence[float] = tuple(FIRST_SECONDS * GROWTH**number for number in range(BUCKETS))

    def __init__(self) -> None:
        self._counts = [0] * (BUCKETS + 1)
        self.count = 0
        self.sum = 0.0
        self.highest = 0.0

    def add(self, seconds: float) -> None:
        self._counts[bisect_left(self.bounds, seconds)] += 1
        self.count += 1
        self.sum += seconds
        self.highest = max(self.highest, seconds)

    def counts_up_to(self, bounds: Sequence[int]) -> list[int]:
        """How many durations did not exceed each of these bounds, which are named by their numbers, in order."""
        counted, total, first = list[int](), 0, 0
        for bound in bounds:
            total += sum(self._counts[first : bound + 1])
            counted.append(total)
            first = bound + 1
        return counted

    def percentile(self, percent: float) -> float:
        """The duration that this percentage of all did not exceed; 0 when there was nothing."""
        wanted, seen = self.count * percent / 100, 0
        for bound, count in zip(self.bounds, self._counts, strict=False):
            seen += count
            if seen and seen >= wanted:
                return min(bound, self.highest)
        return self.highest
