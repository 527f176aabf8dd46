"""What tests of workers share: a broker in memory with a topic, and workers of it."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import trio

import goqueue
from goqueue.client.working.worker import Handler
from goqueue.testing import Machine, machine

VISIBILITY = 30.0


@dataclass
class World:
    machine: Machine
    client: goqueue.Client
    seen: list[tuple[bytes, int]] = field(default_factory=list)
    """Value and attempt of each message that a handler was given."""

    async def publish(self, count: int) -> list[bytes]:
        values = [b"%d" % number for number in range(count)]
        async with self.client.producer("orders") as producer:
            await producer.send_many(values)
        return values

    def worker(self, handler: Handler, **options: Any) -> goqueue.Worker:
        async def noted(message: goqueue.DeliveredMessage) -> None:
            self.seen.append((message.value, message.attempt))
            await handler(message)

        network = self.machine.network.machine("worker")
        options = {"url": self.machine.url, "network": network, "clock": self.machine.clock, **options}
        return goqueue.Worker("orders", "billing", noted, **options)

    async def lag(self) -> int:
        return (await self.client.group("billing")).lag

    async def is_done(self) -> bool:
        try:
            return await self.lag() == 0
        except (goqueue.UnknownGroup, goqueue.Unavailable):
            return False

    async def until_done(self, worker: goqueue.Worker, count: int) -> None:
        """So many messages are acked; then the worker is stopped."""
        while not await self.is_done():  # noqa: ASYNC110
            await trio.sleep(1)  # what an ack changes is told to nobody else
        assert len({value for value, _ in self.seen}) == count
        worker.stop()


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with machine() as made, made.client() as client:
        await client.create_topic("orders", partitions=2)
        yield World(made, client)


async def do_nothing(message: goqueue.DeliveredMessage) -> None:
    await trio.lowlevel.checkpoint()


async def run_until_done(world: World, worker: goqueue.Worker, count: int) -> goqueue.Worked:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.until_done, worker, count)
        return await worker.run()
    raise AssertionError("unreachable")


async def stop_after(worker: goqueue.Worker, seconds: float, drain_timeout: float | None = None) -> None:
    await trio.sleep(seconds)
    worker.stop(drain_timeout)
