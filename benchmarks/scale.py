"""What many partitions, looks at them, idle connections and bad readers cost, and how long a publish takes:
`./dev bench scale`.

100-byte values through real sockets to a real broker process. What is compared is measured in turns, the median of
five is shown, and every publish is confirmed and counted.
"""

import os
import signal
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import trio

import goqueue
from benchmarks.broker import BrokerProcess, broker_process
from benchmarks.bystanders import bystanders
from benchmarks.commandline import Size, Tell, run
from benchmarks.figures import Figure, timed
from benchmarks.openloop import measure_latencies
from benchmarks.publish import VALUES, Cost, publish


@dataclass(frozen=True, slots=True)
class Sizes:
    rounds: int = 5
    partitions: int = 1_000
    connections: int = 500
    readers: int = 20
    calls: int = 200
    """Of `send_many` with 1,000 values, in each run."""
    seconds: float = 3.0
    """Of idleness, and of each open loop."""


QUIET_SECONDS, QUIET_SECONDS_MAX = 0.3, 6.0
PARTITIONS_OF_A_GROUP, LOOKS = 10, 5
SIZES: dict[Size, Sizes] = {
    "full": Sizes(),
    "quick": Sizes(rounds=2, partitions=300, connections=200, calls=100, seconds=1.0),
    "tiny": Sizes(rounds=1, partitions=8, connections=5, readers=2, calls=4, seconds=0.05),
}


# Partitions


def measure_partitions(folder: str, sizes: Sizes) -> list[Figure]:
    with broker_process(folder) as broker:
        leader, every = trio.run(_rates_of_few_and_many, broker, sizes)
    clean, crashed, cost = _starts(folder, sizes)
    count = f"{sizes.partitions:,} partitions"
    return [
        Figure(f"{count}: start after an orderly end", clean, "s", "< 5", clean < 5),
        Figure(f"{count}: start after kill -9", crashed, "s", "< 5", crashed < 5),
        Figure(f"{count}: start, broker's processor time", cost, "s"),
        Figure(f"{count} / 3: publish, acks=leader", leader, "×", "≥ 0.8", leader >= 0.8),
        Figure(f"{count} / 3: publish, acks=all", every, "×", "≥ 0.5", every >= 0.5),
    ]


async def _rates_of_few_and_many(broker: BrokerProcess, sizes: Sizes) -> tuple[float, float]:
    """Of the rates with acks=leader and acks=all: many partitions to three."""
    ratios: dict[str, list[float]] = {"leader": [], "all": []}
    async with goqueue.connect(broker.url) as client:
        await client.create_topic("few", partitions=3)
        await client.create_topic("many", partitions=sizes.partitions)
        await _publish_to_each(client, "many", sizes.partitions)
        for _ in range(sizes.rounds):
            for acks, found in ratios.items():
                few = await publish(client, broker, "few", acks, sizes.calls)
                many = await publish(client, broker, "many", acks, sizes.calls)
                found.append(many.per_second / few.per_second)
        await _check_count(client, "few", 2 * sizes.rounds * sizes.calls * len(VALUES))
    return statistics.median(ratios["leader"]), statistics.median(ratios["all"])


async def _publish_to_each(client: goqueue.Client, topic: str, partitions: int) -> None:
    async with client.producer(topic, acks="leader") as producer:
        for partition in range(partitions):
            await producer.send(VALUES[0], partition=partition)


async def _check_count(client: goqueue.Client, topic: str, expected: int) -> None:
    found = sum(each.end for each in (await client.topic(topic)).partitions)
    assert found == expected, f"{found:,} of {expected:,} messages are there"


def _starts(folder: str, sizes: Sizes) -> tuple[float, float, float]:
    """Median seconds until a broker accepts, after an orderly end and after a kill; and its processor time."""
    clean, crashed = [], []
    for _ in range(sizes.rounds):
        clean.append(_start(folder, signal.SIGKILL))
        crashed.append(_start(folder, signal.SIGTERM))
    costs = [cpu for _, cpu in clean + crashed]
    return _median_first(clean), _median_first(crashed), statistics.median(costs)


def _start(folder: str, end: signal.Signals) -> tuple[float, float]:
    begin = time.perf_counter()
    with broker_process(folder) as broker:
        seconds, cpu = time.perf_counter() - begin, broker.cpu_seconds()
        trio.run(_publish_a_little, broker.url)
        os.kill(broker.pid, end)
    return seconds, cpu


def _median_first(pairs: list[tuple[float, float]]) -> float:
    return statistics.median(first for first, _ in pairs)


async def _publish_a_little(url: str) -> None:
    async with goqueue.connect(url) as client, client.producer("many", acks="leader") as producer:
        await producer.send_many(VALUES)


# Looking


async def measure_looks(broker: BrokerProcess, sizes: Sizes) -> list[Figure]:
    """Each group reads a topic of ten partitions, and is done with most of it; nobody works meanwhile."""
    groups = max(1, sizes.partitions // PARTITIONS_OF_A_GROUP)
    async with goqueue.connect(broker.url) as client:
        for number in range(groups):
            await client.create_topic(f"topic-{number}", partitions=PARTITIONS_OF_A_GROUP)
            async with client.consumer(f"topic-{number}", group=f"group-{number}"):
                pass
            await client.publish(f"topic-{number}", VALUES[0])
        await trio.sleep(sizes.seconds)  # what was written is synced within a second
        costs = {
            "stats": await _cpu_of(broker, client.stats, sizes),
            "topics": await _cpu_of(broker, client.topics, sizes),
            "groups": await _cpu_of(broker, client.groups, sizes),
        }
    count = f"{groups * PARTITIONS_OF_A_GROUP:,} partitions and {groups} groups"
    return [
        Figure(f"{name}() of {count}: broker's processor time", cost, "ms", "< 100", cost < 100)
        for name, cost in costs.items()
    ]


async def _cpu_of(broker: BrokerProcess, call: Callable[[], Awaitable[object]], sizes: Sizes) -> float:
    """Milliseconds of one call; the median of the rounds."""
    await call()
    costs = []
    for _ in range(sizes.rounds):
        before = broker.cpu_seconds()
        for _ in range(LOOKS):
            await call()
        costs.append((broker.cpu_seconds() - before) / LOOKS * 1_000)
    return statistics.median(costs)


# Company


Company = Callable[[], AbstractContextManager[object]]


async def _beside(
    client: goqueue.Client, broker: BrokerProcess, topic: str, company: Company, sizes: Sizes
) -> tuple[list[Cost], list[Cost]]:
    """What publishing costs without company and with it, in turns."""
    alone, beside = [], []
    for _ in range(sizes.rounds):
        alone.append(await publish(client, broker, topic, "leader", sizes.calls))
        with company():
            beside.append(await publish(client, broker, topic, "leader", sizes.calls))
    return alone, beside


def _rate_ratio(alone: list[Cost], beside: list[Cost]) -> float:
    return statistics.median(two.per_second / one.per_second for one, two in zip(alone, beside, strict=True))


def _cost_ratio(alone: list[Cost], beside: list[Cost]) -> float:
    return statistics.median(two.broker / one.broker for one, two in zip(alone, beside, strict=True))


async def measure_idle_connections(broker: BrokerProcess, sizes: Sizes) -> list[Figure]:
    async with goqueue.connect(broker.url) as client:
        await client.create_topic("idle", partitions=3)
        company = partial(bystanders, "idle", broker.url, sizes.connections)
        alone, beside = await _beside(client, broker, "idle", company, sizes)
        share_alone = await _cpu_share(broker, sizes.seconds)
        with company():
            share = await _cpu_share(broker, sizes.seconds)
    rate, cost = _rate_ratio(alone, beside), _cost_ratio(alone, beside)
    count = f"{sizes.connections} idle connections"
    return [
        Figure(f"publish beside {count} / without: rate", rate, "×", "≥ 0.9", rate >= 0.9),
        Figure(f"publish beside {count} / without: broker's processor time", cost, "×", "≤ 1.1", cost <= 1.1),
        Figure("idle broker's processor without connections", share_alone, "% of a core"),
        Figure(f"idle broker's processor with {count}", share, "% of a core", "< 2", share < 2),
    ]


async def _cpu_share(broker: BrokerProcess, seconds: float) -> float:
    await trio.sleep(min(seconds, 1))  # what was published last is synced within a second
    before = broker.cpu_seconds()
    with timed() as watch:
        await trio.sleep(seconds)
    return (broker.cpu_seconds() - before) / watch.seconds * 100


async def measure_bad_readers(broker: BrokerProcess, sizes: Sizes) -> list[Figure]:
    async with goqueue.connect(broker.url) as client:
        await client.create_topic("read", partitions=1)
        await publish(client, broker, "read", "all", sizes.calls)
        greedy = partial(_greedy, broker, sizes.readers)
        slow = await _beside(client, broker, "read", greedy, sizes)
        gone = partial(_vanished, broker.url, sizes.readers)
        vanished = await _beside(client, broker, "read", gone, sizes)
    count = f"{sizes.readers} readers"
    return [
        *_harm(f"publish beside {count} that ask and never take / without", slow),
        *_harm(f"publish after {count} vanished / without", vanished),
    ]


def _harm(name: str, costs: tuple[list[Cost], list[Cost]]) -> list[Figure]:
    """The rate is what was promised; the processor time tells a busy machine from a busy broker."""
    rate = _rate_ratio(*costs)
    return [
        Figure(f"{name}: rate", rate, "×", "≥ 0.8", rate >= 0.8),
        Figure(f"{name}: broker's processor time", _cost_ratio(*costs), "×"),
    ]


@contextmanager
def _greedy(broker: BrokerProcess, count: int) -> Iterator[None]:
    """Answering them until they take no more is work that they asked for; what counts is what comes after."""
    with bystanders("greedy", broker.url, count, "read"):
        deadline, used, before = time.monotonic() + QUIET_SECONDS_MAX, 1.0, broker.cpu_seconds()
        while used > 0.1 * QUIET_SECONDS and time.monotonic() < deadline:
            time.sleep(QUIET_SECONDS)
            used, before = broker.cpu_seconds() - before, broker.cpu_seconds()
        yield


@contextmanager
def _vanished(url: str, count: int) -> Iterator[None]:
    """They are killed in the middle of reading; what was on its way to them has nobody any more."""
    with bystanders("reading", url, count, "read") as process:
        process.kill()
        yield


# All of it


async def measure(broker: BrokerProcess, sizes: Sizes, step: Callable[[str], None]) -> list[Figure]:
    step("idle connections")
    idle = await measure_idle_connections(broker, sizes)
    step("bad readers")
    readers = await measure_bad_readers(broker, sizes)
    step("latency")
    return [*idle, *readers, *await measure_latencies(broker.url, sizes.rounds, sizes.seconds)]


def measure_all(folder: Path, size: Size, tell: Tell) -> list[Figure]:
    sizes = SIZES[size]
    tell("partitions")
    partitions = measure_partitions(str(folder / "partitions"), sizes)
    tell("looks")
    with broker_process(str(folder / "looks")) as broker:
        looks = trio.run(measure_looks, broker, sizes)
    with broker_process(str(folder / "data")) as broker:
        return [*partitions, *looks, *trio.run(measure, broker, sizes, tell)]


def main(arguments: list[str] | None = None) -> int:
    return run("scale", __doc__ or "", "scale: 100-byte values, medians of runs in turns", measure_all, arguments)


if __name__ == "__main__":
    sys.exit(main())
