"""When each message was first delivered, for the header of its dead letter.

First deliveries follow offset order within a lane (G4), so a list of starts for each lane, each with its time,
answers for every offset by a search. Two arrays of numbers hold it. Starts behind which everything is done are left
out: always in a snapshot, and in memory whenever the list has doubled.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Any

from goqueue.core.offsetset import OffsetSet, Run
from goqueue.types import Microseconds, Offset

_TIDY_FROM = 1_024


class FirstDeliveries:
    """The first deliveries of one lane."""

    def __init__(self) -> None:
        self._starts, self._walls = array("q"), array("q")
        self._tidy_at = _TIDY_FROM

    def note(self, start: Offset, wall: Microseconds) -> None:
        """From `start` on, until the next note, messages were first delivered at that time."""
        assert not self._starts or start > self._starts[-1]
        self._starts.append(start)
        self._walls.append(wall)

    def split(self, run: Run) -> Iterator[tuple[Run, Microseconds]]:
        """The run in pieces that were first delivered together."""
        first = run.first
        while first <= run.last:
            place = bisect_right(self._starts, first)
            assert place, f"offset {first} was never handed out"
            end = self._starts[place] if place < len(self._starts) else run.last + 1
            yield Run(first, min(run.last, end - 1)), self._walls[place - 1]
            first = end

    @property
    def have_grown(self) -> bool:
        """Whether it is time to tidy."""
        return len(self._starts) >= self._tidy_at

    def tidy(self, held: OffsetSet, end: Offset) -> None:
        """Drop starts that are no longer needed. `held`: messages of the lane that may still become dead
        letters."""
        self._keep(self._needed(held, end))
        self._tidy_at = max(_TIDY_FROM, 2 * len(self._starts))

    def cut_back(self, end: Offset) -> None:
        place = bisect_left(self._starts, end)
        del self._starts[place:], self._walls[place:]

    def to_plain(self, held: OffsetSet, end: Offset) -> list[Any]:
        places = self._needed(held, end)
        return [[self._starts[place] for place in places], [self._walls[place] for place in places]]

    @classmethod
    def from_plain(cls, plain: Any) -> "FirstDeliveries":
        firsts = cls()
        firsts._starts.extend(plain[0])
        firsts._walls.extend(plain[1])
        return firsts

    def _needed(self, held: OffsetSet, end: Offset) -> list[int]:
        ends, found = [*self._starts[1:], end], map(held.first_run, self._starts)
        return [place for place, run in enumerate(found) if run is not None and run.first < ends[place]]

    def _keep(self, places: list[int]) -> None:
        self._starts = array("q", [self._starts[place] for place in places])
        self._walls = array("q", [self._walls[place] for place in places])
