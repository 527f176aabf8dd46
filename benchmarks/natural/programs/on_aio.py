"""goqueue on asyncio, as its page of the client shows it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from benchmarks.natural.meter import Meter
from benchmarks.natural.programs.on_trio import FLUSH_EACH, WARM_UP, options_of
from benchmarks.natural.task import Task, check_found
from benchmarks.peers.workload import check_count
from goqueue import aio


def run(function: Callable[..., Coroutine[Any, Any, None]], task: Task, meter: Meter) -> None:
    asyncio.run(function(task, meter))


@asynccontextmanager
async def new_topic(task: Task) -> AsyncIterator[aio.Client]:
    async with aio.connect(task.addresses["goqueue"]) as client:
        await client.create_topic(task.name, partitions=1)
        yield client
        await client.delete_topic(task.name)


async def check_published(client: aio.Client, task: Task) -> None:
    [partition] = (await client.topic(task.name)).partitions
    check_count(partition.end - WARM_UP, task.count, "published and there")


@asynccontextmanager
async def warm_producer(client: aio.Client, task: Task) -> AsyncIterator[aio.Producer]:
    async with client.producer(task.name, acks=task.acks) as producer:
        for _ in range(WARM_UP):
            await producer.send(b"warm")
        yield producer


# Publishing


async def send(task: Task, meter: Meter) -> None:
    async with new_topic(task) as client:
        async with warm_producer(client, task) as producer:
            with meter.measuring():
                for value in meter.each(task.values()):
                    await producer.send(value)
        await check_published(client, task)


async def send_at_once(task: Task, meter: Meter) -> None:
    async def send_each(values: list[bytes]) -> None:
        for value in meter.each(values):
            await producer.send(value)

    async with new_topic(task) as client:
        async with warm_producer(client, task) as producer:
            shares = task.shares()
            with meter.measuring():
                await asyncio.gather(*[send_each(share) for share in shares])
        await check_published(client, task)


async def publish_at_once(task: Task, meter: Meter) -> None:
    """Without a producer of one's own, and with the usual acks."""

    async def publish_each(values: list[bytes]) -> None:
        for value in meter.each(values):
            await client.publish(task.name, value)

    async with new_topic(task) as client:
        for _ in range(WARM_UP):
            await client.publish(task.name, b"warm")
        shares = task.shares()
        with meter.measuring():
            await asyncio.gather(*[publish_each(share) for share in shares])
        await check_published(client, task)


async def send_nowait(task: Task, meter: Meter) -> None:
    async with new_topic(task) as client:
        async with warm_producer(client, task) as producer:
            with meter.measuring():
                for number, value in enumerate(task.values(), start=1):
                    producer.send_nowait(value)
                    if number % FLUSH_EACH == 0:
                        await producer.flush()
                await producer.flush()
        await check_published(client, task)


# Consuming


async def ack_each(task: Task, meter: Meter) -> None:
    async with new_topic(task) as client:
        async with client.producer(task.name) as producer:
            await producer.send_many(list(task.values()))
        found = []
        with meter.measuring():
            async with client.consumer(task.name, group=task.name, **options_of(task)) as consumer:
                async for message in consumer:
                    found.append(message.value)
                    await message.ack()
                    if len(found) == task.count:
                        break
        check_found(found, task)
        await check_acked(client, task)


async def check_acked(client: aio.Client, task: Task) -> None:
    """Acks that nobody waited for may still be under way."""
    async with asyncio.timeout(10):
        while await lag_of(client, task):  # noqa: ASYNC110  # the broker tells nobody
            await asyncio.sleep(0.02)
    await client.delete_group(task.name)


async def lag_of(client: aio.Client, task: Task) -> int:
    return sum(each.lag + each.in_flight for each in (await client.group(task.name)).partitions)
