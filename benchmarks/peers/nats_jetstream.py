"""NATS JetStream through nats-py: asynchronous publishes whose acknowledgements are all awaited, pulls of 500."""

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import count as numbers
from pathlib import Path
from typing import Any

from benchmarks.children import HOST, Unavailable, free_port, program, server
from benchmarks.figures import timed
from benchmarks.peers.workload import BLOCK, Peer, What, Workload, blocks, check_count, check_values

try:
    import nats
    from nats.js.api import AckPolicy, ConsumerConfig, StorageType
except ImportError:
    nats = None

NAME = "NATS JetStream"
BATCH = 500
SETTLE_SECONDS_MAX = 10.0
DURABILITY = "in the file; fsync every two minutes"


@contextmanager
def serving(folder: Path) -> Iterator[tuple[int, str]]:
    """The pid of a server, and its address."""
    if nats is None:
        raise Unavailable("its client nats-py is not installed")
    port = free_port()
    options = ["--addr", HOST, "--port", str(port), "--jetstream", "--store_dir", str(folder)]
    with server([program("nats-server"), *options], folder, port) as pid:
        yield pid, f"nats://{HOST}:{port}"


@contextmanager
def started(folder: Path) -> Iterator[Peer]:
    with serving(folder) as (_, url):
        stream = JetStream(url)
        pulls = f"pulls of {BATCH}, each acknowledged"
        many = f"publish_async, acks of {BATCH} awaited"
        yield Peer(
            NAME,
            asyncio.run(stream.version()),
            [
                Workload("nats", NAME, What.PUBLISH, many, DURABILITY, stream.publish),
                Workload("nats read", NAME, What.READ, pulls, "progress of a consumer, acknowledged", stream.read),
                Workload("nats single", NAME, What.SINGLE, "publish", DURABILITY, stream.single),
            ],
        )


class JetStream:
    def __init__(self, url: str) -> None:
        self._url = url
        self._names = (f"run-{number}" for number in numbers())
        self._there = 0
        """How many messages the stream for reading has."""

    async def version(self) -> str:
        async with self._connected() as client:
            found = client.connected_server_version
            return f"{found.major}.{found.minor}.{found.patch}"

    def publish(self, count: int) -> float:
        return asyncio.run(self._publish_to_a_new_stream(count))

    async def _publish_to_a_new_stream(self, count: int) -> float:
        async with self._new_stream() as (jetstream, stream):
            with timed() as watch:
                await _publish(jetstream, stream, count)
            await _check_that_all_are_there(jetstream, stream, count)
            return watch.seconds

    def read(self, count: int) -> float:
        return asyncio.run(self._read(count))

    async def _read(self, count: int) -> float:
        async with self._connected() as client:
            jetstream = client.jetstream()
            await self._fill(jetstream, count)
            config = ConsumerConfig(ack_policy=AckPolicy.EXPLICIT, max_ack_pending=2 * BATCH)
            name = next(self._names)
            consumer = await jetstream.pull_subscribe("reading", durable=name, config=config)
            found: list[bytes] = []
            with timed() as watch:
                while len(found) < count:
                    for message in await consumer.fetch(min(BATCH, count - len(found)), timeout=30):
                        found.append(message.data)
                        await message.ack()
                await client.flush()
            check_values(found, count)
            await _check_that_all_are_acknowledged(jetstream, name, count)
            await jetstream.delete_consumer("reading", name)
            return watch.seconds

    async def _fill(self, jetstream: Any, count: int) -> None:
        if not self._there:
            await jetstream.add_stream(name="reading", subjects=["reading"], storage=StorageType.FILE)
        if self._there < count:
            await _publish(jetstream, "reading", count - self._there)
            self._there = count

    def single(self, count: int) -> float:
        return asyncio.run(self._single(count))

    async def _single(self, count: int) -> float:
        seconds = []
        async with self._new_stream() as (jetstream, stream):
            for value in BLOCK[:count]:
                with timed() as watch:
                    await jetstream.publish(stream, value)
                seconds.append(watch.seconds)
            await _check_that_all_are_there(jetstream, stream, count)
        return statistics.median(seconds)

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Any]:
        client = await nats.connect(self._url)
        try:
            yield client
        finally:
            await client.close()

    @asynccontextmanager
    async def _new_stream(self) -> AsyncIterator[tuple[Any, str]]:
        stream = next(self._names)
        async with self._connected() as client:
            jetstream = client.jetstream()
            await jetstream.add_stream(name=stream, subjects=[stream], storage=StorageType.FILE)
            yield jetstream, stream
            await jetstream.delete_stream(stream)


async def _publish(jetstream: Any, stream: str, count: int) -> None:
    """Waiting for a whole batch is several times faster here than keeping the pending ones at their limit."""
    for values in blocks(count):
        for begin in range(0, len(values), BATCH):
            batch = values[begin : begin + BATCH]
            acks = await asyncio.gather(*[await jetstream.publish_async(stream, value) for value in batch])
            check_count(sum(ack.stream == stream for ack in acks), len(batch), "confirmed")


async def _check_that_all_are_there(jetstream: Any, stream: str, count: int) -> None:
    check_count((await jetstream.stream_info(stream)).state.messages, count, "confirmed and there")


async def _check_that_all_are_acknowledged(jetstream: Any, consumer: str, count: int) -> None:
    """Its acknowledgements are sent, not answered: the last of them may still be worked on."""
    deadline = time.monotonic() + SETTLE_SECONDS_MAX
    acked = 0
    while acked < count and time.monotonic() < deadline:
        acked = (await jetstream.consumer_info("reading", consumer)).ack_floor.consumer_seq
    check_count(acked, count, "acknowledged")
