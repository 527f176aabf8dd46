"""What "flat" means for a broker under steady load.

The first fifth of a run is the start: caches fill, the first segments roll, the first retention runs. Behind it a
figure is flat when both hold:

- the median of the later half is at most a tenth and the allowance above the median of the earlier half;
- the straight line through all samples rises by no more than that from its begin to its end.

The allowance covers what a few more open files or one more buffer make of a small figure.
"""

import statistics
from collections.abc import Sequence
from typing import NamedTuple

START_SHARE = 0.2
GROWTH_SHARE_MAX = 0.1
SAMPLES_MIN = 8
"""Behind the start. Fewer prove nothing."""


class Sample(NamedTuple):
    second: float
    memory_mib: float
    descriptors: float
    files: float
    stall_ms: float


ALLOWANCES = {"memory_mib": 8.0, "descriptors": 8.0, "files": 20.0, "stall_ms": 100.0}


class Growth(NamedTuple):
    name: str
    earlier: float
    later: float
    risen: float
    """By the straight line, from the end of the start to the end of the run."""
    allowed: float

    @property
    def is_flat(self) -> bool:
        return max(self.later - self.earlier, self.risen) <= self.allowed

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.earlier:.1f}, later {self.later:.1f}; the line rises by {self.risen:.1f},"
            f" {self.allowed:.1f} are allowed: {'flat' if self.is_flat else 'GROWS'}"
        )


def growths(samples: Sequence[Sample], seconds: float) -> list[Growth]:
    """One for each figure. `ValueError` when there are too few samples to tell."""
    settled = [sample for sample in samples if sample.second >= START_SHARE * seconds]
    if len(settled) < SAMPLES_MIN:
        raise ValueError(f"{len(settled)} samples behind the start; {SAMPLES_MIN} are needed")
    return [_growth(name, allowance, settled) for name, allowance in ALLOWANCES.items()]


def _growth(name: str, allowance: float, samples: Sequence[Sample]) -> Growth:
    values = [float(getattr(sample, name)) for sample in samples]
    times = [sample.second for sample in samples]
    half = len(values) // 2
    earlier, later = statistics.median(values[:half]), statistics.median(values[half:])
    risen = statistics.linear_regression(times, values).slope * (times[-1] - times[0])
    return Growth(name, earlier, later, risen, GROWTH_SHARE_MAX * earlier + allowance)


def table(samples: Sequence[Sample], rows_max: int = 30) -> str:
    """A row for each of some samples, the last among them."""
    step = -(-len(samples) // rows_max)
    titles = ("second", "memory MiB", "descriptors", "files", "longest stall ms")
    rows = ["  ".join(titles)]
    for sample in samples[::-1][::step][::-1]:
        cells = zip(titles, sample, strict=True)
        rows.append("  ".join(f"{value:>{len(title)}.0f}" for title, value in cells))
    return "\n".join(rows)
