"""Consumer groups on a partition: deliveries, receipts, progress and waiters.

Each request is decided by the group's ledger, journaled, applied, and then answered. The messages of a delivery are
read first: from the growing segment within the turn, from older ones in a background task, one reader of a group at
a time. While it reads, others may settle, and leases may end: that only adds ready messages. Changes that could
remove messages from a plan are counted, and make the reader plan anew.
"""

import logging
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any, TypeVar, TypeVarTuple

import trio

from goqueue.actors.delivery.beginning import LedgerBeginning
from goqueue.actors.delivery.deadletters import next_to_leave, transfer, under_way
from goqueue.actors.delivery.facts import PendingDelays, gather_facts
from goqueue.actors.delivery.gathering import Gathered
from goqueue.actors.delivery.handing import HandingOut, nothing
from goqueue.actors.delivery.lanes import GatheredLanes, LaneGatherer
from goqueue.actors.delivery.ledgers import GroupHere, Ledgers
from goqueue.actors.delivery.repair import Mending
from goqueue.actors.delivery.requests import (
    AssignPartition,
    AttachGroup,
    ConfirmDeadLetters,
    DeadLetters,
    DeadLettersWait,
    DescribeLedger,
    FindCommitted,
    ForgetGroup,
    GatherLedgerFacts,
    IsLedgerDurable,
    LedgerFacts,
    LedgerHolder,
    LedgerView,
    ListLedgers,
    ReleaseMember,
    ReplaceMember,
    ResetLedger,
    SettleRuns,
    SkipDamaged,
    SkippedHere,
    Take,
    TakeDeadLetters,
    Taken,
)
from goqueue.actors.delivery.settling import leaves, settled
from goqueue.actors.delivery.view import LogMemory, start_in, view_of
from goqueue.actors.delivery.waiting import DeliveryWaiting
from goqueue.actors.runtime.handlers import answers, defers
from goqueue.actors.runtime.messages import Reply
from goqueue.actors.statistics.groups import GroupCounts
from goqueue.core.groups.assignors import TopicPartition
from goqueue.core.groups.start import may_miss, parse_start
from goqueue.core.ledger.attempts import AttemptRuns
from goqueue.core.ledger.entries import Entry
from goqueue.core.ledger.views import Plan
from goqueue.core.slices.cachebudget import CacheBudget
from goqueue.core.slices.deliverable import Reader
from goqueue.core.slices.readcache import PartitionCache
from goqueue.environment import WallClock
from goqueue.errors import GoQueueError, GroupConflict, LogStopped, OffsetOutOfRange
from goqueue.storage.log.volume import Volume
from goqueue.types import Offset

TRIES_MAX = 16
"""Maximum number of plans for one request; then it is answered with no messages."""

AnswerT = TypeVar("AnswerT")
Args = TypeVarTuple("Args")

logger = logging.getLogger("goqueue.ledgers")


@contextmanager
def refusing(reply: Reply[Any]) -> Iterator[None]:
    """For background tasks: the caller gets a refusal. A failed disk ends the partition, as it does within a
    turn."""
    try:
        yield
    except LogStopped:
        raise
    except GoQueueError as error:
        reply.fail(error)


class GroupDelivery(DeliveryWaiting):
    """The base of a partition, which calls `open_ledgers` in its start and `close_ledgers` in its stop."""

    def __init__(
        self,
        volume: Volume,
        clock: WallClock,
        directory: str,
        random: Random,
        counts: GroupCounts,
        *,
        budget: CacheBudget,
    ) -> None:
        super().__init__()
        self._counts = counts
        self.ledgers = Ledgers(volume, clock, directory, random, self.note_change)
        self._wall_clock = clock
        self._beginning = LedgerBeginning(self.ledgers, volume, clock, directory, counts)
        *_, self._topic, number = directory.split("/")
        self._number = int(number)
        self.cache = PartitionCache(budget)
        self.handing = HandingOut(self.ledgers, clock, random, self.cache.indexes, counts)
        self.mending = Mending(self.ledgers, f"{self._topic}/{number}", clock, self.cache.indexes, self)

    @property
    @abstractmethod
    def delays(self) -> PendingDelays:
        """The delayed messages, to explain why nothing is delivered."""

    async def open_ledgers(self) -> None:
        await self.ledgers.open_if_there(self.log)
        self._counts.ledgers_lost += self.ledgers.lost_count
        if self.ledgers.is_open:
            self.background(self.ledgers.keep, endless=True)

    async def close_ledgers(self) -> None:
        """Make all journal entries durable (G15)."""
        self.dismiss_members()
        await self.ledgers.close()

    # Groups and owners

    @defers(AttachGroup)
    async def attach(self, message: AttachGroup, reply: Reply[None]) -> None:
        here = await self._found_or_begun(message)
        self.ledgers.change_settings(here, message.settings, message.group_settings)
        here.listener = message.listener
        here.listener.hint()  # of what was written before
        here.is_shared, here.is_stream = message.is_shared, message.is_stream
        self._assign(here, message.member, message.generation)
        if here.ledger.next_dead_letters(1) or here.ledger.transfer_under_way is not None:
            self.tell_that_some_leave(here)
        self.mending.take_up(here, self.log)
        # The start is durable before the answer: after a power loss `latest` would be a later offset. The earliest
        # offset stays the same, so this does not wait for a sync: it is durable soon, with what follows it.
        if may_miss(message.start):
            self.background(self._answer, reply, self.ledgers.commit)
        else:
            reply.resolve(None)

    async def _found_or_begun(self, message: AttachGroup) -> GroupHere:
        """The group; begun if need be, also when it replaces a deleted group of this name."""
        if not self.ledgers.is_open:
            await self.ledgers.open()
            self.background(self.ledgers.keep, endless=True)
        return await self._beginning.find_or_begin(self.log, message)

    @answers(IsLedgerDurable)
    async def is_ledger_durable(self, message: IsLedgerDurable) -> bool:
        return self.ledgers.is_durable(message.group)

    @answers(ListLedgers)
    async def list_ledgers(self, _: ListLedgers) -> tuple[LedgerHolder, ...]:
        return self.ledgers.holders()

    @answers(AssignPartition)
    async def assign(self, message: AssignPartition) -> None:
        self._assign(self.ledgers.find(message.group), message.member, message.generation)

    def _assign(self, here: GroupHere, member: str | None, generation: int) -> None:
        here.assign(member, generation)
        self.waits.let_go(here.name)

    @defers(ForgetGroup)
    async def forget(self, message: ForgetGroup, reply: Reply[None]) -> None:
        here = self.ledgers.groups.get(message.group)
        if here is None or here.written.group_id != message.group_id:
            reply.resolve(None)
            return
        self.ledgers.forget(here)
        self.waits.let_go(here.name)
        self.background(self._answer, reply, self.ledgers.commit)

    # Taking

    @defers(Take)
    async def take(self, message: Take, reply: Reply[Taken]) -> None:
        here = self._check_may_take(message)
        here.askers.note(message.member, trio.current_time())
        if here.readers or here.ledger.lacks_keys or not self._is_warm_for(here):
            here.readers += 1
            self.background(self._take_in_turn, here, message, reply)
        else:
            await self._take(here, message, reply)

    def _check_may_take(self, message: Take) -> GroupHere:
        here = self._check_owner(message.group, message.member, message.generation, message.instance)
        if here.is_stream:
            raise GroupConflict(
                f'group {here.name} has mode "stream": read its partitions and commit offsets, nothing is received',
                settings=["mode"],
            )
        return here

    def _check_owner(self, group: str, member: str, generation: int, instance: int) -> GroupHere:
        here = self.ledgers.find(group)
        here.check_owner(member, generation, instance, f"{self._topic}/{self._number}")
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
        if not here.is_shared:
            await self._take_what_is_there(here, message, reply)
            return
        self.waits.note_came(here.name)
        try:
            await self._take_what_is_there(here, message, reply)
        finally:
            self.call_next(here)

    async def _take_what_is_there(self, here: GroupHere, message: Take, reply: Reply[Taken]) -> None:
        gatherer, ledger = self._gatherer(), here.ledger
        gatherer.recent = self.cache.batches if ledger.settings.key_order else None
        for _ in range(TRIES_MAX):
            if ledger.lacks_keys:
                keyed = await gatherer.read_keys(ledger.unsettled())
                ledger.keys.learn(ledger.unsettled(), keyed)
            if ledger.committed < self.log.log_start:
                self.ledgers.note_removed(here, self.log.log_start)
            self.mending.note_known(here, self.log)
            gatherer.set_aside = ledger.damage.set_aside
            plan = self._plan_for(here, message, gatherer)
            if not self._is_worth_a_look(here, plan) or not reply.wanted:
                break
            removals, reader = here.removals, self._reader(here)
            try:
                gathered = await self._gather(here, message, plan, gatherer, reader)
            except OffsetOutOfRange:  # removed by retention
                continue
            if self._check_may_take(message) is not here:
                break
            if here.removals == removals and self.mending.note(here, gathered.damages, self.log):
                continue
            if here.removals == removals and reply.wanted:
                self.handing.hand_out(here, message, plan, gathered, reply)
                if reply.settled:
                    return
        reply.resolve(nothing(plan))

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
        return self.has(here, plan) or (is_idle and here.ledger.next_fresh < self.log.high_watermark)

    async def _gather(
        self, here: GroupHere, message: Take, plan: Plan, gatherer: LaneGatherer, reader: Reader
    ) -> Gathered | GatheredLanes:
        if plan.dealt is not None:
            places = here.ledger.fresh_places
            return await gatherer.gather_lanes(plan, plan.dealt, places, reader, message.bytes_max)
        gathered = await gatherer.gather(plan, reader, message.bytes_max, here.last_batch)
        here.last_batch = gathered.last_batch
        return gathered

    def _reader(self, here: GroupHere) -> Reader:
        return Reader(here.name, self._wall_clock.now())

    def _gatherer(self) -> LaneGatherer:
        return LaneGatherer(self.log, self.cache.indexes, self.cache.stretches)

    # Damage

    @defers(SkipDamaged)
    async def skip_damaged(self, message: SkipDamaged, reply: Reply[SkippedHere]) -> None:
        here = self.ledgers.find(message.group)
        self.background(self._answer, reply, self.mending.skip, here, self.log, message)

    # Settling

    @answers(SettleRuns)
    async def settle_runs(self, message: SettleRuns) -> AttemptRuns:
        here, now = self.ledgers.find(message.group), trio.current_time()
        entry, stale = settled(here.ledger, now, message, self._topic)
        if entry is not None:
            self._write(here, [entry], now)
        return stale

    @answers(ReleaseMember)
    async def release_member(self, message: ReleaseMember) -> None:
        here, now = self.ledgers.find(message.group), trio.current_time()
        if message.has_left:
            self._send_away(here, message)
        # A member that keeps its assignment may be another consumer than the one that had these and died: their
        # attempts count. It has released its own deliveries by their receipts.
        others = here.inherited if message.keeps_place else frozenset[int]()
        released = [each for each in here.ledger.release_member(now, message.member) if each.nonce not in others]
        self._write(here, released, now)

    def _send_away(self, here: GroupHere, left: ReleaseMember) -> None:
        here.note_left(left.member, left.instance)
        if here.member == left.member and not left.keeps_place:
            self._assign(here, None, here.generation)
        self.waits.let_go(here.name, lambda member: member == left.member)

    @answers(ReplaceMember)
    async def replace_member(self, message: ReplaceMember) -> None:
        here, now = self.ledgers.find(message.group), trio.current_time()
        here.note_replaced(message.member, message.before, message.instance)
        self.waits.let_go(here.name, lambda member: member == message.member)
        lost = here.ledger.expire_member(message.member)
        self._write(here, lost, now)
        self._counts.note_expired(lost)

    def write_now(self, here: GroupHere, entries: Sequence[Entry]) -> None:
        self._write(here, entries, trio.current_time())

    def _write(self, here: GroupHere, entries: Sequence[Entry], now: float) -> None:
        if entries:
            self.ledgers.write(here, entries, now)
            self._spread(here, entries)

    def _spread(self, here: GroupHere, entries: Iterable[Entry]) -> None:
        """After a change: wake members that may find messages, and report dead letters."""
        self.call_next(here)
        if any(map(leaves, entries)):
            self.tell_that_some_leave(here)

    def tell_that_some_leave(self, here: GroupHere) -> None:
        if here.listener is not None:
            here.listener.news(self.name, DeadLettersWait(self._topic, self._number))

    # Dead letters

    @defers(TakeDeadLetters)
    async def take_dead_letters(self, message: TakeDeadLetters, reply: Reply[DeadLetters | None]) -> None:
        self.background(self._answer, reply, self._dead_letters, self.ledgers.find(message.group), message)

    async def _dead_letters(self, here: GroupHere, message: TakeDeadLetters) -> DeadLetters | None:
        while self.ledgers.find(message.group) is here:
            letters = await under_way(here, self._gatherer())
            if here.held_letters is not None:
                self.mending.watch(here, self.log)
                return None
            if letters is not None:
                await self.ledgers.commit()  # its sequence is never reused, even after a power loss
                return letters
            self.ledgers.note_removed(here, self.log.log_start)
            removals = here.removals
            chosen = await next_to_leave(here, self._gatherer(), message.messages_max, message.bytes_max)
            if chosen is None:
                return None
            if here.removals == removals and not self.mending.note(here, chosen.damages, self.log):
                self._write(here, [transfer(here.ledger, chosen)], trio.current_time())
        return None

    @answers(ConfirmDeadLetters)
    async def confirm_dead_letters(self, message: ConfirmDeadLetters) -> None:
        """A repeat finds no transfer under way, and changes nothing."""
        here = self.ledgers.find(message.group)
        transfer = here.ledger.transfer_under_way
        if transfer is not None and transfer.sequence == message.sequence:
            self._write(here, [here.ledger.transferred(transfer.sequence)], trio.current_time())
            self._counts.dead_letters += transfer.size

    # For operators

    @answers(FindCommitted)
    async def find_committed(self, message: FindCommitted) -> Offset | None:
        here = self.ledgers.groups.get(message.group)
        return None if here is None else here.ledger.committed

    @defers(DescribeLedger)
    async def describe_ledger(self, message: DescribeLedger, reply: Reply[LedgerView | None]) -> None:
        here = self.ledgers.groups.get(message.group)
        if here is None:
            reply.resolve(None)
        else:
            memory, hidden = LogMemory(self.log), self.delays.hidden
            self.background(self._answer, reply, view_of, here, memory, self._wall_clock, hidden)

    @defers(GatherLedgerFacts)
    async def gather_facts(self, message: GatherLedgerFacts, reply: Reply[LedgerFacts | None]) -> None:
        here, name = self.ledgers.groups.get(message.group), TopicPartition(self._topic, self._number)
        if here is None:
            reply.resolve(None)
        else:
            self.background(self._answer, reply, gather_facts, here, self.log, name, self._wall_clock, self.delays)

    @defers(ResetLedger)
    async def reset(self, message: ResetLedger, reply: Reply[tuple[Offset, Offset]]) -> None:
        here = self.ledgers.find(message.group)
        offsets = here.ledger.committed, await start_in(self.log, parse_start(message.start))
        if message.dry_run:
            reply.resolve(offsets)
        else:
            self.ledgers.forgive_loss(here)
            self._write(here, [here.ledger.reset(offsets[1])], trio.current_time())
            self.background(self._answer, reply, self._commit_and_say, offsets)

    async def _commit_and_say(self, offsets: tuple[Offset, Offset]) -> tuple[Offset, Offset]:
        await self.ledgers.commit()
        return offsets

    async def _answer(
        self, reply: Reply[AnswerT], work: Callable[[*Args], Awaitable[AnswerT]], *args: *Args
    ) -> None:
        """Runs as a background task, and answers."""
        with refusing(reply):
            reply.resolve(await work(*args))

    # Time, and the log

    def next_ledger_deadline(self) -> float | None:
        leases, waits = self.ledgers.deadlines.next(), self.waits.next_deadline()
        return waits if leases is None else leases if waits is None else min(leases, waits)

    def tick_ledgers(self, now: float) -> None:
        self.tick_waits(now)
        for here, expired in self.ledgers.tick(now):
            self._counts.note_expired(expired)
            self._spread(here, expired)

    def note_removed(self, below: Offset = 0) -> None:
        """Retention or a purge removed the messages before the log's start, or before `below`."""
        self.ledgers.note_removed_from_all(max(below, self.log.log_start))
