"""What tests of streams share: messages that are their own offsets, and consumers of them."""

from typing import Any

import goqueue
from goqueue.client.consuming.consumer import Consumer


async def fill(client: goqueue.Client, count: int, partitions: int = 1, topic: str = "orders") -> None:
    """So many messages in each partition, each of which is its own offset."""
    await client.create_topic(topic, partitions=partitions)
    async with client.producer(topic) as producer:
        for partition in range(partitions):
            await producer.send_many([b"%d" % number for number in range(count)], partition=partition)


def stream(client: goqueue.Client, topics: str = "orders", group: str = "audit", **options: Any) -> Consumer:
    return client.consumer(topics, group=group, mode="stream", **options)


async def some(consumer: Consumer, count: int) -> list[Any]:
    """So many messages."""
    messages: list[Any] = []
    while len(messages) < count:
        found = await consumer.receive(count - len(messages), timeout=60)
        assert found, f"only {len(messages)} of {count} came"
        messages += found
    return messages


def offsets(messages: list[Any], partition: int = 0) -> list[int]:
    return [message.offset for message in messages if message.partition == partition]


async def committed(client: goqueue.Client, group: str = "audit") -> list[int]:
    return [each.committed for each in (await client.group(group)).partitions]


async def divide_by_the_distance_to(offset: int, entering: Consumer) -> None:
    async with entering as consumer:
        async for message in consumer:
            1 // (message.offset - offset)


async def receive_on(consumer: Consumer, seen: list[int]) -> None:
    while True:
        seen += offsets(await consumer.receive())
