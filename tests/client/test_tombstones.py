"""Tombstones from end to end: published by every way to send, delivered with the value None, kept by compaction for
a day."""

from contextlib import AsyncExitStack
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import goqueue
from goqueue import InvalidMessage, PublishFailed
from goqueue.client.reading.message import Message
from tests.client.test_client import Machine, machine

__all__ = ["machine"]

DAY = 24 * 3_600
ROUND = 61
"""Seconds until the janitor has been everywhere."""


async def orders(client: goqueue.Client, **config: Any) -> None:
    await client.create_topic("orders", partitions=1, config=config)


async def seen(client: goqueue.Client, topic: str = "orders") -> list[Message]:
    return [message async for message in client.read(topic, end="latest")]


async def contents(client: goqueue.Client) -> list[tuple[bytes | None, bytes | None]]:
    return [(message.key, message.value) for message in await seen(client)]


async def test_every_way_to_send_writes_tombstones(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client:
        await orders(client)
        await client.publish("orders", None, key=b"a", headers={"by": b"publish"})
        async with client.producer("orders") as producer:
            await producer.send(None, key=b"b")
            producer.send_nowait(None, key=b"c")
            await producer.send_many([b"", None, b"1"], [None, b"d", b"e"])
            producer.send_many_nowait([None, b""], [b"f", b"g"])
            await producer.send(None, key=b"h", message_id=b"once")
        assert await contents(client) == [
            (b"a", None),
            (b"b", None),
            (b"c", None),
            (None, b""),
            (b"d", None),
            (b"e", b"1"),
            (b"f", None),
            (b"g", b""),
            (b"h", None),
        ]
        [first, *_] = await seen(client)
        assert first.headers == {"by": b"publish"}


@pytest.mark.parametrize("key", [None, b""])
async def test_a_tombstone_without_a_key_is_refused_by_every_way_to_send(
    key: bytes | None, machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client, AsyncExitStack() as stack:
        await orders(client)
        with pytest.raises(InvalidMessage, match="deletes a key; give the key"):
            await client.publish("orders", None, key=key)
        producer = await stack.enter_async_context(client.producer("orders"))
        with pytest.raises(InvalidMessage, match="give the key"):
            await producer.send(None, key=key)
        with pytest.raises(InvalidMessage, match="give the key"):
            producer.send_nowait(None, key=key)
        with pytest.raises(InvalidMessage) as refused:
            producer.send_many_nowait([b"", None], [None, key])
        assert refused.value.details == {"number": 1}
        for keys in (None, [b"k", key, key]):
            with pytest.raises(PublishFailed) as failed:
                await producer.send_many([b"first", None, b"last"], keys)
            good, bad, last = failed.value.results
            assert isinstance(bad, InvalidMessage)
            assert isinstance(good, goqueue.Published)
            assert isinstance(last, goqueue.Published)
        assert [message.value for message in await seen(client)] == [b"first", b"last"] * 2


async def test_compaction_removes_what_a_tombstone_deletes_and_a_day_later_the_tombstone(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await orders(client, cleanup="compact", segment_bytes=1_024)
        await client.publish("orders", b"1", key=b"gone")
        await client.publish("orders", b"1", key=b"kept")
        await client.publish("orders", None, key=b"gone")
        for number in range(3):  # the last segment is never compacted
            await client.publish("orders", bytes(1_000), key=b"%d" % number)
        await trio.sleep(ROUND)
        assert (await contents(client))[:2] == [(b"kept", b"1"), (b"gone", None)]
        await trio.sleep(DAY)
        assert [key for key, _ in await contents(client)] == [b"kept", b"0", b"1", b"2"]


async def test_a_group_gets_tombstones_and_a_dead_letter_of_one_is_one(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await orders(client)
        await client.publish("orders", None, key=b"k", headers={"a": b"1"})
        async with client.consumer("orders", group="billing") as consumer:
            [message] = await consumer.receive()
            assert (message.key, message.value) == (b"k", None)
            await message.reject("no such key")
            await trio.sleep(5)  # until it is in its topic
            [letter] = await seen(client, "orders.dlq")
            assert (letter.key, letter.value, letter.headers["a"]) == (b"k", None, b"1")
            assert (await client.redrive("orders")).redriven == 1
            [again] = await consumer.receive()
            assert (again.key, again.value, again.headers["a"]) == (b"k", None, b"1")


async def test_a_delayed_tombstone_is_one_when_it_is_due(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client:
        await orders(client)
        await client.publish("orders", None, key=b"k", delay=10)
        assert await contents(client) == []
        await trio.sleep(11)
        assert await contents(client) == [(b"k", None)]


async def test_a_tombstone_may_expire(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client:
        await orders(client)
        await client.publish("orders", None, key=b"k", ttl=10)
        assert await contents(client) == [(b"k", None)]
        await trio.sleep(11)
        assert await contents(client) == []


# Compacted topics


async def test_a_compacted_topic_refuses_messages_without_a_key_and_takes_the_others_of_their_batch(
    machine: Machine, autojump_clock: MockClock
) -> None:
    """G16: by the broker, whatever the way in."""
    async with machine.both() as client, AsyncExitStack() as stack:
        await orders(client, cleanup="compact")
        with pytest.raises(InvalidMessage, match="compacted by key"):
            await client.publish("orders", b"1")
        with pytest.raises(InvalidMessage, match="compacted by key"):
            await client.publish("orders", b"1", delay=5, message_id=b"id", ttl=50)
        producer = await stack.enter_async_context(client.producer("orders"))
        with pytest.raises(PublishFailed) as failed:
            await producer.send_many([b"1", b"2", b"3", None], [b"a", None, b"b", b"c"])
        assert [type(result) for result in failed.value.results] == [
            goqueue.Published,
            InvalidMessage,
            goqueue.Published,
            goqueue.Published,
        ]
        assert await contents(client) == [(b"a", b"1"), (b"b", b"3"), (b"c", None)]


async def test_a_topic_that_is_compacted_later_keeps_its_messages_without_a_key(
    machine: Machine, autojump_clock: MockClock
) -> None:
    """What the broker moves is not refused: a delayed message fires, a dead letter is redriven."""
    async with machine.both() as client:
        await orders(client, segment_bytes=1_024)
        await client.publish("orders", b"first")
        await client.publish("orders", b"later", delay=100)
        await client.publish("orders", b"dead")
        async with client.consumer("orders", group="billing") as consumer:
            for message in await consumer.receive():
                await (message.reject("no") if message.value == b"dead" else message.ack())
            await client.alter_topic("orders", {"cleanup": "compact"})
            with pytest.raises(InvalidMessage, match="compacted by key"):
                await client.publish("orders", b"refused")
            for number in range(4):
                await client.publish("orders", bytes(1_000), key=b"k%d" % (number % 2))
            await trio.sleep(100 + ROUND)
            assert (await client.redrive("orders")).redriven == 1
            found = [value for key, value in await contents(client) if key is None]
            assert found == [b"first", b"dead", b"later", b"dead"]
            again = [message.value for message in await consumer.receive() if message.key is None]
            assert again == [b"later", b"dead"]
