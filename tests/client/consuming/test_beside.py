"""Several tasks receive from one consumer at a time: each message comes to one of them, once, and none is lost."""

from random import Random

import pytest
import trio
from trio.testing import MockClock

import goqueue
import goqueue.testing
from tests.client.test_client import Machine, machine

__all__ = ["machine"]

COUNT = 400


async def publish(client: goqueue.Client, *values: bytes) -> None:
    async with client.producer("orders") as producer:
        await producer.send_many(values)


async def test_each_of_two_who_wait_gets_a_message(machine: Machine, autojump_clock: MockClock) -> None:
    async def receive() -> None:
        received.append([message.value for message in await consumer.receive(1, timeout=30)])

    received: list[list[bytes]] = []
    async with machine.both() as client:
        await client.create_topic("orders", partitions=1)
        async with client.consumer("orders", group="billing") as consumer:
            with trio.fail_after(5):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(receive)
                    nursery.start_soon(receive)
                    await trio.sleep(2)
                    await publish(client, b"a", b"b")
    assert sorted(received) == [[b"a"], [b"b"]]


async def test_who_waits_shorter_ends_alone_and_the_other_gets_what_comes(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async def receive(timeout: float) -> None:
        messages = await consumer.receive(timeout=timeout)
        received.append((round(trio.current_time() - began), [message.value for message in messages]))

    received: list[tuple[int, list[bytes]]] = []
    async with machine.both() as client:
        await client.create_topic("orders", partitions=1)
        async with client.consumer("orders", group="billing") as consumer:
            began = trio.current_time()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(receive, 3)
                nursery.start_soon(receive, 300)
                await trio.sleep(60)
                await publish(client, b"a", b"b")
    assert received == [(3, []), (60, [b"a", b"b"])]


async def test_when_one_of_two_is_cancelled_the_other_gets_what_comes(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async def receive(scope: trio.CancelScope) -> None:
        with scope:
            received.append([message.value for message in await consumer.receive(timeout=30)])

    received: list[list[bytes]] = []
    async with machine.both() as client:
        await client.create_topic("orders", partitions=1)
        async with client.consumer("orders", group="billing") as consumer, trio.open_nursery() as nursery:
            cancelled, other = trio.CancelScope(), trio.CancelScope()
            nursery.start_soon(receive, cancelled)
            nursery.start_soon(receive, other)
            await trio.sleep(2)
            cancelled.cancel()  # whoever asked: what the answer brings is for who is left
            await publish(client, b"a")
    assert received == [[b"a"]]


class Crew:
    """Workers who share a consumer, take more or less at a time and are now and then cancelled while they wait."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.machine = Machine(seed)
        self.seen: list[tuple[bytes, int]] = []
        self.all_seen = trio.Event()
        self.empty_handed: list[float] = []
        """How long those waited who got nothing."""

    async def run(self) -> None:
        async with self.machine.both() as client:
            await client.create_topic("orders", partitions=3)
            async with client.consumer("orders", group="billing") as consumer, trio.open_nursery() as nursery:
                for count in (1, 10, 10, 100):
                    nursery.start_soon(self._work, consumer, count)
                for first in range(0, COUNT, 40):
                    await publish(client, *[b"%d" % number for number in range(first, first + 40)])
                    await trio.sleep(self.chance.random() / 5)
                with trio.fail_after(20):  # sooner than any lease ends
                    await self.all_seen.wait()
                nursery.cancel_scope.cancel()

    async def _work(self, consumer: goqueue.Consumer, count: int) -> None:
        while True:
            messages, began = None, trio.current_time()
            with trio.move_on_after(self.chance.choice([0.001, 0.01, 0.1, 5])):
                messages = await consumer.receive(count, timeout=1)
            if messages == []:
                self.empty_handed.append(trio.current_time() - began)
            for message in messages or ():
                self.seen.append((message.value, message.attempt))
            if len(self.seen) >= COUNT:
                self.all_seen.set()
            await trio.sleep(self.chance.choice([0, 0, 0.01, 0.05]))
            await consumer.ack(messages or [])


@pytest.mark.parametrize("seed", range(6))
def test_nothing_is_lost_or_doubled_whoever_is_cancelled_and_nobody_leaves_early_with_nothing(seed: int) -> None:
    crew = Crew(seed)
    goqueue.testing.run_deterministically(crew.run, seed=seed)
    assert sorted(crew.seen) == sorted((b"%d" % number, 1) for number in range(COUNT))
    assert all(waited >= 1 for waited in crew.empty_handed)
