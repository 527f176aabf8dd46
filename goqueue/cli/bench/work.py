"""The work of `goqueue bench`: every message is counted, and a run that failed has no figures.

A run has a topic with a name of its own, which is removed however the run ends. Ctrl-C therefore only cancels the
run: the connection that the removal needs lives on until the topic is gone.
"""

import signal
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from secrets import token_hex
from typing import TypeVar

import click
import trio

from goqueue.cli.bench.times import Times
from goqueue.client.client import Client
from goqueue.client.reading.message import Published
from goqueue.errors import GoQueueError, PublishFailed, UnknownTopic
from goqueue.nursery import PlainNursery

REMOVE_SECONDS_MAX = 10.0
SETTLE_SECONDS_MAX = 30.0
SETTLE_PAUSE_SECONDS = 0.05
IN_FLIGHT_MAX = 10_000
ADVANCE_EACH = 1_000
NUMBER_SIZE = 8

Advance = Callable[[int], None]
Result = TypeVar("Result")


# Around a run


async def interruptible(work: Callable[[], Awaitable[Result]]) -> Result:
    """SIGINT and SIGTERM cancel the work; once it has cleaned up, the program ends as a shell expects of them."""
    if threading.current_thread() is not threading.main_thread():
        return await work()
    received: list[int] = []
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with PlainNursery() as nursery:

            async def cancel_when_told() -> None:
                received.append(await anext(signals))
                nursery.cancel_scope.cancel()

            nursery.start_soon(cancel_when_told)
            result = await work()
            nursery.cancel_scope.cancel()
    if received:
        raise SystemExit(128 + received[0])
    return result


@asynccontextmanager
async def topic_of_its_own(client: Client, partitions: int, *, keep: bool) -> AsyncIterator[str]:
    name = f"bench-{token_hex(6)}"
    try:
        await client.create_topic(name, partitions)
        yield name
    finally:
        if not keep:
            await _remove(client, name)


async def _remove(client: Client, name: str) -> None:
    """Also when it is not known whether the topic was created: its name is unique."""
    reason = f"the broker did not answer within {REMOVE_SECONDS_MAX:g} s"
    with trio.CancelScope(shield=True, deadline=trio.current_time() + REMOVE_SECONDS_MAX):
        try:
            await client.delete_topic(name)
        except UnknownTopic:
            return
        except GoQueueError as error:
            reason = error.message
        else:
            return
    raise click.ClickException(f"{name} could not be removed ({reason}); try `goqueue topic delete {name} --yes`")


@dataclass(slots=True)
class Cost:
    seconds: float = 0.0
    cpu_seconds: float = 0.0


@contextmanager
def measured() -> Iterator[Cost]:
    cost, began, cpu_before = Cost(), time.perf_counter(), time.process_time()
    yield cost
    cost.seconds, cost.cpu_seconds = time.perf_counter() - began, time.process_time() - cpu_before


# Publishing


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The load of a run: what to publish, and how."""

    count: int
    size: int
    batch: int
    acks: str
    producers: int

    def batch_sizes(self) -> Iterator[int]:
        for begin in range(0, self.count, self.batch):
            yield min(self.batch, self.count - begin)


@dataclass
class PublishLoad:
    """Calls of `send_many`, several at a time; the first that fails ends them all."""

    client: Client
    topic: str
    load: Load
    advance: Advance
    times: Times = field(default_factory=Times)
    confirmed: int = 0
    _failure: GoQueueError | None = None

    async def run(self) -> Cost:
        values = [bytes(self.load.size)] * self.load.batch
        with measured() as cost:
            await self._publish(values)
        if self._failure is not None:
            self._failure.message = f"{self.confirmed:,} messages were confirmed, then: {self._failure.message}"
            raise self._failure
        await self._check_that_all_are_there()
        return cost

    async def _publish(self, values: list[bytes]) -> None:
        sizes = self.load.batch_sizes()
        async with self.client.producer(self.topic, acks=self.load.acks) as producer, PlainNursery() as nursery:

            async def call_after_call() -> None:
                for size in sizes:
                    began = trio.current_time()
                    try:
                        self._take(await producer.send_many(values[:size]), size)
                    except GoQueueError as error:
                        self._fail(error)
                        nursery.cancel_scope.cancel()
                        return
                    self.times.note(trio.current_time() - began)
                    self.advance(size)

            for _ in range(self.load.producers):
                nursery.start_soon(call_after_call)

    def _take(self, published: Sequence[Published], size: int) -> None:
        """Each has an offset, except with acks=none."""
        has_offsets = all(each.offset is not None for each in published)
        assert len(published) == size
        assert has_offsets or self.load.acks == "none"
        self.confirmed += size

    def _fail(self, error: GoQueueError) -> None:
        if isinstance(error, PublishFailed):
            self.confirmed += sum(isinstance(each, Published) for each in error.results)
        self._failure = self._failure or error

    async def _check_that_all_are_there(self) -> None:
        """With acks=none, some messages may not be written yet."""
        found, deadline = 0, trio.current_time() + SETTLE_SECONDS_MAX
        while found < self.load.count and trio.current_time() < deadline:
            await trio.sleep(SETTLE_PAUSE_SECONDS if found else 0)
            found = await messages_in(self.client, self.topic)
        if found != self.load.count:
            raise click.ClickException(f"{self.load.count:,} messages were sent and {found:,} are there")


async def messages_in(client: Client, topic: str) -> int:
    return sum(each.end - each.start for each in (await client.topic(topic)).partitions)


# Reading


async def read_all(client: Client, topic: str, wanted: bytes | None, advance: Advance) -> tuple[int, int]:
    """The number of messages, and of bytes of their values. With `wanted`, each must have this value."""
    count = size = 0
    async with client.read(topic, end="latest") as messages:
        async for message in messages:
            value = message.value
            if wanted is not None and value != wanted:
                raise click.ClickException(
                    f"partition {message.partition}, offset {message.offset} is not what was published"
                )
            count += 1
            size += len(value)
            if not count % ADVANCE_EACH:
                advance(ADVANCE_EACH)
    return count, size


# Latency


@dataclass
class OpenLoop:
    """Messages that begin when they are due, whether or not those before them have ended.

    Times count from when a message was due. So a stall counts for all messages that were due in it, and not for one
    message alone ("coordinated omission").
    """

    rate: float
    count: int
    send: Callable[[int], Awaitable[object]]
    advance: Advance
    times: Times = field(default_factory=Times)
    seconds: float = 0.0
    _begin: float = 0.0
    _failure: GoQueueError | None = None

    def due(self, number: int) -> float:
        return self._begin + number / self.rate

    async def run(self) -> None:
        self._begin = trio.current_time()
        room = trio.Semaphore(IN_FLIGHT_MAX)
        async with PlainNursery() as nursery:
            for number in range(self.count):
                if (due := self.due(number)) > trio.current_time():
                    await trio.sleep_until(due)
                await _take_place(room)
                nursery.start_soon(self._send_one, number, room, nursery.cancel_scope)
        if self._failure is not None:
            self._failure.message = f"{self.times.count:,} messages were confirmed, then: {self._failure.message}"
            raise self._failure
        self.seconds = trio.current_time() - self._begin

    async def _send_one(self, number: int, room: trio.Semaphore, everything: trio.CancelScope) -> None:
        try:
            await self.send(number)
        except GoQueueError as error:
            self._failure = self._failure or error
            everything.cancel()
            return
        self.times.note(trio.current_time() - self.due(number))
        self.advance(1)
        room.release()


async def _take_place(room: trio.Semaphore) -> None:
    """Without a turn of the event loop while there is room: all messages that are due begin in one turn."""
    try:
        room.acquire_nowait()
    except trio.WouldBlock:
        await room.acquire()


async def follow(client: Client, topic: str, loop: OpenLoop, times: Times) -> None:
    """End to end: from when a message was due until a reader has it. Warm-up messages have higher numbers."""
    async with client.read(topic) as messages:
        async for message in messages:
            number = int.from_bytes(message.value[:NUMBER_SIZE], "big")
            if number < loop.count:
                times.note(trio.current_time() - loop.due(number))
            if times.count == loop.count:
                return


async def measure_latency(
    client: Client, topic: str, load: Load, rate: float, advance: Advance, *, follows: bool
) -> tuple[OpenLoop, Times]:
    """The publishes, and the times of a reader that follows."""
    seen, padding = Times(), bytes(load.size - NUMBER_SIZE)
    partitions = len((await client.topic(topic)).partitions)
    async with client.producer(topic, acks=load.acks) as producer, PlainNursery() as nursery:

        async def send(number: int) -> None:
            await producer.send(number.to_bytes(NUMBER_SIZE, "big") + padding)

        for number in range(partitions):
            await send(load.count + number)
        loop = OpenLoop(rate, load.count, send, advance)
        if follows:
            nursery.start_soon(follow, client, topic, loop, seen)
        await loop.run()
        nursery.cancel_scope.deadline = trio.current_time() + SETTLE_SECONDS_MAX
    if follows and seen.count != load.count:
        raise click.ClickException(f"{load.count:,} messages were sent and the reader saw {seen.count:,}")
    return loop, seen
