"""Workers whose broker goes away, or refuses."""

import pytest
import trio
from trio.testing import MockClock

import goqueue
from goqueue.errors import GroupConflict
from tests.client.working.workers import VISIBILITY, World, do_nothing, run_until_done, stop_after, world

__all__ = ["world"]


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
