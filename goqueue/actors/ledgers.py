"""A partition's part in consumer groups: deliveries, receipts, progress, and who waits for more.

Each request is decided by the group's ledger, journaled, made, and then answered. What a member takes is read
first: from the segment that grows within the turn, from older ones beside the mailbox, one reader of a group at a
time. While it reads, others may settle, and leases may end: that only adds to what is ready. What could take
something away from a plan is counted, and sends the reader back to plan anew.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from random import Random
from typing import TypeVar, TypeVarTuple

import trio

from goqueue.actors.base import Actor
from goqueue.actors.groupcounts import GroupCounts
from goqueue.actors.grouprequests import (
    AssignPartition,
    AttachGroup,
    AwaitDeliverable,
    ConfirmDeadLetters,
    DeadLetters,
    DeadLettersWait,
    DescribeLedger,
    ForgetGroup,
    LedgerView,
    ReleaseMember,
    ResetLedger,
    SettleRuns,
    Take,
    TakeDeadLetters,
    Taken,
)
from goqueue.actors.handlers import answers, defers
from goqueue.actors.ledgerbook import GroupHere, LedgerBook
from goqueue.actors.ledgerdeparting import NextToLeave, next_to_leave, under_way
from goqueue.actors.ledgersettling import leaves, settled
from goqueue.actors.ledgertaking import Gathered, LogShelf
from goqueue.actors.ledgerview import start_in, view_of
from goqueue.actors.messages import Reply
from goqueue.core.deliverable import Reader
from goqueue.core.deliverystart import parse_start
from goqueue.core.deliverywaits import DeliveryWaits
from goqueue.core.ledger import Plan
from goqueue.core.ledgerattempts import AttemptRun, AttemptRuns
from goqueue.core.ledgerentries import Delivered, Entry
from goqueue.core.receipts import NONCE_BITS
from goqueue.environment import WallClock
from goqueue.errors import (
    DamagedData,
    GoQueueError,
    GroupConflict,
    LogStopped,
    OffsetOutOfRange,
    StaleGeneration,
)
from goqueue.storage.log import Log
from goqueue.storage.volume import Volume
from goqueue.types import Offset

TRIES_MAX = 16
"""So often a member's request plans anew before it says that there is nothing."""

AnswerT = TypeVar("AnswerT")
Args = TypeVarTuple("Args")

logger = logging.getLogger("goqueue.ledgers")


class LedgerDesk(Actor):
    """The base of a partition. `open_ledgers` in its start, `close_ledgers` in its stop."""

    book: LedgerBook

    def __init__(
        self, volume: Volume, clock: WallClock, directory: str, random: Random, counts: GroupCounts
    ) -> None:
        self._counts = counts
        self.book = LedgerBook(volume, clock, directory, random)
        self._wall_clock = clock
        self._random = random
        *_, self._topic, number = directory.split("/")
        self._number = int(number)
        self._waits: DeliveryWaits[Reply[None]] = DeliveryWaits()
        self._damaged_to: Offset = 0

    @property
    def log(self) -> Log:
        raise NotImplementedError

    def note_awaited(self) -> None:
        """Somebody waits for what is written and not durable."""
        raise NotImplementedError

    async def open_ledgers(self) -> None:
        await self.book.open_if_there(self.log)
        if self.book.is_open:
            self.background(self.book.keep, endless=True)

    async def close_ledgers(self) -> None:
        """Everything journaled is durable (G15)."""
        self.dismiss_members()
        await self.book.close()

    # Who reads here

    @defers(AttachGroup)
    async def attach(self, message: AttachGroup, reply: Reply[None]) -> None:
        here = await self._found_or_begun(message)
        self.book.change_settings(here, message.settings)
        here.listener = message.listener
        here.is_shared, here.is_stream = message.is_shared, message.is_stream
        self._assign(here, message.member, message.generation)
        if here.ledger.next_departures(1) or here.ledger.departure_under_way is not None:
            self._tell_that_some_leave(here)
        # Where it begins is durable before it is said: after a power loss `latest` would be a later one.
        self.background(self._answer, reply, self.book.commit)

    async def _found_or_begun(self, message: AttachGroup) -> GroupHere:
        """The group, made anew if need be, be it in the place of one that was deleted."""
        if not self.book.is_open:
            await self.book.open()
            self.background(self.book.keep, endless=True)
        here = self.book.groups.get(message.group)
        if here is not None and here.written.group_id == message.group_id:
            return here
        offset = await start_in(self.log, parse_start(message.start))
        if here is None and self.book.is_doubtful and offset > self.log.log_start:
            logger.warning("group %s may have been here and was lost: it begins at the earliest", message.group)
            offset = self.log.log_start
        return self.book.begin(message.group, message.group_id, message.settings, offset)

    @answers(AssignPartition)
    async def assign(self, message: AssignPartition) -> None:
        self._assign(self.book.find(message.group), message.member, message.generation)

    def _assign(self, here: GroupHere, member: str | None, generation: int) -> None:
        here.member, here.generation = member, generation
        self._let_go(self._waits.of(here.name))

    @defers(ForgetGroup)
    async def forget(self, message: ForgetGroup, reply: Reply[None]) -> None:
        here = self.book.groups.get(message.group)
        if here is None:
            reply.resolve(None)
            return
        self.book.forget(here)
        self._let_go(self._waits.of(here.name))
        self.background(self._answer, reply, self.book.commit)

    # Taking

    @defers(Take)
    async def take(self, message: Take, reply: Reply[Taken]) -> None:
        here = self._check_may_take(message)
        if here.readers or not self._is_warm_for(here):
            here.readers += 1
            self.background(self._answer, reply, self._take_in_turn, here, message, reply)
        else:
            reply.resolve(await self._take(here, message, reply))

    def _check_may_take(self, message: Take) -> GroupHere:
        here = self._check_owner(message.group, message.member, message.generation)
        if here.is_stream:
            raise GroupConflict(
                f'group {here.name} has mode "stream": read its partitions and commit offsets, nothing is received',
                settings=["mode"],
            )
        return here

    def _check_owner(self, group: str, member: str, generation: int) -> GroupHere:
        here = self.book.find(group)
        if not here.may_take(member, generation):
            raise StaleGeneration(
                f"{member} in generation {generation} does not have {self._topic}/{self._number}; "
                "await the newest assignment"
            )
        return here

    def _is_warm_for(self, here: GroupHere) -> bool:
        """What was written last is read without waiting."""
        warm_from, ledger = self.log.growing_from, here.ledger
        if ledger.committed >= warm_from:
            return True
        return ledger.next_fresh >= warm_from and not ledger.has_ready(trio.current_time())

    async def _take_in_turn(self, here: GroupHere, message: Take, reply: Reply[Taken]) -> Taken:
        try:
            async with here.turn:
                return await self._take(here, message, reply)
        finally:
            here.readers -= 1

    async def _take(self, here: GroupHere, message: Take, reply: Reply[Taken]) -> Taken:
        shelf, ledger = self._shelf(), here.ledger
        for _ in range(TRIES_MAX):
            if ledger.committed < self.log.log_start:
                self.book.note_removed(here, self.log.log_start)
            count_max = message.messages_max if message.bytes_max > 0 else 0
            plan = ledger.plan(
                trio.current_time(),
                message.member,
                count_max,
                is_busy=message.is_busy,
                lasts_max=message.lasts_max,
            )
            if not self._has(plan) or not reply.wanted:
                return _nothing(plan)
            removals = here.removals
            try:
                gathered = await shelf.gather(plan, self._reader(here), message.bytes_max, here.batch_bytes)
            except OffsetOutOfRange:  # retention was here
                continue
            if self._check_may_take(message) is not here:
                break
            here.batch_bytes = gathered.last_batch_bytes
            if here.removals == removals and reply.wanted:
                taken = self._hand_out(here, message, plan, gathered)
                if taken is not None:
                    return taken
        return _nothing(plan)

    def _has(self, plan: Plan) -> bool:
        return bool(plan.again) or (plan.fresh_max > 0 and plan.fresh_from < self.log.high_watermark)

    def _hand_out(self, here: GroupHere, message: Take, plan: Plan, gathered: Gathered) -> Taken | None:
        """None when there was nothing but what is passed over: look again."""
        now, ledger = trio.current_time(), here.ledger
        if gathered.gone:
            self.book.write(here, [ledger.pass_over(gathered.gone, "no longer in the log")], now)
        entry = ledger.deliver(
            now,
            self._wall_clock.now(),
            message.member,
            self._random.getrandbits(NONCE_BITS),
            message.visibility,
            again=gathered.again,
            fresh=gathered.fresh,
            scanned_to=gathered.scanned_to,
        )
        if entry is None:
            return None
        self.book.write(here, [entry], now)
        return _taken(entry, gathered, plan) if isinstance(entry, Delivered) else None

    def _reader(self, here: GroupHere) -> Reader:
        return Reader(here.name, self._wall_clock.now())

    def _shelf(self) -> LogShelf:
        return LogShelf(self.log, self._report_damage)

    def _report_damage(self, damage: DamagedData) -> None:
        """Once: groups go round it one after the other."""
        if damage.end_offset > self._damaged_to:
            self._damaged_to = damage.end_offset
            logger.warning("groups go round a damaged stretch of the log: %s", damage.message)

    # Waiting

    @defers(AwaitDeliverable)
    async def await_deliverable(self, message: AwaitDeliverable, reply: Reply[None]) -> None:
        here = self.book.find(message.group)
        may_take = not here.is_stream and (here.is_shared or here.member == message.member)
        if not may_take or message.deadline <= trio.current_time() or self._has_for(here, message.member):
            reply.resolve(None)
        else:
            self._waits.forget(message.group, lambda other: not other.wanted)
            self._waits.wait(message.group, message.member, reply, message.deadline)
            self.note_awaited()

    def _has_for(self, here: GroupHere, member: str) -> bool:
        return self._has(here.ledger.plan(trio.current_time(), member, 1, is_busy=False))

    @property
    def has_waiting_members(self) -> bool:
        return bool(len(self._waits))

    def show_to_members(self) -> None:
        """There is more to see."""
        self._let_go(self._waits.all())

    def dismiss_members(self) -> None:
        """They look again and find nothing: a stop does not wait for them."""
        self._let_go(self._waits.all())

    def _let_go(self, replies: Iterable[Reply[None]]) -> None:
        for reply in replies:
            reply.resolve(None)

    # Settling

    @answers(SettleRuns)
    async def settle_runs(self, message: SettleRuns) -> AttemptRuns:
        here, now = self.book.find(message.group), trio.current_time()
        entry, stale = settled(here.ledger, now, message, self._topic)
        if entry is not None:
            self._write(here, [entry], now)
        return stale

    @answers(ReleaseMember)
    async def release_member(self, message: ReleaseMember) -> None:
        here, now = self.book.find(message.group), trio.current_time()
        if message.has_left and here.member == message.member:
            self._assign(here, None, here.generation)
        self._write(here, here.ledger.release_member(now, message.member), now)

    def _write(self, here: GroupHere, entries: Sequence[Entry], now: float) -> None:
        if entries:
            self.book.write(here, entries, now)
            self._spread(here, entries)

    def _spread(self, here: GroupHere, entries: Iterable[Entry]) -> None:
        """Something has changed: members may find more, dead letters may wait."""
        if here.name in self._waits:
            self._let_go(self._waits.of(here.name, lambda member: self._has_for(here, member)))
        if any(map(leaves, entries)):
            self._tell_that_some_leave(here)

    def _tell_that_some_leave(self, here: GroupHere) -> None:
        if here.listener is not None:
            here.listener.news(self.name, DeadLettersWait(self._topic, self._number))

    # Dead letters

    @defers(TakeDeadLetters)
    async def take_dead_letters(self, message: TakeDeadLetters, reply: Reply[DeadLetters | None]) -> None:
        self.background(self._answer, reply, self._dead_letters, self.book.find(message.group), message)

    async def _dead_letters(self, here: GroupHere, message: TakeDeadLetters) -> DeadLetters | None:
        shelf = self._shelf()
        while self.book.find(message.group) is here:
            letters = await under_way(here, shelf)
            if letters is not None:
                await self.book.commit()  # its number is never given to others, whatever happens to the machine
                return letters
            self.book.note_removed(here, self.log.log_start)
            removals = here.removals
            chosen = await next_to_leave(here, shelf, message.messages_max, message.bytes_max)
            if chosen is None:
                return None
            if here.removals == removals:
                self._write(here, [self._departure(here, chosen)], trio.current_time())
        return None

    def _departure(self, here: GroupHere, chosen: NextToLeave) -> Entry:
        if chosen.gone:
            return here.ledger.pass_over(chosen.gone, "no longer in the log")
        return here.ledger.begin_departure(here.ledger.next_sequence, chosen.leaving)

    @answers(ConfirmDeadLetters)
    async def confirm_dead_letters(self, message: ConfirmDeadLetters) -> None:
        """A repeat finds none under way, and changes nothing."""
        here = self.book.find(message.group)
        departure = here.ledger.departure_under_way
        if departure is not None and departure.sequence == message.sequence:
            self._write(here, [here.ledger.departed(departure.sequence)], trio.current_time())
            self._counts.dead_letters += departure.size

    # For operators

    @defers(DescribeLedger)
    async def describe_ledger(self, message: DescribeLedger, reply: Reply[LedgerView | None]) -> None:
        here = self.book.groups.get(message.group)
        if here is None:
            reply.resolve(None)
        else:
            self.background(self._answer, reply, view_of, here.ledger, self.log, self._wall_clock)

    @defers(ResetLedger)
    async def reset(self, message: ResetLedger, reply: Reply[tuple[Offset, Offset]]) -> None:
        here = self.book.find(message.group)
        offsets = here.ledger.committed, await start_in(self.log, parse_start(message.start))
        if message.dry_run:
            reply.resolve(offsets)
        else:
            self._write(here, [here.ledger.reset(offsets[1])], trio.current_time())
            self.background(self._answer, reply, self._commit_and_say, offsets)

    async def _commit_and_say(self, offsets: tuple[Offset, Offset]) -> tuple[Offset, Offset]:
        await self.book.commit()
        return offsets

    async def _answer(
        self, reply: Reply[AnswerT], work: Callable[[*Args], Awaitable[AnswerT]], *args: *Args
    ) -> None:
        """Work beside the mailbox. A disk that cannot be trusted is the end of the partition, as within a turn."""
        try:
            reply.resolve(await work(*args))
        except LogStopped:
            raise
        except GoQueueError as error:
            reply.fail(error)

    # Time, and the log

    def next_ledger_deadline(self) -> float | None:
        leases, waits = self.book.deadlines.next(), self._waits.next_deadline()
        return waits if leases is None else leases if waits is None else min(leases, waits)

    def tick_ledgers(self, now: float) -> None:
        self._let_go(self._waits.expired(now))
        for here, expired in self.book.tick(now):
            self._counts.expired += sum(run.size for entry in expired for run in entry.runs)
            self._spread(here, expired)

    def note_removed(self) -> None:
        """The log may begin later than before."""
        self.book.note_removed_from_all(self.log.log_start)


def _taken(entry: Delivered, gathered: Gathered, plan: Plan) -> Taken:
    fresh = (AttemptRun(first, last, 1) for first, last in gathered.fresh)
    return Taken(entry.nonce, (*gathered.again, *fresh), gathered.data, plan.is_alone, plan.alone_waiting)


def _nothing(plan: Plan) -> Taken:
    return Taken(0, (), b"", False, plan.alone_waiting)
