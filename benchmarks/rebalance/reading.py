"""What the receipts of a run say: who had which partition, how long nothing came of it, and what moved when.

Only first receipts count, so that what comes again fills no gap. In the order of offsets they tell who owned a
partition; in the order of time, when something came.
"""

import math
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from benchmarks.rebalance.receipts import Receipt
from benchmarks.rebalance.scene import GRACE_SECONDS, Event, Kind, Run


def first_receipts(receipts: Iterable[Receipt]) -> dict[int, list[Receipt]]:
    """Those of each partition, in the order of time."""
    seen = set[tuple[int, int]]()
    tracks: dict[int, list[Receipt]] = defaultdict(list)
    for each in sorted(receipts):
        if (each.partition, each.offset) not in seen:
            seen.add((each.partition, each.offset))
            tracks[each.partition].append(each)
    return tracks


@dataclass(frozen=True, slots=True)
class Passage:
    """A partition between two events: its last receipt before the first of them, and those up to the second."""

    partition: int
    receipts: list[Receipt]

    @property
    def owners(self) -> list[int]:
        """One after the other."""
        seats = [each.seat for each in sorted(self.receipts, key=lambda each: each.offset)]
        return seats[:1] + [after for before, after in pairwise(seats) if after != before]

    @property
    def moves(self) -> int:
        return len(self.owners) - 1

    @property
    def gap(self) -> float:
        """The longest time in which nothing came."""
        return max((after.at - before.at for before, after in pairwise(self.receipts)), default=0.0)

    @property
    def reached_at(self) -> float:
        """When its last owner had something of it first."""
        return min((each.at for each in self.receipts[1:] if each.seat == self.owners[-1]), default=math.inf)


def passage(track: list[Receipt], begin: float, end: float) -> Passage:
    first, last = (bisect_left(track, moment, key=lambda each: each.at) for moment in (begin, end))
    return Passage(track[0].partition, track[max(0, first - 1) : last])


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one event."""

    event: Event
    stayed: list[Passage]
    """Of owners whom the event did not concern."""
    moved: list[Passage]
    back: list[Passage]
    """Those of an owner that was killed and started again, and has them again."""
    least: int
    """So many moves would have done."""

    @property
    def moves(self) -> int:
        return sum(each.moves for each in self.moved)

    @property
    def settled_after(self) -> float:
        return max((each.reached_at - self.event.at for each in self.moved + self.back), default=0.0)

    @property
    def behind_grace(self) -> float:
        """Of the longest pause, what came after the group had given up a member that did not come back."""
        return max(0.0, self.settled_after - GRACE_SECONDS)


def longest_gap(passages: Iterable[Passage]) -> float:
    return max((each.gap for each in passages), default=0.0)


def outcomes(run: Run) -> list[Outcome]:
    """Of each event but the first: before there was nobody whose partitions could move."""
    tracks = first_receipts(run.receipts)
    found = []
    for event, end in list(run.windows())[1:]:
        passages = [passage(track, event.at, end) for _, track in sorted(tracks.items())]
        found.append(_outcome(event, passages))
    return found


def _outcome(event: Event, passages: list[Passage]) -> Outcome:
    still = [each for each in passages if not each.moves]
    concerned = event.seat if event.kind is Kind.RESTART else None
    return Outcome(
        event,
        [each for each in still if each.owners[0] != concerned],
        [each for each in passages if each.moves],
        [each for each in still if each.owners[0] == concerned],
        _least(event, Counter(each.owners[0] for each in passages)),
    )


def _least(event: Event, shares: Counter[int]) -> int:
    assert event.seat is not None or event.kind is Kind.STEADY
    seats = set(shares)
    if event.kind is Kind.JOIN:
        seats |= {event.seat or 0}
    elif event.kind in (Kind.LEAVE, Kind.KILL):
        seats -= {event.seat or 0}
    return least_moves(shares, seats)


def least_moves(shares: Mapping[int, int], seats: Collection[int]) -> int:
    """Until each of these seats has as many as the others, give or take one: those that have most keep most."""
    each, more = divmod(sum(shares.values()), len(seats))
    have = sorted((shares.get(seat, 0) for seat in seats), reverse=True)
    return sum(max(0, each + (rank < more) - count) for rank, count in enumerate(have))


# Nothing is lost


def lost(run: Run) -> int:
    return sum(run.published) - len({(each.partition, each.offset) for each in run.receipts})


def doubled(run: Run) -> tuple[int, int]:
    """Messages that came more than once: of partitions whose owner was killed, and of others."""
    orphans = {each.partition for outcome in outcomes(run) for each in _of_the_killed(outcome)}
    times = Counter((each.partition, each.offset) for each in run.receipts)
    partitions = [partition for (partition, _), count in times.items() if count > 1]
    after_kills = sum(partition in orphans for partition in partitions)
    return after_kills, len(partitions) - after_kills


def _of_the_killed(outcome: Outcome) -> list[Passage]:
    if outcome.event.kind is Kind.KILL:
        return [each for each in outcome.moved if each.owners[0] == outcome.event.seat]
    return outcome.back
