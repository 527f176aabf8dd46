"""goqueue on Trio, as its page of the client shows it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import trio

import goqueue
from benchmarks.natural.meter import Meter
from benchmarks.natural.task import Task, check_found
from benchmarks.peers.workload import check_count

WARM_UP = 20
FLUSH_EACH = 1_000


def run(function: Callable[..., Awaitable[None]], task: Task, meter: Meter) -> None:
    trio.run(function, task, meter)


@asynccontextmanager
async def new_topic(task: Task) -> AsyncIterator[goqueue.Client]:
    async with goqueue.connect(task.addresses["goqueue"]) as client:
        await client.create_topic(task.name, partitions=1)
        yield client
        await client.delete_topic(task.name)


async def check_published(client: goqueue.Client, task: Task, before: int = WARM_UP) -> None:
    [partition] = (await client.topic(task.name)).partitions
    check_count(partition.end - before, task.count, "published and there")


async def check_acked(client: goqueue.Client, task: Task) -> None:
    """Acks that nobody waited for may still be under way."""
    with trio.move_on_after(10):
        while await lag_of(client, task):  # noqa: ASYNC110  # the broker tells nobody
            await trio.sleep(0.02)
    check_count(task.count - await lag_of(client, task), task.count, "acked")
    await client.delete_group(task.name)


async def lag_of(client: goqueue.Client, task: Task) -> int:
    return sum(each.lag + each.in_flight for each in (await client.group(task.name)).partitions)


# Publishing


@asynccontextmanager
async def warm_producer(client: goqueue.Client, task: Task) -> AsyncIterator[goqueue.Producer]:
    async with client.producer(task.name, acks=task.acks) as producer:
        for _ in range(WARM_UP):
            await producer.send(b"warm")
        yield producer


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
                async with trio.open_nursery() as nursery:
                    for share in shares:
                        nursery.start_soon(send_each, share)
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


async def send_from_connections(task: Task, meter: Meter) -> None:
    """Each connection sends one message at a time."""

    async def send_each(producer: goqueue.Producer, values: list[bytes]) -> None:
        for value in meter.each(values):
            await producer.send(value)

    async with new_topic(task) as client:
        async with AsyncExitStack() as stack:
            producers = [await stack.enter_async_context(connected_producer(task)) for _ in range(task.at_once)]
            with meter.measuring():
                async with trio.open_nursery() as nursery:
                    for producer, share in zip(producers, task.shares(), strict=True):
                        nursery.start_soon(send_each, producer, share)
        await check_published(client, task, before=WARM_UP * task.at_once)


@asynccontextmanager
async def connected_producer(task: Task) -> AsyncIterator[goqueue.Producer]:
    async with goqueue.connect(task.addresses["goqueue"]) as client, warm_producer(client, task) as producer:
        yield producer


# Consuming


@asynccontextmanager
async def filled_topic(task: Task) -> AsyncIterator[goqueue.Client]:
    async with new_topic(task) as client:
        await fill(client, task)
        yield client


async def fill(client: goqueue.Client, task: Task) -> None:
    async with client.producer(task.name) as producer:
        await producer.send_many(list(task.values()))


def options_of(task: Task) -> dict[str, Any]:
    """Without the option where it says what is usual, for trees that do not have it."""
    return {} if task.confirm_acks else {"confirm_acks": False}


async def ack_each(task: Task, meter: Meter) -> None:
    async with filled_topic(task) as client:
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


async def receive_one(task: Task, meter: Meter) -> None:
    async with filled_topic(task) as client:
        found = []
        async with client.consumer(task.name, group=task.name) as consumer:
            with meter.measuring():
                for _ in meter.each(task.values()):
                    [message] = await consumer.receive(max_messages=1)
                    await consumer.ack([message])
                    found.append(message.value)
        check_found(found, task)
        await check_acked(client, task)
