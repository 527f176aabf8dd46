"""What a run measures in its own process: the clock, processor times, and how long each message took."""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from benchmarks.broker import cpu_seconds_of
from benchmarks.garbage import heap_set_apart
from benchmarks.natural.task import Sample, Task


def cpu_seconds(pids: Iterable[int]) -> float:
    return sum(map(cpu_seconds_of, pids))


def quantile(times: list[float], share: float) -> float:
    """Of times that are sorted."""
    return times[min(len(times) - 1, int(share * len(times)))]


class Meter:
    def __init__(self, task: Task) -> None:
        self._task = task
        self._times: list[float] = []
        self.sample: Sample | None = None

    def each(self, values: Iterable[bytes]) -> Iterator[bytes]:
        """The values one by one. What the loop does with one is its time."""
        note, now = self._times.append, time.perf_counter
        for value in values:
            begin = now()
            yield value
            note(now() - begin)

    @contextmanager
    def measuring(self) -> Iterator[None]:
        """The work itself: connections and queues are made before, and checks come after."""
        task = self._task
        with heap_set_apart():
            there, here, begin = cpu_seconds(task.pids), time.process_time(), time.perf_counter()
            yield
            seconds = time.perf_counter() - begin
            here, there = time.process_time() - here, cpu_seconds(task.pids) - there
        scale = 1e6 / task.count
        p50, p99 = self._quantiles()
        self.sample = Sample(task.count, seconds, here * scale, there * scale if task.pids else None, p50, p99)

    def _quantiles(self) -> tuple[float | None, float | None]:
        if not self._times:
            return None, None
        ordered = sorted(self._times)
        return 1e3 * quantile(ordered, 0.5), 1e3 * quantile(ordered, 0.99)
