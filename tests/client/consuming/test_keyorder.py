"""Consumers of a group that keeps the order of keys: each key is done in order, whoever does it."""

from random import Random

import pytest
import trio
from trio.testing import MockClock

import goqueue
from tests.client.test_client import Machine, machine

__all__ = ["machine"]

KEYS = [b"ann", b"bob", b"cid", b"dee", b"eve"]
COUNT = 120


async def work(consumer: goqueue.Consumer, random: Random, done: list[goqueue.DeliveredMessage]) -> None:
    """Slowly, and not always with success."""
    async for message in consumer:
        await trio.sleep(random.choice((0.0, 0.01, 0.3)))
        if random.random() < 0.2:
            await message.nack(delay=0.1)
        else:
            await message.ack()
            done.append(message)


@pytest.mark.parametrize("shared", [False, True])
async def test_each_key_is_done_in_the_order_in_which_it_was_published(
    shared: bool, machine: Machine, autojump_clock: MockClock
) -> None:
    """O6, O7"""
    random, done = Random(7), list[goqueue.DeliveredMessage]()
    async with machine.both() as client:
        await client.create_topic("orders", partitions=2)
        async with client.producer("orders") as producer:
            values = [b"%d" % number for number in range(COUNT)]
            await producer.send_many(values, [random.choice(KEYS) for _ in values])
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                consumer = client.consumer(
                    "orders", group="billing", shared=shared, key_order=True, max_deliveries=0, max_in_flight=8
                )
                nursery.start_soon(_work_within, consumer, random, done)
            while len(done) < COUNT:
                await trio.sleep(1)
                if len(done) == COUNT // 2:
                    machine.cut()
            nursery.cancel_scope.cancel()
        group = await client.group("billing")
    for key in KEYS:
        numbers = [int(message.value) for message in done if message.key == key]
        assert numbers == sorted(numbers)
    assert {message.value for message in done} == set(values)
    assert group.settings["key_order"] is True


async def _work_within(consumer: goqueue.Consumer, random: Random, done: list[goqueue.DeliveredMessage]) -> None:
    async with consumer:
        await work(consumer, random, done)


async def test_a_group_can_be_altered_to_keep_the_order(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client:
        await client.create_topic("orders", partitions=1)
        async with client.producer("orders") as producer:
            await producer.send_many([b"0", b"1", b"2"], [b"ann"] * 3)
        async with client.consumer("orders", group="billing") as consumer:
            assert len(await consumer.receive(max_messages=3, timeout=5)) == 3
        await client.alter_group("billing", {"key_order": True})
        async with client.consumer("orders", group="billing", key_order=True) as consumer:
            for expected in (b"0", b"1", b"2"):
                [message] = await consumer.receive(max_messages=3, timeout=5)
                assert message.value == expected
                await message.ack()
