"""Messages that will be redelivered: those that wait for their retry, and those that are ready.

A wait ends by the clock alone; nothing is journaled for it. So a caller that asks what is ready first moves due
retries over, by its time. The times of a replay may differ a little, so it takes messages from both.
"""

from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

from goqueue.core.ledger.attempts import AttemptRun, Attempts, Standing, StandingRun, count, offsets_of
from goqueue.core.ledger.shares import Counts
from goqueue.core.offsetset import OffsetSet, Run
from goqueue.types import LANE_COUNT, Offset, Priority

_MILLION = 1_000_000


class Wait(NamedTuple):
    """Only a nack makes messages wait, so none of them is `lost`."""

    due: float
    first: Offset
    last: Offset
    attempt: int
    lane: int = Priority.NORMAL

    @property
    def standing(self) -> Standing:
        return Standing(self.attempt, lost=False, lane=self.lane)


class Retries:
    def __init__(self) -> None:
        self.ready = Attempts()
        self.waiting_count = 0
        self._waits: list[Wait] = []

    def next_due(self) -> float | None:
        return self._waits[0].due if self._waits else None

    def move_on(self, now: float) -> None:
        """Messages whose retry is due become ready."""
        while self._waits and self._waits[0].due <= now:
            wait = heappop(self._waits)
            self.waiting_count -= wait.last - wait.first + 1
            self.ready.add(wait.standing, Run(wait.first, wait.last))

    def hold_back(self, due: float, attempt: int, run: Run, lane: int = Priority.NORMAL) -> None:
        """These are not delivered before `due`."""
        heappush(self._waits, Wait(due, *run, attempt, lane))
        self.waiting_count += run.size

    def runs(self) -> Iterator[Run]:
        """Ready messages, and those that wait."""
        yield from (Run(run.first, run.last) for run in self.ready.runs())
        yield from (Run(wait.first, wait.last) for wait in self._waits)

    def counts_in_lanes(self) -> Counts:
        """Ready messages, and those that wait, by lane."""
        counts = [0] * LANE_COUNT
        for standing, offsets in self.ready.items():
            counts[standing.lane] += len(offsets)
        for wait in self._waits:
            counts[wait.lane] += wait.last - wait.first + 1
        return counts

    def standing_sets(self) -> Iterator[tuple[Standing, OffsetSet]]:
        """Ready messages, and those that wait."""
        yield from self.ready.items()
        yield from ((wait.standing, OffsetSet([(wait.first, wait.last)])) for wait in self._waits)

    def standings_of(self, runs: Iterable[AttemptRun]) -> set[Standing]:
        """The standings of these messages, as far as they are ready."""
        asked = offsets_of(runs)
        return {standing for standing, offsets in self.ready.items() if offsets.common(asked)}

    def count_within(self, first: Offset, last: Offset) -> int:
        """How many of these are ready or wait. Looks at every wait."""
        waiting = sum(max(0, min(last, wait.last) - max(first, wait.first) + 1) for wait in self._waits)
        return waiting + sum(offsets.count(first, last) for offsets in self.ready.values())

    def take(self, runs: Sequence[AttemptRun]) -> Attempts:
        """Remove and return the messages of these runs that are ready or wait."""
        taken = self.ready.take(offsets_of(runs))
        for run in runs if len(taken) < count(runs) else ():
            for standing, piece in self._take_waiting(run.first, run.last):
                taken.add(standing, piece)
        return taken

    def take_within(self, first: Offset, last: Offset) -> list[StandingRun]:
        """The same for a range, however long."""
        return [*self.ready.take_range(first, last), *self._take_waiting(first, last)]

    def _take_waiting(self, first: Offset, last: Offset) -> list[StandingRun]:
        """Looks at every wait, so only for rare events."""
        taken, kept = list[StandingRun](), list[Wait]()
        for wait in self._waits:
            inside = Run(max(first, wait.first), min(last, wait.last))
            if inside.size <= 0:
                kept.append(wait)
                continue
            taken.append((wait.standing, inside))
            outside = (wait._replace(last=inside.first - 1), wait._replace(first=inside.last + 1))
            kept += [rest for rest in outside if rest.first <= rest.last]
        heapify(kept)
        self._waits = kept
        self.waiting_count -= sum(run.size for _, run in taken)
        return taken

    def to_plain(self, now: float) -> list[Any]:
        """The remaining time of each wait is in microseconds."""
        self.move_on(now)
        waits = [[round((due - now) * _MILLION), *map(int, what)] for due, *what in self._waits]
        return [self.ready.to_plain(), sorted(waits)]

    @classmethod
    def from_plain(cls, plain: Any, now: float) -> "Retries":
        retries = cls()
        retries.ready = Attempts.from_plain(plain[0])
        for left, first, last, attempt, *lane in plain[1]:
            retries.hold_back(now + left / _MILLION, attempt, Run(first, last), *lane[:1])
        return retries
