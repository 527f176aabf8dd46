"""A worker for Trio, on a machine in memory and a virtual clock."""

import logging

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

import goqueue
from goqueue.errors import Closed
from tests.client.working.workers import VISIBILITY, World, do_nothing, run_until_done, stop_after, world

__all__ = ["world"]


async def test_each_message_is_handled_and_acked(world: World, autojump_clock: MockClock) -> None:
    values = await world.publish(100)
    assert await run_until_done(world, world.worker(do_nothing), 100) == (100, 0, 0)
    assert sorted(world.seen) == sorted((value, 1) for value in values)


async def test_the_function_is_a_worker_that_runs(world: World, autojump_clock: MockClock) -> None:
    await world.publish(1)
    network = world.machine.network.machine("worker")
    with trio.move_on_after(10):
        await goqueue.worker(
            ["orders"], "billing", do_nothing, url=world.machine.url, network=network, clock=world.machine.clock
        )
    assert await world.lag() == 0


async def test_a_failure_is_nacked_with_its_reason_and_logged_and_the_worker_goes_on(
    world: World, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def handler(message: goqueue.DeliveredMessage) -> None:
        if message.value == b"3":
            raise ValueError("three is too many")

    await world.publish(5)
    assert await run_until_done(world, world.worker(handler, max_deliveries=2), 5) == (4, 2, 0)
    assert [attempt for value, attempt in world.seen if value == b"3"] == [1, 2]
    [dead] = [message async for message in world.client.read("orders.dlq", end="latest")]
    assert dead.headers["goqueue-dlq-reason"] == b"ValueError: three is too many"
    failures = [record for record in caplog.records if record.name == "goqueue.worker"]
    assert [record.exc_info is not None for record in failures] == [True, True]
    assert "offset" in failures[0].getMessage()


async def test_what_a_handler_settles_is_left_alone(
    world: World, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def handler(message: goqueue.DeliveredMessage) -> None:
        match message.value, message.attempt:
            case b"0", 1:
                await message.nack(delay=5)
            case b"1", _:
                await message.reject("never")
            case b"2", _:
                await message.ack()
                raise RuntimeError("after the ack")

    await world.publish(4)
    assert await run_until_done(world, world.worker(handler), 4) == (4, 1, 0)
    assert sorted(world.seen) == [(b"0", 1), (b"0", 2), (b"1", 1), (b"2", 1), (b"3", 1)]
    assert not [record for record in caplog.records if record.levelno == logging.WARNING]


async def test_a_long_handler_keeps_its_message(world: World, autojump_clock: MockClock) -> None:
    async def handler(message: goqueue.DeliveredMessage) -> None:
        await trio.sleep(8 * VISIBILITY)

    await world.publish(3)
    begun_at = trio.current_time()
    worker = world.worker(handler, visibility_timeout=VISIBILITY, max_deliveries=1)
    assert await run_until_done(world, worker, 3) == (3, 0, 0)
    assert [attempt for _, attempt in world.seen] == [1, 1, 1]
    assert trio.current_time() - begun_at < 9 * VISIBILITY


@pytest.mark.parametrize("concurrency", [1, 3, 10])
async def test_no_more_handlers_run_and_no_more_is_held_than_was_said(
    world: World, autojump_clock: MockClock, concurrency: int
) -> None:
    running = most = 0
    held: list[int] = []

    async def handler(message: goqueue.DeliveredMessage) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await trio.sleep(1 + int(message.value) % 3)
        held.append(sum(each.in_flight for each in (await world.client.group("billing")).partitions))
        running -= 1

    await world.publish(40)
    await run_until_done(world, world.worker(handler, concurrency=concurrency), 40)
    assert most == concurrency
    assert max(held) <= concurrency + concurrency // 2, "half a second of work, of handlers that take one at least"


async def test_room_is_used_though_one_handler_takes_long(world: World, autojump_clock: MockClock) -> None:
    async def handler(message: goqueue.DeliveredMessage) -> None:
        await trio.sleep(100 if message.value == b"0" else 1)

    await world.publish(21)
    begun_at = trio.current_time()
    await run_until_done(world, world.worker(handler, concurrency=2), 21)
    assert trio.current_time() - begun_at < 105


# Stopping


class Times:
    """Which handlers run at the same time, and in which order they begin."""

    def __init__(self) -> None:
        self.begun: list[goqueue.DeliveredMessage] = []
        self.running: set[goqueue.DeliveredMessage] = set()
        self.side_by_side: set[tuple[bytes | None, bytes | None]] = set()

    async def handle(self, message: goqueue.DeliveredMessage) -> None:
        self.side_by_side |= {(other.key, message.key) for other in self.running}
        self.begun.append(message)
        self.running.add(message)
        await trio.sleep(1 + message.offset % 3)
        self.running.remove(message)

    def offsets(self, partition: int) -> list[int]:
        return [message.offset for message in self.begun if message.partition == partition]


async def test_one_handler_at_a_time_runs_in_the_order_of_each_partition(
    world: World, autojump_clock: MockClock
) -> None:
    """O11"""
    for number in range(20):
        await world.client.publish("orders", b"%d" % number, partition=number % 2)
    times = Times()
    await run_until_done(world, world.worker(times.handle, concurrency=1), 20)
    assert [times.offsets(0), times.offsets(1)] == [list(range(10))] * 2
    assert times.side_by_side == set()


@pytest.mark.parametrize("key_order", [False, True])
async def test_handlers_of_one_key_run_one_after_the_other_if_that_is_wanted(
    key_order: bool, world: World, autojump_clock: MockClock
) -> None:
    """O11: those of different keys side by side."""
    for number in range(30):
        await world.client.publish("orders", b"%d" % number, key=b"door %d" % (number % 3))
    times = Times()
    await run_until_done(world, world.worker(times.handle, concurrency=10, key_order=key_order), 30)
    assert any(one != other for one, other in times.side_by_side)
    assert any(one == other for one, other in times.side_by_side) is not key_order
    for key in (b"door 0", b"door 1", b"door 2"):
        values = [int(message.value) for message in times.begun if message.key == key]
        assert values == sorted(values) or not key_order


async def test_stop_waits_for_the_handlers_and_takes_no_more(world: World, autojump_clock: MockClock) -> None:
    async def handler(message: goqueue.DeliveredMessage) -> None:
        await trio.sleep(10)

    await world.publish(30)
    worker = world.worker(handler, concurrency=4)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stop_after, worker, 5)
        assert await worker.run() == (4, 0, 0)
    assert len(world.seen) == 4
    assert await world.lag() == 26


async def test_an_idle_worker_stops_at_once(world: World, autojump_clock: MockClock) -> None:
    worker = world.worker(do_nothing)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stop_after, worker, 5)
        begun_at = trio.current_time()
        assert await worker.run() == (0, 0, 0)
    assert trio.current_time() - begun_at < 6


async def test_a_handler_may_stop_its_worker(world: World, autojump_clock: MockClock) -> None:
    async def handler(message: goqueue.DeliveredMessage) -> None:
        worker.stop()

    await world.publish(30)
    worker = world.worker(handler, concurrency=1)
    assert await worker.run() == (1, 0, 0)
    assert await world.lag() == 29


async def test_what_is_not_done_in_time_is_cancelled_and_given_back_uncounted(
    world: World, autojump_clock: MockClock
) -> None:
    async def handler(message: goqueue.DeliveredMessage) -> None:
        await trio.sleep(1 if message.value in (b"0", b"1") else 1_000)

    await world.publish(4)
    worker = world.worker(handler, drain_timeout=7)
    begun_at = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stop_after, worker, 5)
        assert await worker.run() == (2, 0, 2)
    assert 12 <= round(trio.current_time() - begun_at, 6) < 13  # a difference of floats may be a hair below
    async with world.client.consumer("orders", group="billing") as consumer:
        again = await consumer.receive(timeout=1)
        again += await consumer.receive(timeout=1)
        assert sorted((each.value, each.attempt) for each in again) == [(b"2", 1), (b"3", 1)]


async def test_a_second_stop_with_less_time_ends_sooner(world: World, autojump_clock: MockClock) -> None:
    async def handler(message: goqueue.DeliveredMessage) -> None:
        await trio.sleep_forever()

    await world.publish(1)
    worker = world.worker(handler)
    begun_at = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stop_after, worker, 5)
        nursery.start_soon(stop_after, worker, 8, 0)
        nursery.start_soon(stop_after, worker, 8, 100)
        assert await worker.run() == (0, 0, 1)
    assert trio.current_time() - begun_at < 9


async def test_a_worker_that_was_stopped_before_does_nothing_and_one_runs_once(
    world: World, autojump_clock: MockClock
) -> None:
    await world.publish(1)
    worker = world.worker(do_nothing)
    worker.stop()
    assert await worker.run() == (0, 0, 0)
    with pytest.raises(Closed, match="runs once"):
        await worker.run()
    worker.stop()


async def test_cancelled_it_cancels_its_handlers_and_gives_their_messages_back_uncounted(
    world: World, autojump_clock: MockClock
) -> None:
    cancelled = []

    async def handler(message: goqueue.DeliveredMessage) -> None:
        try:
            await trio.sleep(0 if message.value == b"0" else 1_000)
        except trio.Cancelled:
            cancelled.append(message.value)
            raise

    await world.publish(3)
    with trio.move_on_after(5):
        await world.worker(handler).run()
    assert sorted(cancelled) == [b"1", b"2"]
    assert await world.lag() == 2
    assert await run_until_done(world, world.worker(do_nothing), 3) == (2, 0, 0)
    assert {attempt for _, attempt in world.seen} == {1}


async def test_what_was_handled_before_a_cancellation_is_acked_all_the_same(
    world: World, autojump_clock: MockClock
) -> None:
    async def handler(message: goqueue.DeliveredMessage) -> None:
        await trio.sleep(0.1 * message.offset)
        if message.offset == 1:
            ended.set()

    for value in (b"0", b"1"):
        await world.client.publish("orders", value, partition=0)
    ended = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.worker(handler).run)
        world.machine.slow(0.5)
        await ended.wait()
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()  # while one ack is under way, and the other waits for its turn
    world.machine.heal()
    assert await world.lag() == 0


async def test_an_error_while_a_handler_is_cancelled_does_not_become_the_worker_s(
    world: World, autojump_clock: MockClock
) -> None:
    async def handler(message: goqueue.DeliveredMessage) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            try:
                await trio.sleep_forever()
            finally:
                raise ValueError("while it was being cancelled")

    await world.publish(1)
    worker = world.worker(handler, drain_timeout=1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stop_after, worker, 5)
        worked = await worker.run()
    assert (worked.handled, worked.failed + worked.cancelled) == (0, 1)
