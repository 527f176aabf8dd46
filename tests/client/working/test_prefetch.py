"""Workers prefetch in proportion to their speed; what was only held was no delivery."""

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

import goqueue
from goqueue.client.consuming.options import ConsumerOptions
from goqueue.client.consuming.queue import QueueConsumer
from goqueue.client.consuming.supply import Supply
from goqueue.client.link.link import Link
from goqueue.core.ledger.settlements import Action
from goqueue.core.receiving.pace import Pace
from goqueue.net.wire import groups as wire
from tests.client.consuming.world import FakeBroker, FakeLink, at_work, numbered
from tests.client.working.workers import World, do_nothing, run_until_done, stop_after, world

__all__ = ["world"]


def held_by(broker: FakeBroker) -> int:
    return len(broker.partitions[0].leases)


def supplied(broker: FakeBroker, slots: int, **options: object) -> tuple[QueueConsumer, Supply]:
    consumer = QueueConsumer(broker, ConsumerOptions("orders", group="billing", **options))  # type: ignore[arg-type]
    consumer.be_patient()
    return consumer, consumer.supply(Pace(slots))


async def test_the_broker_is_told_what_begins_before_it_is_handed_out(autojump_clock: MockClock) -> None:
    broker = FakeBroker()
    broker.publish(*numbered(5))
    consumer, supply = supplied(broker, slots=2)
    async with at_work(broker), consumer:
        first = await supply.take(2)
        await wait_all_tasks_blocked()
        assert [each.runs for each in broker.said(Action.BEGIN)] == [(wire.DeliveryRun(0, 1, 1),)]
        assert [request.tells_begun for request in broker.of_kind(wire.Receive)] == [True]
        for message in first:
            supply.ack(message)
        await supply.take(2)
        await wait_all_tasks_blocked()
        [_, second] = broker.of_kind(wire.Settle)
        assert [Action(each.action).name for each in second.deliveries] == ["ACK", "BEGIN"], "in one frame"


async def test_without_a_connection_they_begin_when_the_broker_knows_of_it(autojump_clock: MockClock) -> None:
    broker = FakeBroker()
    broker.publish(*numbered(2))
    consumer, supply = supplied(broker, slots=1)
    async with at_work(broker), consumer:
        supply.pace.ended(0.001)
        await supply.take(1)
        await wait_all_tasks_blocked()
        broker.link = None
        assert supply.take_now(1, trio.current_time()) == []
        [second] = await supply.take(1)
        assert second.offset == 1
        assert broker.said(Action.BEGIN)[-1].runs == (wire.DeliveryRun(1, 1, 1),)


async def test_what_a_full_socket_has_not_taken_is_not_handed_out(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SPEC §6: the frame is handed to the socket before the handler runs."""
    broker = FakeBroker()
    broker.publish(*numbered(2))
    consumer, supply = supplied(broker, slots=1)
    async with at_work(broker), consumer, trio.open_nursery() as nursery:
        supply.pace.ended(0.001)
        await supply.take(1)
        await wait_all_tasks_blocked()
        link, taken = FullLink(broker), list[goqueue.DeliveredMessage]()
        broker.link = link  # type: ignore[assignment]

        async def take() -> None:
            taken.extend(await supply.take(1))

        nursery.start_soon(take)
        await wait_all_tasks_blocked()
        assert (link.is_full, taken) == (True, [])
        link.room.set()
        await wait_all_tasks_blocked()
        assert [message.offset for message in taken] == [1]


class FullLink(FakeLink):
    """Its socket takes the first frame only when a test says so."""

    def __init__(self, broker: FakeBroker) -> None:
        super().__init__(broker)
        self.room = trio.Event()
        self.is_full = False

    def post_settlement(self, request: wire.Settle, on_answer: object, *, at_once: bool = False) -> None:
        self.is_full = True

    def hand_over(self) -> bool:
        return not self.is_full or self.room.is_set()

    async def flushed(self) -> None:
        await self.room.wait()


async def test_fast_handlers_do_not_wait_for_the_network(world: World, autojump_clock: MockClock) -> None:
    receives = 0
    ask_ahead = Link.ask_ahead

    def counted(link: Link, request: wire.Receive) -> object:
        nonlocal receives
        receives += 1
        return ask_ahead(link, request)

    await world.publish(1_000)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Link, "ask_ahead", counted)
        assert await run_until_done(world, world.worker(do_nothing, concurrency=1), 1_000) == (1_000, 0, 0)
    assert receives < 50
    assert {attempt for _, attempt in world.seen} == {1}


async def test_slow_handlers_hold_nothing(world: World, autojump_clock: MockClock) -> None:
    held = []

    async def handler(message: goqueue.DeliveredMessage) -> None:
        await trio.sleep(10)
        held.append(sum(each.in_flight for each in (await world.client.group("billing")).partitions))

    await world.publish(20)
    await run_until_done(world, world.worker(handler, concurrency=2), 20)
    assert max(held) == 2


async def test_when_handlers_become_slow_what_is_held_goes_back_after_a_second(
    world: World, autojump_clock: MockClock
) -> None:
    """So another member's free slots wait that long at most."""
    begun_by_others: list[float] = []
    slow_since = 0.0

    async def handler(message: goqueue.DeliveredMessage) -> None:
        nonlocal slow_since
        if int(message.value) >= 20:
            slow_since = slow_since or trio.current_time()
            await trio.sleep(60)
        await trio.sleep(0.01)

    async def other(message: goqueue.DeliveredMessage) -> None:
        begun_by_others.append(trio.current_time())

    for number in range(60):
        await world.client.publish("orders", b"%d" % number, partition=0)
    slow = world.worker(handler, concurrency=2, shared=True)
    free = world.worker(other, concurrency=50, shared=True)
    with trio.fail_after(300):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(slow.run)
            while not slow_since:  # noqa: ASYNC110
                await trio.sleep(0.01)
            nursery.start_soon(free.run)
            nursery.start_soon(world.until_done, free, 60)
            nursery.start_soon(stop_after, slow, 70)
    assert len(begun_by_others) >= 36
    assert max(begun_by_others) - slow_since < 2.5
    assert {attempt for _, attempt in world.seen} == {1}


async def test_equal_workers_of_a_group_have_equal_shares(world: World, autojump_clock: MockClock) -> None:
    shares = [0, 0, 0]

    def handling(number: int) -> object:
        async def handler(message: goqueue.DeliveredMessage) -> None:
            shares[number] += 1
            await trio.sleep(0.02)

        return handler

    await world.publish(6_000)
    workers = [world.worker(handling(number), shared=True) for number in range(3)]  # type: ignore[arg-type]
    async with trio.open_nursery() as nursery:
        for worker in workers:
            nursery.start_soon(worker.run)
        await world.until_done(workers[0], 6_000)
        for worker in workers:
            worker.stop()
    assert sum(shares) == 6_000
    assert max(shares) - min(shares) < 0.1 * 2_000


async def test_a_worker_that_stops_gives_back_what_it_holds_uncounted(
    world: World, autojump_clock: MockClock
) -> None:
    async def handler(message: goqueue.DeliveredMessage) -> None:
        await trio.sleep(0.1)

    await world.publish(300)
    worker = world.worker(handler, concurrency=2)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stop_after, worker, 1)
        worked = await worker.run()
    assert 0 < worked.handled < 50
    assert await run_until_done(world, world.worker(do_nothing), 300) == (300 - worked.handled, 0, 0)
    assert {attempt for _, attempt in world.seen} == {1}


async def test_a_worker_that_dies_has_counted_what_it_had_begun_and_nothing_else(
    world: World, autojump_clock: MockClock
) -> None:
    """SPEC §6: what was not begun when the connection is lost is no delivery."""
    begun: list[bytes] = []

    async def handler(message: goqueue.DeliveredMessage) -> None:
        begun.append(message.value)
        await trio.sleep(0.05 if len(begun) < 10 else 1_000)

    await world.publish(300)
    dying = world.worker(handler, concurrency=3, shared=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(dying.run)
        while len(begun) < 12:  # noqa: ASYNC110
            await trio.sleep(0.01)
        await trio.sleep(0.3)
        held = sum(each.in_flight for each in (await world.client.group("billing")).partitions)
        world.machine.network.isolate("worker", refuses=True)
        counted = set(begun[-3:])
        await trio.sleep(60)
        nursery.cancel_scope.cancel()
    world.machine.network.rejoin("worker")
    assert held > 5
    world.seen.clear()
    other = world.worker(do_nothing, shared=True)
    await run_until_done_by(world, other)
    assert {value for value, attempt in world.seen if attempt == 2} == counted
    assert {attempt for _, attempt in world.seen} == {1, 2}


async def run_until_done_by(world: World, worker: goqueue.Worker) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(worker.run)
        while not await world.is_done():  # noqa: ASYNC110
            await trio.sleep(1)
        worker.stop()


async def test_a_worker_that_was_replaced_ends_with_that_error(world: World, autojump_clock: MockClock) -> None:
    """Its handlers end when their messages are another worker's already."""

    async def handler(message: goqueue.DeliveredMessage) -> None:
        await trio.sleep(0.01)

    async def run_until_replaced(worker: goqueue.Worker) -> None:
        with pytest.raises(goqueue.Fenced):
            await worker.run()

    await world.publish(2_000)
    first, second = [world.worker(handler, member_id="worker", concurrency=1) for _ in range(2)]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_until_replaced, first)
        while len(world.seen) < 100:  # noqa: ASYNC110
            await trio.sleep(0.1)
        nursery.start_soon(second.run)
        await world.until_done(second, 2_000)
