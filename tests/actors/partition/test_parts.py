"""The parts of a partition, each without the actor: a log, what the part needs of others, and nothing else."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVarTuple, Unpack

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from goqueue.actors.delays.delays import PartitionDelays
from goqueue.actors.delays.pending import DelayedMessages
from goqueue.actors.delays.requests import CancelDelayed, CountDelayed
from goqueue.actors.delivery.delivery import GroupDelivery
from goqueue.actors.delivery.requests import AttachGroup, SettleRuns, Take
from goqueue.actors.partition.appending import Appending
from goqueue.actors.partition.keeper import LogKeeper
from goqueue.actors.partition.reading import LogReading
from goqueue.actors.partition.requests import AwaitMore, Fetch, OffsetAtTime, Produce
from goqueue.actors.partition.validation import MessageValidation, no_schemas
from goqueue.actors.runtime.handlers import Handler, add_handlers
from goqueue.actors.runtime.mailbox import Mailbox
from goqueue.actors.runtime.messages import Reply, ReplyT, Request
from goqueue.actors.runtime.ref import ActorRef
from goqueue.actors.statistics.delays import DelayCounts
from goqueue.actors.statistics.groups import GroupCounts
from goqueue.actors.statistics.schemas import SchemaCounts
from goqueue.core.ledger.settings import LedgerSettings
from goqueue.core.ledger.settlements import Action
from goqueue.core.log.admission import Admission
from goqueue.core.log.messageids import MessageIds
from goqueue.core.records.record import encode_record
from goqueue.core.slices.cachebudget import CacheBudget
from goqueue.errors import InvalidMessage, OffsetOutOfRange, StaleGeneration
from goqueue.storage.log.log import Log
from goqueue.storage.log.volume import Volume
from goqueue.testing.clock import SimulatedClock
from goqueue.testing.disk import SimulatedDisk
from goqueue.types import Acks, Offset
from tests.storage.logs import DIRECTORY, mounted, open_log, publish, records_in
from tests.storage.logs import batch as batch_of

Args = TypeVarTuple("Args")


@dataclass
class FakeHost:
    """What a part uses of its actor."""

    nursery: trio.Nursery
    name: str = "orders/0"
    ref: ActorRef = field(default_factory=lambda: ActorRef(Mailbox("orders/0", 1)))
    wakes: int = 0

    def background(
        self, task: Callable[[Unpack[Args]], Awaitable[object]], *args: *Args, endless: bool = False
    ) -> trio.CancelScope:
        async def run() -> None:
            with scope:
                await task(*args)

        scope = trio.CancelScope()
        self.nursery.start_soon(run)
        return scope

    def wake(self) -> None:
        self.wakes += 1


class Asked:
    """Asks the parts as their actor would, one message at a time."""

    def __init__(self, *parts: object) -> None:
        self._handlers: dict[type[Any], Handler] = {}
        self._mailbox = Mailbox("orders/0", 1)
        for part in parts:
            add_handlers(self._handlers, part)

    async def call(self, message: Request[ReplyT]) -> ReplyT:
        return await (await self.ask(message)).wait()

    async def ask(self, message: Request[ReplyT]) -> Reply[ReplyT]:
        reply: Reply[ReplyT] = Reply(self._mailbox.party, self._mailbox.unsettled, wanted=True)
        self._mailbox.unsettled[reply] = None
        handler = self._handlers[type(message)]
        if handler.defers:
            await handler.method(message, reply)
        else:
            reply.resolve(await handler.method(message))
        return reply


@dataclass
class Bench:
    volume: Volume
    log: Log
    keeper: LogKeeper
    host: FakeHost
    clock: SimulatedClock
    shown: list[Offset]

    def delayed(self) -> DelayedMessages:
        return DelayedMessages(self.volume, self.clock, DIRECTORY, None, DelayCounts())

    def appending(self, delayed: DelayedMessages | None = None, admission: Admission | None = None) -> Appending:
        return Appending(
            self.log,
            self.keeper,
            self.host,
            clock=self.clock,
            disk=self.volume.disk,
            admission=admission or Admission(),
            validation=MessageValidation("", no_schemas, SchemaCounts()),
            disk_free_min=0,
            ids=MessageIds(),
            delayed=delayed or self.delayed(),
            is_awaited=lambda: False,
            note_removed=lambda: None,
        )

    def delivery(self, delayed: DelayedMessages | None = None) -> GroupDelivery:
        return GroupDelivery(
            self.host,
            self.log,
            volume=self.volume,
            clock=self.clock,
            random=Random(0),
            counts=GroupCounts(),
            budget=CacheBudget(),
            delays=delayed or self.delayed(),
            note_awaited=self.keeper.note_awaited,
            dead_letters=None,
        )


@asynccontextmanager
async def bench() -> AsyncIterator[Bench]:
    async with mounted(SimulatedDisk(Random(0))) as volume, trio.open_nursery() as nursery:
        log, host, shown = await open_log(volume), FakeHost(nursery), list[Offset]()
        keeper = LogKeeper(log, shown.append, host.wake)
        yield Bench(volume, log, keeper, host, SimulatedClock(), shown)
        nursery.cancel_scope.cancel()


def record(value: bytes) -> bytes:
    return encode_record(0, 1, value)


async def test_appending_answers_a_producer_when_its_batch_is_where_acks_wants_it(
    autojump_clock: MockClock,
) -> None:
    async with bench() as on:
        part = on.appending()
        asked = Asked(part)
        quick = await asked.ask(Produce(record(b"a"), 1, acks=Acks.LEADER))
        safe = await asked.ask(Produce(record(b"b"), 1, acks=Acks.ALL))
        assert not quick.settled, "nothing is written before the end of the turn"
        await part.end_turn()
        assert (await quick.wait()).base_offset == 0
        assert not safe.settled
        part.settle(1)
        assert not safe.settled
        part.settle(await on.log.commit())
        assert (await safe.wait()).base_offset == 1


async def test_appending_refuses_before_anything_is_written(autojump_clock: MockClock) -> None:
    async with bench() as on:
        part = on.appending(admission=Admission(message_bytes_max=3))
        refused = await Asked(part).ask(Produce(record(b"too long"), 1))
        await part.end_turn()
        with pytest.raises(InvalidMessage):
            await refused.wait()
        assert on.log.end_offset == 0


async def test_reading_waits_at_the_end_until_there_is_more(autojump_clock: MockClock) -> None:
    async with bench() as on:
        part = LogReading(on.log, on.keeper, on.host, on.delivery().streams)
        asked = Asked(part)
        waiting = await asked.ask(AwaitMore(0, trio.current_time() + 30))
        late = await asked.ask(AwaitMore(0, trio.current_time() + 5))
        part.tick(trio.current_time() + 5)
        assert (late.settled, waiting.settled) == (True, False)
        await publish(on.log, batch_of(b"a"))
        part.reached(on.log.high_watermark)
        assert waiting.settled
        found = await asked.call(Fetch(0, 1_000))
        assert [each.value for each in records_in(found.data)] == [b"a"]
        assert await asked.call(OffsetAtTime(0)) == 0
        with pytest.raises(OffsetOutOfRange):
            await asked.call(Fetch(7, 1_000))


async def test_delivery_hands_out_and_settles(autojump_clock: MockClock) -> None:
    async with bench() as on:
        await publish(on.log, batch_of(b"a", b"b"))
        part = on.delivery()
        asked, listener = Asked(*part.parts), ActorRef(Mailbox("group", 1))
        await asked.call(AttachGroup("billing", 7, LedgerSettings(), "earliest", listener, "ann", 1))
        with pytest.raises(StaleGeneration):
            await asked.call(Take("billing", "bob", 1, 10, 1_000, 30.0, is_busy=False))
        taken = await asked.call(Take("billing", "ann", 1, 10, 1_000, 30.0, is_busy=False))
        assert taken.size == 2
        assert part.next_deadline() == trio.current_time() + 30
        acked = await asked.ask(SettleRuns("billing", taken.nonce, Action.ACK, taken.runs))
        assert not acked.settled, "it is settled together with what follows it in the turn"
        part.settling.settle_gathered()
        assert await acked.wait() == ()
        assert part.ledgers.find("billing").ledger.committed == 2
        assert listener.counts.hints, "its group can see that something has changed"


async def test_delays_fire_what_is_due_and_cancel_what_is_not(autojump_clock: MockClock) -> None:
    async with bench() as on:
        delayed = on.delayed()
        appending = on.appending(delayed)
        part = PartitionDelays(delayed, on.log, on.host, on.clock, appending)
        asked, now = Asked(appending, part), on.clock.now()
        await part.open()

        async def become_durable() -> None:
            on.log.advance_high_watermark(await on.log.commit())
            part.show(on.log.high_watermark)

        await asked.ask(Produce(encode_record(0, 1, b"soon", due=now - 1), 1))
        await asked.ask(Produce(encode_record(0, 1, b"later", due=now + 10**9), 1))
        await appending.end_turn()
        await become_durable()
        cancelled = await asked.ask(CancelDelayed(1))
        await wait_all_tasks_blocked()
        await become_durable()
        assert await cancelled.wait()
        await part.fire([(0, now - 1), (1, now + 10**9)])
        too_late = await asked.ask(CancelDelayed(0))
        await wait_all_tasks_blocked()
        assert not too_late.settled, "it has fired, and that is not durable yet"
        await become_durable()
        assert not await too_late.wait()
        assert await asked.call(CountDelayed(())) == [0]
        values = [each.value for each in records_in((await on.log.read(0, 10_000)).data)]
        assert values[-1] == b"soon"
        assert values.count(b"later") == 1, "only its original"
