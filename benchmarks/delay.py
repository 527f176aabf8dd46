"""What a million messages that wait for their time cost: `./dev bench delay`.

100-byte values, every publish confirmed, every cancel answered with True, all that fell due read back once. What
adds and cancels cost beside a thousand and beside a million; memory, idle processor time and a start with a
million; how late ten thousand a second come, due at random so that neighbours in the log are not due together, the
median of five rounds.
Delayed publishes beside beanstalkd's, in turns, both in the file and fsynced within a second.
"""

import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import trio

import goqueue
from benchmarks.broker import BrokerProcess, broker_process
from benchmarks.children import Unavailable
from benchmarks.commandline import Size, Tell, run
from benchmarks.figures import Figure, timed
from benchmarks.garbage import heap_set_apart
from benchmarks.peers import beanstalkd
from benchmarks.peers.workload import BLOCK, Wrong, check_count

WORKERS = 4
HOUR = 3_600.0
DAYS = 30 * 86_400.0
TOPIC = "reminders"
MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Sizes:
    runs: int = 5
    rounds: int = 5
    """Of firing."""
    few: int = 1_000
    many: int = 1_000_000
    cancels: int = 300
    adds: int = 20_000
    beside: int = 50_000
    """Delayed publishes of each run beside beanstalkd, which gets a tenth of it."""
    fires: int = 10_000
    """In each second."""
    seconds: int = 10
    idle_seconds: float = 10.0


QUICK = Sizes(rounds=2, many=100_000, seconds=2, idle_seconds=2.0)
TINY = Sizes(
    runs=1,
    rounds=1,
    few=1_000,
    many=2_000,
    cancels=3,
    adds=1_000,
    beside=1_000,
    fires=200,
    seconds=1,
    idle_seconds=0.1,
)
SIZES: dict[Size, Sizes] = {"full": Sizes(), "quick": QUICK, "tiny": TINY}


async def add(
    client: goqueue.Client, topic: str, count: int, delay: Callable[[], float], acks: str = "all"
) -> None:
    """Each call's messages are due together; so many calls, so many times."""
    left = iter(range(count // len(BLOCK)))
    async with client.producer(topic, acks=acks) as producer, trio.open_nursery() as nursery:

        async def work() -> None:
            for _ in left:
                check_count(len(await producer.send_many(BLOCK, delay=delay())), len(BLOCK), "confirmed")

        for _ in range(WORKERS):
            nursery.start_soon(work)


def some_day() -> float:
    return random.uniform(HOUR, DAYS)


# What it costs beside few and beside many


@dataclass(frozen=True, slots=True)
class Costs:
    add: float
    """Microseconds of the broker's processor time for each message."""
    cancel: float
    """Milliseconds until it is answered, the median."""


async def costs(client: goqueue.Client, broker: BrokerProcess, sizes: Sizes) -> Costs:
    """Of adding so many, and of cancelling some of those."""
    first = (await client.topic(TOPIC)).partitions[0].end
    before = broker.cpu_seconds()
    await add(client, TOPIC, sizes.adds, some_day)
    spent = broker.cpu_seconds() - before
    seconds = []
    for number in range(sizes.cancels):
        with timed() as watch:
            cancelled = await client.cancel_delayed(TOPIC, 0, first + number * (sizes.adds // sizes.cancels))
        if not cancelled:
            raise Wrong("a delayed message was not there to be cancelled")
        seconds.append(watch.seconds)
    return Costs(spent / sizes.adds * 1e6, statistics.median(seconds) * 1e3)


def ratio_figures(what: str, unit: str, few: float, many: float, sizes: Sizes) -> list[Figure]:
    ratio = many / few
    return [
        Figure(f"{what} beside {sizes.few:,} pending", few, unit),
        Figure(f"{what} beside {sizes.many:,} pending", many, unit),
        Figure(f"{what}: beside many / beside few", ratio, "×", "≤ 1.5", ratio <= 1.5),
    ]


async def measure_pending(client: goqueue.Client, broker: BrokerProcess, sizes: Sizes, tell: Tell) -> list[Figure]:
    await client.create_topic(TOPIC, partitions=1)
    await add(client, TOPIC, sizes.few, some_day)
    tell("adding and cancelling beside few")
    beside_few = await costs(client, broker, sizes)
    tell(f"adding {sizes.many:,}")
    pending, before = await client.count_delayed(TOPIC), broker.resident_mib()
    await add(client, TOPIC, sizes.many, some_day)
    added = await client.count_delayed(TOPIC) - pending
    check_count(added, sizes.many, "pending")
    each = (broker.resident_mib() - before) * MIB / added
    tell("adding and cancelling beside many")
    beside_many = await costs(client, broker, sizes)
    tell("idle")
    idle = await idle_percent(broker, sizes)
    return [
        *ratio_figures("adding: broker", "µs CPU/message", beside_few.add, beside_many.add, sizes),
        *ratio_figures("cancelling", "ms", beside_few.cancel, beside_many.cancel, sizes),
        Figure("memory of each that is pending", each, "bytes", "≤ 200", each <= 200),
        Figure(f"idle broker with {sizes.many:,} pending", idle, "% of a core", "< 2", idle < 2),
    ]


async def idle_percent(broker: BrokerProcess, sizes: Sizes) -> float:
    await trio.sleep(min(3.0, sizes.idle_seconds))
    before, begin = broker.cpu_seconds(), time.perf_counter()
    await trio.sleep(sizes.idle_seconds)
    return (broker.cpu_seconds() - before) / (time.perf_counter() - begin) * 100


# How late they come


class Lateness(NamedTuple):
    """Of all that fired since the broker was started, in milliseconds."""

    p50: float
    p99: float
    stalls: float


async def fire(client: goqueue.Client, sizes: Sizes) -> Lateness:
    """Due at random times of some seconds, so that neighbours in the log are not due together."""
    count = sizes.fires * sizes.seconds
    before = await client.stats()
    start = (await client.topic(TOPIC)).partitions[0].end
    begin = time.time() + max(3.0, count / 20_000)
    await publish_spread(client, count, begin, sizes.seconds)
    if time.time() > begin:
        raise Wrong("the first were due before the last were published; is the machine busy?")
    await check_all_come(client, start, count, begin + sizes.seconds)
    after = await client.stats()
    check_count(int(after["delay.fired"]) - int(before["delay.fired"]), count, "fired")
    stalls = float(after["loop.stalls_20_ms"]) - float(before["loop.stalls_20_ms"])
    return Lateness(float(after["delay.lateness_p50_ms"]), float(after["delay.lateness_p99_ms"]), stalls)


def firing_figures(rounds: Sequence[Lateness], sizes: Sizes) -> list[Figure]:
    """The medians of the rounds: single syncs of a shared disk take a tenth of a second now and then."""
    p50, late, stalls = map(statistics.median, zip(*rounds, strict=True))
    return [
        Figure(f"{sizes.fires:,} fires a second: p50 lateness", p50, "ms"),
        Figure(f"{sizes.fires:,} fires a second: p99 lateness", late, "ms", "≤ 20", late <= 20),
        Figure("worst round: p99 lateness", max(each.p99 for each in rounds), "ms"),
        Figure("stalls of the event loop above 20 ms meanwhile", stalls, "", "0", stalls == 0),
    ]


async def publish_spread(client: goqueue.Client, count: int, begin: float, seconds: float) -> None:
    left = iter(range(count // 10))
    async with client.producer(TOPIC) as producer, trio.open_nursery() as nursery:

        async def work() -> None:
            for number in left:
                values = [b"%d" % each for each in range(10 * number, 10 * number + 10)]
                await producer.send_many(values, deliver_at=begin + random.uniform(0, seconds))

        for _ in range(50):
            nursery.start_soon(work)


async def check_all_come(client: goqueue.Client, start: int, count: int, end: float) -> None:
    """Each once, and none before the first was due."""
    seen: list[bytes] = []  # counted at the end: a sum for each message would take a core from the broker
    with trio.move_on_after(end - time.time() + 30):
        async for message in client.read(TOPIC, partition=0, start=start):
            seen.append(message.value)
            if len(seen) == count:
                break
    check_count(len(set(seen)), count, "delivered")
    check_count(len(seen), count, "delivered once")


# Beside beanstalkd


async def delayed_publishes(client: goqueue.Client, count: int) -> float:
    """Messages a second."""
    before = await client.count_delayed("beside")
    with timed() as watch:
        await add(client, "beside", count, some_day, acks="leader")
    check_count(await client.count_delayed("beside") - before, count, "pending")
    return count / watch.seconds


async def measure_alone(client: goqueue.Client, sizes: Sizes, tell: Tell) -> list[Figure]:
    await client.create_topic("beside", partitions=1)
    tell("delayed publishes")
    rates = [await delayed_publishes(client, sizes.beside) for _ in range(sizes.runs)]
    return [Figure("delayed publishes, send_many of 1,000", statistics.median(rates), "messages/s")]


async def measure_beside(client: goqueue.Client, folder: Path, sizes: Sizes, tell: Tell) -> list[Figure]:
    await client.create_topic("beside", partitions=1)
    own: list[float] = []
    others: list[float] = []
    try:
        with beanstalkd.delays(folder) as put:
            for _ in range(sizes.runs):
                tell("beside beanstalkd")
                own.append(await delayed_publishes(client, sizes.beside))
                few = sizes.beside // 10
                others.append(few / put(few, int(HOUR)))
    except Unavailable as why:
        return [Figure(f"beside beanstalkd: left out, {why}", 0.0, "")]
    ratio = statistics.median(one / other for one, other in zip(own, others, strict=True))
    return [
        Figure("delayed publishes, send_many of 1,000", statistics.median(own), "messages/s"),
        Figure("beanstalkd: put with a delay", statistics.median(others), "messages/s"),
        Figure("delayed publishes / beanstalkd", ratio, "×", "≥ 3", ratio >= 3),
    ]


# All of it


async def measure(broker: BrokerProcess, folder: Path, size: Size, tell: Tell) -> tuple[list[Figure], int]:
    sizes = SIZES[size]
    async with goqueue.connect(broker.url) as client:
        with heap_set_apart():
            if size == "quick":
                figures = await measure_alone(client, sizes, tell)
            else:
                figures = await measure_beside(client, folder, sizes, tell)
            figures += await measure_pending(client, broker, sizes, tell)
        return figures, await client.count_delayed(TOPIC)


async def fire_after_start(url: str, pending: int, sizes: Sizes) -> Lateness:
    async with goqueue.connect(url) as client:
        check_count(await client.count_delayed(TOPIC), pending, "pending after a start")
        with heap_set_apart():
            return await fire(client, sizes)


def measure_all(folder: Path, size: Size, tell: Tell) -> list[Figure]:
    """Each round of firing has a broker that was started for it, beside all that is pending."""
    sizes, data = SIZES[size], str(folder / "data")
    with broker_process(data) as broker:
        figures, pending = trio.run(measure, broker, folder, size, tell)
    rounds, starts = list[Lateness](), list[float]()
    for _ in range(sizes.rounds):
        tell(f"firing {sizes.fires:,} a second")
        begin = time.perf_counter()
        with broker_process(data) as broker:
            starts.append(time.perf_counter() - begin)
            rounds.append(trio.run(fire_after_start, broker.url, pending, sizes))
    started = Figure(f"start with {pending:,} pending", statistics.median(starts), "s")
    return [*figures, *firing_figures(rounds, sizes), started]


def main(arguments: list[str] | None = None) -> int:
    return run("delay", __doc__ or "", "delays: 100-byte values", measure_all, arguments)


if __name__ == "__main__":
    sys.exit(main())
