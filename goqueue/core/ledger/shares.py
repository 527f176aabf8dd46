"""How lanes share what a group takes from a partition: deficit round robin, counted in messages (G9).

In a round each lane with work may have as many messages as its weight says; critical comes first. What a lane has
not had yet of its round is its credit. A new round begins when no lane with work has credit left, so nothing is
kept for a lane without work: sharing is work-conserving, and an idle lane saves nothing. It goes into each round
with the credit of one, so that its next message need not wait for the round after.

    weights   50 critical   25 high   15 normal   7 low   3 background

A lane whose work has waited for 30 s is served next, one message, whatever the credits say: this starvation guard
is for slow consumers, with which a round may take hours. It holds with `lanes="strict"` too, where otherwise the
highest lane with work gets everything: no lane starves (G9).

Nothing here is journaled: after a restart a round begins anew.
"""

from collections.abc import Sequence
from typing import TypeAlias

from goqueue.types import Priority

WEIGHTS = (50, 25, 15, 7, 3)
GUARD_SECONDS = 30.0
LANES = range(len(Priority))
ALL_LANES = (1 << len(LANES)) - 1
"""A mask with one bit for each lane, the lowest for critical."""
ENDLESS = 2**62
"""Stands for the work of a lane whose number of messages is unknown."""

Counts: TypeAlias = list[int]
"""Numbers of messages, one for each lane."""


class LaneShares:
    __slots__ = ("_credits", "_waits_since", "is_strict", "served")

    def __init__(self, *, is_strict: bool = False) -> None:
        self.is_strict = is_strict
        self.served = [0] * len(LANES)
        """The number of delivered messages, by lane."""
        self._credits = list(WEIGHTS)
        self._waits_since: list[float | None] = [None] * len(LANES)
        """Since when the work of each lane has not been served; None: it has none."""

    def copy(self) -> "LaneShares":
        copied = LaneShares(is_strict=self.is_strict)
        copied.served, copied._credits = self.served[:], self._credits[:]
        copied._waits_since = self._waits_since[:]
        return copied

    def note_work(self, now: float, work: Sequence[int]) -> None:
        """Note how many messages each lane has, or may have."""
        for lane, since in enumerate(self._waits_since):
            self._waits_since[lane] = None if not work[lane] else now if since is None else since

    def allot(self, now: float, wanted: int, work: Sequence[int]) -> Counts:
        """How many messages to take from each lane: as many as `wanted` together, if there are as many."""
        counts, rest, left = [0] * len(LANES), list(work), wanted
        for lane in self._overdue(now):
            if left > 0 and rest[lane] > 0:
                counts[lane], rest[lane], left = 1, rest[lane] - 1, left - 1
        credit = [ENDLESS] * len(LANES) if self.is_strict else self._credits[:]
        while True:
            left = _serve(counts, rest, credit, left)
            if left <= 0 or not any(rest):
                return counts
            active = [lane for lane in LANES if rest[lane]]
            rounds = max(1, left // sum(WEIGHTS[lane] for lane in active))
            for lane in active:
                credit[lane] = rounds * WEIGHTS[lane]

    def took(self, now: float, counts: Sequence[int], work: Sequence[int]) -> None:
        """Note how many messages were taken from each lane, and how much work it had."""
        if not self.is_strict:
            overdue = self._overdue(now)
            charged = [max(0, count - (lane in overdue)) for lane, count in enumerate(counts)]
            self._charge(charged, work)
        for lane, count in enumerate(counts):
            if count:
                self.served[lane] += count
                self._waits_since[lane] = now if work[lane] > count else None

    def took_alone(self, now: float, lane: int, count: int) -> None:
        """No other lane had work, so no credit is charged."""
        self.served[lane] += count
        self._waits_since = [None] * len(LANES)
        self._waits_since[lane] = now

    def waits(self, now: float) -> list[float | None]:
        """How long each lane's work has not been served; None when there is none, as far as is known."""
        return [None if since is None else now - since for since in self._waits_since]

    def _overdue(self, now: float) -> list[int]:
        """The lanes that the starvation guard serves, the one that waits longest first."""
        late = [(since, lane) for lane, since in enumerate(self._waits_since) if since is not None]
        return [lane for since, lane in sorted(late) if now - since >= GUARD_SECONDS]

    def _charge(self, counts: Sequence[int], work: Sequence[int]) -> None:
        """A lane may have had less than it was allotted, for want of room: its share of the rounds that others have
        had since is its credit."""
        credit = self._credits
        rounds = max(-(-max(0, counts[lane] - credit[lane]) // WEIGHTS[lane]) for lane in LANES)
        for lane in LANES:
            credit[lane] += rounds * WEIGHTS[lane] - counts[lane]
            if work[lane] <= counts[lane]:  # it has no more, and saves nothing
                credit[lane] = min(credit[lane], WEIGHTS[lane])


def _serve(counts: Counts, rest: Counts, credit: Counts, left: int) -> int:
    """Serve the lanes from their credit, the highest first; returns how many messages are still wanted."""
    for lane in LANES:
        served = min(credit[lane], rest[lane], left)
        counts[lane] += served
        rest[lane] -= served
        credit[lane] -= served
        left -= served
    return left


def lanes_in(mask: int) -> list[int]:
    return [lane for lane in LANES if mask >> lane & 1]
