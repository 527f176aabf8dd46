"""Delayed messages on a real broker that is killed again and again (G8)."""

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from time import time

import trio

import goqueue
from tests.process.brokers import broker_process
from tests.process.histories import TOPIC

PARTITIONS = 2
PUBLISHERS = 4
CONFIRMED_MAX = 150
"""So many messages are confirmed between two kills, at most; then some time passes."""
PAUSE_SECONDS_MAX = 0.5
DELAYS = (0.2, 2.5)
CANCELLED_ODDS = 0.3
SECONDS_MAX = 60.0


@dataclass
class Books:
    """By the clock of this machine, which is also the broker's."""

    due_from: dict[bytes, float] = field(default_factory=dict)
    """The earliest moment at which a message may be due: counted from before it was published."""
    confirmed: dict[bytes, goqueue.Published] = field(default_factory=dict)
    cancelled: set[bytes] = field(default_factory=set)
    perhaps: set[bytes] = field(default_factory=set)
    """A cancel was begun, and nobody knows what became of it."""
    seen: dict[bytes, float] = field(default_factory=dict)
    working: int = 0
    _more: trio.Event = field(default_factory=trio.Event)

    def confirm(self, value: bytes, where: goqueue.Published) -> None:
        self.confirmed[value] = where
        self._more.set()

    async def wait_for(self, more: int) -> None:
        """Until so many more are confirmed."""
        wanted = len(self.confirmed) + more
        while len(self.confirmed) < wanted:
            self._more = trio.Event()
            await self._more.wait()

    @property
    def missing(self) -> set[bytes]:
        return self.confirmed.keys() - self.seen.keys() - self.cancelled - self.perhaps

    def check(self) -> None:
        for value, when in self.seen.items():
            assert when >= self.due_from[value], f"{value!r} came {self.due_from[value] - when:.6f} s early"
        assert not self.missing
        assert not self.cancelled & self.seen.keys()


async def publish(client: goqueue.Client, books: Books, name: str, random: Random, stopping: trio.Event) -> None:
    number = 0
    books.working += 1
    while not stopping.is_set():
        number += 1
        value, delay = f"{name} {number}".encode(), random.uniform(*DELAYS)
        books.due_from[value] = time() + delay
        where = await client.publish(TOPIC, value, partition=random.randrange(PARTITIONS), delay=delay)
        books.confirm(value, where)
        if random.random() < CANCELLED_ODDS:
            await cancel(client, books, value, where)
    books.working -= 1


async def cancel(client: goqueue.Client, books: Books, value: bytes, where: goqueue.Published) -> None:
    assert where.offset is not None
    books.perhaps.add(value)
    with suppress(goqueue.Unavailable):
        if await client.cancel_delayed(TOPIC, where.partition, where.offset):
            books.cancelled.add(value)
        books.perhaps.discard(value)


async def read(client: goqueue.Client, books: Books) -> None:
    async for message in client.read(TOPIC):
        books.seen.setdefault(message.value, time())
        where = books.confirmed.get(message.value)
        origin = int(message.headers["goqueue-delayed-from"])
        assert where is None or (where.partition, where.offset) == (message.partition, origin)


async def set_up(data: Path) -> str:
    async with broker_process(data) as (process, url), goqueue.connect(url) as client:
        await client.create_topic(TOPIC, partitions=PARTITIONS)
        process.process.terminate()
        await process.end()
    return url


async def test_each_message_comes_once_and_not_early_while_the_broker_is_killed(tmp_path: Path, kills: int) -> None:
    random, books, stopping = Random(0), Books(), trio.Event()
    url = await set_up(tmp_path)
    port = int(url.rpartition(":")[2])
    with trio.fail_after(SECONDS_MAX + 10 * kills):
        async with goqueue.connect(url) as client, goqueue.connect(url) as reader, trio.open_nursery() as reading:
            reading.start_soon(read, reader, books)
            async with trio.open_nursery() as publishing:
                for number in range(PUBLISHERS):
                    publishing.start_soon(publish, client, books, f"publisher-{number}", Random(number), stopping)
                for _ in range(kills):
                    async with broker_process(tmp_path, port) as (process, _):
                        await books.wait_for(random.randint(1, CONFIRMED_MAX))
                        await trio.sleep(random.uniform(0, PAUSE_SECONDS_MAX))
                        process.process.kill()
                        assert await process.end() == -9
                stopping.set()
                publishing.start_soon(finish, tmp_path, port, client, books)
            reading.cancel_scope.cancel()
    books.check()
    assert len(books.seen) > 10 * kills, "hardly anything happened"
    assert len(books.cancelled) > kills


async def finish(data: Path, port: int, client: goqueue.Client, books: Books) -> None:
    """All that is pending comes; then everything is there once."""
    async with broker_process(data, port) as (process, _):
        while books.working or (await client.delayed(TOPIC)).pending or books.missing:  # noqa: ASYNC110
            await trio.sleep(0.05)
        everything = Counter([message.value async for message in client.read(TOPIC, end="latest")])
        assert everything.most_common(1)[0][1] == 1, "something came twice"
        assert not everything.keys() & books.cancelled
        assert everything.keys() >= books.confirmed.keys() - books.cancelled - books.perhaps
        process.process.terminate()
        assert await process.end() == 0
