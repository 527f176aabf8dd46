"""What one scrape has collected.

The series of partitions are kept apart from their sums by topic, until it is known how many series there are: with
too many, only the sums are written.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import TypeAlias

from goqueue.core.histogram import Histogram
from goqueue.http.metrics.families import FAMILIES, TRUNCATED, Family, Kind

Value: TypeAlias = int | float
Sample: TypeAlias = tuple[str, Value]
"""Labels, as they are written, and a value."""
BOUNDS = tuple(range(6, len(Histogram.bounds), 5))
"""The bounds that are written, by their numbers: every fifth, so that each bucket is three times as wide as the one
before, from 38 µs to twelve minutes."""
SERIES_OF_HISTOGRAM = len(BOUNDS) + 3
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def label(name: str, value: object) -> str:
    return f'{name}="{str(value).translate(_ESCAPES)}"'


class Samples:
    def __init__(self, series_max: int) -> None:
        self._series_max = series_max
        self._of: defaultdict[Family, list[Sample]] = defaultdict(list)
        self._histograms: defaultdict[Family, list[tuple[str, Histogram]]] = defaultdict(list)
        self._split: defaultdict[Family, list[Sample]] = defaultdict(list)
        self._split_size = 0
        self._sums: defaultdict[Family, dict[str, Value]] = defaultdict(dict)
        self.is_truncated = False

    def put(self, family: Family, value: Value, labels: str = "") -> None:
        self._of[family].append((labels, value))

    def put_histogram(self, family: Family, histogram: Histogram, labels: str = "") -> None:
        self._histograms[family].append((labels, histogram))

    def put_split(self, family: Family, value: Value, labels: str, partition: str) -> None:
        """One partition of what `labels` say; `partition` is its label."""
        sums = self._sums[family]
        sums[labels] = sums.get(labels, 0) + value
        if self.is_truncated:
            return
        self._split[family].append((f"{labels},{partition}", value))
        self._split_size += 1
        if self._split_size > self._series_max:
            self._truncate()

    def _truncate(self) -> None:
        self.is_truncated, self._split_size = True, 0
        self._split.clear()

    @property
    def series(self) -> int:
        histograms = sum(map(len, self._histograms.values())) * SERIES_OF_HISTOGRAM
        return sum(map(len, self._of.values())) + histograms + self._split_size

    def complete(self) -> None:
        """Everything was collected."""
        if self.series >= self._series_max:
            self._truncate()
        self.put(TRUNCATED, int(self.is_truncated))

    def families(self) -> Iterator[Family]:
        """Those that have samples."""
        return (each for each in FAMILIES if each in self._of or each in self._histograms or each in self._sums)

    def of(self, family: Family) -> list[Sample]:
        if family.kind is Kind.HISTOGRAM:
            return []
        if family.is_split:
            return list(self._sums[family].items()) if self.is_truncated else self._split[family]
        return self._of[family]

    def histograms(self, family: Family) -> list[tuple[str, Histogram]]:
        return self._histograms.get(family, [])
