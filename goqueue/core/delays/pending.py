"""The delayed messages of one partition: which are pending, and what became of those that are not.

The state is built from the log's events in their order (events.py), so it is the same after a crash. The timer
wheel only says that something may be due: whether it is, and whether it still is pending, is known here.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from itertools import groupby, islice
from typing import NamedTuple, cast

from goqueue.core.delays.duetimes import DueTimes
from goqueue.core.delays.events import Cancelled, DelayedRecord, DelayEvent, Fired, Lapsed, Moved
from goqueue.core.offsetset import OffsetSet, Run
from goqueue.types import Microseconds, Offset

FINISHED_MAX = 10_000
"""Limit of the finished delays that are remembered; the oldest are forgotten first."""


class DelayState(IntEnum):
    MARK = 0
    """No message's state: an index entry that says up to which offset the log is applied."""
    PENDING = 1
    DELIVERED = 2
    CANCELLED = 3
    EXPIRED = 4
    """Its original is gone: purged, or dropped with the oldest messages of a topic that was full. Or it had expired
    when it fired."""
    HIDDEN = 5
    """No message's state: a mask of 64 offsets that are never delivered, the first of them the lowest bit."""


_ENDS = {Fired: DelayState.DELIVERED, Cancelled: DelayState.CANCELLED, Lapsed: DelayState.EXPIRED}


class DelayChange(NamedTuple):
    """A change of one delayed message, which the index notes and the timer follows."""

    state: DelayState
    offset: Offset
    time: Microseconds
    """When it is due, or when it ended."""
    at: Offset
    """The offset of the record that says so. If it was delivered, the message lies there."""


class Delays:
    def __init__(self) -> None:
        self.pending = OffsetSet()
        self.dues = DueTimes()
        """When each of the pending messages is due."""
        self.hidden = OffsetSet()
        """Offsets that are never delivered: all originals, whatever became of them, and the control records about
        them."""
        self.finished: OrderedDict[Offset, DelayChange] = OrderedDict()
        """The oldest first. A plain dict would search for its first entry behind all that were removed."""

    def load(self, pending: OffsetSet, dues: DueTimes, hidden: OffsetSet, finished: Iterable[DelayChange]) -> None:
        """Start from a saved state."""
        self.pending, self.dues, self.hidden = pending, dues, hidden
        for change in finished:
            self.remember(change)

    def apply(self, event: DelayEvent) -> DelayChange | None:
        """The change that follows from an event; None if its message is no longer pending."""
        if isinstance(event, DelayedRecord):
            self.pending.add(event.offset, event.offset)
            self.hidden.add(event.offset, event.offset)
            return self._due(event)
        if not isinstance(event, Fired | Lapsed):
            self.hidden.add(event.at, event.at)
        if event.offset not in self.pending:
            return None
        if isinstance(event, Moved):
            return self._due(event)
        return self._finish(DelayChange(_ENDS[type(event)], event.offset, event.time, event.at))

    def _due(self, event: DelayedRecord | Moved) -> DelayChange:
        self.dues.set(event.offset, event.due)
        return DelayChange(DelayState.PENDING, event.offset, event.due, event.at)

    def apply_all(self, events: Sequence[DelayEvent]) -> list[DelayChange]:
        """The changes that follow from many events. Most come in long runs of new delays, or of messages that fired
        together."""
        changes: list[DelayChange] = []
        for kind, row in groupby(events, type):
            if kind is DelayedRecord:
                changes += self._begin(cast(list[DelayedRecord], list(row)))
            elif kind is Fired:
                changes += self._deliver(list(row))
            else:
                changes += self._apply_each(row)
        return changes

    def _apply_each(self, events: Iterable[DelayEvent]) -> list[DelayChange]:
        return [change for event in events if (change := self.apply(event)) is not None]

    def _begin(self, events: Sequence[DelayedRecord]) -> Iterator[DelayChange]:
        offsets = [event.offset for event in events]
        begun = OffsetSet.of(offsets)
        self.dues.set_all(offsets, [event.due for event in events])
        self.pending.update(begun)
        self.hidden.update(begun)
        return (DelayChange(DelayState.PENDING, offset, due, at) for offset, at, due in events)

    def _deliver(self, events: Sequence[DelayEvent]) -> list[DelayChange]:
        """All at once, if each is pending and occurs once."""
        fired = OffsetSet.of(event.offset for event in events)
        if len(self.pending.common(fired)) < len(events):
            return self._apply_each(events)
        self.pending.take(fired)
        for event in events:
            self.dues.remove(event.offset)
        changes = [DelayChange(DelayState.DELIVERED, offset, time, at) for offset, at, time in events]
        self.finished.update((change.offset, change) for change in changes)
        self._forget_oldest()
        return changes

    def removed_below(
        self, log_start: Offset, now: Microseconds, at: Offset
    ) -> tuple[OffsetSet, list[DelayChange]]:
        """The log below `log_start` was removed: the pending messages that are gone, and the changes of the newest
        of them, at most `FINISHED_MAX`.

        No record says so: the changes are noted behind the last record, at `at`.
        """
        gone = self.forget_below(log_start)
        remembered = [DelayChange(DelayState.EXPIRED, offset, now, at) for offset in gone.last(FINISHED_MAX)]
        for change in remembered:
            self.remember(change)
        return gone, remembered

    def forget_below(self, log_start: Offset) -> OffsetSet:
        """Returns the messages that were pending."""
        self.dues.remove_below(log_start)
        self.hidden.take_below(log_start)
        return self.pending.take_below(log_start)

    def _finish(self, change: DelayChange) -> DelayChange:
        self.pending.discard(change.offset, change.offset)
        self.dues.remove(change.offset)
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
        """The next pending messages, at most `count_max`, in the order in which they were published."""
        return list(islice((offset for run in self.pending.runs(first) for offset in _each(run)), count_max))

    def finished_from(self, first: Offset, count_max: int) -> list[DelayChange]:
        offsets = sorted(offset for offset in self.finished if offset >= first)
        return [self.finished[offset] for offset in offsets[:count_max]]


def _each(run: Run) -> Iterator[Offset]:
    return iter(range(run.first, run.last + 1))
