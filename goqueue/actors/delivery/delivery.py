"""Consumer groups on a partition: deliveries, receipts, progress and waiters.

Each request is decided by the group's ledger, journaled, applied, and then answered. The parts of it:

    owners         which groups read here, and which member may
    waiters        members that wait for messages
    taking         deliveries
    settling       receipts
    streams        commits of members that read by themselves
    dead letters   what leaves for the dead-letter topic
    orders         resets, and damage that operators give up
    acked          how far all groups are done, for retention
"""

from collections.abc import Callable
from random import Random

from goqueue.actors.delivery.acked import AckedRetention
from goqueue.actors.delivery.board import LedgerBoard
from goqueue.actors.delivery.deadletters import DeadLetterTransfers
from goqueue.actors.delivery.facts import PendingDelays
from goqueue.actors.delivery.ledgers import Ledgers
from goqueue.actors.delivery.orders import LedgerOrders
from goqueue.actors.delivery.owners import GroupOwners
from goqueue.actors.delivery.repair import Mending
from goqueue.actors.delivery.settling import GroupSettling
from goqueue.actors.delivery.streams import GroupStreams
from goqueue.actors.delivery.taking import Taking
from goqueue.actors.delivery.waiting import Waiters
from goqueue.actors.delivery.writing import LedgerWriter
from goqueue.actors.runtime.parts import PartHost
from goqueue.actors.runtime.ref import ActorRef
from goqueue.actors.statistics.groups import GroupCounts
from goqueue.core.deadlines import earliest
from goqueue.core.groups.assignors import TopicPartition
from goqueue.core.slices.cachebudget import CacheBudget
from goqueue.core.slices.readcache import PartitionCache
from goqueue.environment import WallClock
from goqueue.storage.log.log import Log
from goqueue.storage.log.volume import Volume
from goqueue.types import Offset


class GroupDelivery:
    """A part of a partition."""

    acked_class: type[AckedRetention] = AckedRetention
    """The simulator plants bugs by replacing it."""

    def __init__(
        self,
        host: PartHost,
        log: Log,
        *,
        volume: Volume,
        clock: WallClock,
        random: Random,
        counts: GroupCounts,
        budget: CacheBudget,
        delays: PendingDelays,
        note_awaited: Callable[[], None],
        dead_letters: ActorRef | None,
    ) -> None:
        """`note_awaited`: a member waits for messages that are written and not durable. `dead_letters` is told of
        dead letters."""
        *_, topic, number = log.directory.split("/")
        partition = TopicPartition(topic, int(number))
        self._host = host
        self._log = log
        self._counts = counts
        self.cache = PartitionCache(budget)
        self.ledgers = ledgers = Ledgers(volume, clock, log.directory, random, counts)
        self.acked = self.acked_class(ledgers, log)
        self.board = LedgerBoard(ledgers, log, partition, clock, delays, acked=self.acked)
        self.waiters = waiters = Waiters(ledgers, log, host, note_awaited)
        self.writer = writer = LedgerWriter(ledgers, waiters, partition, host, dead_letters)
        self.mending = mending = Mending(ledgers, log, host, partition, clock, self.cache.indexes, writer)
        self.streams = GroupStreams(ledgers, log, partition, writer)
        self.settling = GroupSettling(ledgers, writer, clock, counts)
        self.parts = (
            waiters,
            self.settling,
            self.streams,
            GroupOwners(ledgers, log, host, partition, volume, clock, writer, waiters, mending, counts),
            Taking(ledgers, log, host, partition, clock, random, waiters, mending, self.cache, counts),
            DeadLetterTransfers(ledgers, log, host, writer, mending, counts),
            LedgerOrders(ledgers, log, host, writer, mending),
        )

    # Its life

    async def open(self) -> None:
        await self.ledgers.open_if_there(self._log)
        self._counts.ledgers_lost += self.ledgers.lost_count
        if self.ledgers.is_open:
            self._host.background(self.ledgers.keep, endless=True)

    def dismiss(self) -> None:
        """Wake all waiters, which find nothing: a stop does not wait for them."""
        self.waiters.let_all_go()

    async def close(self) -> None:
        """Make all journal entries durable (G15)."""
        self.dismiss()
        await self.ledgers.close()

    # Turns

    # Time, and the log

    def next_deadline(self) -> float | None:
        return earliest(self.ledgers.deadlines.next(), self.waiters.next_deadline())

    def tick(self, now: float) -> None:
        self.waiters.tick(now)
        for here, expired in self.ledgers.tick(now):
            self._counts.of[here.name].note_endings(expired)
            self.writer.spread(here, expired)

    def note_removed(self, below: Offset) -> None:
        """Retention or a purge removed the messages before `below`."""
        self.ledgers.note_removed_from_all(below)
