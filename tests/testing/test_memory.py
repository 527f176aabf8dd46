"""The machine in memory: what users' tests, and ours, build on."""

from collections.abc import Awaitable, Callable

import pytest
import trio
from trio.testing import MockClock

import goqueue
from goqueue.environment import SystemClock
from goqueue.testing import Machine, broker, machine, run_deterministically


async def values(client: goqueue.Client) -> list[bytes]:
    return [message.value async for message in client.read("orders", end="latest")]


async def test_a_broker_is_there_for_a_block() -> None:
    """In real time, too."""
    async with broker() as client:
        await client.create_topic("orders", partitions=1)
        assert (await client.publish("orders", b"a")).offset == 0
        assert await values(client) == [b"a"]
    with pytest.raises(goqueue.Closed):
        await client.topics()


Ending = Callable[[Machine], Awaitable[None]]


@pytest.mark.parametrize("end", [Machine.crash, Machine.kill, Machine.stop], ids=["crash", "kill", "stop"])
async def test_what_was_confirmed_is_there_after_any_end(end: Ending, autojump_clock: MockClock) -> None:
    """G1"""
    for seed in range(10):
        async with machine(seed) as made, made.client() as client:
            await client.create_topic("orders", partitions=1)
            for number in range(5):
                await client.publish("orders", b"%d" % number)
            await end(made)
            assert not made.is_running
            with trio.move_on_after(10) as patience:
                await client.topics()
            assert patience.cancelled_caught
            await made.start()
            assert await values(client) == [b"%d" % number for number in range(5)]


async def test_a_crash_loses_what_was_not_synced_and_a_kill_does_not(autojump_clock: MockClock) -> None:
    """G1: with acks=leader a message survives the end of the process, and no more."""

    async def left_after(end: Ending, seed: int) -> int:
        async with machine(seed) as made, made.client() as client:
            await client.create_topic("orders", partitions=1)
            await client.publish("orders", b"synced")
            made.slow_disk(10)
            await client.publish("orders", b"not yet", acks="leader")
            await end(made)
            made.heal()
            await made.start()
            return len(await values(client))

    assert {await left_after(Machine.kill, seed) for seed in range(10)} == {2}
    assert {await left_after(Machine.crash, seed) for seed in range(10)} == {1, 2}


async def test_the_last_words_of_a_broker_that_crashed_reach_nobody(autojump_clock: MockClock) -> None:
    """G11: the answer was on its way; the client asks the next one, and the message is there once."""
    async with machine() as made, made.client() as client, trio.open_nursery() as nursery:
        await client.create_topic("orders", partitions=1)
        await client.publish("orders", b"a")
        confirmed = trio.Event()

        async def publish() -> None:
            assert (await client.publish("orders", b"b")).offset == 1
            confirmed.set()

        made.slow(1)
        nursery.start_soon(publish)
        await trio.sleep(1.5)
        await made.crash()
        await trio.sleep(5)
        assert not confirmed.is_set()
        made.heal()
        await made.start()
        await confirmed.wait()
        assert await values(client) == [b"a", b"b"]


async def test_a_restart_goes_on_with_the_same_disk(autojump_clock: MockClock) -> None:
    async with machine() as made, made.client() as client:
        await client.create_topic("orders", partitions=1)
        await made.restart()
        assert (await client.publish("orders", b"a")).offset == 0
        with pytest.raises(RuntimeError, match="runs already"):
            await made.start()
    with pytest.raises(RuntimeError, match="enter the machine first"):
        await made.start()
    async with made.running(), made.client() as client:
        assert await values(client) == [b"a"]


async def test_cut_connections_are_made_anew(autojump_clock: MockClock) -> None:
    async with machine() as made, made.client() as client:
        await client.create_topic("orders", partitions=1)
        for number in range(3):
            made.cut()
            assert (await client.publish("orders", b"")).offset == number
        assert len(made.network.connections) == 4


async def test_a_slow_line_and_a_slow_disk_take_their_time(autojump_clock: MockClock) -> None:
    async with machine() as made, made.client() as client:
        await client.create_topic("orders", partitions=1)
        await client.publish("orders", b"")
        made.slow(3)
        assert await seconds_of_a_publish(client) == pytest.approx(6, abs=0.1)
        made.heal()
        made.slow_disk(5)
        assert await seconds_of_a_publish(client) == pytest.approx(5, abs=0.1)
        made.heal()
        await trio.sleep(10)  # a sync that had begun takes as long as it was to take
        assert await seconds_of_a_publish(client) < 0.1


async def seconds_of_a_publish(client: goqueue.Client) -> float:
    begin = trio.current_time()
    await client.publish("orders", b"")
    return trio.current_time() - begin


async def test_a_full_disk_refuses_publishes_until_it_is_freed(autojump_clock: MockClock) -> None:
    async with machine() as made, made.client() as client:
        await client.create_topic("orders", partitions=1)
        await client.publish("orders", b"a")
        made.fill_disk()
        await trio.sleep(1)
        with trio.move_on_after(10) as patience:
            await client.publish("orders", b"given up")
        assert patience.cancelled_caught
        assert await values(client) == [b"a"]
        made.free_disk()
        await client.publish("orders", b"b")
        assert (await values(client))[-1] == b"b"


async def test_an_isolated_broker_is_silent_until_all_is_well(autojump_clock: MockClock) -> None:
    async with machine() as made, made.client() as client:
        await client.create_topic("orders", partitions=1)
        made.isolate()
        with pytest.raises(goqueue.Unavailable):
            await client.topics()
        made.heal()
        assert len(await client.topics()) == 1


async def test_errors_leave_as_themselves(autojump_clock: MockClock) -> None:
    async def fail() -> None:
        async with broker() as client:
            await client.topics()
            raise ValueError("of the test")

    with pytest.raises(ValueError, match="of the test"):
        await fail()


async def test_messages_bear_the_time_of_the_machine_s_clock(autojump_clock: MockClock) -> None:
    async with broker() as client:
        await client.create_topic("orders", partitions=1)
        await client.publish("orders", b"")
        [message] = await client.read("orders", end="latest").next_batch()
        assert 1_767_225_600 <= message.timestamp < 1_767_225_610
    clock = SystemClock()
    async with broker(clock=clock) as client:
        await client.create_topic("orders", partitions=1)
        await client.publish("orders", b"")
        [message] = await client.read("orders", end="latest").next_batch()
        assert message.timestamp == pytest.approx(clock.now() / 1_000_000, abs=60)


def test_a_seed_replays_a_crash_step_by_step() -> None:
    async def story() -> int:
        async with machine(seed=5) as made, made.client() as client:
            await client.create_topic("orders", partitions=2)
            async with trio.open_nursery() as nursery:
                for _ in range(5):
                    nursery.start_soon(client.publish, "orders", b"")
                await trio.sleep(0.001)
                await made.crash()
                await made.start()
            return len(await values(client))

    first = run_deterministically(story, seed=5)
    assert run_deterministically(story, seed=5) == first
    assert run_deterministically(story, seed=6).trace != first.trace
