"""Receiving and acknowledging as a group, beside Redis Streams: `./dev bench consume`.

100-byte values, one consumer, batches of 500, every message acked and counted; runs alternate, and ratios are
medians of those within each round. Then what a group costs: many messages in flight or acked out of order, a
thousand groups on one partition, and how long a message takes from one program to another.
"""

import random
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count as numbers
from pathlib import Path
from typing import Any

import trio
from rich.console import Console

import goqueue
from benchmarks.broker import BrokerProcess, broker_process
from benchmarks.calm import calmest
from benchmarks.children import Unavailable, free_port, server
from benchmarks.commandline import Size, Tell, run
from benchmarks.figures import Figure, timed
from benchmarks.garbage import heap_set_apart
from benchmarks.peers import redis_streams
from benchmarks.peers.workload import BLOCK, Wrong, check_count, check_values
from benchmarks.publish import publish
from goqueue.cli.bench.times import Times

BATCH = 500
LATENCY_RATE = 10_000
MEMORY_MIB_MAX = 100.0


@dataclass(frozen=True, slots=True)
class Sizes:
    runs: int = 5
    messages: int = 200_000
    in_flight: int = 1_000_000
    groups: int = 1_000
    seconds: float = 3.0


SIZES: dict[Size, Sizes] = {
    "full": Sizes(),
    "quick": Sizes(in_flight=100_000, groups=50, seconds=1.0),
    "tiny": Sizes(runs=1, messages=2_000, in_flight=4_000, groups=4, seconds=0.2),
}


# Contenders


class Own:
    def __init__(self, broker: BrokerProcess) -> None:
        self.broker = broker
        self._names = (f"run-{number}" for number in numbers())
        self._there = 0

    def consume(self, count: int) -> float:
        return trio.run(self._consume, count)

    async def _consume(self, count: int) -> float:
        async with goqueue.connect(self.broker.url) as client:
            await self._fill(client, count)
            async with client.consumer("consuming", group=next(self._names)) as consumer:
                found: list[bytes] = []
                with timed() as watch:
                    await receive_and_ack(consumer, count, found)
                check_values(found, count)
        return watch.seconds

    async def _fill(self, client: goqueue.Client, count: int) -> None:
        if not self._there:
            await client.create_topic("consuming", partitions=1)
        if self._there < count:
            async with client.producer("consuming") as producer:
                for _ in range((count - self._there) // BATCH):
                    await producer.send_many(BLOCK[self._there % len(BLOCK) :][:BATCH])
                    self._there += BATCH

    def both(self, count: int) -> tuple[float, float]:
        return trio.run(self._both, count)

    async def _both(self, count: int) -> tuple[float, float]:
        """Seconds until all are published, and until all are acked, of one program that does both at once."""
        topic, found = next(self._names), list[bytes]()
        async with goqueue.connect(self.broker.url) as client:
            await client.create_topic(topic, partitions=1)
            published = 0.0

            async def produce() -> None:
                nonlocal published
                async with client.producer(topic, acks="leader") as producer:
                    for _ in range(count // BATCH):
                        await producer.send_many(BLOCK[:BATCH])
                published = time.perf_counter() - begin

            async with client.consumer(topic, group="both") as consumer, trio.open_nursery() as nursery:
                begin = time.perf_counter()
                nursery.start_soon(produce)
                await receive_and_ack(consumer, count, found)
                consumed = time.perf_counter() - begin
            await client.delete_topic(topic)
        return published, consumed


async def receive_and_ack(consumer: Any, count: int, found: list[bytes]) -> None:
    """A batch is acked while the next one is received, as a pipeline of XACK and XREADGROUP does."""
    messages: list[Any] = []
    while len(found) < count:
        async with trio.open_nursery() as both:
            both.start_soon(consumer.ack, messages)
            messages = await consumer.receive(max_messages=BATCH, timeout=30)
        if not messages:
            raise Wrong(f"nothing came within 30 s; {len(found):,} of {count:,} were received")
        found += [message.value for message in messages]
    await consumer.ack(messages)


class Redis:
    def __init__(self, port: int) -> None:
        self._port = port
        self._streams = redis_streams.Streams(self._connect())
        self._names = (f"both-{number}" for number in numbers())

    def _connect(self) -> Any:
        return redis_streams.connect(self._port)

    def consume(self, count: int) -> float:
        return self._streams.group(count)

    def both(self, count: int) -> tuple[float, float]:
        stream, client = next(self._names), self._connect()
        client.xgroup_create(stream, "both", id="0", mkstream=True)
        published: list[float] = []

        def produce() -> None:
            producer = self._connect()
            for _ in range(count // BATCH):
                pipeline = producer.pipeline(transaction=False)
                for value in BLOCK[:BATCH]:
                    pipeline.xadd(stream, {b"v": value})
                check_count(len(pipeline.execute()), BATCH, "confirmed")
            published.append(time.perf_counter() - begin)

        begin = time.perf_counter()
        thread = threading.Thread(target=produce)
        thread.start()
        acked, entries = 0, list[Any]()
        while acked + len(entries) < count:
            pipeline = client.pipeline(transaction=False)
            if entries:
                pipeline.xack(stream, "both", *[each for each, _ in entries])
            pipeline.xreadgroup("both", "one", {stream: ">"}, count=BATCH, block=30_000)
            *acks, answer = pipeline.execute()
            acked += sum(acks)
            entries = redis_streams.entries_of(answer) if answer else []
            if not entries:
                raise Wrong(f"nothing came within 30 s; {acked:,} of {count:,} were acknowledged")
        acked += client.xack(stream, "both", *[each for each, _ in entries])
        check_count(acked, count, "acknowledged")
        consumed = time.perf_counter() - begin
        thread.join()
        client.delete(stream)
        return published[0], consumed


@contextmanager
def started_redis(folder: Path) -> Iterator[Redis]:
    redis_streams.check_installed()
    port = free_port()
    with server(redis_streams.command(folder, port), folder, port):
        yield Redis(port)


# Beside Redis


@dataclass(slots=True)
class Rates:
    own: list[float] = field(default_factory=list)
    other: list[float] = field(default_factory=list)

    def ratio(self) -> float:
        return statistics.median(one / two for one, two in zip(self.own, self.other, strict=True))


def beside_redis(own: Own, redis: Redis, sizes: Sizes, tick: Callable[[str], None]) -> list[Figure]:
    consume, publish_too, consume_too = Rates(), Rates(), Rates()
    for contender in (own, redis):
        contender.consume(len(BLOCK))
    for _ in range(sizes.runs):
        tick("receive and ack, in turns")
        consume.own.append(sizes.messages / own.consume(sizes.messages))
        consume.other.append(sizes.messages / redis.consume(sizes.messages))
        tick("publish and consume at once, in turns")
        for contender, published, consumed in (
            (own, publish_too.own, consume_too.own),
            (redis, publish_too.other, consume_too.other),
        ):
            seconds = contender.both(sizes.messages)
            published.append(sizes.messages / seconds[0])
            consumed.append(sizes.messages / seconds[1])
    return [
        Figure("receive and ack", statistics.median(consume.own), "messages/s"),
        Figure("XREADGROUP and XACK", statistics.median(consume.other), "messages/s"),
        _goal("receive and ack / Redis", consume.ratio(), 2.5, "(aim 4)"),
        _goal("publish while consuming / Redis", publish_too.ratio(), 2.0),
        _goal("consume while publishing / Redis", consume_too.ratio(), 2.0),
    ]


def alone(own: Own, sizes: Sizes, tick: Callable[[str], None]) -> list[Figure]:
    """The same without Redis."""
    consumed, both = list[float](), list[tuple[float, float]]()
    own.consume(len(BLOCK))
    for _ in range(sizes.runs):
        tick("receive and ack")
        consumed.append(own.consume(sizes.messages))
        tick("publish and consume at once")
        both.append(own.both(sizes.messages))
    names = ("receive and ack", "publish while consuming", "consume while publishing")
    seconds = (consumed, *zip(*both, strict=True))
    return [
        Figure(name, sizes.messages / statistics.median(taken), "messages/s")
        for name, taken in zip(names, seconds, strict=True)
    ]


def _goal(name: str, value: float, least: float, aim: str = "") -> Figure:
    return Figure(name, value, "×", f"≥ {least:g} {aim}".strip(), value >= least)


# What a group costs


async def measure_memory(broker: BrokerProcess, sizes: Sizes) -> list[Figure]:
    """All of them in flight at once; then a fifth, drawn at random, acked in random order; then the rest."""
    before = broker.resident_mib()
    async with goqueue.connect(broker.url) as client:
        await client.create_topic("flight", partitions=1)
        async with client.producer("flight") as producer:
            for _ in range(sizes.in_flight // len(BLOCK)):
                await producer.send_many(BLOCK)
        consuming = client.consumer(
            "flight",
            group="flight",
            max_in_flight=2 * sizes.in_flight,
            max_in_flight_bytes=1_000 * sizes.in_flight,
            visibility_timeout=3_600.0,
        )
        async with consuming as consumer:
            messages: list[Any] = []
            while len(messages) < sizes.in_flight:
                messages += await consumer.receive(max_messages=BATCH, timeout=30)
            flying = broker.resident_mib() - before
            chosen = frozenset(random.Random(0).sample(range(len(messages)), len(messages) // 5))
            scattered_ones = [messages[number] for number in chosen]
            random.Random(1).shuffle(scattered_ones)
            first, last = await _ack_in_pieces(consumer, scattered_ones)
            scattered = broker.resident_mib() - before
            rest = [message for number, message in enumerate(messages) if number not in chosen]
            for begin in range(0, len(rest), 10_000):
                await consumer.ack(rest[begin : begin + 10_000])
        [partition] = [each for each in (await client.group("flight")).partitions if each.topic == "flight"]
        check_count(sizes.in_flight - partition.lag, sizes.in_flight, "acked")
    count = f"{sizes.in_flight:,} messages"
    more = max(flying, scattered)
    return [
        Figure(f"{count} in flight: broker's memory", flying, "MiB"),
        Figure("a fifth of them acked in random order: broker's memory", scattered, "MiB"),
        Figure("most of these", more, "MiB", f"< {MEMORY_MIB_MAX:g}", more < MEMORY_MIB_MAX),
        Figure("an ack among the last tenth / among the first", last / first, "×", "≤ 1.5", last / first <= 1.5),
    ]


async def _ack_in_pieces(consumer: Any, messages: list[Any]) -> tuple[float, float]:
    """Seconds for the first tenth, and for the last."""
    tenth, taken = max(1, len(messages) // 10), []
    for begin in range(0, len(messages), tenth):
        with timed() as watch:
            for at in range(begin, min(begin + tenth, len(messages)), 100):
                await consumer.ack(messages[at : at + 100])
        taken.append(watch.seconds)
    return taken[0], taken[9 if len(taken) > 9 else -1]


async def measure_groups(broker: BrokerProcess, sizes: Sizes) -> list[Figure]:
    """Publishing to a partition that many groups have read, beside one that none has."""
    async with goqueue.connect(broker.url) as client:
        for topic in ("without", "with"):
            await client.create_topic(topic, partitions=1)
            await client.publish(topic, BLOCK[0])
        for number in range(sizes.groups):
            async with client.consumer("with", group=f"group-{number}") as consumer:
                await consumer.ack(await consumer.receive(max_messages=1, timeout=30))
        ratios = []
        for _ in range(sizes.runs):
            calls = max(4, sizes.messages // len(BLOCK))
            without = await publish(client, broker, "without", "leader", calls)
            beside = await publish(client, broker, "with", "leader", calls)
            ratios.append(beside.per_second / without.per_second)
    name = f"publish with {sizes.groups:,} groups on the partition / with none"
    return [_goal(name, statistics.median(ratios), 0.8)]


async def measure_latency(broker: BrokerProcess, sizes: Sizes) -> list[Figure]:
    """From the time when a message was due to be published to its arrival, at a fixed rate, acked as it comes."""
    async with goqueue.connect(broker.url) as client, goqueue.connect(broker.url) as other:
        await client.create_topic("latency", partitions=3)
        with heap_set_apart():
            found = await calmest(
                sizes.runs, partial(_latencies, client, other, round(LATENCY_RATE * sizes.seconds))
            )
    p50, p99 = (statistics.median(times.quantile(share) * 1_000 for times in found) for share in (0.5, 0.99))
    name = f"from due to received, {LATENCY_RATE:,}/s, acks=all"
    return [Figure(f"{name}: p50", p50, "ms"), Figure(f"{name}: p99", p99, "ms", "< 20", p99 < 20)]


async def _latencies(client: goqueue.Client, other: goqueue.Client, count: int) -> Times:
    times = Times()
    async with other.consumer("latency", group="latency") as consumer, trio.open_nursery() as nursery:
        nursery.start_soon(_publish_steadily, client, count)
        await _note_times(consumer, times, count)
    return times


async def _publish_steadily(client: goqueue.Client, count: int) -> None:
    """Each value is the time when it was due."""
    async with client.producer("latency", acks="all") as producer:
        begin, sent = time.perf_counter(), 0
        while sent < count:
            due = min(count, int((time.perf_counter() - begin) * LATENCY_RATE) + 1)
            for number in range(sent, due):
                producer.send_nowait(b"%.9f" % (begin + number / LATENCY_RATE))
            sent = due
            await trio.sleep(1 / 1_000)


async def _note_times(consumer: Any, times: Times, count: int) -> None:
    while times.count < count:
        messages = await consumer.receive(timeout=30)
        if not messages:
            raise Wrong(f"nothing came within 30 s; {times.count:,} of {count:,} were received")
        now = time.perf_counter()
        for message in messages:
            times.note(now - float(message.value))
        await consumer.ack(messages)


def measure_rates(folder: Path, size: Size, tick: Tell) -> list[Figure]:
    with broker_process(str(folder / "goqueue")) as broker, ExitStack() as stack:
        if size == "quick":
            return alone(Own(broker), SIZES[size], tick)
        (folder / "redis").mkdir()
        try:
            redis = stack.enter_context(started_redis(folder / "redis"))
        except Unavailable as why:
            Console(stderr=True).print(f"without Redis Streams: {why}")
            return alone(Own(broker), SIZES[size], tick)
        return beside_redis(Own(broker), redis, SIZES[size], tick)


def measure_all(folder: Path, size: Size, tick: Tell) -> list[Figure]:
    figures, sizes = measure_rates(folder, size, tick), SIZES[size]
    for what, measure in (("groups", measure_groups), ("latency", measure_latency), ("in flight", measure_memory)):
        tick(what)
        with broker_process(str(folder / what)) as broker:
            figures += trio.run(measure, broker, sizes)
    return figures


def main(arguments: list[str] | None = None) -> int:
    return run(
        "consume", __doc__ or "", "consume: 100-byte values, one consumer, batches of 500", measure_all, arguments
    )


if __name__ == "__main__":
    sys.exit(main())
