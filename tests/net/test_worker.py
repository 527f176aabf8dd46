"""A worker for Trio, on a machine in memory and a virtual clock."""

import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

import goqueue
from goqueue.errors import Closed, GroupConflict, InvalidConfig, InvalidName
from goqueue.net.worker import Handler, is_async
from goqueue.net.workersettling import reason_of
from goqueue.testing import Machine, machine

VISIBILITY = 30.0


@dataclass
class World:
    machine: Machine
    client: goqueue.Client
    seen: list[tuple[bytes, int]] = field(default_factory=list)
    """Value and attempt of each message that a handler was given."""

    async def publish(self, count: int) -> list[bytes]:
        values = [b"%d" % number for number in range(count)]
        async with self.client.producer("orders") as producer:
            await producer.send_many(values)
        return values

    def worker(self, handler: Handler, **options: Any) -> goqueue.Worker:
        async def noted(message: goqueue.DeliveredMessage) -> None:
            self.seen.append((message.value, message.attempt))
            await handler(message)

        network = self.machine.network.machine("worker")
        options = {"url": self.machine.url, "network": network, "clock": self.machine.clock, **options}
        return goqueue.Worker("orders", "billing", noted, **options)

    async def lag(self) -> int:
        return (await self.client.group("billing")).lag

    async def is_done(self) -> bool:
        try:
            return await self.lag() == 0
        except (goqueue.UnknownGroup, goqueue.Unavailable):
            return False

    async def until_done(self, worker: goqueue.Worker, count: int) -> None:
        """So many messages are acked; then the worker is stopped."""
        while not await self.is_done():  # noqa: ASYNC110
            await trio.sleep(1)  # what an ack changes is told to nobody else
        assert len({value for value, _ in self.seen}) == count
        worker.stop()


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with machine() as made, made.client() as client:
        await client.create_topic("orders", partitions=2)
        yield World(made, client)


async def do_nothing(message: goqueue.DeliveredMessage) -> None:
    await trio.lowlevel.checkpoint()


async def run_until_done(world: World, worker: goqueue.Worker, count: int) -> goqueue.Worked:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.until_done, worker, count)
        return await worker.run()
    raise AssertionError("unreachable")


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
    assert max(held) <= concurrency, "nothing waits here that another worker could begin"


async def test_room_is_used_though_one_handler_takes_long(world: World, autojump_clock: MockClock) -> None:
    async def handler(message: goqueue.DeliveredMessage) -> None:
        await trio.sleep(100 if message.value == b"0" else 1)

    await world.publish(21)
    begun_at = trio.current_time()
    await run_until_done(world, world.worker(handler, concurrency=2), 21)
    assert trio.current_time() - begun_at < 105


# Stopping


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


async def stop_after(worker: goqueue.Worker, seconds: float, drain_timeout: float | None = None) -> None:
    await trio.sleep(seconds)
    worker.stop(drain_timeout)


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


# A broker that goes away


@pytest.mark.parametrize("seconds", [3, 100])
async def test_a_broker_that_comes_back_is_worked_for_again(
    world: World, autojump_clock: MockClock, seconds: float
) -> None:
    """G5: what was handled while it was away is acked later, or comes again."""

    async def handler(message: goqueue.DeliveredMessage) -> None:
        await trio.sleep(10)

    await world.publish(20)
    worker = world.worker(handler, concurrency=5)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.until_done, worker, 20)
        nursery.start_soon(away_for, world, 5, seconds)
        worked = await worker.run()
    assert worked.handled >= 20
    assert worked.failed == 0


async def away_for(world: World, begin: float, seconds: float) -> None:
    await trio.sleep(begin)
    await world.machine.kill()
    await trio.sleep(seconds)
    await world.machine.start()


async def test_a_worker_may_be_there_before_its_broker(world: World, autojump_clock: MockClock) -> None:
    await world.publish(2)
    await world.machine.stop()
    worker = world.worker(do_nothing)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(away_for, world, 0, 100)
        nursery.start_soon(until_lag_is_gone, world, worker)
        assert (await worker.run()).handled == 2


async def until_lag_is_gone(world: World, worker: goqueue.Worker) -> None:
    await trio.sleep(101)
    await world.until_done(worker, 2)


async def test_a_worker_whose_broker_never_comes_can_be_stopped(world: World, autojump_clock: MockClock) -> None:
    await world.machine.stop()
    worker = world.worker(do_nothing)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stop_after, worker, 5)
        begun_at = trio.current_time()
        assert await worker.run() == (0, 0, 0)
    assert trio.current_time() - begun_at < 10


async def test_a_stale_ack_is_logged_and_the_worker_goes_on(
    world: World, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def handler(message: goqueue.DeliveredMessage) -> None:
        if message.attempt == 1:
            world.machine.isolate()
            await trio.sleep(5 * VISIBILITY)  # nobody can renew the lease
            world.machine.heal()
            await trio.sleep(10)

    await world.client.publish("orders", b"0")
    worker = world.worker(handler, visibility_timeout=VISIBILITY)
    assert (await run_until_done(world, worker, 1)).handled == 2
    assert [attempt for _, attempt in world.seen] == [1, 2]
    assert any("too late" in record.getMessage() for record in caplog.records)


async def test_what_the_broker_refuses_for_good_ends_it_as_itself(world: World, autojump_clock: MockClock) -> None:
    async with world.client.consumer("orders", group="billing", max_deliveries=5):
        with pytest.raises(GroupConflict):
            await world.worker(do_nothing, max_deliveries=3).run()


async def test_what_ends_a_program_ends_the_worker_as_itself(world: World, autojump_clock: MockClock) -> None:
    async def handler(message: goqueue.DeliveredMessage) -> None:
        raise SystemExit(3)

    await world.publish(1)
    with pytest.raises(SystemExit):
        await world.worker(handler).run()


# Parameters


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        ({"concurrency": 0}, InvalidConfig),
        ({"concurrency": True}, InvalidConfig),
        ({"drain_timeout": -1}, InvalidConfig),
        ({"drain_timeout": "soon"}, InvalidConfig),
        ({"handle_signals": 1}, InvalidConfig),
        ({"visibility_timeout": 0}, InvalidConfig),
        ({"start": "whenever"}, InvalidConfig),
        ({"group": "no group"}, InvalidName),
        ({"topic": "no topic"}, InvalidName),
        ({"topic": 3}, InvalidName),
        ({"url": "http://127.0.0.1"}, ValueError),
        ({"handler": None}, TypeError),
        ({"handler": print}, TypeError),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_before_it_runs(options: dict[str, Any], refusal: type[Exception]) -> None:
    with pytest.raises(refusal):
        goqueue.Worker(**{"topic": "orders", "group": "billing", "handler": do_nothing, **options})


class AsyncObject:
    async def __call__(self, message: goqueue.DeliveredMessage) -> None: ...


def test_async_functions_are_recognised_in_whatever_they_are_wrapped() -> None:
    assert all(map(is_async, [do_nothing, partial(do_nothing), AsyncObject(), AsyncObject().__call__]))
    assert not any(map(is_async, [print, AsyncObject, None, partial(print)]))


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError


def test_a_reason_has_type_and_text_and_a_bounded_length() -> None:
    assert reason_of(KeyError("a")) == "KeyError: 'a'"
    assert reason_of(ValueError()) == "ValueError"
    assert reason_of(Mute()) == "Mute: its text cannot be had"
    assert len(reason_of(ValueError("\udcff" * 5_000))) == 1_000
