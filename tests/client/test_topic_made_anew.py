"""A topic is deleted, and made again, while clients use it: they hear `UnknownTopic` or go on with the new one.

Neither `Closed` of a producer that they did not close nor the death of an actor reaches a program.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random

import pytest
import trio
from trio.testing import MockClock

import goqueue
import goqueue.testing
from goqueue.client.link.connection import CALL_SECONDS_MAX
from tests.client.test_client import Machine, machine, values

__all__ = ["machine"]


async def publish_until_gone(client: goqueue.Client, failures: list[goqueue.GoQueueError]) -> None:
    while not failures or not isinstance(failures[-1], goqueue.UnknownTopic):
        try:
            await client.publish("orders", b"tea")
        except goqueue.GoQueueError as error:
            failures.append(error)


async def test_a_message_behind_one_that_failed_goes_to_the_topic_that_was_made_again(
    machine: Machine, autojump_clock: MockClock
) -> None:
    """It waited for its delivery timeout: the row was never looked at again."""
    async with machine.both() as client, machine.client() as other:
        await client.create_topic("orders", partitions=1)
        await client.publish("orders", b"old")
        await other.delete_topic("orders")
        with pytest.raises(goqueue.UnknownTopic):
            await client.publish("orders", b"between")
        await other.create_topic("orders", partitions=1)
        with trio.fail_after(5):
            assert (await client.publish("orders", b"new")).offset == 0
        assert await values(client) == [b"new"]


async def test_a_topic_that_was_made_again_is_found_though_the_broker_was_away_when_it_was_asked_for(
    machine: Machine, autojump_clock: MockClock
) -> None:
    """The question how the topic is now went unanswered for so long that it was given up."""
    async with machine.both() as client, machine.client() as other:
        await client.create_topic("orders", partitions=1)
        async with client.producer("orders") as producer, trio.open_nursery() as nursery:
            await producer.send(b"old")
            await other.delete_topic("orders")
            await other.create_topic("orders", partitions=1)
            machine.slow(1)
            nursery.start_soon(producer.send, b"new")
            await trio.sleep(2.5)  # a second until it is refused, another until we know
            await machine.kill()
            machine.slow(0)
            await trio.sleep(CALL_SECONDS_MAX + 5)
            await machine.start()
            with trio.fail_after(5):
                await producer.flush()
        assert await values(client) == [b"new"]


async def test_who_publishes_while_the_same_client_deletes_the_topic_hears_that_there_is_none(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await client.create_topic("orders", partitions=1)
        failures: list[list[goqueue.GoQueueError]] = [[] for _ in range(20)]
        machine.slow_disk(0.1)
        with trio.fail_after(30):
            async with trio.open_nursery() as nursery:
                for mine in failures:
                    nursery.start_soon(publish_until_gone, client, mine)
                await trio.sleep(0.25)
                await client.delete_topic("orders")
        assert [[type(error) for error in mine] for mine in failures] == [[goqueue.UnknownTopic]] * 20


async def test_a_reader_of_a_topic_that_is_deleted_hears_that_there_is_none(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async def read_to_the_end() -> None:
        reader = client.read("orders")
        assert (await anext(reader)).value == b"tea"
        read.set()
        with pytest.raises(goqueue.UnknownTopic):
            await anext(reader)

    async with machine.both() as client, machine.client() as other, trio.open_nursery() as nursery:
        read = trio.Event()
        await client.create_topic("orders")
        nursery.start_soon(read_to_the_end)
        await client.publish("orders", b"tea")
        await read.wait()
        await other.delete_topic("orders")
        await other.create_topic("orders")


# All of it at once


class Shop:
    """Publishes, produces and reads while the topic is made anew and the broker comes and goes."""

    def __init__(self, seed: int) -> None:
        self.machine = Machine(seed)
        self._chance = Random(seed)
        self._is_over = False
        self.heard: set[type[goqueue.GoQueueError]] = set()

    async def run(self) -> None:
        async with self.machine.both() as client, self.machine.client("other") as other:
            await client.create_topic("orders", partitions=2)
            async with trio.open_nursery() as nursery:
                for each in (client, other):
                    nursery.start_soon(self._again_and_again, lambda each=each: each.publish("orders", b"tea"))
                    nursery.start_soon(self._again_and_again, self._produce, each)
                    nursery.start_soon(self._again_and_again, self._read, each)
                for each in (client, other, client, other):
                    nursery.start_soon(self._make_anew, each)
                    await self._trouble()
                self._is_over = True

    async def _again_and_again(self, work: Callable[..., Awaitable[object]], *arguments: object) -> None:
        while not self._is_over:
            try:
                with trio.fail_after(60):
                    await work(*arguments)
            except goqueue.GoQueueError as error:
                self.heard.add(type(error))
            await trio.sleep(self._chance.random() / 2)

    async def _produce(self, client: goqueue.Client) -> None:
        async with client.producer("orders") as producer:
            for number in range(3):
                await self._hear(producer.send(b"%d" % number))

    async def _hear(self, sending: Awaitable[object]) -> None:
        try:
            await sending
        except goqueue.GoQueueError as error:
            self.heard.add(type(error))

    async def _read(self, client: goqueue.Client) -> None:
        with trio.move_on_after(5):
            async for _ in client.read("orders"):
                pass

    async def _make_anew(self, client: goqueue.Client) -> None:
        with suppress(goqueue.UnknownTopic):
            await client.delete_topic("orders")
        await trio.sleep(self._chance.choice([0, 0.3, 2]))
        with suppress(goqueue.TopicExists):
            await client.create_topic("orders", partitions=self._chance.randint(1, 3))

    async def _trouble(self) -> None:
        await trio.sleep(self._chance.random() / 20)
        await self._chance.choice([self.machine.crash, self.machine.kill, self.machine.stop])()
        await trio.sleep(self._chance.choice([0, 1, 5]))
        await self.machine.start()
        await trio.sleep(3)


@pytest.mark.parametrize("seed", range(3))
def test_whatever_happens_to_the_broker_meanwhile_nobody_hears_anything_else(seed: int) -> None:
    shop = Shop(seed)
    goqueue.testing.run_deterministically(shop.run, seed=seed)
    assert shop.heard == {goqueue.UnknownTopic}
