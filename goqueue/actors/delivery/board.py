"""A partition's view of its groups, which others read between its turns and without a message.

A partition puts its board on its mailbox (`Actor.show`), and a group reads it there: to describe a group over many
partitions wakes none of them. A group without lag and without deliveries is described without reading the log.
"""

import trio

from goqueue.actors.delivery.facts import PendingDelays
from goqueue.actors.delivery.ledgers import GroupHere, Ledgers
from goqueue.actors.delivery.requests import LedgerView
from goqueue.actors.delivery.view import LogMemory, view_of
from goqueue.core.ledger.shares import LANES
from goqueue.core.ledger.views import LaneFigures
from goqueue.core.names import REDRIVE
from goqueue.environment import WallClock
from goqueue.storage.log.log import Log
from goqueue.types import Offset


class ProgressBoard:
    """The state of the ledgers."""

    def __init__(self, ledgers: Ledgers) -> None:
        self.ledgers = ledgers

    def committed(self, group: str) -> Offset | None:
        """None when the group has not begun here."""
        here = self.ledgers.groups.get(group)
        return None if here is None else here.ledger.committed

    def is_durable(self, group: str) -> bool:
        """Whether this group's ledger survives a power cut."""
        return self.ledgers.is_durable(group)


class LedgerBoard(ProgressBoard):
    """The state of the ledgers, and what they say of the log."""

    def __init__(self, ledgers: Ledgers, log: Log, clock: WallClock, delays: PendingDelays) -> None:
        super().__init__(ledgers)
        self.log = log
        self._memory = LogMemory(log)
        self._clock = clock
        self._delays = delays

    def has(self, group: str) -> bool:
        return group in self.ledgers.groups

    def groups_with_dead_letters(self) -> list[str]:
        """Those whose dead letters wait for a transfer, or for the end of one."""
        ledgers = ((name, here.ledger) for name, here in self.ledgers.groups.items() if name != REDRIVE)
        return [
            name for name, ledger in ledgers if ledger.transfer_under_way is not None or ledger.next_dead_letters(1)
        ]

    def at_rest(self, group: str) -> LedgerView | None:
        """The view of a group that is done with all of the log; None if it is not: then use `view`."""
        here = self.ledgers.groups.get(group)
        return None if here is None else view_at_rest(here, self.log)

    async def view(self, group: str) -> LedgerView | None:
        """None when the group has not begun here."""
        here = self.ledgers.groups.get(group)
        return None if here is None else await view_of(here, self._memory, self._clock, self._delays.hidden)


def view_at_rest(here: GroupHere, log: Log) -> LedgerView | None:
    """The same as `view_of`, or None when there is something to count."""
    ledger, end = here.ledger, log.end_offset
    if ledger.committed < end or log.high_watermark < end:
        return None
    progress = ledger.progress(trio.current_time())
    if progress.in_flight or progress.waiting or progress.ready_again or progress.leaving or progress.in_transfer:
        return None
    lanes = tuple(LaneFigures(0, 0, ledger.served[lane], None) for lane in LANES)
    return LedgerView(progress, end, progress.lag(end, 0), None, lanes, here.written.lost)
