"""Consumer groups with real processes: a broker killed under load, consumers that are killed, and poison."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from random import Random

import trio

import goqueue
from tests.process.brokers import broker_process
from tests.process.children import Child, child
from tests.process.consumer import POISON
from tests.process.histories import TOPIC, History, Publisher

PARTITIONS = 2
CONSUMERS = 3
PUBLISHERS = 2
ACKED_MAX = 60
"""So many messages are acked between two kills, at most."""
SECONDS_MAX = 60.0
VISIBILITY = 1.5
GROUP = "billing"


@dataclass
class Handed:
    """One delivery of one message, and what the broker said to its ack."""

    value: bytes
    attempt: int
    at: float
    is_acked: bool = False
    is_stale: bool = False


@dataclass
class Books:
    """What the consumers of a group were handed, in order, and what they have acked."""

    handed: list[Handed] = field(default_factory=list)
    acked: set[bytes] = field(default_factory=set)
    _more: trio.Event = field(default_factory=trio.Event)

    def hand(self, messages: Sequence[goqueue.Message]) -> list[Handed]:
        now = trio.current_time()
        row = [Handed(message.value, message.attempt, now) for message in messages]
        self.handed += row
        return row

    def ack(self, row: Sequence[Handed]) -> None:
        for each in row:
            each.is_acked = not each.is_stale
        self.acked.update(each.value for each in row if each.is_acked)
        self._more.set()

    async def wait_for(self, more: int) -> None:
        """Until so many more are acked."""
        wanted = len(self.acked) + more
        while len(self.acked) < wanted:
            self._more = trio.Event()
            await self._more.wait()

    def check(self, kills: Sequence[float]) -> None:
        """Nothing came again after it was acked; what came again was in flight at a kill, or its lease ran out."""
        deliveries: dict[bytes, list[Handed]] = {}
        for each in self.handed:
            deliveries.setdefault(each.value, []).append(each)
        for row in deliveries.values():
            for before, after in pairwise(row):
                assert not before.is_acked, f"{after} came after {before} was acked"
                assert after.attempt > before.attempt
                assert before.is_stale or any(before.at <= kill <= after.at for kill in kills), f"{before}, {after}"


async def consume(url: str, books: Books) -> None:
    async with (
        goqueue.connect(url) as client,
        client.consumer(TOPIC, group=GROUP, visibility_timeout=VISIBILITY, max_deliveries=0) as consumer,
    ):
        while True:
            messages = await consumer.receive(max_messages=20)
            row = books.hand(messages)
            try:
                await consumer.ack(messages)
            except goqueue.StaleReceipt as error:  # the broker was away for longer than the leases last
                for each, message in zip(row, messages, strict=True):
                    each.is_stale = message.receipt in error.receipts
            books.ack(row)


async def consume_all(scope: trio.CancelScope, url: str, books: Books, ended: trio.Event) -> None:
    with scope:
        async with trio.open_nursery() as nursery:
            for _ in range(CONSUMERS):
                nursery.start_soon(consume, url, books)
    ended.set()


async def publish_on(scope: trio.CancelScope, history: History, client: goqueue.Client, random: Random) -> None:
    with scope:
        async with trio.open_nursery() as nursery:
            for number in range(PUBLISHERS):
                partition = partial(random.randrange, PARTITIONS)
                publisher = Publisher(history, client, f"publisher-{number}", partition)
                nursery.start_soon(publisher.run, goqueue.Acks.ALL)


async def set_up(data: Path) -> str:
    """Make the topic; where the broker listens from now on."""
    async with broker_process(data) as (process, url), goqueue.connect(url) as client:
        await client.create_topic(TOPIC, partitions=PARTITIONS)
        process.process.terminate()
        await process.end()
    return url


async def test_what_was_acked_stays_acked_while_the_broker_is_killed_under_load(tmp_path: Path, kills: int) -> None:
    """G5, G6: the same consumers go on; nothing is skipped, and only what was in flight comes again."""
    random, history, books, killed = Random(0), History(), Books(), list[float]()
    url = await set_up(tmp_path)
    port, ended = int(url.rpartition(":")[2]), trio.Event()
    publishing, consuming = trio.CancelScope(), trio.CancelScope()
    with trio.fail_after(SECONDS_MAX + 10 * kills):
        async with goqueue.connect(url) as client, trio.open_nursery() as nursery:
            nursery.start_soon(publish_on, publishing, history, client, random)
            nursery.start_soon(consume_all, consuming, url, books, ended)
            for _ in range(kills):
                async with broker_process(tmp_path, port) as (process, _):
                    await books.wait_for(random.randint(1, ACKED_MAX))
                    killed.append(trio.current_time())
                    process.process.kill()
                    assert await process.end() == -9
            async with broker_process(tmp_path, port):
                await history.wait_for(PUBLISHERS)
                publishing.cancel()
                while not history.confirmed.keys() <= books.acked:
                    await books.wait_for(1)
                consuming.cancel()
                await ended.wait()
    books.check(killed)
    assert len(books.acked) >= kills


def heard(process: Child, word: str) -> list[list[int]]:
    """The numbers of all lines that begin with this word."""
    rows = [line.split() for line in process.lines]
    return [[int(number) for number in numbers] for first, *numbers in rows if first == word]


async def publish(client: goqueue.Client, values: Sequence[bytes]) -> None:
    await client.create_topic(TOPIC, partitions=1)
    async with client.producer(TOPIC) as producer:
        await producer.send_many(values)


def arguments(url: str, *habit: str) -> list[str]:
    return [url, TOPIC, GROUP, str(VISIBILITY), *habit]


async def test_what_a_killed_consumer_held_comes_back_after_its_lease(tmp_path: Path) -> None:
    """G5, G7: to another one, with the next number, and not before."""
    with trio.fail_after(SECONDS_MAX):
        async with broker_process(tmp_path) as (_, url), goqueue.connect(url) as client:
            await publish(client, [b"%d" % number for number in range(10)])
            async with child("tests.process.consumer", *arguments(url, "hold")) as dying:
                await dying.listen(10)
                held_at = trio.current_time()
                dying.process.kill()
                assert await dying.end() == -9
            assert heard(dying, "handed") == [[offset, 1, 10] for offset in range(10)]
            async with client.consumer(TOPIC, group=GROUP, shared=True) as consumer:
                messages = await consumer.receive(timeout=SECONDS_MAX)
                came_back_after = trio.current_time() - held_at
                assert [(each.offset, each.attempt) for each in messages] == [(offset, 2) for offset in range(10)]
                await consumer.ack(messages)
            assert came_back_after > VISIBILITY / 2, "their leases began when they were handed out, just before"
            assert (await client.group(GROUP)).lag == 0


async def test_a_poison_message_goes_to_the_dead_letters_alone(tmp_path: Path) -> None:
    """Whoever gets it dies, three times; the last time it was given nothing else. Its neighbours are all acked."""
    values = [b"%d" % number for number in range(20)]
    values.insert(7, POISON)
    with trio.fail_after(SECONDS_MAX):
        async with broker_process(tmp_path) as (_, url), goqueue.connect(url) as client:
            await publish(client, values)
            async with client.consumer("*.dlq", group="undertaker") as undertaker:
                lives = [await live_and_die(url) for _ in range(3)]
                async with child("tests.process.consumer", *arguments(url)) as last:
                    lives.append(last)
                    while len(acked_by(lives)) < 20:
                        await last.listen(len(last.lines) + 1)
                await undertaker.receive(timeout=SECONDS_MAX)
            letters = [message async for message in client.read(f"{TOPIC}.dlq", end="latest")]
            assert (await client.group(GROUP)).lag == 0
    assert [(each.value, each.headers["goqueue-dlq-attempts"]) for each in letters] == [(POISON, b"3")]
    assert acked_by(lives) == [offset for offset in range(21) if offset != 7]
    assert heard(lives[2], "handed")[-1] == [7, 3, 1], "the last delivery is made alone"


async def live_and_die(url: str) -> Child:
    async with child("tests.process.consumer", *arguments(url)) as consumer:
        assert await consumer.end() == -9
    return consumer


def acked_by(consumers: Sequence[Child]) -> list[int]:
    return sorted(offset for consumer in consumers for [offset] in heard(consumer, "acked"))
