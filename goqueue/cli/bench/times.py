"""Many measured times in little memory: counted in buckets one percent wide, however many there are."""

import math
from collections import Counter
from collections.abc import Iterator

WIDTH = math.log(1.01)
SECONDS_MIN = 1e-7
BAR_WIDTH = 40


class Times:
    def __init__(self) -> None:
        self.count = 0
        self.longest = 0.0
        self._buckets: Counter[int] = Counter()

    def note(self, seconds: float) -> None:
        self.count += 1
        self.longest = max(self.longest, seconds)
        self._buckets[math.ceil(math.log(max(seconds, SECONDS_MIN)) / WIDTH)] += 1

    def quantile(self, share: float) -> float:
        """The time within which this share of all lies: at most one percent too long, never too short."""
        wanted, seen = math.ceil(share * self.count), 0
        for bucket in sorted(self._buckets):
            seen += self._buckets[bucket]
            if seen >= wanted:
                return min(math.exp(bucket * WIDTH), self.longest)
        return self.longest

    def doubling(self) -> Iterator[tuple[float, int]]:
        """Powers of two in seconds, and the number of times above half of it; without gaps, the shortest first."""
        counts: Counter[int] = Counter()
        for bucket, count in self._buckets.items():
            counts[math.ceil(bucket * WIDTH / math.log(2) - 1e-9)] += count
        for power in range(min(counts, default=0), max(counts, default=-1) + 1):
            yield 2.0**power, counts[power]


def histogram(times: Times) -> Iterator[str]:
    """A line for each doubling of the time."""
    rows = list(times.doubling())
    most = max((count for _, count in rows), default=0)
    for seconds, count in rows:
        bar = "█" * math.ceil(count / most * BAR_WIDTH)
        yield f"≤ {seconds * 1_000:>10,.3f} ms  {count:>9,}  {bar}".rstrip()
