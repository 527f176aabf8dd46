"""Takes messages for a member: planned by the group's ledger, read from the log, handed out.

The messages of a delivery are read first: from the growing segment within the turn, from older ones in a background
task, one reader of a group at a time. While it reads, others may settle, and leases may end: that only adds ready
messages. Changes that could remove messages from a plan are counted, and make the reader plan anew.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import trio

from goqueue.actors.delivery.gathering import Gathered
from goqueue.actors.delivery.lanes import GatheredLanes, LaneGatherer
from goqueue.actors.delivery.ledgers import GroupHere, Ledgers
from goqueue.actors.delivery.repair import Mending
from goqueue.actors.delivery.requests import Take, Taken
from goqueue.actors.delivery.waiting import Waiters
from goqueue.actors.runtime.handlers import defers
from goqueue.actors.runtime.messages import Reply
from goqueue.actors.runtime.parts import PartHost, refusing
from goqueue.actors.statistics.groups import GroupCounts
from goqueue.core.groups.assignors import TopicPartition
from goqueue.core.ledger.entries import Entry
from goqueue.core.ledger.handout import HandOut, Recipient
from goqueue.core.ledger.views import Plan
from goqueue.core.receipts import NONCE_BITS
from goqueue.core.slices.deliverable import Reader
from goqueue.core.slices.readcache import PartitionCache
from goqueue.environment import WallClock
from goqueue.errors import GroupConflict, OffsetOutOfRange
from goqueue.storage.log.log import Log

TRIES_MAX = 16
"""Maximum number of plans for one request; then it is answered with no messages."""


@dataclass(eq=False, slots=True)
class Taking:
    """A part of a partition."""

    ledgers: Ledgers
    log: Log
    host: PartHost
    partition: TopicPartition
    clock: WallClock
    random: Random
    waiters: Waiters
    mending: Mending
    cache: PartitionCache
    counts: GroupCounts

    @defers(Take)
    async def take(self, message: Take, reply: Reply[Taken]) -> None:
        here = self._check_may_take(message)
        here.askers.note(message.member, trio.current_time())
        if here.readers or here.ledger.lacks_keys or not self._is_warm_for(here):
            here.readers += 1
            self.host.background(self._take_in_turn, here, message, reply)
        else:
            await self._take(here, message, reply)

    def _check_may_take(self, message: Take) -> GroupHere:
        here = self.ledgers.find(message.group)
        here.tenure.check(message.member, message.generation, message.instance, self.partition.label)
        if here.is_stream:
            raise GroupConflict(
                f'group {here.name} has mode "stream": read its partitions and commit offsets, nothing is received',
                settings=["mode"],
            )
        return here

    def _is_warm_for(self, here: GroupHere) -> bool:
        """Whether the next messages are in the growing segment, which is read without waiting."""
        warm_from, ledger = self.log.growing_from, here.ledger
        if ledger.committed >= warm_from:
            return True
        return ledger.next_fresh >= warm_from and not ledger.has_ready(trio.current_time())

    async def _take_in_turn(self, here: GroupHere, message: Take, reply: Reply[Taken]) -> None:
        try:
            with refusing(reply):
                async with here.turn:
                    await self._take(here, message, reply)
        finally:
            here.readers -= 1

    async def _take(self, here: GroupHere, message: Take, reply: Reply[Taken]) -> None:
        if not here.tenure.is_shared:
            await self._take_what_is_there(here, message, reply)
            return
        self.waiters.note_came(here.name)
        try:
            await self._take_what_is_there(here, message, reply)
        finally:
            self.waiters.call_next(here)

    async def _take_what_is_there(self, here: GroupHere, message: Take, reply: Reply[Taken]) -> None:
        ledger, log, cache = here.ledger, self.log, self.cache
        gatherer = LaneGatherer(log, cache.indexes, cache.stretches)
        gatherer.recent, gatherer.reads_again = cache.batches, ledger.settings.key_order
        for _ in range(TRIES_MAX):
            if ledger.lacks_keys:
                ledger.learn_keys(await gatherer.read_keys(ledger.unsettled()))
            if ledger.committed < log.log_start:
                self.ledgers.note_removed(here, log.log_start)
            self.mending.note_known(here)
            gatherer.set_aside = ledger.damage.set_aside
            plan = self._plan_for(here, message, gatherer)
            if not self._is_worth_a_look(here, plan) or not reply.wanted:
                break
            removals, reader = here.removals, Reader(here.name, self.clock.now())
            try:
                gathered = await self._gather(here, message, plan, gatherer, reader)
            except OffsetOutOfRange:  # removed by retention
                continue
            if self._check_may_take(message) is not here:
                break
            if here.removals == removals and self.mending.note(here, gathered.damages):
                continue
            if here.removals == removals and reply.wanted:
                self._hand_out(here, message, plan, gathered, reply)
                if reply.settled:
                    return
        reply.resolve(Taken(0, (), b"", False, plan.alone_waiting))

    def _plan_for(self, here: GroupHere, message: Take, gatherer: LaneGatherer) -> Plan:
        ledger = here.ledger
        return ledger.plan(
            trio.current_time(),
            message.member,
            message.messages_max if message.bytes_max > 0 else 0,
            is_busy=message.is_busy,
            lasts_max=message.lasts_max,
            fresh=gatherer.fresh_lanes(ledger.fresh_places, ledger.next_fresh),
        )

    def _is_worth_a_look(self, here: GroupHere, plan: Plan) -> bool:
        """True also when no lane has messages: then all lanes are moved to the end."""
        is_idle = plan.dealt is not None and not any(plan.dealt.work) and not here.ledger.looks_no_further
        return self.waiters.has(here, plan) or (is_idle and here.ledger.next_fresh < self.log.high_watermark)

    async def _gather(
        self, here: GroupHere, message: Take, plan: Plan, gatherer: LaneGatherer, reader: Reader
    ) -> Gathered | GatheredLanes:
        if plan.dealt is not None:
            places = here.ledger.fresh_places
            return await gatherer.gather_lanes(plan, plan.dealt, places, reader, message.bytes_max)
        gathered = await gatherer.gather(plan, reader, message.bytes_max, here.last_batch)
        here.last_batch = gathered.last_batch
        return gathered

    # Handing out. A message uses an attempt when its delivery is journaled, so every such delivery must be
    # answered: what builds the answer may fail, and comes first; notes and statistics come last.

    def _hand_out(
        self, here: GroupHere, message: Take, plan: Plan, gathered: Gathered | GatheredLanes, reply: Reply[Taken]
    ) -> None:
        """Settle the reply with a delivery. An unsettled reply means: plan again, something was skipped."""
        now, ledger, indexes = trio.current_time(), here.ledger, self.cache.indexes
        nonce = self.random.getrandbits(NONCE_BITS)
        to = Recipient(self.clock.now(), message.member, nonce, message.visibility, message.tells_begun)
        scanned = gathered.scanned(indexes if ledger.settings.key_order else None)
        decided = ledger.hand_out(now, to, plan, scanned)
        taken = self._answer(gathered, decided) if decided.gives else None
        if decided.gives:
            here.takers.note(message.member, message.instance, ledger.deliveries_to)
        self._journal_and_answer(here, decided.entries, now, taken, reply)
        ledger.handed_out(now, decided)
        if decided.counts is not None:
            self.counts.of[message.group].note_served(decided.counts)
            here.last_delivery = (message.member, now)

    def _answer(self, gathered: Gathered | GatheredLanes, decided: HandOut) -> Taken:
        plan, data = decided.plan, gathered.data_of(decided, self.cache.indexes)
        return Taken(decided.nonce, decided.runs, data, plan.is_alone, plan.alone_waiting, decided.sets)

    def _journal_and_answer(
        self, here: GroupHere, entries: Sequence[Entry], now: float, taken: Taken | None, reply: Reply[Taken]
    ) -> None:
        """Nothing that may fail comes between the two."""
        if entries:
            self.ledgers.write(here, entries, now)
        if taken is not None:
            reply.resolve(taken)
