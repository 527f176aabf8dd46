"""What the ways to consume cost beside each other: `./dev bench modes`.

100-byte values, every message counted; what is compared runs in turns, and ratios are medians of those within each
round. A stream beside plain reading; fifty consumers that share three partitions beside three that own one each;
a group that keeps the order of 10,000 keys beside one that does not.
"""

import random
import statistics
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import count as numbers
from pathlib import Path
from typing import Any

import trio

import goqueue
from benchmarks.broker import BrokerProcess, broker_process
from benchmarks.commandline import Size, Tell, run
from benchmarks.consume import BATCH, receive_and_ack
from benchmarks.figures import Figure, timed
from benchmarks.garbage import heap_set_apart
from benchmarks.peers.workload import BLOCK, Wrong, check_count, check_values

PARTITIONS = 3
EVEN = 0.10
"""No member of a shared group is served less or more than the mean by a larger part."""
BATCH_OF_MANY = 20
"""So many messages at a time for each of many consumers: who takes much at a time leaves nothing to the others."""


@dataclass(frozen=True, slots=True)
class Sizes:
    runs: int = 5
    messages: int = 200_000
    read: int = 1_000_000
    """Where reading takes less than a microsecond for each."""
    consumers: int = 50
    keys: int = 10_000


SIZES: dict[Size, Sizes] = {
    "full": Sizes(),
    "quick": Sizes(runs=3, messages=40_000, read=500_000),
    "tiny": Sizes(runs=1, messages=1_000, read=2_000, consumers=6, keys=1_000),
}
Consume = Callable[[int], Awaitable[float]]
"""Seconds for so many messages."""


async def fill(client: goqueue.Client, topic: str, count: int, partitions: int = 1) -> None:
    await client.create_topic(topic, partitions=partitions)
    async with client.producer(topic) as producer:
        for _ in range(count // len(BLOCK)):
            await producer.send_many(BLOCK)


async def alternate(
    runs: int, messages: int, first: Consume, second: Consume, tick: Callable[[], None]
) -> list[list[float]]:
    """Messages a second of each, in turns, behind one round that warms up."""
    rates: list[list[float]] = [[], []]
    for consume in (first, second):
        await consume(len(BLOCK))
    for _ in range(runs):
        tick()
        for consume, found in zip((first, second), rates, strict=True):
            found.append(messages / await consume(messages))
    return rates


def figures_of(names: tuple[str, str], rates: list[list[float]], least: float) -> list[Figure]:
    ratio = statistics.median(one / two for one, two in zip(*rates, strict=True))
    return [
        *(Figure(name, statistics.median(found), "messages/s") for name, found in zip(names, rates, strict=True)),
        Figure(f"{names[0]} / {names[1]}", ratio, "×", f"≥ {least:g}", ratio >= least),
    ]


# A stream beside plain reading


class Streaming:
    """Both move through the same partition in batches as they come, and look at every value."""

    def __init__(self, client: goqueue.Client) -> None:
        self._client = client
        self._groups = (f"stream-{number}" for number in numbers())

    async def stream(self, count: int) -> float:
        found: list[bytes] = []
        async with self._client.consumer("log", group=next(self._groups), mode="stream") as consumer:
            with timed() as watch:
                while len(found) < count:
                    messages = await consumer.receive(max_messages=BATCH, timeout=30)
                    if not messages:
                        raise Wrong(f"nothing came within 30 s; {len(found):,} of {count:,} were received")
                    found += [message.value for message in messages]
        check_values(found[:count], count)
        return watch.seconds

    async def read(self, count: int) -> float:
        found: list[bytes] = []
        async with self._client.read("log", partition=0, start="earliest", end=count) as reader:
            with timed() as watch:
                while batch := await reader.next_batch():
                    found += [message.value for message in batch]
        check_values(found, count)
        return watch.seconds


async def measure_streams(client: goqueue.Client, sizes: Sizes, tick: Callable[[], None]) -> list[Figure]:
    await fill(client, "log", sizes.read)
    streaming = Streaming(client)
    rates = await alternate(sizes.runs, sizes.read, streaming.stream, streaming.read, tick)
    return figures_of(("a stream with auto-commit", "plain reading"), rates, 0.9)


# Many consumers that share a few partitions


class Sharing:
    """All consumers are there before the first message is, and each takes some more whenever it is done."""

    def __init__(self, client: goqueue.Client, broker: BrokerProcess) -> None:
        self._client, self._broker = client, broker
        self._names = (f"shared-{number}" for number in numbers())
        self.unevenness: list[float] = []

    async def few(self, count: int) -> float:
        seconds, _ = await self._consume(count, PARTITIONS, shared=False)
        return seconds

    async def many(self, consumers: int, count: int) -> float:
        seconds, taken = await self._consume(count, consumers, shared=True)
        mean = count / consumers
        self.unevenness.append(max(abs(each - mean) for each in taken) / mean)
        return seconds

    async def _consume(self, count: int, consumers: int, *, shared: bool) -> tuple[float, list[int]]:
        topic, taken = next(self._names), [0] * consumers
        await self._client.create_topic(topic, partitions=PARTITIONS)
        done = trio.Event()

        async def work(number: int, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
            async with (
                goqueue.connect(self._broker.url) as client,
                client.consumer(topic, group=topic, shared=shared) as consumer,
            ):
                await consumer.receive(max_messages=1, timeout=0)
                task_status.started()
                while True:
                    messages = await consumer.receive(max_messages=BATCH_OF_MANY, timeout=30)
                    await consumer.ack(messages)
                    taken[number] += len(messages)
                    if sum(taken) >= count:
                        done.set()

        async with trio.open_nursery() as nursery:
            for number in range(consumers):
                await nursery.start(work, number)
            with timed() as watch:
                await self._publish(topic, count)
                with trio.fail_after(300):
                    await done.wait()
            nursery.cancel_scope.cancel()
        check_count(sum(taken), count, "acked")
        await self._client.delete_topic(topic)
        return watch.seconds, taken

    async def _publish(self, topic: str, count: int) -> None:
        async with self._client.producer(topic, acks="leader") as producer:
            for _ in range(count // len(BLOCK)):
                await producer.send_many(BLOCK)


# The order of keys


class Keyed:
    def __init__(self, client: goqueue.Client) -> None:
        self._client = client
        self._groups = (f"keys-{number}" for number in numbers())

    async def fill(self, sizes: Sizes) -> None:
        """Keys are drawn at random, with equal chances."""
        chance = random.Random(0)
        await self._client.create_topic("keyed", partitions=1)
        async with self._client.producer("keyed") as producer:
            for _ in range(sizes.messages // len(BLOCK)):
                keys = [b"%d" % chance.randrange(sizes.keys) for _ in BLOCK]
                await producer.send_many(BLOCK, keys)

    async def in_order(self, count: int) -> float:
        return await self._consume(count, key_order=True)

    async def as_they_come(self, count: int) -> float:
        return await self._consume(count, key_order=False)

    async def _consume(self, count: int, *, key_order: bool) -> float:
        found: list[Any] = []
        async with self._client.consumer("keyed", group=next(self._groups), key_order=key_order) as consumer:
            with timed() as watch:
                await receive_and_ack(consumer, count, found)
        return watch.seconds


async def measure_keys(client: goqueue.Client, sizes: Sizes, tick: Callable[[], None]) -> list[Figure]:
    keyed = Keyed(client)
    await keyed.fill(sizes)
    rates = await alternate(sizes.runs, sizes.messages, keyed.in_order, keyed.as_they_come, tick)
    return figures_of((f"{sizes.keys:,} keys in their order", "the same without that order"), rates, 0.5)


async def measure(broker: BrokerProcess, sizes: Sizes, tick: Tell) -> list[Figure]:
    async with goqueue.connect(broker.url) as client:
        with heap_set_apart():
            return [
                *await measure_streams(client, sizes, lambda: tick("streams")),
                *await measure_keys(client, sizes, lambda: tick("the order of keys")),
                *await measure_sharing(client, broker, sizes, lambda: tick("sharing")),
            ]


async def measure_sharing(
    client: goqueue.Client, broker: BrokerProcess, sizes: Sizes, tick: Callable[[], None]
) -> list[Figure]:
    sharing = Sharing(client, broker)

    async def many(count: int) -> float:
        return await sharing.many(sizes.consumers, count)

    rates = await alternate(sizes.runs, sizes.messages, many, sharing.few, tick)
    uneven = statistics.median(sharing.unevenness[1:])
    names = (
        f"{sizes.consumers} consumers that share {PARTITIONS} partitions",
        f"{PARTITIONS} consumers that do not",
    )
    return [
        *figures_of(names, rates, 0.8),
        Figure("of these the one served furthest from the mean", 100 * uneven, "%", "≤ 10", uneven <= EVEN),
    ]


def measure_all(folder: Path, size: Size, tell: Tell) -> list[Figure]:
    with broker_process(str(folder)) as broker:
        return trio.run(measure, broker, SIZES[size], tell)


def main(arguments: list[str] | None = None) -> int:
    return run("modes", __doc__ or "", "modes: 100-byte values, medians of runs in turns", measure_all, arguments)


if __name__ == "__main__":
    sys.exit(main())
