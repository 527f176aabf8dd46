"""How long the only consumer of a group over many partitions waits: for its first message, and until it has had one
of every partition, so that its assignment is whole.

The first group of a topic finds partitions that have kept no group's progress yet, and each begins a journal for
it. Groups that come later find these there.
"""

import statistics
import time
from typing import NamedTuple

import trio

import goqueue
from benchmarks.figures import Figure
from benchmarks.peers.workload import Wrong
from benchmarks.rebalance.scene import Sizes

FIRST_SECONDS_MAX, WHOLE_SECONDS_MAX = 1.0, 2.0
WAIT_SECONDS = 30.0


class Joined(NamedTuple):
    first: float
    whole: float


async def measure_joining(url: str, sizes: Sizes) -> list[Figure]:
    """In each round a new topic, which has two groups one after the other."""
    firsts, others = list[Joined](), list[Joined]()
    for number in range(sizes.rounds):
        topic = f"many-{number}"
        await _publish_to_each(url, topic, sizes.many)
        firsts.append(await _join(url, topic, "first", sizes.many))
        others.append(await _join(url, topic, "other", sizes.many))
        await _delete(url, topic)
    name = f"joining a group over {sizes.many:,} partitions"
    return [*_figures(f"{name}, the topic's first", firsts), *_figures(f"{name}, another", others)]


def _figures(name: str, found: list[Joined]) -> list[Figure]:
    first = statistics.median(each.first for each in found)
    whole = statistics.median(each.whole for each in found)
    return [
        Figure(
            f"{name}: until its first message", first, "s", f"< {FIRST_SECONDS_MAX:g}", first < FIRST_SECONDS_MAX
        ),
        Figure(f"{name}: until one of each", whole, "s", f"< {WHOLE_SECONDS_MAX:g}", whole < WHOLE_SECONDS_MAX),
    ]


async def _publish_to_each(url: str, topic: str, partitions: int) -> None:
    async with goqueue.connect(url) as client:
        await client.create_topic(topic, partitions=partitions)
        async with client.producer(topic) as producer, trio.open_nursery() as nursery:
            for partition in range(partitions):
                nursery.start_soon(_send, producer, partition)


async def _send(producer: goqueue.Producer, partition: int) -> None:
    await producer.send(b"%d" % partition, partition=partition)


async def _delete(url: str, topic: str) -> None:
    async with goqueue.connect(url) as client:
        await client.delete_topic(topic)


async def _join(url: str, topic: str, group: str, partitions: int) -> Joined:
    """On a connection that stands."""
    async with goqueue.connect(url) as client:
        await client.stats()
        begin = time.perf_counter()
        async with client.consumer(topic, group=f"{topic}-{group}") as consumer:
            missing = set(range(partitions)) - await _receive(consumer)
            first = time.perf_counter() - begin
            while missing:
                missing -= await _receive(consumer)
            return Joined(first, time.perf_counter() - begin)


async def _receive(consumer: goqueue.Consumer) -> set[int]:
    messages = await consumer.receive(timeout=WAIT_SECONDS)
    if not messages:
        raise Wrong(f"nothing came within {WAIT_SECONDS:g} s")
    return {message.partition for message in messages}
