"""NATS JetStream through nats-py: `publish` waits for the confirmation, `ack` is sent and not answered."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import nats
from nats.js.api import AckPolicy, ConsumerConfig, StorageType

from benchmarks.natural.meter import Meter
from benchmarks.natural.task import Task, check_found
from benchmarks.peers.workload import Wrong, check_count

WARM_UP = 20
BATCH = 500
ACKED_SECONDS_MAX = 10.0


def run(function: Callable[..., Coroutine[Any, Any, None]], task: Task, meter: Meter) -> None:
    asyncio.run(function(task, meter))


@asynccontextmanager
async def connected(task: Task) -> AsyncIterator[Any]:
    client = await nats.connect(task.addresses["nats"])
    try:
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def new_stream(task: Task) -> AsyncIterator[Any]:
    async with connected(task) as client:
        jetstream = client.jetstream()
        await jetstream.add_stream(name=task.name, subjects=[task.name], storage=StorageType.FILE)
        yield jetstream
        await jetstream.delete_stream(task.name)


async def check_published(jetstream: Any, task: Task, before: int = WARM_UP) -> None:
    there = (await jetstream.stream_info(task.name)).state.messages
    check_count(there - before, task.count, "confirmed and there")


async def warm_up(jetstream: Any, task: Task) -> None:
    for _ in range(WARM_UP):
        await jetstream.publish(task.name, b"warm")


# Publishing


async def publish(task: Task, meter: Meter) -> None:
    async with new_stream(task) as jetstream:
        await warm_up(jetstream, task)
        with meter.measuring():
            for value in meter.each(task.values()):
                await jetstream.publish(task.name, value)
        await check_published(jetstream, task)


async def publish_at_once(task: Task, meter: Meter) -> None:
    async def publish_each(values: list[bytes]) -> None:
        for value in meter.each(values):
            await jetstream.publish(task.name, value)

    async with new_stream(task) as jetstream:
        await warm_up(jetstream, task)
        shares = task.shares()
        with meter.measuring():
            await asyncio.gather(*[publish_each(share) for share in shares])
        await check_published(jetstream, task)


async def publish_from_connections(task: Task, meter: Meter) -> None:
    async def publish_each(jetstream: Any, values: list[bytes]) -> None:
        for value in meter.each(values):
            await jetstream.publish(task.name, value)

    async with new_stream(task) as first, AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(connected(task)) for _ in range(task.at_once)]
        streams = [client.jetstream() for client in clients]
        for each in streams:
            await warm_up(each, task)
        shares = task.shares()
        with meter.measuring():
            await asyncio.gather(*[publish_each(*each) for each in zip(streams, shares, strict=True)])
        await check_published(first, task, WARM_UP * task.at_once)


# Consuming


async def fill(jetstream: Any, task: Task) -> None:
    values = list(task.values())
    for begin in range(0, len(values), BATCH):
        batch = values[begin : begin + BATCH]
        await asyncio.gather(*[await jetstream.publish_async(task.name, value) for value in batch])


async def ack_each_of_pulls(task: Task, meter: Meter) -> None:
    found: list[bytes] = []
    async with new_stream(task) as jetstream:
        await fill(jetstream, task)
        with meter.measuring():
            consumer = await jetstream.pull_subscribe(task.name, durable="pulling")
            while len(found) < task.count:
                for message in await consumer.fetch(min(BATCH, task.count - len(found)), timeout=30):
                    found.append(message.data)
                    await message.ack()
            await jetstream._nc.flush()
        check_found(found, task)
        await check_acked(jetstream, task, "pulling")


async def ack_each_of_pushes(task: Task, meter: Meter) -> None:
    """The server sends on by itself, and has so many unacknowledged at most as it has usually: a thousand."""
    found: list[bytes] = []
    async with new_stream(task) as jetstream:
        await fill(jetstream, task)
        config = ConsumerConfig(ack_policy=AckPolicy.EXPLICIT)
        with meter.measuring():
            pushed = await jetstream.subscribe(task.name, durable="pushed", manual_ack=True, config=config)
            async for message in pushed.messages:
                found.append(message.data)
                await message.ack()
                if len(found) == task.count:
                    break
            await jetstream._nc.flush()
        check_found(found, task)
        await check_acked(jetstream, task, "pushed")


async def check_acked(jetstream: Any, task: Task, consumer: str) -> None:
    """Acks are sent, not answered: the last of them may still be worked on."""
    deadline, acked = time.monotonic() + ACKED_SECONDS_MAX, 0
    while acked < task.count:
        if time.monotonic() > deadline:
            raise Wrong(f"acked: {acked:,} of {task.count:,}")
        acked = (await jetstream.consumer_info(task.name, consumer)).ack_floor.consumer_seq
    check_count(acked, task.count, "acked")
