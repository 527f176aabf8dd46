"""Runs in turns: on a shared machine only figures taken side by side can be compared."""

import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from benchmarks.peers.workload import BLOCK, What, Workload, Wrong

COUNT_MAX = 2_000_000
GROWTH_MAX = 10
LONG_ENOUGH = 0.2
"""Of the seconds that a run shall take: below this a warm-up says too little of the rate."""
SETTLE_SECONDS = 0.2
"""Between two runs: what the one before left to do, such as deleting its messages, is not the next one's cost."""


@dataclass(slots=True)
class Row:
    workload: Workload
    count: int
    runs: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.runs)


@dataclass(frozen=True, slots=True)
class Sizes:
    runs: int = 5
    seconds: float = 2.0
    """That one run takes, about."""
    singles: int = 1_000
    """Single publishes in each run."""


def alternate(workloads: Iterable[Workload], sizes: Sizes, tick: Callable[[str], None]) -> list[Row]:
    """Warm each up until it is known how many messages take so long; then all of them in turn, several times."""
    rows = []
    for workload in workloads:
        tick(f"{workload.peer}: warm-up")
        rows.append(Row(workload, warm_up(workload, sizes)))
    for _ in range(sizes.runs):
        for row in rows:
            tick(f"{row.workload.peer}: {row.workload.what.value}")
            time.sleep(SETTLE_SECONDS)
            row.runs.append(row.workload.figure(row.count, _run(row.workload, row.count)))
    return rows


def warm_up(workload: Workload, sizes: Sizes) -> int:
    """How many messages take about so many seconds."""
    if workload.what is What.SINGLE:
        _run(workload, sizes.singles)
        return sizes.singles
    count, seconds = len(BLOCK), sizes.seconds
    while True:
        taken = _run(workload, count)
        if taken >= LONG_ENOUGH * seconds or count >= COUNT_MAX:
            return max(count, _rounded(min(count * seconds / taken, COUNT_MAX)))
        count = _rounded(min(count * min(seconds / taken, GROWTH_MAX), COUNT_MAX))


def _run(workload: Workload, count: int) -> float:
    try:
        return workload.run(count)
    except Wrong as error:
        raise Wrong(f"{workload.peer}, {workload.what.value} by {workload.way}: {error}") from error


def _rounded(count: float) -> int:
    return max(1, round(count / len(BLOCK))) * len(BLOCK)


def ratio(rows: dict[str, Row], one: str, other: str) -> float:
    """The median of the ratios within each round."""
    return statistics.median(a / b for a, b in zip(rows[one].runs, rows[other].runs, strict=True))
