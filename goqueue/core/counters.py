"""Counters by a label, such as the topic or the group that they count for.

They outlive the actors that count: a partition that is restarted goes on with the same counters. None of them ever
falls. When its topic or group is deleted, a series ends, and what it counted stays in the total.

A reader may pause between two series. So it takes all of them at one moment (`series`) and adds up what each has
when its turn comes: one that ends meanwhile is still in the reader's list, and the copy of the ended ones is from
before. Two totals, one after the other, never fall either.
"""

from collections.abc import Callable, Container
from typing import Protocol, Self, TypeVar


class Addable(Protocol):
    def add(self, other: Self, /) -> None: ...


CountsT = TypeVar("CountsT", bound=Addable)


class LabelledCounters(dict[str, CountsT]):
    """A lookup of a label that is there costs no call of a method. A new label begins a series."""

    def __init__(self, new: Callable[[], CountsT]) -> None:
        super().__init__()
        self._new = new
        self._is_complete = False
        self.ended = new()
        """The sum of all series that have ended."""

    def __missing__(self, label: str) -> CountsT:
        """Once all labels are known, a late count of one that has ended begins no new series."""
        return self.ended if self._is_complete else self.begin(label)

    def begin(self, label: str) -> CountsT:
        return self.setdefault(label, self._new())

    def end(self, label: str) -> None:
        counts = self.pop(label, None)
        if counts is not None:
            self.ended.add(counts)

    def complete(self, labels: Container[str]) -> None:
        """These are all labels that exist; from now on each new one begins with `begin`."""
        for label in [label for label in self if label not in labels]:
            self.end(label)
        self._is_complete = True

    def series(self) -> list[CountsT]:
        """All series of this moment, and a copy of the sum of those that have ended."""
        ended = self._new()
        ended.add(self.ended)
        return [ended, *self.values()]

    def total(self) -> CountsT:
        total = self._new()
        for counts in self.series():
            total.add(counts)
        return total
