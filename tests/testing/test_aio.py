"""The machine in memory for asyncio: its time moves when a test says so, and nobody waits for it."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime, timedelta

import pytest

import goqueue
from goqueue import aio, blocking
from goqueue.testing import AioMachine, aio_machine, loopback_broker

REAL_SECONDS_MAX = 20.0
"""More than the tests need on a busy machine, and less than any of the waits in them."""


@pytest.fixture
def machine() -> Iterator[AioMachine]:
    """No thread is left behind, and nobody waited in real time."""
    before, began = set(threading.enumerate()), time.monotonic()
    with aio_machine() as made:
        yield made
    assert not [each.name for each in threading.enumerate() if each not in before and "goqueue" in each.name]
    assert time.monotonic() - began < REAL_SECONDS_MAX


def run(story: Callable[[aio.Client], Awaitable[None]]) -> None:
    """With a client of the machine, whose address is the default."""

    async def main() -> None:
        async with aio.connect() as client:
            await client.create_topic("orders", partitions=1)
            await story(client)

    asyncio.run(main())


def seconds_since(start: datetime, machine: AioMachine) -> float:
    return (machine.now() - start).total_seconds()


# What passes without waiting


def test_a_delayed_message_comes_when_its_time_has_come(machine: AioMachine) -> None:
    async def story(client: aio.Client) -> None:
        await client.publish("orders", b"tea", delay=timedelta(minutes=10))
        async with client.consumer("orders", group="g") as consumer:
            await machine.advance(9 * 60)
            assert await machine.advance_until(consumer.receive(timeout=20)) == []
            await machine.advance(60)
            assert [message.value for message in await consumer.receive()] == [b"tea"]

    run(story)


def test_receive_waits_on_the_clock_that_advance_moves(machine: AioMachine) -> None:
    async def story(client: aio.Client) -> None:
        async with client.consumer("orders", group="g") as consumer:
            start = machine.now()
            receiving = asyncio.create_task(consumer.receive(timeout=300))
            await machine.advance(250)
            assert not receiving.done()
            await machine.advance(55)
            assert receiving.done()
            assert receiving.result() == []
            assert 305 <= seconds_since(start, machine) < 315

    run(story)


def test_a_lease_expires(machine: AioMachine) -> None:
    async def story(client: aio.Client) -> None:
        await client.publish("orders", b"tea")
        async with client.consumer("orders", group="g", visibility_timeout=300) as consumer:
            [first] = await consumer.receive()
            await machine.advance(280)
            assert await machine.advance_until(consumer.receive(timeout=1)) == []
            await machine.advance(30)
            [again] = await machine.advance_until(consumer.receive())
            assert (again.value, again.attempt) == (first.value, 2)
            with pytest.raises(goqueue.StaleReceipt):
                await consumer.ack(first, wait=True)

    run(story)


def test_each_retry_waits_as_the_group_has_it(machine: AioMachine) -> None:
    async def story(client: aio.Client) -> None:
        await client.publish("orders", b"tea")
        retry = aio.Retry(attempts=4, first=60, longest=1_000, jitter=0)
        waits = []
        async with client.consumer("orders", group="g", retry=retry) as consumer:
            [message] = await consumer.receive()
            for _ in range(3):
                failed_at = machine.now()
                await consumer.nack(message)
                [message] = await machine.advance_until(consumer.receive(timeout=600))
                waits.append(seconds_since(failed_at, machine))
        assert waits == [pytest.approx(60, abs=5), pytest.approx(120, abs=5), pytest.approx(240, abs=5)]

    run(story)


def test_one_advance_lets_a_worker_handle_each_message_at_its_moment(machine: AioMachine) -> None:
    """A single jump would have all of them handled at its end; so would handlers that are not waited for."""

    async def story(client: aio.Client) -> None:
        start, handled = machine.now(), list[tuple[bytes | None, float]]()

        async def handler(message: aio.DeliveredMessage) -> None:
            for _ in range(5):
                await asyncio.sleep(0)
            handled.append((message.value, seconds_since(start, machine)))
            if message.attempt < 3:
                raise ValueError("not yet")

        for minutes in (1, 10):
            await client.publish("orders", b"%d" % minutes, delay=timedelta(minutes=minutes))
        worker = aio.Worker("orders", "g", handler, retry=aio.Retry(first=30, jitter=0), handle_signals=False)
        running = asyncio.create_task(worker.run())
        await machine.advance(timedelta(minutes=15))
        worker.stop()
        assert (await running)[:2] == (2, 4)
        expected = [(b"1", 60), (b"1", 90), (b"1", 150), (b"10", 600), (b"10", 630), (b"10", 690)]
        assert [value for value, _ in handled] == [value for value, _ in expected]
        for (_, at), (_, due) in zip(handled, expected, strict=True):
            assert at == pytest.approx(due, abs=8)

    run(story)


def test_time_is_not_moved_while_the_program_and_the_broker_talk(machine: AioMachine) -> None:
    async def story(client: aio.Client) -> None:
        moved = list[float]()

        async def handler(message: aio.DeliveredMessage) -> None:
            start, began = machine.now(), time.monotonic()
            for turns in (1, 500, *[1] * 100):
                for _ in range(turns):
                    await asyncio.sleep(0)
                await client.topics()
            moved.append(seconds_since(start, machine) - (time.monotonic() - began))

        await client.publish("orders", b"tea", delay=60)
        worker = aio.Worker("orders", "g", handler, handle_signals=False)
        running = asyncio.create_task(worker.run())
        await machine.advance(100)
        worker.stop()
        await running
        assert moved == [pytest.approx(0, abs=0.3)]

    run(story)


def test_members_of_a_group_stay_alive_while_time_is_moved(machine: AioMachine) -> None:
    """A jump past their heartbeats would have them thrown out."""

    async def story(client: aio.Client) -> None:
        given, taken = list[object](), list[object]()
        async with client.consumer(
            "orders", group="g", mode="stream", on_assigned=given.extend, on_revoked=taken.extend
        ) as consumer:
            await machine.advance(900)
            await client.publish("orders", b"tea")
            assert (await anext(consumer)).value == b"tea"
            assert (len(given), len(taken)) == (1, 0)

    run(story)


def test_without_advance_time_goes_as_it_does(machine: AioMachine) -> None:
    """Nothing hangs for want of a call: what is due soon comes soon."""

    async def story(client: aio.Client) -> None:
        async with client.consumer("orders", group="g") as consumer:
            assert await consumer.receive(timeout=0.05) == []
            await client.publish("orders", b"tea", delay=0.05)
            assert len(await consumer.receive()) == 1

    run(story)


# How it ends


def test_advance_until_gives_up_and_cancels_what_does_not_end(machine: AioMachine) -> None:
    async def story(client: aio.Client) -> None:
        ended = list[float]()

        async def wait() -> None:
            start = machine.now()
            try:
                await asyncio.Event().wait()
            finally:
                await client.topics()
                ended.append(seconds_since(start, machine))

        with pytest.raises(TimeoutError, match="not done after 90 seconds of the broker's time"):
            await machine.advance_until(wait(), seconds_max=90)
        assert ended == [pytest.approx(90, abs=5)]

    run(story)


def test_advance_until_passes_on_what_was_raised(machine: AioMachine) -> None:
    async def story(client: aio.Client) -> None:
        machine.fill_disk()
        with pytest.raises(goqueue.DeliveryTimeout):
            await machine.advance_until(client.publish("orders", b"tea", timeout=90))
        machine.heal()
        await client.publish("orders", b"tea")

    run(story)


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf"), 10**9, "60", None, True])
def test_a_time_that_is_none_is_refused(machine: AioMachine, seconds: float) -> None:
    with pytest.raises(ValueError, match=r"^seconds=.* is not a number from 0 to 31,622,400"):
        asyncio.run(machine.advance(seconds))


def test_only_one_task_moves_the_time(machine: AioMachine) -> None:
    async def story(client: aio.Client) -> None:
        first = asyncio.create_task(machine.advance(60))
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="moved by another task"):
            await machine.advance(1)
        await first
        await machine.advance(1)

    run(story)


def test_a_program_that_is_never_at_rest_has_its_time_moved_all_the_same(machine: AioMachine) -> None:
    async def story(client: aio.Client) -> None:
        async def be_busy() -> None:
            while True:  # noqa: ASYNC110
                await asyncio.sleep(0)

        busy = asyncio.create_task(be_busy())
        start = machine.now()
        await machine.advance(5)
        busy.cancel()
        assert seconds_since(start, machine) >= 5

    run(story)


# The machine


def test_what_was_confirmed_outlives_a_power_cut(machine: AioMachine) -> None:
    async def story(client: aio.Client) -> None:
        await client.publish("orders", b"tea")
        await machine.crash()
        assert not machine.is_running
        await machine.advance(20)
        await machine.start()
        machine.cut()
        values = [message.value async for message in client.read("orders", end="latest")]
        assert values == [b"tea"]

    run(story)


def test_clients_without_a_loop_and_of_several_loops_find_it(machine: AioMachine) -> None:
    with blocking.connect() as client:
        client.create_topic("letters")
    for _ in range(2):

        async def story() -> None:
            async with aio.connect(machine.url) as client:
                assert [topic.name for topic in await client.topics()] == ["letters"]

        asyncio.run(story())


def test_it_takes_its_own_address_alone(machine: AioMachine) -> None:
    with loopback_broker() as address, blocking.connect(address) as other, blocking.connect() as client:
        other.create_topic("elsewhere")
        assert client.topics() == []
    with pytest.raises(RuntimeError, match="taken by another broker in memory"), aio_machine():
        pass
