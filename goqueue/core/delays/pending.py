"""The delayed messages of one partition: which are pending, and what became of those that are not.

It is made from what the log says, in the log's order (events.py), and so after a crash it is what it was. When
each is due is for the timer wheel to know: here, a million of them are bits.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from itertools import groupby, islice
from typing import NamedTuple

from goqueue.core.delays.events import Cancelled, DelayedRecord, DelayEvent, Fired, Lapsed, Moved
from goqueue.core.offsetset import OffsetSet, Run
from goqueue.types import Microseconds, Offset

FINISHED_MAX = 10_000
"""So many of those that are not pending any more are remembered, the newest."""


class DelayState(IntEnum):
    MARK = 0
    """Of no message: up to there the log is applied."""
    PENDING = 1
    DELIVERED = 2
    CANCELLED = 3
    EXPIRED = 4
    """Its original is gone: purged, or dropped with the oldest messages of a topic that was full. Or it had expired
    when it fired."""
    HIDDEN = 5
    """Of no message: a mask of 64 offsets that nobody is ever handed, the first of them the lowest bit."""


_ENDS = {Fired: DelayState.DELIVERED, Cancelled: DelayState.CANCELLED, Lapsed: DelayState.EXPIRED}


class DelayChange(NamedTuple):
    """Of one delayed message: what the index notes and the timer follows."""

    state: DelayState
    offset: Offset
    time: Microseconds
    """When it is due, or when it ended."""
    at: Offset
    """Of the record that says so; what was delivered lies there."""


class Delays:
    def __init__(self) -> None:
        self.pending = OffsetSet()
        self.hidden = OffsetSet()
        """What nobody is ever handed: all originals, whatever became of them, and the records that say so."""
        self.finished: OrderedDict[Offset, DelayChange] = OrderedDict()
        """The oldest first. A plain dict would have to look for it behind all that were taken out before."""

    def load(self, pending: OffsetSet, hidden: OffsetSet, finished: Iterable[DelayChange]) -> None:
        """What was known before, in place of nothing."""
        self.pending, self.hidden = pending, hidden
        for change in finished:
            self.remember(change)

    def apply(self, event: DelayEvent) -> DelayChange | None:
        """What follows from it; None when it is about one that is no longer pending."""
        if isinstance(event, DelayedRecord):
            self.pending.add(event.offset, event.offset)
            self.hidden.add(event.offset, event.offset)
            return DelayChange(DelayState.PENDING, event.offset, event.due, event.at)
        if not isinstance(event, Fired | Lapsed):
            self.hidden.add(event.at, event.at)
        if event.offset not in self.pending:
            return None
        if isinstance(event, Moved):
            return DelayChange(DelayState.PENDING, event.offset, event.due, event.at)
        return self._finish(DelayChange(_ENDS[type(event)], event.offset, event.time, event.at))

    def apply_all(self, events: Sequence[DelayEvent]) -> list[DelayChange]:
        """What follows from many. Most come in long rows of new ones, or of those that fired together."""
        changes: list[DelayChange] = []
        for kind, row in groupby(events, type):
            if kind is DelayedRecord:
                changes += self._begin(list(row))
            elif kind is Fired:
                changes += self._deliver(list(row))
            else:
                changes += self._apply_each(row)
        return changes

    def _apply_each(self, events: Iterable[DelayEvent]) -> list[DelayChange]:
        return [change for event in events if (change := self.apply(event)) is not None]

    def _begin(self, events: Sequence[DelayEvent]) -> Iterator[DelayChange]:
        begun = OffsetSet.of(event.offset for event in events)
        self.pending.update(begun)
        self.hidden.update(begun)
        return (DelayChange(DelayState.PENDING, offset, due, at) for offset, at, due in events)

    def _deliver(self, events: Sequence[DelayEvent]) -> list[DelayChange]:
        """All at once, if each is pending and there once."""
        fired = OffsetSet.of(event.offset for event in events)
        if len(self.pending.common(fired)) < len(events):
            return self._apply_each(events)
        self.pending.take(fired)
        changes = [DelayChange(DelayState.DELIVERED, offset, time, at) for offset, at, time in events]
        self.finished.update((change.offset, change) for change in changes)
        self._forget_oldest()
        return changes

    def removed_below(
        self, log_start: Offset, now: Microseconds, at: Offset
    ) -> tuple[OffsetSet, list[DelayChange]]:
        """The originals of these are gone; the newest are remembered, however many there were.

        No record says so: it is noted behind what was said last, at `at`.
        """
        gone = self.pending.take_below(log_start)
        self.hidden.take_below(log_start)
        remembered = [DelayChange(DelayState.EXPIRED, offset, now, at) for offset in gone.last(FINISHED_MAX)]
        for change in remembered:
            self.remember(change)
        return gone, remembered

    def _finish(self, change: DelayChange) -> DelayChange:
        self.pending.discard(change.offset, change.offset)
        self.remember(change)
        return change

    def remember(self, change: DelayChange) -> None:
        self.finished[change.offset] = change
        self._forget_oldest()

    def _forget_oldest(self) -> None:
        while len(self.finished) > FINISHED_MAX:
            self.finished.popitem(last=False)

    def was_cancelled(self, offset: Offset) -> bool:
        found = self.finished.get(offset)
        return found is not None and found.state is DelayState.CANCELLED

    def pending_from(self, first: Offset, count_max: int) -> list[Offset]:
        """The next so many, in the order in which they were published."""
        return list(islice((offset for run in self.pending.runs(first) for offset in _each(run)), count_max))

    def finished_from(self, first: Offset, count_max: int) -> list[DelayChange]:
        offsets = sorted(offset for offset in self.finished if offset >= first)
        return [self.finished[offset] for offset in offsets[:count_max]]


def _each(run: Run) -> Iterator[Offset]:
    return iter(range(run.first, run.last + 1))
