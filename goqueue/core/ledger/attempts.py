"""Offsets by the attempt they are on.

The standing of a delivered message is three things: its attempt (the one under way, or the next one), whether the
delivery before expired, and its lane. Many messages share a standing, so there are few sets, however many messages.
"""

from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import islice, pairwise
from typing import Any, NamedTuple, TypeAlias

from goqueue.core.offsetset import OffsetSet, Run
from goqueue.types import LANE_COUNT, Offset, Priority


class AttemptRun(NamedTuple):
    """Neighbouring messages on the same attempt."""

    first: Offset
    last: Offset
    attempt: int

    @property
    def size(self) -> int:
        return self.last - self.first + 1


AttemptRuns: TypeAlias = tuple[AttemptRun, ...]


class AttemptSets(tuple[tuple[int, OffsetSet], ...]):
    """The messages of a delivery that are scattered, by attempt."""

    @property
    def size(self) -> int:
        return sum(len(offsets) for _, offsets in self)

    def runs(self) -> AttemptRuns:
        """The same messages as runs, in order."""
        return tuple(merge(*[_attempt_runs(attempt, offsets) for attempt, offsets in self]))


NO_SETS = AttemptSets()


class Standing(NamedTuple):
    attempt: int
    lost: bool
    """The delivery before expired. A nack shows that the consumer lives; an expiry does not."""
    lane: int = Priority.NORMAL


FRESH_ATTEMPT = 1
FRESH = tuple(Standing(FRESH_ATTEMPT, lost=False, lane=lane) for lane in range(LANE_COUNT))
"""For each lane the standing of messages that are delivered for the first time."""

StandingRun: TypeAlias = tuple[Standing, Run]


class Attempts:
    __slots__ = ("_sets",)

    def __init__(self) -> None:
        self._sets: dict[Standing, OffsetSet] = {}

    def __len__(self) -> int:
        size = 0
        for offsets in self._sets.values():
            size += len(offsets)
        return size

    def __bool__(self) -> bool:
        return bool(self._sets)

    def items(self) -> Iterable[tuple[Standing, OffsetSet]]:
        return self._sets.items()

    def values(self) -> Iterable[OffsetSet]:
        return self._sets.values()

    def add(self, standing: Standing, run: Run) -> None:
        self._of(standing).add(*run)

    def add_all(self, standing: Standing, offsets: OffsetSet) -> None:
        if offsets:
            self._of(standing).update(offsets)

    def merge(self, others: "Attempts") -> None:
        for standing, offsets in others.items():
            self.add_all(standing, offsets)

    def _of(self, standing: Standing) -> OffsetSet:
        offsets = self._sets.get(standing)
        if offsets is None:
            offsets = self._sets[standing] = OffsetSet()
        return offsets

    def find(self, run: AttemptRun) -> list[Run]:
        """The part of this run that is here, on its attempt."""
        sets = [offsets for standing, offsets in self._sets.items() if standing.attempt == run.attempt]
        return [found for offsets in sets for found in offsets.runs(run.first, run.last)]

    def count_of_run(self, run: AttemptRun) -> int:
        """How many messages of this run are here, on its attempt. A long run costs no more than what is here."""
        found, (first, last, attempt) = 0, run
        for standing, offsets in self._sets.items():
            if standing[0] == attempt:
                found += offsets.count(first, last)
        return found

    def count_of(self, runs: Sequence[AttemptRun]) -> int:
        """How many of these messages are here, on the attempt that their run names."""
        return sum(
            len(offsets.common(asked))
            for attempt, asked in by_attempt(runs).items()
            for standing, offsets in self._sets.items()
            if standing.attempt == attempt
        )

    def take(self, offsets: OffsetSet) -> "Attempts":
        """Remove and return the offsets of these that are here."""
        taken = Attempts()
        for standing, some in list(self._sets.items()):
            if found := some.take(offsets):
                taken._sets[standing] = found
                self._tidy(standing)
        return taken

    def discard(self, run: AttemptRun) -> int:
        """Remove the messages of this run, whatever attempt they are on; returns how many were here."""
        found = 0
        for standing, offsets in list(self._sets.items()):
            found += offsets.discard(run[0], run[1])
            if not offsets:
                del self._sets[standing]
        return found

    def take_everything(self) -> "Attempts":
        taken = Attempts()
        taken._sets, self._sets = self._sets, {}
        return taken

    def take_range(self, first: Offset, last: Offset) -> list[StandingRun]:
        """The same for a range, however long."""
        found = [(standing, run) for standing, offsets in self._sets.items() for run in offsets.runs(first, last)]
        for standing, run in found:
            self._sets[standing].discard(*run)
        for standing in list(self._sets):
            self._tidy(standing)
        return found

    def _tidy(self, standing: Standing) -> None:
        if not self._sets[standing]:
            del self._sets[standing]

    def standing_runs(self) -> Iterator[StandingRun]:
        return ((standing, run) for standing, offsets in self._sets.items() for run in offsets.runs())

    def runs(self) -> Iterator[AttemptRun]:
        """All of them, in offset order."""
        return in_order(self._sets.items())

    def to_plain(self) -> list[Any]:
        return [
            [standing.attempt, standing.lost, offsets.to_plain(), int(standing.lane)]
            for standing, offsets in sorted(self._sets.items())
        ]

    @classmethod
    def from_plain(cls, plain: Any) -> "Attempts":
        attempts = cls()
        for attempt, lost, offsets, *lane in plain:
            attempts._sets[Standing(attempt, lost, *lane[:1])] = OffsetSet.from_plain(offsets)
        return attempts


def in_order(sets: Iterable[tuple[Standing, OffsetSet]]) -> Iterator[AttemptRun]:
    return merge(*[_attempt_runs(standing.attempt, offsets) for standing, offsets in sets])


def _attempt_runs(attempt: int, offsets: OffsetSet) -> Iterator[AttemptRun]:
    return (AttemptRun(first, last, attempt) for first, last in offsets.runs())


def first_messages(runs: Iterator[AttemptRun], count_max: int) -> AttemptRuns:
    """The first `count_max` messages of these runs."""
    taken = list[AttemptRun]()
    room = count_max
    for run in islice(runs, count_max):
        first, last, attempt = run
        if last - first >= room:
            taken += [AttemptRun(first, first + room - 1, attempt)] if room > 0 else []
            break
        taken.append(run)
        room -= last - first + 1
    return tuple(taken)


def split_messages(runs: AttemptRuns, count_max: int) -> tuple[AttemptRuns, AttemptRuns]:
    """The first `count_max` messages of these runs, and the others."""
    taken = first_messages(iter(runs), count_max)
    rest, place = runs[len(taken) :], len(taken) - 1
    if taken and taken[-1].last < runs[place].last:
        rest = (runs[place]._replace(first=taken[-1].last + 1), *rest)
    return taken, rest


def by_attempt(runs: Iterable[AttemptRun]) -> dict[int, OffsetSet]:
    """The messages of these runs, by attempt."""
    rows = dict[int, list[tuple[Offset, Offset]]]()
    for first, last, attempt in runs:
        rows.setdefault(attempt, []).append((first, last))
    return {attempt: OffsetSet(row) for attempt, row in rows.items()}


def offsets_of(runs: Iterable[AttemptRun | Run]) -> OffsetSet:
    return OffsetSet([(run[0], run[1]) for run in runs])


Messages: TypeAlias = Sequence[Run] | OffsetSet
"""Messages of one lane: a few runs, as whole batches are, or a set where they are scattered."""


def as_set(messages: Messages) -> OffsetSet:
    return messages if isinstance(messages, OffsetSet) else OffsetSet(messages)


def as_runs(messages: Messages) -> Iterable[Run]:
    return messages.runs() if isinstance(messages, OffsetSet) else messages


def count(runs: Iterable[AttemptRun | Run]) -> int:
    found = 0
    for run in runs:
        found += run[1] - run[0] + 1
    return found


def joined(runs: Iterable[AttemptRun]) -> AttemptRuns:
    """The same messages in order, each named once, neighbours together."""
    runs = tuple(runs)
    if len(runs) <= 1 or all(one[1] + 1 < other[0] for one, other in pairwise(runs)):  # as most often
        return runs
    return AttemptSets(by_attempt(runs).items()).runs()


def without(run: AttemptRun, found: Sequence[Run]) -> list[AttemptRun]:
    """The pieces of a run that were not found."""
    rest, first = list[AttemptRun](), run.first
    for piece in sorted(found):
        if first < piece.first:
            rest.append(run._replace(first=first, last=piece.first - 1))
        first = max(first, piece.last + 1)
    if first <= run.last or not found:
        rest.append(run._replace(first=first))
    return rest
