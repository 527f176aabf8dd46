"""What the way in over HTTP costs, beside the websocket: `./dev bench http`.

100-byte values, connections that are kept alive, one client process on raw sockets, every answer parsed and
counted. Rounds alternate, and medians are shown. Costs are processor time of the broker. Durability: in the file,
fsynced within a second (acks=leader).
"""

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import orjson
import trio

import goqueue
from benchmarks.broker import BrokerProcess, broker_process
from benchmarks.commandline import Size, Tell, run
from benchmarks.figures import Figure
from benchmarks.http.wire import HttpSocket
from benchmarks.peers.workload import Wrong

VALUE = "v" * 100
CONNECTIONS = 4
"""Requests under way at the same time: one is parsed by the client while the broker works on another."""
LARGE, SMALL = 1_000, 100
POLLED = 500
POLL_SECONDS = 60
"""How long an open poll waits."""


@dataclass(frozen=True, slots=True)
class Sizes:
    runs: int = 5
    messages: int = 200_000
    singles: int = 1_000
    polls: int = 300
    idle_seconds: float = 15.0
    partitions: int = 1_000
    groups: int = 100
    scrapes: int = 10


SIZES: dict[Size, Sizes] = {
    "full": Sizes(),
    "quick": Sizes(runs=3, messages=60_000, singles=400, idle_seconds=8.0, partitions=200, groups=20, scrapes=5),
    "tiny": Sizes(runs=1, messages=2_000, singles=10, polls=6, idle_seconds=0.2, partitions=6, groups=2, scrapes=2),
}


@dataclass(slots=True)
class Measured:
    """One kind of work, once a round."""

    rates: list[float] = field(default_factory=list)
    broker_us: list[float] = field(default_factory=list)
    """Processor time of the broker for each message."""

    @property
    def rate(self) -> float:
        return statistics.median(self.rates)

    @property
    def per_core(self) -> float:
        """Messages in a second of the broker's processor time."""
        return statistics.median(1e6 / each for each in self.broker_us)


class HttpBench:
    def __init__(self, broker: BrokerProcess, sizes: Sizes) -> None:
        self.broker = broker
        self.sizes = sizes

    @contextmanager
    def _timed(self, into: Measured, messages: int) -> Iterator[None]:
        cpu, begin = self.broker.cpu_seconds(), time.perf_counter()
        yield
        into.rates.append(messages / (time.perf_counter() - begin))
        into.broker_us.append((self.broker.cpu_seconds() - cpu) * 1e6 / messages)

    # Publishing

    def publish(self, sockets: list[HttpSocket], topic: str, at_once: int, into: Measured) -> None:
        target = f"/topics/{topic}/messages?acks=leader"
        body = orjson.dumps({"messages": [{"value": VALUE}] * at_once})
        request = sockets[0].request("POST", target, body)
        requests, published = self.sizes.messages // at_once, 0
        with self._timed(into, requests * at_once):
            for number in range(min(len(sockets), requests)):
                sockets[number].send(request)
            for number in range(requests):
                connection = sockets[number % len(sockets)]
                results = connection.expect()["results"]
                if number + len(sockets) < requests:
                    connection.send(request)
                published += sum(type(each["offset"]) is int for each in results)
        if published != requests * at_once:
            raise Wrong(f"{published} messages were confirmed in the place of {requests * at_once}")

    # A group

    def poll_and_ack(self, http: HttpSocket, topic: str, group: str, count: int, into: Measured) -> None:
        joined = http.ask("POST", f"/groups/{group}/join", {"topics": [topic]})
        target = f"/groups/{group}/poll?member_id={joined['member_id']}&limit={POLLED}&timeout=5"
        seen: set[tuple[int, int]] = set()
        with self._timed(into, count):
            while len(seen) < count:
                messages = http.ask("GET", target)["messages"]
                if not messages:
                    raise Wrong(f"a poll brought nothing, {count - len(seen)} messages before the end")
                settled = http.ask("POST", "/messages/ack", {"receipts": [each["receipt"] for each in messages]})
                if settled["settled"] != len(messages):
                    raise Wrong(f"{settled['settled']} of {len(messages)} were acked")
                if any(each["value"] != VALUE for each in messages):
                    raise Wrong("a value came back as another")
                seen.update((each["partition"], each["offset"]) for each in messages)
        http.ask("POST", f"/groups/{group}/leave", {"member_id": joined["member_id"]}, 204)

    # One message at a time

    def single(self, http: HttpSocket, topic: str) -> float:
        request = http.request(
            "POST", f"/topics/{topic}/messages?acks=leader", orjson.dumps({"messages": [{"value": VALUE}]})
        )

        def once() -> None:
            http.send(request)
            [result] = http.expect()["results"]
            if type(result["offset"]) is not int:
                raise Wrong(f"a publish was not confirmed: {result}")

        return self._median_ms(once)

    async def single_on_websocket(self, topic: str) -> float:
        times = []
        async with goqueue.connect(self.broker.url) as client, client.producer(topic, acks="leader") as producer:
            for _ in range(self.sizes.singles):
                begin = time.perf_counter()
                published = await producer.send(VALUE.encode())
                times.append(time.perf_counter() - begin)
                assert published.offset is not None
        return statistics.median(times) * 1_000

    def _median_ms(self, once: Callable[[], None]) -> float:
        times = []
        for _ in range(self.sizes.singles):
            begin = time.perf_counter()
            once()
            times.append(time.perf_counter() - begin)
        return statistics.median(times) * 1_000

    # Long polls

    def open_polls(self, http: HttpSocket) -> float:
        """The part of a core that polls take which wait for messages that do not come."""
        count = self.sizes.polls
        http.ask("POST", "/topics", {"name": "quiet", "partitions": 10}, 201)
        with ExitStack() as stack:
            for number in range(count):
                group = f"quiet-{number % 30}"
                connection = stack.enter_context(HttpSocket(self.broker.http))
                joined = connection.ask("POST", f"/groups/{group}/join", {"topics": ["quiet"]})
                member = joined["member_id"]
                connection.send(
                    connection.request("GET", f"/groups/{group}/poll?member_id={member}&timeout={POLL_SECONDS}")
                )
            time.sleep(self.sizes.idle_seconds / 3)  # groups settle
            cpu, begin = self.broker.cpu_seconds(), time.perf_counter()
            time.sleep(self.sizes.idle_seconds)
            share = (self.broker.cpu_seconds() - cpu) / (time.perf_counter() - begin)
            open_now = http.ask("GET", "/stats")["groups.members"]
            if open_now < count:
                raise Wrong(f"{open_now} of {count} members are still there")
        return share

    # Metrics

    async def prepare_groups(self) -> None:
        """Many partitions, and groups that have been at each of them."""
        sizes = self.sizes
        async with goqueue.connect(self.broker.url) as client:
            per_topic = max(1, sizes.partitions // sizes.groups)
            for number in range(sizes.groups):
                topic = f"wide-{number}"
                await client.create_topic(topic, partitions=per_topic)
                async with client.producer(topic, acks="leader") as producer:
                    for partition in range(per_topic):
                        await producer.send(b"v", partition=partition)
                async with client.consumer(topic, group=f"group-{number}") as consumer:
                    taken = 0
                    while taken < per_topic:
                        messages = await consumer.receive(timeout=30)
                        if not messages:
                            raise Wrong(f"group-{number} was given {taken} of {per_topic} messages")
                        await consumer.ack(messages)
                        taken += len(messages)

    def scrape(self, http: HttpSocket) -> tuple[float, int]:
        """Milliseconds of the broker's work for `/metrics`, and how many lines that has."""
        http.send(request := http.request("GET", "/metrics"))
        http.receive()
        cpu, lines = self.broker.cpu_seconds(), 0
        for _ in range(self.sizes.scrapes):
            http.send(request)
            status, body = http.receive()
            if status != 200:
                raise Wrong(f"status {status} of /metrics")
            lines = body.count(b"\n")
        return (self.broker.cpu_seconds() - cpu) * 1_000 / self.sizes.scrapes, lines


def stalls(http: HttpSocket) -> int:
    found: int = http.ask("GET", "/stats")["loop.stalls_20_ms"]
    return found


def measure(folder: Path, size: Size, tell: Tell) -> list[Figure]:
    sizes = SIZES[size]
    large, small, polled = Measured(), Measured(), Measured()
    http_ms, websocket_ms = list[float](), list[float]()
    with broker_process(str(folder / "load")) as broker, ExitStack() as stack:
        bench = HttpBench(broker, sizes)
        sockets = [stack.enter_context(HttpSocket(broker.http)) for _ in range(CONNECTIONS)]
        http = sockets[0]
        for number in range(-1, sizes.runs):  # the first round warms up
            topic = f"run-{number}"
            http.ask("POST", "/topics", {"name": topic, "partitions": 1}, 201)
            warm = number < 0
            tell(f"round {number + 1}: publish")
            bench.publish(sockets, topic, LARGE, Measured() if warm else large)
            bench.publish(sockets, topic, SMALL, Measured() if warm else small)
            count = sizes.messages // LARGE * LARGE
            tell(f"round {number + 1}: poll and ack")
            bench.poll_and_ack(http, topic, "readers", count, Measured() if warm else polled)
            tell(f"round {number + 1}: one at a time")
            one, other = bench.single(http, topic), trio.run(bench.single_on_websocket, topic)
            if not warm:
                http_ms.append(one)
                websocket_ms.append(other)
        under_load = stalls(http)
    with broker_process(str(folder / "idle")) as broker, HttpSocket(broker.http) as http:
        bench = HttpBench(broker, sizes)
        tell("open polls")
        share = bench.open_polls(http)
    with broker_process(str(folder / "wide")) as broker, HttpSocket(broker.http) as http:
        bench = HttpBench(broker, sizes)
        tell("many partitions and groups")
        trio.run(bench.prepare_groups)
        before = stalls(http)
        tell("metrics")
        work, lines = bench.scrape(http)
        of_metrics = stalls(http) - before
    ratio = statistics.median(one / other for one, other in zip(http_ms, websocket_ms, strict=True))
    return [
        Figure("publish, 1,000 a request", large.rate, "messages/s", "≥ 150,000", large.rate >= 150_000),
        Figure("publish, 1,000 a request, a second of broker core", large.per_core, "messages"),
        Figure("publish, 100 a request", small.rate, "messages/s"),
        Figure(
            "publish, 100 a request, a second of broker core",
            *(small.per_core, "messages", "≥ 60,000", small.per_core >= 60_000),
        ),
        Figure("poll and ack, 500 at a time", polled.rate, "messages/s", "≥ 80,000", polled.rate >= 80_000),
        Figure("stalls of the event loop above 20 ms meanwhile", under_load, "", "0", under_load == 0),
        Figure("single publish over HTTP, p50", statistics.median(http_ms), "ms"),
        Figure("single publish over a websocket, p50", statistics.median(websocket_ms), "ms"),
        Figure("single publish: HTTP / websocket", ratio, "×", "≤ 2.5", ratio <= 2.5),
        Figure(f"{sizes.polls} open polls", 100 * share, "% of a core", "< 5", share < 0.05),
        Figure(f"metrics of {sizes.partitions:,} partitions, {sizes.groups} groups", work, "ms", "< 50", work < 50),
        Figure("lines of these metrics", lines, ""),
        Figure("stalls of the event loop above 20 ms by metrics", of_metrics, "", "0", of_metrics == 0),
    ]


def main(arguments: list[str] | None = None) -> int:
    return run("http", __doc__ or "", "HTTP: 100-byte values, one client", measure, arguments)


if __name__ == "__main__":
    sys.exit(main())
