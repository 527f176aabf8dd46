"""How far a group has come in one lane: a prefix in which everything is done, and what is done beyond it (G5)."""

from typing import Any

from goqueue.core.offsetset import OffsetSet
from goqueue.types import Offset


class LaneProgress:
    """`committed` is the first offset that is not done; `next_fresh` the first that was never handed out."""

    __slots__ = ("_done", "committed", "next_fresh")

    def __init__(self, start: Offset = 0) -> None:
        self.committed = start
        self.next_fresh = start
        self._done = OffsetSet()

    def settle(self, first: Offset, last: Offset) -> None:
        """These are done. Those that were done before stay so."""
        first = max(first, self.committed)
        if first > last:
            return
        if first > self.committed:
            self._done.add(first, last)
            return
        self.committed = self._done.first_gap(last + 1)
        self._done.discard(first, self.committed - 1)

    def settle_all(self, offsets: OffsetSet) -> None:
        """The same, of many that lie here and there; none of them was done before."""
        self._done.update(offsets)
        before, self.committed = self.committed, self._done.first_gap(self.committed)
        self._done.discard(before, self.committed - 1)

    def first_unsettled(self, at: Offset) -> Offset:
        """The first offset from here on that is not done."""
        return self._done.first_gap(max(at, self.committed))

    def count_unsettled(self, end: Offset) -> int:
        """How many below `end` are not done, those among them that nobody has looked at."""
        return max(0, end - self.committed) - self._done.count(self.committed, end - 1)

    def pass_to(self, offset: Offset) -> None:
        """Everything below is done, and is not handed out for the first time either."""
        self.settle(self.committed, offset - 1)
        self.next_fresh = max(self.next_fresh, offset)

    def cut_back(self, end: Offset) -> None:
        """The log ends here: what was said about later offsets was about messages that are gone."""
        if self.next_fresh > end:
            self._done.discard(end, self.next_fresh)
        self.committed = min(self.committed, end)
        self.next_fresh = min(self.next_fresh, end)

    def to_plain(self) -> list[Any]:
        return [self.committed, self.next_fresh, self._done.to_plain()]

    @classmethod
    def from_plain(cls, plain: Any) -> "LaneProgress":
        lane = cls()
        lane.committed, lane.next_fresh, done, *_ = plain
        lane._done = OffsetSet.from_plain(done)
        return lane
