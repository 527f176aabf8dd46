"""A partition's view of its groups, which others read between its turns and without a message.

It is a part of what the partition shows (actors/partition/board.py). To describe a group over many partitions wakes
none of them. A group without lag and without deliveries is described without reading the log.
"""

import trio

from goqueue.actors.delivery.acked import AckedRetention
from goqueue.actors.delivery.facts import PendingDelays, gather_facts
from goqueue.actors.delivery.ledgers import GroupHere, Ledgers
from goqueue.actors.delivery.requests import LedgerFacts, LedgerView
from goqueue.actors.delivery.view import LedgerGauges, LogMemory, gauges_of, view_of
from goqueue.core.groups.assignors import TopicPartition
from goqueue.core.ledger.shares import LANES
from goqueue.core.ledger.views import LaneFigures
from goqueue.core.names import REDRIVE
from goqueue.environment import WallClock
from goqueue.storage.log.log import Log
from goqueue.types import Microseconds, Offset

NONE_SERVED = (LaneFigures(0, 0, 0, None),) * len(LANES)


class LedgerBoard:
    """The state of the ledgers, and what they say of the log."""

    __slots__ = ("_clock", "_delays", "_memory", "acked", "ledgers", "log", "partition")

    def __init__(
        self,
        ledgers: Ledgers,
        log: Log,
        partition: TopicPartition,
        clock: WallClock,
        delays: PendingDelays,
        *,
        acked: AckedRetention,
    ) -> None:
        self.ledgers = ledgers
        self.log = log
        self.partition = partition
        self.acked = acked
        self._clock = clock
        self._delays = delays
        self._memory: LogMemory | None = None

    def committed(self, group: str) -> Offset | None:
        """None when the group has not begun here."""
        here = self.ledgers.groups.get(group)
        return None if here is None else here.ledger.committed

    def is_durable(self, group: str) -> bool:
        """Whether this group's ledger survives a power cut."""
        return self.ledgers.is_durable(group)

    def groups_with_dead_letters(self) -> list[str]:
        """Those whose dead letters wait for a transfer, or for the end of one."""
        ledgers = ((name, here.ledger) for name, here in self.ledgers.groups.items() if name != REDRIVE)
        return [
            name for name, ledger in ledgers if ledger.transfer_under_way is not None or ledger.next_dead_letters(1)
        ]

    def has_work(self, group: str) -> bool:
        """Whether the group has begun here, and is not done with all of the log."""
        here = self.ledgers.groups.get(group)
        return here is not None and here.ledger.committed < self.log.end_offset

    def at_rest(self, group: str) -> LedgerView | None:
        """The view of a group that is done with all of the log; None if it is not: then use `view`."""
        here = self.ledgers.groups.get(group)
        return None if here is None else _view_at_rest(here, self.log)

    async def view(self, group: str) -> LedgerView | None:
        """None when the group has not begun here."""
        here = self.ledgers.groups.get(group)
        return None if here is None else await view_of(here, self._remembered(), self._clock, self._delays.hidden)

    async def view_nearby(self, group: str, near_max: int) -> LedgerView | None:
        """The same, where no more messages of a lane are counted than these."""
        here = self.ledgers.groups.get(group)
        if here is None:
            return None
        return await view_of(here, self._remembered(), self._clock, self._delays.hidden, near_max)

    def gauges(self, group: str, now: float) -> LedgerGauges | None:
        """What is known without reading the log. None when the group has not begun here."""
        here = self.ledgers.groups.get(group)
        return None if here is None else gauges_of(here, self.log, self._delays.hidden, now)

    def known_age(self, offset: Offset) -> float | None:
        """The age of a message in seconds; None if the log has to be read for it."""
        if not self.log.log_start <= offset < self.log.high_watermark:
            return 0.0
        return self._age(self._remembered().known_append_time(offset))

    async def age(self, offset: Offset) -> float:
        """Reads the log. 0 if there is no readable message."""
        return self._age(await self._remembered().append_time(offset)) or 0.0

    def _age(self, appended: Microseconds | None) -> float | None:
        return None if appended is None else max(0, self._clock.now() - appended) / 1_000_000

    async def facts(self, group: str) -> LedgerFacts | None:
        """None when the group has not begun here."""
        here = self.ledgers.groups.get(group)
        return (
            None if here is None else await gather_facts(here, self.log, self.partition, self._clock, self._delays)
        )

    def _remembered(self) -> LogMemory:
        """Made for the first reader: most partitions have none."""
        if self._memory is None:
            self._memory = LogMemory(self.log)
        return self._memory


def _view_at_rest(here: GroupHere, log: Log) -> LedgerView | None:
    """The same as `view_of`, or None when there is something to count."""
    ledger, end = here.ledger, log.end_offset
    if ledger.committed < end or log.high_watermark < end:
        return None
    progress = ledger.progress(trio.current_time())
    served = ledger.served
    lanes = tuple(LaneFigures(0, 0, served[lane], None) for lane in LANES) if any(served) else NONE_SERVED
    return LedgerView(progress, end, progress.lag(end, 0), None, lanes, here.written.lost)
