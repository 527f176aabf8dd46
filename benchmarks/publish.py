"""What publishing and reading cost, through real sockets to a real broker process: `./dev bench`.

100-byte values in batches of 1,000 through `send_many`, every publish confirmed, read back and counted. Costs
are processor time of each process, so they hold on a busy machine too; latencies stand beside a bare websocket
echo measured in the same run.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

import trio
from rich.console import Console
from rich.progress import Progress
from trio_websocket import open_websocket_url

import goqueue
from benchmarks.broker import BrokerProcess, broker_process
from benchmarks.commandline import Size, add_sizes
from benchmarks.figures import Figure, show

VALUES = [bytes(100)] * 1_000
WORKERS = 4


@dataclass(frozen=True, slots=True)
class Sizes:
    runs: int = 5
    calls: int = 100
    singles: int = 300
    millions: float = 5.0


SIZES: dict[Size, Sizes] = {
    "full": Sizes(),
    "quick": Sizes(millions=0.5),
    "tiny": Sizes(runs=1, calls=4, singles=5, millions=0.01),
}


@contextmanager
def echo_process() -> Iterator[str]:
    process = subprocess.Popen([sys.executable, "-m", "benchmarks.echo"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield f"ws://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()


@dataclass(frozen=True, slots=True)
class Cost:
    """Microseconds of processor time for each message."""

    client: float
    broker: float
    per_second: float


async def publish(client: goqueue.Client, broker: BrokerProcess, topic: str, acks: str, calls: int) -> Cost:
    async with client.producer(topic, acks=acks) as producer:

        async def work() -> None:
            for _ in range(calls // WORKERS):
                published = await producer.send_many(VALUES)
                assert len(published) == len(VALUES)
                assert all(each.offset is not None for each in published)

        return await _measured(broker, calls * len(VALUES), partial(_together, work))


async def _together(work: Callable[[], Awaitable[None]]) -> None:
    async with trio.open_nursery() as nursery:
        for _ in range(WORKERS):
            nursery.start_soon(work)


async def read(client: goqueue.Client, broker: BrokerProcess, topic: str, expected: int) -> Cost:
    async def count() -> None:
        found = size = 0
        async for message in client.read(topic, end="latest"):
            found += 1
            size += len(message.value)  # a message decodes itself when it is looked at
        assert found == expected, f"{found} of {expected} were read back"
        assert size == expected * len(VALUES[0])

    return await _measured(broker, expected, count)


async def _measured(broker: BrokerProcess, messages: int, work: Callable[[], Awaitable[None]]) -> Cost:
    client_before, broker_before, begin = time.process_time(), broker.cpu_seconds(), time.perf_counter()
    await work()
    seconds = time.perf_counter() - begin
    scale = 1e6 / messages
    client, there = time.process_time() - client_before, broker.cpu_seconds() - broker_before
    return Cost(client * scale, there * scale, messages / seconds)


async def single_latency(client: goqueue.Client, topic: str, acks: str, singles: int) -> float:
    """The median of confirmed single publishes, in milliseconds."""
    async with client.producer(topic, acks=acks) as producer:
        return await _median_ms(lambda: producer.send(VALUES[0]), singles)


async def echo_latency(singles: int) -> float:
    """The same for a bare trio-websocket in a process of its own that sends back what it gets."""
    with echo_process() as url:
        async with open_websocket_url(url) as socket:

            async def once() -> None:
                await socket.send_message(VALUES[0])
                assert await socket.get_message() == VALUES[0]

            return await _median_ms(once, singles)


async def _median_ms(once: Callable[[], Awaitable[object]], singles: int) -> float:
    times = []
    for _ in range(singles):
        begin = time.perf_counter()
        await once()
        times.append(time.perf_counter() - begin)
    return statistics.median(times) * 1_000


async def measure(broker: BrokerProcess, sizes: Sizes, progress: Progress) -> list[Figure]:
    steps = progress.add_task("measuring", total=sizes.runs + 1)
    leader, every, reading, echo, single_leader, single_all = [], [], [], [], [], []
    async with goqueue.connect(broker.url) as client:
        for run in range(sizes.runs):
            topic = f"run-{run}"
            await client.create_topic(topic, partitions=1)
            leader.append(await publish(client, broker, topic, "leader", sizes.calls))
            every.append(await publish(client, broker, topic, "all", sizes.calls))
            reading.append(await read(client, broker, topic, 2 * sizes.calls * len(VALUES)))
            echo.append(await echo_latency(sizes.singles))
            single_leader.append(await single_latency(client, topic, "leader", sizes.singles))
            single_all.append(await single_latency(client, topic, "all", sizes.singles))
            progress.advance(steps)
        before, after = await _memory(client, broker, sizes.millions, progress)
        progress.advance(steps)
    return [
        *_costs(leader, every, reading),
        *_latencies(echo, single_leader, single_all),
        Figure("broker's memory before", before, "MiB"),
        Figure(f"after {sizes.millions:g} million messages more", after, "MiB", "flat", after - before < 50),
    ]


async def _memory(
    client: goqueue.Client, broker: BrokerProcess, millions: float, progress: Progress
) -> tuple[float, float]:
    total = int(millions * 1_000_000)
    task = progress.add_task("many messages", total=total)
    await client.create_topic("many", partitions=3)
    before = broker.resident_mib()
    async with client.producer("many", acks="leader") as producer:
        for _ in range(total // len(VALUES)):
            await producer.send_many(VALUES)
            progress.advance(task, len(VALUES))
    return before, broker.resident_mib()


def _costs(leader: list[Cost], every: list[Cost], reading: list[Cost]) -> list[Figure]:
    median = statistics.median
    client = median(cost.client for cost in leader)
    broker = median(cost.broker for cost in leader)
    reader = median(cost.client for cost in reading)
    return [
        Figure("publish, acks=leader: client", client, "µs CPU/message", "≤ 2.5", client <= 2.5),
        Figure("publish, acks=leader: broker", broker, "µs CPU/message", "≤ 1.5", broker <= 1.5),
        Figure("publish, acks=leader", median(cost.per_second for cost in leader), "messages/s"),
        Figure("publish, acks=all", median(cost.per_second for cost in every), "messages/s"),
        Figure("read: client", reader, "µs CPU/message", "≤ 1.5", reader <= 1.5),
        Figure("read", median(cost.per_second for cost in reading), "messages/s"),
    ]


def _latencies(echo: list[float], leader: list[float], every: list[float]) -> list[Figure]:
    median = statistics.median
    to_leader, to_all = median(leader) / median(echo), median(every) / median(echo)
    return [
        Figure("bare websocket echo, median", median(echo), "ms"),
        Figure("single publish, acks=leader / echo", to_leader, "×", "≤ 1.5", to_leader <= 1.5),
        Figure("single publish, acks=all / echo", to_all, "×", "≤ 3", to_all <= 3),
    ]


def main(given: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.publish", description=__doc__)
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table")
    parser.add_argument("--millions", type=float, help="messages for the memory figure")
    add_sizes(parser)
    arguments = parser.parse_args(given)
    with (
        tempfile.TemporaryDirectory() as folder,
        broker_process(folder) as broker,
        Progress(console=Console(stderr=True), transient=True) as progress,
    ):
        sizes = SIZES[arguments.size]
        sizes = replace(sizes, millions=arguments.millions or sizes.millions)
        figures = trio.run(measure, broker, sizes, progress)
    return show("publish and read: 100-byte values, one partition, one client", figures, arguments.output)


if __name__ == "__main__":
    sys.exit(main())
