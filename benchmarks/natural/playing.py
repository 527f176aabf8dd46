"""Runs in turns: each row in a process of its own, one after the other, and the same again."""

import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count as numbers
from pathlib import Path

from benchmarks.natural.rows import Row
from benchmarks.natural.servers import Server
from benchmarks.natural.task import Sample, Task
from benchmarks.peers.workload import Wrong

RUN_SECONDS_MAX = 180.0
COUNT_MAX = 60_000
LONG_ENOUGH = 0.2
"""Of the seconds that a run shall take: below this a warm-up says too little of the rate."""
PROGRAM = "benchmarks.natural.program"


@dataclass(frozen=True, slots=True)
class Sizes:
    runs: int = 5
    seconds: float = 1.0
    """The time that one run takes, about; without it there is no warm-up."""
    first: int = 1_000
    """Messages of the run that warms up, and the fewest of any."""


@dataclass(slots=True)
class Result:
    row: Row
    count: int
    samples: list[Sample] = field(default_factory=list)

    def median(self, of: str) -> float | None:
        found = [value for value in self.values(of) if value is not None]
        return statistics.median(found) if found else None

    def values(self, of: str) -> list[float | None]:
        return [getattr(sample, of) for sample in self.samples]


class Stage:
    """Where rows are played: the servers, and a folder for notes."""

    def __init__(self, servers: Mapping[str, Server], folder: Path) -> None:
        self._servers, self._folder = servers, folder
        self._numbers = numbers()

    def play(self, row: Row, count: int) -> Sample:
        try:
            return self._play(row, count)
        except Wrong as error:
            raise Wrong(f"{row.name}: {error}") from error

    def _play(self, row: Row, count: int) -> Sample:
        name = f"run-{next(self._numbers)}"
        task = Task(
            name,
            count,
            addresses={each: self._servers[each].address for each in row.servers},
            pids=self._servers[row.servers[0]].pids,
            notes=str(self._folder / f"{name}.notes"),
            **row.options,
        )
        command = [sys.executable, "-m", PROGRAM, *row.program.split(".")]
        try:
            done = subprocess.run(
                command,
                env=task.environment(),
                capture_output=True,
                text=True,
                timeout=RUN_SECONDS_MAX,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise Wrong(f"it did not end within {RUN_SECONDS_MAX:g} s") from None
        if done.returncode:
            raise Wrong(done.stderr.strip()[-2_000:])
        return Sample(**json.loads(done.stdout.splitlines()[-1]))


def play_in_turns(stage: Stage, rows: list[Row], sizes: Sizes, tell: Callable[[str], None]) -> list[Result]:
    results = []
    for row in rows:
        tell(f"{row.name}: warm-up")
        results.append(Result(row, warm_up(stage.play, row, sizes)))
    for _ in range(sizes.runs):
        for result in results:
            tell(result.row.name)
            result.samples.append(stage.play(result.row, result.count))
    return results


def warm_up(play: Callable[[Row, int], Sample], row: Row, sizes: Sizes) -> int:
    """How many messages take about so many seconds. A multiple of those at once, so that shares are equal."""
    first = count = _rounded(sizes.first, row.at_once)
    while sizes.seconds:
        sample = play(row, count)
        wanted = _rounded(min(COUNT_MAX, sample.rate * sizes.seconds), row.at_once)
        if sample.seconds >= LONG_ENOUGH * sizes.seconds or wanted <= count:
            return max(first, wanted)
        count = wanted
    return first


def _rounded(count: float, at_once: int) -> int:
    return max(2, round(count / at_once)) * at_once
