"""How far a group is in each lane: a prefix of it, and the exceptions (G5).

Each lane was scanned below its position in `fresh`: messages there were delivered or passed over. Lanes are at
different positions, since higher ones are served more often. Two bitmaps hold the rest:

    open    handed out and not done: what is in flight, comes again or leaves; and what is damaged
    ahead   looked at, at or behind the lowest `fresh`: done or open, before lower lanes have come there

So everything below the committed offset is done, and the state of each offset behind it is known. If all messages
are of one priority, all lanes are at one position and nothing is ahead.
"""

from collections.abc import Iterable
from typing import Any

from goqueue.core.ledger.shares import LANES
from goqueue.core.offsetset import OffsetSet, Run
from goqueue.core.receipts import OFFSET_MAX
from goqueue.types import Offset


class LaneProgress:
    __slots__ = ("ahead", "fresh", "next_fresh", "open", "set_aside")

    def __init__(self, start: Offset = 0) -> None:
        self.fresh = [start] * len(LANES)
        self.next_fresh = start
        """The lowest position."""
        self.open = OffsetSet()
        self.ahead = OffsetSet()
        self.set_aside = OffsetSet()
        """The offsets of `ahead` that were damaged when a lane first met them: every lane passes over them."""

    @property
    def reached(self) -> Offset:
        """Nothing is known of offsets from here on."""
        aside = self.set_aside.bounds
        return max(self.fresh) if aside is None else max(*self.fresh, aside.last + 1)

    @property
    def committed(self) -> Offset:
        """The first offset that is not done."""
        first, unseen = self.open.first, self.next_fresh
        if self.ahead:
            unseen = self.ahead.first_gap(unseen)
        return unseen if first is None else min(first, unseen)

    # Delivered, and done

    def look_over(self, lane: int, fresh: Iterable[Run], scanned_to: Offset) -> OffsetSet:
        """These messages of the lane are delivered. Other lanes have none there, so all lanes move to
        `scanned_to`."""
        at = self.fresh[lane]
        assert scanned_to >= at, f"{scanned_to} was looked at before"
        for run in fresh:
            assert at <= run.first <= run.last < scanned_to, f"{run} is not fresh"
            at = run.last + 1
        handed_out = OffsetSet(fresh)
        self.open.update(handed_out)
        self._move([max(place, scanned_to) for place in self.fresh])
        return handed_out

    def look_into(self, lane: int, handed_out: OffsetSet, scanned_to: Offset) -> None:
        """These messages of the lane are delivered, and it moves to `scanned_to`."""
        first = handed_out.first
        assert self.fresh[lane] <= scanned_to, f"{scanned_to} of lane {lane} was looked at before"
        assert first is None or self.fresh[lane] <= first, f"{first} of lane {lane} is not fresh"
        self.open.update(handed_out)
        self.ahead.update(handed_out)
        places = self.fresh[:]
        places[lane] = scanned_to
        self._move(places)

    def hold(self, offsets: OffsetSet) -> None:
        """These were not scanned, and cannot be read: they are not delivered, and not done."""
        for known in (self.open, self.ahead, self.set_aside):
            known.update(offsets)
        self._move(self.fresh)

    def _move(self, places: list[Offset]) -> None:
        self.fresh, self.next_fresh = places, min(places)
        if self.ahead:
            self.ahead.discard(0, self.next_fresh - 1)
            self.set_aside.discard(0, self.next_fresh - 1)

    def settle(self, first: Offset, last: Offset) -> None:
        """These are done. Those that were done before stay so."""
        self.open.discard(first, last)

    def settle_all(self, offsets: OffsetSet) -> None:
        """The same for scattered messages."""
        self.open.remove(offsets)

    def open_again(self, offsets: OffsetSet) -> None:
        """These were done, and are no longer: the committed offset may fall."""
        self.open.update(offsets)

    def done(self, first: Offset, last: Offset) -> OffsetSet:
        """The offsets of this range that are done."""
        found = OffsetSet([(first, last)] if first <= last else ())
        return found.without(self.open).without(self.unseen(first, last))

    # What is known

    def count_unsettled(self, end: Offset) -> int:
        """How many below `end` are not done, unscanned offsets included."""
        return self.open.count(0, end - 1) + self.count_fresh(end)

    def unseen(self, first: Offset, last: Offset) -> OffsetSet:
        """The offsets of this range that were not scanned."""
        first = max(first, self.next_fresh)
        found = OffsetSet([(first, last)] if first <= last else ())
        return found.without(self.ahead)

    def count_fresh(self, end: Offset) -> int:
        """How many offsets below `end` were not scanned."""
        unseen = max(0, end - self.next_fresh)
        return unseen - self.ahead.count(self.next_fresh, end - 1) if self.ahead and unseen else unseen

    # What happened to the log

    def pass_to(self, offset: Offset) -> None:
        """Everything below is done, and no longer fresh."""
        self.open.discard(0, offset - 1)
        self._move([max(place, offset) for place in self.fresh])

    def cut_back(self, end: Offset) -> None:
        """The log ends at `end`: what was known of later offsets was about messages that are gone."""
        for offsets in (self.open, self.ahead, self.set_aside):
            offsets.discard(end, OFFSET_MAX)
        self._move([min(place, end) for place in self.fresh])

    # Written down

    def to_plain(self) -> list[Any]:
        return [self.fresh, self.ahead.to_plain(), self.set_aside.to_plain()]

    @classmethod
    def from_plain(cls, plain: Any, not_done: Iterable[Run]) -> "LaneProgress":
        """`not_done`: the open messages, which other parts of the snapshot hold."""
        fresh, ahead, set_aside, *_ = plain
        progress = cls()
        if len(fresh) != len(LANES):
            raise ValueError(f"{len(fresh)} lanes are unknown")
        progress.open = OffsetSet(not_done)
        progress.ahead, progress.set_aside = OffsetSet.from_plain(ahead), OffsetSet.from_plain(set_aside)
        progress._move(list(fresh))
        return progress
