"""An outage of what handlers need: messages survive it, and the worker does not wear out their attempts."""

import logging

import pytest
import trio
from trio.testing import MockClock

import goqueue
from goqueue import Retry
from goqueue.core.receiving.slowdown import FAILURES_MIN
from tests.client.working.workers import World, do_nothing, run_until_done, stop_after, world

__all__ = ["world"]


class Bank:
    """What the handlers need, and until when it is away."""

    def __init__(self, until: float) -> None:
        self.until = trio.current_time() + until
        self.paid = 0

    async def pay(self, message: goqueue.DeliveredMessage) -> None:
        await trio.sleep(0.01)
        if trio.current_time() < self.until:
            raise ConnectionError("the bank is away")
        self.paid += 1


async def dead_letters(world: World) -> int:
    topics = [each.name for each in await world.client.topics()]
    if "orders.dlq" not in topics:
        return 0
    return sum(each.end for each in (await world.client.topic("orders.dlq")).partitions)


@pytest.mark.parametrize("seconds", [10, 300])
async def test_jobs_survive_an_outage_with_what_a_worker_has_by_default(
    world: World, autojump_clock: MockClock, seconds: float
) -> None:
    await world.publish(500)
    bank = Bank(seconds)
    begun_at = trio.current_time()
    worked = await run_until_done(world, world.worker(bank.pay), 500)
    assert (worked.handled, bank.paid, await dead_letters(world)) == (500, 500, 0)
    assert worked.failed < 60, "it does not try all of them again and again"
    assert trio.current_time() - begun_at < seconds + 70


async def test_few_jobs_are_dead_letters_in_a_group_that_gives_up_soon(
    world: World, autojump_clock: MockClock
) -> None:
    """The group is an older one, with three deliveries: what the worker does not try is not given up."""
    async with world.client.consumer("orders", group="billing"):
        pass
    await world.publish(500)
    bank = Bank(60)
    worker = world.worker(bank.pay)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stop_after, worker, 180)
        await worker.run()
    assert bank.paid + await dead_letters(world) == 500
    assert await dead_letters(world) < FAILURES_MIN


async def test_it_says_once_when_it_slows_down_and_once_when_it_goes_on(
    world: World, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "goqueue.worker")
    await world.publish(100)
    await run_until_done(world, world.worker(Bank(100).pay), 100)
    said = [(each.levelname, each.getMessage()) for each in caplog.records if each.exc_info is None]
    assert [level for level, _ in said] == ["WARNING", "INFO"]
    assert f"the last {FAILURES_MIN} messages have all failed" in said[0][1]
    assert "goes on at its full speed" in said[1][1]


async def test_what_is_held_in_a_pause_goes_back_uncounted_to_who_can_handle_it(
    world: World, autojump_clock: MockClock
) -> None:
    """Another worker, whose bank is not away, takes them on their first attempt."""

    async def fast_then_away(message: goqueue.DeliveredMessage) -> None:
        if len(world.seen) > 100:
            raise ConnectionError("the bank is away")

    await world.publish(2_000)
    broken = world.worker(fast_then_away)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stop_after, broken, 5)
        failed = (await broken.run()).failed
    assert failed <= FAILURES_MIN + 10 + 5
    first = {value for value, _ in world.seen}
    del world.seen[:]
    await run_until_done(world, world.worker(do_nothing), 1_900)
    assert {attempt for value, attempt in world.seen if value not in first} == {1}


async def test_no_message_is_held_while_a_worker_pauses(world: World, autojump_clock: MockClock) -> None:
    held = list[int]()
    await world.publish(1_000)
    bank = Bank(100)
    worker = world.worker(bank.pay)

    async def look() -> None:
        for _ in range(20):
            await trio.sleep(4)
            held.append(sum(each.in_flight for each in (await world.client.group("billing")).partitions))
        worker.stop()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(look)
        await worker.run()
    assert max(held) <= 1, "at most the one that is tried"


async def test_what_comes_while_a_worker_pauses_is_not_begun(world: World, autojump_clock: MockClock) -> None:
    """The worker waits for messages in its other slots when the last failure comes."""

    async def fail(message: goqueue.DeliveredMessage) -> None:
        if message.value == b"%d" % (FAILURES_MIN - 1):
            await trio.sleep(0.5)
        raise ConnectionError("the bank is away")

    await world.publish(FAILURES_MIN)
    worker = world.worker(fail)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stop_after, worker, 1.4)
        nursery.start_soon(worker.run)
        await trio.sleep(0.6)
        assert len(world.seen) == FAILURES_MIN
        await world.publish(10)
    assert len(world.seen) == FAILURES_MIN


async def test_what_fails_for_good_is_a_dead_letter_at_once(world: World, autojump_clock: MockClock) -> None:
    async def handler(message: goqueue.DeliveredMessage) -> None:
        if message.value == b"3":
            raise UnicodeError("no text")

    await world.publish(5)
    worker = world.worker(handler, retry=Retry(never_for=(ValueError,)))
    assert await run_until_done(world, worker, 5) == (4, 1, 0)
    assert world.seen.count((b"3", 1)) == 1
    assert await dead_letters(world) == 1
    settings = (await world.client.group("billing")).settings
    assert (settings["max_deliveries"], settings["shared"]) == (40, True), "the rest is what a worker has"


# Settings


async def test_a_worker_that_makes_its_group_shares_it_and_retries_long_but_for_what_it_was_given(
    world: World, autojump_clock: MockClock
) -> None:
    await world.publish(1)
    await run_until_done(world, world.worker(do_nothing, max_deliveries=5, retry=Retry(longest=9)), 1)
    settings = (await world.client.group("billing")).settings
    names = ("shared", "max_deliveries", "retry_first", "retry_longest", "retry_jitter")
    assert [settings[name] for name in names] == [True, 5, 1.0, 9, 0.2]


async def test_a_worker_takes_the_settings_of_a_group_that_is_there(
    world: World, autojump_clock: MockClock
) -> None:
    async with world.client.consumer("orders", group="billing", max_deliveries=7, key_order=True):
        before = (await world.client.group("billing")).settings
    await world.publish(1)
    await run_until_done(world, world.worker(do_nothing), 1)
    assert (await world.client.group("billing")).settings == before
    assert before["shared"] is False


@pytest.mark.parametrize("given", [{"shared": True}, {"retry": Retry(attempts=40)}, {"retry": Retry(jitter=0.2)}])
async def test_a_worker_that_was_given_settings_insists_on_them(
    world: World, autojump_clock: MockClock, given: dict[str, object]
) -> None:
    async with world.client.consumer("orders", group="billing"):
        pass
    with pytest.raises(goqueue.GroupConflict):
        await world.worker(do_nothing, **given).run()
