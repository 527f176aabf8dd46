"""What a ledger knows of keys, for a group that keeps their order (keyorder.py).

It follows from the log and the ledger, and is never written down: after a restart, and when a group begins to keep
the order of keys, the keys of unsettled messages are read again before anything is delivered.

Fresh messages are looked at in the order of the log, and those that wait for their keys are held back: the journal
says that they were delivered, and released at once. So they are ready for a redelivery, on their first attempt, and
nothing else has to know of them.
"""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from goqueue.core.ledger.attempts import FRESH_ATTEMPT, AttemptRun, Standing
from goqueue.core.ledger.entries import (
    Acked,
    CutBack,
    Damaged,
    Entry,
    Expired,
    Nacked,
    PassedOver,
    Rejected,
    Released,
    Removed,
    Reset,
)
from goqueue.core.ledger.keyorder import Keyed, KeyOrder, Looked, joined
from goqueue.core.offsetset import OffsetSet, Run
from goqueue.core.receipts import OFFSET_MAX
from goqueue.types import Offset

StandingSet: TypeAlias = tuple[Standing, OffsetSet]

LOOK_AHEAD_MAX = 10_000
"""Limit of the messages that are ready or wait for their keys; at the limit no fresh messages are looked at."""
LOOK_MIN = 500
"""Minimum number of messages for one look: among fewer there may be none that can be delivered."""


def how_far_to_look(wanted: int, ready: int) -> int:
    return max(0, min(max(wanted, LOOK_MIN), LOOK_AHEAD_MAX - ready)) if wanted else 0


class LedgerKeys:
    def __init__(self) -> None:
        self._order: KeyOrder | None = None

    @property
    def are_known(self) -> bool:
        return self._order is not None

    def learn(self, unsettled: Iterable[Run], keyed: Iterable[Keyed]) -> None:
        """Learn the keys of unsettled messages; some may have been settled since they were read."""
        standing = OffsetSet(unsettled)
        self._order = KeyOrder((offset, key) for offset, key in keyed if offset in standing)

    def forget(self) -> None:
        self._order = None

    def look(self, fresh: Iterable[Run], keyed: dict[Offset, int] | Iterable[Keyed], give_max: int) -> Looked:
        """Look at fresh messages."""
        order = self._order if self._order is not None else KeyOrder()
        return order.look(fresh, keyed, give_max)

    def note(self, looked: Looked) -> None:
        """These were looked at, and that is journaled."""
        if self._order is not None:
            self._order.note(looked)

    def note_entry(self, entry: Entry) -> None:
        if self._order is not None:
            self._order.settled(_settled_by(entry))

    def those_that_may_leave(self, sets: Sequence[StandingSet]) -> Sequence[StandingSet]:
        if self._order is None:
            return sets
        waiting = self._order.waiting
        return [(standing, offsets.without(waiting)) for standing, offsets in sets]

    def count_waiting(self, sets: Sequence[StandingSet]) -> int:
        """How many of these wait for an earlier message of their key."""
        if self._order is None:
            return 0
        waiting = self._order.waiting
        return sum(len(offsets.common(waiting)) for _, offsets in sets)

    def longest_backlog(self) -> tuple[Offset, int] | None:
        """The message that the most others wait for, and how many they are; None when none waits."""
        return None if self._order is None else self._order.longest_backlog()

    def note_acked(self, offsets: Iterable[Offset]) -> None:
        """A whole delivery was acked."""
        if self._order is not None:
            self._order.settle(offsets)

    def hold_back(self, nonce: int, looked: Iterable[Looked]) -> Released | None:
        """Release the fresh messages that are not delivered yet. It is journaled together with the delivery."""
        runs = [AttemptRun(first, last, FRESH_ATTEMPT) for each in looked for first, last in joined(each.held)]
        return Released(nonce, tuple(sorted(runs))) if runs else None


def _settled_by(entry: Entry) -> Iterable[Run | AttemptRun]:
    """Messages that hold back no others of their key any more."""
    match entry:
        case Acked():
            return entry.runs or ()
        case Rejected() | PassedOver():
            return entry.runs
        case Damaged():  # the keys of a damaged range are unknown, so it holds no others back
            return entry.offsets.runs()
        case Nacked():
            return entry.leaving
        case Expired():
            return () if entry.reason is None else entry.runs
        case Removed():
            return (Run(0, entry.offset - 1),)
        case CutBack():
            return (Run(entry.end, OFFSET_MAX),)
        case Reset():
            return (Run(0, OFFSET_MAX),)
    return ()
