"""What a ledger knows of keys, for a group that keeps their order (keyorder.py).

Known from the log and the ledger, it is never written down: after a restart, and when a group begins to keep the
order of keys, those of what is not settled are read again before anything is handed out.

Fresh messages are looked at in the order of the log, and those that have to wait for their keys are held back: the
journal says that they were delivered, and released in the same breath. So they stand among those that are ready
again, on their first delivery, and nothing else has to know of them.
"""

from collections.abc import Iterable, Iterator, Sequence

from goqueue.core.keyorder import Keyed, KeyOrder, joined
from goqueue.core.ledgerattempts import FRESH, AttemptRun, count
from goqueue.core.ledgerentries import (
    Acked,
    CutBack,
    Delivered,
    Entry,
    Expired,
    Nacked,
    PassedOver,
    Rejected,
    Released,
    Removed,
    Reset,
)
from goqueue.core.offsetset import OffsetSet, Run
from goqueue.core.receipts import OFFSET_MAX
from goqueue.types import Offset

LOOK_AHEAD_MAX = 10_000
"""So many messages may be ready, or wait for their keys, before no more are looked at."""
LOOK_MIN = 500
"""So many are looked at at a time: among fewer there may be none that may leave."""


def how_far_to_look(wanted: int, ready: int) -> int:
    return max(0, min(max(wanted, LOOK_MIN), LOOK_AHEAD_MAX - ready)) if wanted else 0


class LedgerKeys:
    def __init__(self) -> None:
        self._order: KeyOrder | None = None

    @property
    def are_known(self) -> bool:
        return self._order is not None

    def learn(self, unsettled: Iterable[Run], keyed: Iterable[Keyed]) -> None:
        """Those of what is not settled; some may have been settled since they were read."""
        standing = OffsetSet(unsettled)
        self._order = KeyOrder((offset, key) for offset, key in keyed if offset in standing)

    def forget(self) -> None:
        self._order = None

    def note(self, keyed: Iterable[Keyed]) -> None:
        """These were looked at, and that is journaled."""
        if self._order is not None:
            self._order.note(keyed)

    def note_entry(self, entry: Entry) -> None:
        if self._order is not None:
            for run in _settled_by(entry):
                self._order.settled(run.first, run.last)

    def those_that_may_leave(self, runs: Iterator[AttemptRun]) -> Iterator[AttemptRun]:
        return runs if self._order is None else self._order.first_of_their_keys(runs)

    def count_waiting(self, runs: Sequence[AttemptRun]) -> int:
        """How many of these have to wait for an earlier one of their key."""
        return 0 if self._order is None else count(runs) - count(self._order.first_of_their_keys(runs))

    def longest_row(self) -> tuple[Offset, int] | None:
        """The message that the most wait for, and how many they are; None when nobody waits."""
        return None if self._order is None else self._order.longest_row()

    def hold_back(self, delivered: Delivered, keyed: Iterable[Keyed], give_max: int) -> Released | None:
        """What of the fresh ones is not handed out yet. It is journaled together with the delivery."""
        if self._order is None:
            return None
        waiting = self._order.those_that_wait(delivered.fresh, keyed, give_max)
        runs = tuple(AttemptRun(first, last, FRESH.attempt) for first, last in joined(waiting))
        return Released(delivered.nonce, runs) if runs else None


def _settled_by(entry: Entry) -> Iterable[Run | AttemptRun]:
    """What nobody of the same key waits for any more."""
    match entry:
        case Acked() | Rejected() | PassedOver():
            return entry.runs
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
