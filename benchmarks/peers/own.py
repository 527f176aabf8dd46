"""goqueue: one topic of one partition, which is one ordered log as the others have."""

import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from importlib.metadata import version
from itertools import count as numbers
from pathlib import Path

import trio

import goqueue
from benchmarks.broker import broker_process
from benchmarks.figures import timed
from benchmarks.peers.workload import BLOCK, Peer, What, Workload, check_count, check_values

NAME = "goqueue"
CALLS = 4
FILE = "in the file; fsync within a second"
SYNCED = "fsynced before it is confirmed"


@contextmanager
def started(folder: Path) -> Iterator[Peer]:
    with broker_process(str(folder / "data")) as broker:
        own = Own(broker.url)
        many, block = f"send_many of {len(BLOCK):,}, {CALLS} at a time", len(BLOCK)
        one = "send_many of 500, one at a time"
        yield Peer(
            NAME,
            version("goqueue"),
            [
                Workload("goqueue leader", NAME, What.PUBLISH, many, FILE, own.publishing("leader", block, CALLS)),
                Workload("goqueue all", NAME, What.PUBLISH, many, SYNCED, own.publishing("all", block, CALLS)),
                Workload("goqueue one", NAME, What.PUBLISH, one, FILE, own.publishing("leader", 500, 1)),
                Workload("goqueue read", NAME, What.READ, "client.read", "position kept by the reader", own.read),
                Workload("goqueue single leader", NAME, What.SINGLE, "send", FILE, own.single("leader")),
                Workload("goqueue single all", NAME, What.SINGLE, "send", SYNCED, own.single("all")),
            ],
        )


class Own:
    def __init__(self, url: str) -> None:
        self._url = url
        self._names = (f"run-{number}" for number in numbers())
        self._there = 0
        """How many messages the topic for reading has."""

    def publishing(self, acks: str, batch: int, calls: int) -> Callable[[int], float]:
        return lambda count: trio.run(self._publish, count, acks, batch, calls)

    async def _publish(self, count: int, acks: str, batch: int, calls: int) -> float:
        async with self._topic() as (client, topic), client.producer(topic, acks=acks) as producer:
            await producer.send(BLOCK[0])
            with timed() as watch:
                await _send(producer, count, batch, calls)
            [partition] = (await client.topic(topic)).partitions
            check_count(partition.end - 1, count, "confirmed and there")
            return watch.seconds

    def read(self, count: int) -> float:
        return trio.run(self._read, count)

    async def _read(self, count: int) -> float:
        async with goqueue.connect(self._url) as client:
            await self._fill(client, count)
            with timed() as watch:
                found = [message.value async for message in client.read("reading", end=count)]
        check_values(found, count)
        return watch.seconds

    async def _fill(self, client: goqueue.Client, count: int) -> None:
        if not self._there:
            await client.create_topic("reading", partitions=1)
        if self._there < count:
            async with client.producer("reading") as producer:
                await _send(producer, count - self._there, len(BLOCK), 1)
            self._there = count

    def single(self, acks: str) -> Callable[[int], float]:
        return lambda count: trio.run(self._single, count, acks)

    async def _single(self, count: int, acks: str) -> float:
        async with self._topic() as (client, topic), client.producer(topic, acks=acks) as producer:
            await producer.send(BLOCK[0])
            seconds = [await _seconds(partial(producer.send, value)) for value in BLOCK[:count]]
            return statistics.median(seconds)

    @asynccontextmanager
    async def _topic(self) -> AsyncIterator[tuple[goqueue.Client, str]]:
        topic = next(self._names)
        async with goqueue.connect(self._url) as client:
            await client.create_topic(topic, partitions=1)
            yield client, topic
            await client.delete_topic(topic)


async def _send(producer: goqueue.Producer, count: int, batch: int, calls: int) -> None:
    """Blocks of values cut into batches; several calls at a time when `calls` says so."""
    batches = iter([BLOCK[begin : begin + batch] for begin in range(0, len(BLOCK), batch)] * (count // len(BLOCK)))

    async def call_after_call() -> None:
        for values in batches:
            published = await producer.send_many(values)
            check_count(sum(each.offset is not None for each in published), len(values), "confirmed")

    async with trio.open_nursery() as nursery:
        for _ in range(calls):
            nursery.start_soon(call_after_call)


async def _seconds(once: Callable[[], Awaitable[object]]) -> float:
    begin = time.perf_counter()
    await once()
    return time.perf_counter() - begin
