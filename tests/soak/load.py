"""The mixed load: every kind of work is a round that is repeated, and every operation of it is checked."""

import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import count

import trio

import goqueue

SEGMENT_BYTES = 128 * 1024
KEPT = {"segment_bytes": SEGMENT_BYTES, "retention_bytes": 4 * SEGMENT_BYTES}
COMPACTED = {"segment_bytes": SEGMENT_BYTES, "cleanup": "compact"}
KEYS, BATCH, GROUPS = 100, 100, 40
VALUE = bytes(200)
WAIT_SECONDS = 30.0
"""For what must come. Nothing comes later unless something is wrong, however busy the machine is."""


class Wrong(Exception):
    """An operation did not do what it promises."""


def check(holds: bool, what: str) -> None:
    if not holds:
        raise Wrong(what)


def place_of(published: goqueue.Published) -> tuple[int, int]:
    """Its partition and offset."""
    if published.offset is None:
        raise Wrong("a confirmed message has an offset")
    return published.partition, published.offset


@dataclass(slots=True)
class Pace:
    """When a kind of work ends: at a time, or after so many rounds."""

    end: float
    rounds_max: float
    pause_seconds: float

    def goes_on(self, rounds: int) -> bool:
        return rounds < self.rounds_max and trio.current_time() < self.end


@dataclass(slots=True)
class Load:
    url: str
    client: goqueue.Client
    pace: Pace
    rounds: Counter[str] = field(default_factory=Counter)
    chance: random.Random = field(default_factory=lambda: random.Random(0))
    numbers: "count[int]" = field(default_factory=count)

    async def prepare(self) -> None:
        await self.client.create_topic("prices", partitions=1, config=COMPACTED)
        for name in ("events", "orders", "reminders", "jobs"):
            await self.client.create_topic(name, partitions=1 if name == "events" else 2, config=KEPT)
        for name in ("orders", "jobs"):
            await self.client.publish(name, VALUE)

    async def run(self) -> None:
        kinds: list[Callable[[], Awaitable[None]]] = [
            self.compact,
            self.produce_shortly,
            self.consume_in_some_group,
            self.make_and_delete_a_group,
            self.delay,
            self.reject_and_redrive,
            self.connect_and_go,
            self.stream,
        ]
        async with trio.open_nursery() as nursery:
            for kind in kinds:
                nursery.start_soon(self._repeat, kind)

    async def _repeat(self, kind: Callable[[], Awaitable[None]]) -> None:
        name = kind.__name__
        while self.pace.goes_on(self.rounds[name]):
            await kind()
            self.rounds[name] += 1
            await trio.sleep(self.pace.pause_seconds)

    # Kinds of work

    async def compact(self) -> None:
        """A compacted topic gets new values of the same keys."""
        values, keys = [VALUE] * BATCH, [b"%d" % self.chance.randrange(KEYS) for _ in range(BATCH)]
        async with self.client.producer("prices") as producer:
            published = await producer.send_many(values, keys)
        check(len(published) == BATCH, "every message is confirmed")

    async def produce_shortly(self) -> None:
        """Ten producers that send one message each."""
        for _ in range(10):
            async with self.client.producer("events") as producer:
                place_of(await producer.send(VALUE))

    async def consume_in_some_group(self) -> None:
        await self._consume_as(f"group-{self.chance.randrange(GROUPS)}")

    async def _consume_as(self, group: str) -> None:
        """The message that is published now comes, and what came before it is acked too."""
        mine = b"order %d" % next(self.numbers)
        published = await self.client.publish("orders", mine)
        with trio.fail_after(WAIT_SECONDS):
            async with self.client.consumer("orders", group=group) as consumer:
                found = False
                while not found:
                    messages = await consumer.receive(timeout=WAIT_SECONDS)
                    check(bool(messages), f"{published} comes")
                    await consumer.ack(messages)
                    found = any(message.value == mine for message in messages)

    async def make_and_delete_a_group(self) -> None:
        name = f"short-{next(self.numbers)}"
        await self._consume_as(name)
        await self.client.delete_group(name)
        check(name not in [group.name for group in await self.client.groups()], "a deleted group is gone")

    async def delay(self) -> None:
        """One is cancelled, one is delivered now, one fires by itself."""
        cancelled, delivered = [await self.client.publish("reminders", VALUE, delay=600) for _ in range(2)]
        mine = b"reminder %d" % next(self.numbers)
        fired = await self.client.publish("reminders", mine, delay=0.2)
        client = self.client
        check(await client.cancel_delayed("reminders", *place_of(cancelled)), "what is pending is cancelled")
        check(await client.deliver_delayed("reminders", *place_of(delivered)), "what is pending is delivered now")
        partition, offset = place_of(fired)
        with trio.fail_after(WAIT_SECONDS):
            async with client.read("reminders", partition=partition, start=offset) as reader:
                async for message in reader:
                    if message.value == mine:
                        return

    async def reject_and_redrive(self) -> None:
        """Every second message becomes a dead letter. Dead letters go back to their group, or are dismissed."""
        await self.client.publish("jobs", VALUE)
        with trio.fail_after(WAIT_SECONDS):
            async with self.client.consumer("jobs", group="workers") as consumer:
                messages = await consumer.receive(timeout=WAIT_SECONDS)
                check(bool(messages), "a published message comes")
                first, *rest = messages
                await consumer.ack(rest)
                await (first.reject("soak") if self.rounds["reject_and_redrive"] % 2 else first.ack())
        if any(topic.name == "jobs.dlq" for topic in await self.client.topics()):
            is_tenth = self.rounds["reject_and_redrive"] % 10 == 0
            await (self.client.dismiss("jobs") if is_tenth else self.client.redrive("jobs", max_messages=100))

    async def connect_and_go(self) -> None:
        """One client that says goodbye, and one that is cut off."""
        async with goqueue.connect(self.url) as client:
            place_of(await client.publish("events", VALUE, message_id=f"id-{next(self.numbers)}"))
        host, _, port = self.url.rpartition("/")[2].partition(":")
        stream = await trio.open_tcp_stream(host, int(port))
        await stream.send_all(b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n")
        await trio.aclose_forcefully(stream)

    async def stream(self) -> None:
        await self.client.publish("events", VALUE)
        with trio.fail_after(WAIT_SECONDS):
            async with self.client.consumer("events", group="stream", mode="stream") as consumer:
                messages = await consumer.receive(timeout=WAIT_SECONDS)
                check(bool(messages), "a published message comes")
                await consumer.commit()
