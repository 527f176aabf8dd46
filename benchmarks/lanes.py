"""Priorities: what they cost, how lanes share, and how soon an important message comes: `./dev bench lanes`.

100-byte values, every message counted. Messages of random priority are consumed beside those of one priority, in
turns; shares are counted while all lanes are full; a critical message is published behind a backlog of normal ones;
and a consumer that takes a message now and then is asked how long the lowest lane waits.
"""

import argparse
import random
import statistics
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import count as numbers
from itertools import pairwise
from pathlib import Path
from typing import Any

import trio

import goqueue
from benchmarks.broker import BrokerProcess, broker_process
from benchmarks.commandline import Size, Tell, run
from benchmarks.consume import BATCH, receive_and_ack
from benchmarks.figures import Figure, timed
from benchmarks.garbage import heap_set_apart
from benchmarks.modes import alternate, figures_of, fill
from benchmarks.peers.workload import BLOCK, Wrong, check_count
from goqueue.core.ledger.shares import GUARD_SECONDS, WEIGHTS

SHARE_POINTS_MAX = 2.0
BEHIND_MS_MAX = 50.0
BEHIND_TIMES = 5
SLOW_SECONDS = 0.5
"""Between two messages of a slow consumer: a round of a hundred takes longer than the guard."""


@dataclass(frozen=True, slots=True)
class Sizes:
    runs: int = 5
    messages: int = 200_000
    backlog: int = 10_000_000
    seconds: float = 70.0


SIZES: dict[Size, Sizes] = {
    "full": Sizes(),
    "quick": Sizes(runs=3, messages=100_000, backlog=500_000, seconds=2.0),
    "tiny": Sizes(runs=1, messages=5_000, backlog=5_000, seconds=2.0),
}


async def fill_mixed(client: goqueue.Client, topic: str, count: int) -> None:
    """Priorities are drawn at random, with equal chances, message by message."""
    chance = random.Random(0)
    await client.create_topic(topic, partitions=1)
    async with client.producer(topic, buffer_messages=len(BLOCK)) as producer:
        for _ in range(count // len(BLOCK)):
            for value in BLOCK:
                producer.send_nowait(value, priority=chance.randrange(len(WEIGHTS)))
            await producer.flush()


class Consuming:
    def __init__(self, client: goqueue.Client) -> None:
        self._client = client
        self._groups = (f"lanes-{number}" for number in numbers())
        self.shares: list[float] = []

    async def mixed(self, count: int) -> float:
        return await self._consume("mixed", count)

    async def alike(self, count: int) -> float:
        return await self._consume("alike", count)

    async def _consume(self, topic: str, count: int) -> float:
        found: list[Any] = []
        async with self._client.consumer(topic, group=next(self._groups)) as consumer:
            with timed() as watch:
                await receive_and_ack(consumer, count, found)
        check_count(len(found), count, "received")
        return watch.seconds

    async def count_shares(self, count: int) -> list[float]:
        """Of so many of a backlog in which no lane runs out, in percent."""
        served: Counter[int] = Counter()
        async with self._client.consumer("mixed", group=next(self._groups)) as consumer:
            while sum(served.values()) < count:
                messages = await consumer.receive(max_messages=BATCH, timeout=30)
                if not messages:
                    raise Wrong(f"nothing came within 30 s; {sum(served.values()):,} of {count:,} were received")
                served.update(message.priority for message in messages)
                await consumer.ack(messages)
        return [100 * served[lane] / sum(served.values()) for lane in range(len(WEIGHTS))]


async def measure_rates(client: goqueue.Client, sizes: Sizes, tick: Callable[[], None]) -> list[Figure]:
    await fill(client, "alike", sizes.messages)
    await fill_mixed(client, "mixed", sizes.messages)
    consuming = Consuming(client)
    rates = await alternate(sizes.runs, sizes.messages, consuming.mixed, consuming.alike, tick)
    shares = await consuming.count_shares(sizes.messages // 5)
    worst = max(abs(share - weight) for share, weight in zip(shares, WEIGHTS, strict=True))
    is_even = worst <= SHARE_POINTS_MAX
    return [
        *figures_of(("priorities at random", "one priority"), rates, 0.5),
        *(
            Figure(f"share of {priority.name.lower()}, all lanes full", share, "%", f"{WEIGHTS[priority]}")
            for priority, share in zip(goqueue.Priority, shares, strict=True)
        ),
        Figure("the share furthest from its weight", worst, "points", f"≤ {SHARE_POINTS_MAX:g}", is_even),
    ]


async def measure_behind(client: goqueue.Client, sizes: Sizes, tick: Callable[[], None]) -> list[Figure]:
    """From the publish of a critical message until it is in the program's hands, with the backlog before it."""
    await fill(client, "backlog", sizes.backlog)
    waits = list[float]()
    async with client.consumer("backlog", group="behind", max_in_flight=10) as consumer:
        await consumer.ack(await consumer.receive(max_messages=1, timeout=30))
        for number in range(BEHIND_TIMES):
            tick()
            value = b"critical %d" % number
            with timed() as watch:
                await client.publish("backlog", value, priority="critical")
                await _await(consumer, value)
            waits.append(1_000 * watch.seconds)
    worst = statistics.median(waits)
    goal = f"≤ {BEHIND_MS_MAX:g}"
    return [
        Figure(f"a critical message behind {sizes.backlog:,} others", worst, "ms", goal, worst <= BEHIND_MS_MAX)
    ]


async def _await(consumer: Any, value: bytes) -> None:
    """What the consumer held already comes first: it is asked for one at a time, and holds none ahead."""
    for _ in range(20):
        messages = await consumer.receive(max_messages=1, timeout=30)
        await consumer.ack(messages)
        if any(message.value == value for message in messages):
            return
    raise Wrong(f"{value!r} did not come within 20 messages")


async def measure_guard(client: goqueue.Client, sizes: Sizes, tick: Callable[[], None]) -> list[Figure]:
    """How long the lowest lane waits between two messages of a consumer that takes two a second."""
    await fill_mixed(client, "slow", len(BLOCK))
    times = list[float]()
    async with client.consumer("slow", group="slow", max_in_flight=1) as consumer:
        begin = trio.current_time()
        while trio.current_time() < begin + sizes.seconds:
            tick()
            (message,) = await consumer.receive(max_messages=1, timeout=30)
            if message.priority == goqueue.Priority.BACKGROUND:
                times.append(trio.current_time() - begin)
            await consumer.ack(message)
            await trio.sleep(SLOW_SECONDS)
    ends = [0.0, *times, sizes.seconds]
    longest = max(later - earlier for earlier, later in pairwise(ends))
    limit = GUARD_SECONDS + 5 * SLOW_SECONDS
    return [Figure("background waits, at two messages a second", longest, "s", f"≤ {limit:g}", longest <= limit)]


async def measure(broker: BrokerProcess, sizes: Sizes, tell: Tell) -> list[Figure]:
    async with goqueue.connect(broker.url) as client:
        with heap_set_apart():
            return [
                *await measure_rates(client, sizes, lambda: tell("priorities at random")),
                *await measure_guard(client, sizes, lambda: tell("the guard")),
                *await measure_behind(client, sizes, lambda: tell("a critical message behind others")),
            ]


def measure_all(backlog: int | None, folder: Path, size: Size, tell: Tell) -> list[Figure]:
    sizes = SIZES[size]
    if backlog is not None:
        sizes = replace(sizes, backlog=backlog)
    with broker_process(str(folder)) as broker:
        return trio.run(measure, broker, sizes, tell)


def main(arguments: list[str] | None = None) -> int:
    """`--backlog N`: so many messages the critical one is published behind."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--backlog", type=int)
    own, others = parser.parse_known_args(arguments)
    title = "lanes: 100-byte values, medians of runs in turns"
    return run("lanes", __doc__ or "", title, partial(measure_all, own.backlog), others)


if __name__ == "__main__":
    sys.exit(main())
