"""From the figures of all rounds to a verdict for each figure. Pure."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from typing import NamedTuple

from benchmarks.figures import Better, Figure, better

RATIO_MIN = 0.98
"""A median ratio below it is worse, unless the noise is larger."""


class Verdict(Enum):
    HOLDS = "holds"
    NOISE = "within noise"
    WORSE = "worse"


class Round(NamedTuple):
    old: list[Figure]
    new: list[Figure]
    again: list[Figure]


class LeftOut(NamedTuple):
    benchmark: str
    name: str
    why: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """Ratios above 1 are better, whatever the figure's direction."""

    benchmark: str
    name: str
    unit: str
    better: str
    old: float
    new: float
    ratios: list[float]
    noise: list[float]
    """The ratios of the commit against itself."""

    @property
    def ratio(self) -> float:
        return statistics.median(self.ratios)

    @property
    def noise_floor(self) -> float:
        """The lowest ratio of the commit against itself. Which of its two runs is called old is arbitrary, so a
        ratio counts both ways round.
        """
        return min(*self.noise, *(1 / each for each in self.noise))

    @property
    def verdict(self) -> Verdict:
        if self.ratio >= RATIO_MIN:
            return Verdict.HOLDS
        return Verdict.NOISE if self.ratio >= self.noise_floor else Verdict.WORSE

    def as_json(self) -> dict[str, object]:
        return {
            **asdict(self),
            "ratio": self.ratio,
            "noise_floor": self.noise_floor,
            "verdict": self.verdict.value,
        }


def compare(benchmark: str, rounds: Sequence[Round]) -> tuple[list[Comparison], list[LeftOut]]:
    """Figures that cannot be compared are left out with a reason, in the order of the first round."""
    runs = [{each.name: each for each in run} for found in rounds for run in found]
    names = dict.fromkeys(name for run in runs for name in run)
    compared, left_out = list[Comparison](), list[LeftOut]()
    for name in names:
        why = _why_not(name, runs)
        if why is not None:
            left_out.append(LeftOut(benchmark, name, why))
        else:
            compared.append(_comparison(benchmark, name, rounds))
    return compared, left_out


def _why_not(name: str, runs: Sequence[Mapping[str, Figure]]) -> str | None:
    if any(name not in run for run in runs):
        return _who_lacks(name, runs)
    first = runs[0]
    if better(first[name]) is None:
        return "neither more nor less is better"
    if all(part in first for part in name.split(" / ", 1)) and " / " in name:
        return "a ratio of two other figures"
    if any(run[name].value <= 0 for run in runs):
        return "not above 0 in every run, so that it has no ratio"
    return None


def _who_lacks(name: str, runs: Sequence[Mapping[str, Figure]]) -> str:
    """Runs are old, new, again, old, new, again …"""
    lacking = {("old", "new", "old")[at % 3] for at, run in enumerate(runs) if name not in run}
    return f"the {' and the '.join(sorted(lacking))} tree has no such figure in every run"


def _comparison(benchmark: str, name: str, rounds: Iterable[Round]) -> Comparison:
    chosen = [[next(each for each in run if each.name == name) for run in found] for found in rounds]
    direction = better(chosen[0][0])
    assert direction is not None
    old, new, again = ([figure.value for figure in column] for column in zip(*chosen, strict=True))
    return Comparison(
        benchmark,
        name,
        chosen[0][0].unit,
        direction.value,
        statistics.median(old),
        statistics.median(new),
        [_gain(direction, *pair) for pair in zip(old, new, strict=True)],
        [_gain(direction, *pair) for pair in zip(old, again, strict=True)],
    )


def _gain(direction: Better, old: float, new: float) -> float:
    return new / old if direction is Better.MORE else old / new


def exit_code(compared: Iterable[Comparison]) -> int:
    return 1 if any(each.verdict is Verdict.WORSE for each in compared) else 0
