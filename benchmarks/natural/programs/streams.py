"""Redis Streams through redis-py on asyncio: one XADD at a time on each connection."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from redis import asyncio as redis

from benchmarks.natural.meter import Meter
from benchmarks.natural.task import Task
from benchmarks.peers.workload import check_count

WARM_UP = 20


def run(function: Callable[..., Coroutine[Any, Any, None]], task: Task, meter: Meter) -> None:
    asyncio.run(function(task, meter))


async def add_from_connections(task: Task, meter: Meter) -> None:
    async def add_each(client: Any, values: list[bytes]) -> None:
        for value in meter.each(values):
            await client.xadd(task.name, {b"v": value})

    clients = [redis.Redis.from_url(task.addresses["redis"]) for _ in range(task.at_once)]
    for client in clients:
        for _ in range(WARM_UP):
            await client.xadd(task.name, {b"v": b"warm"})
    shares = task.shares()
    with meter.measuring():
        await asyncio.gather(*[add_each(*each) for each in zip(clients, shares, strict=True)])
    check_count(await clients[0].xlen(task.name) - WARM_UP * task.at_once, task.count, "confirmed and there")
    await clients[0].delete(task.name)
    for client in clients:
        await client.aclose()
