"""How long a publish takes at half of the peak rate.

Arrivals are due at fixed times and begin then, whatever became of those before; times count from when an arrival
was due. A stall is so felt by all that should have happened in it: there is no coordinated omission.

What the generator holds when it begins is set apart from Python's garbage collector.
"""

import statistics
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import trio
from trio_websocket import open_websocket_url

import goqueue
from benchmarks.calm import calmest
from benchmarks.figures import Figure, timed
from benchmarks.garbage import heap_set_apart
from benchmarks.publish import echo_process
from goqueue.cli.bench.times import Times

VALUE = bytes(100)
TICK_SECONDS = 0.001
"""Between two looks at what is due: the generator's own work would else be a good part of the load."""
P99_MS_MAX = 10.0
ECHOES_PER_SECOND = 500

Call = Callable[[], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Arrival:
    """What arrives: a call of `send`, or of `send_many` with a batch; and how many at a time are the peak."""

    name: str
    messages: int
    at_a_time: int

    def call(self, producer: goqueue.Producer) -> Call:
        if self.messages == 1:
            return partial(producer.send, VALUE)
        return partial(producer.send_many, [VALUE] * self.messages)


ARRIVALS = [Arrival("single sends", 1, 500), Arrival("send_many of 100", 100, 16)]


async def measure_latencies(url: str, rounds: int, seconds: float) -> list[Figure]:
    with heap_set_apart():
        yardstick = await _yardstick(seconds)
        figures = [yardstick]
        for arrival in ARRIVALS:
            for acks in ("leader", "all"):
                figures += await _latency(url, arrival, acks, rounds, seconds)
    return figures if yardstick.value < P99_MS_MAX else [_not_judged(figure) for figure in figures]


def _not_judged(figure: Figure) -> Figure:
    """Where a bare echo misses the goal, nobody can meet it: the machine is too busy for a verdict."""
    if figure.met is None:
        return figure
    return replace(figure, goal=f"{figure.goal} (not judged: the bare echo is above it)", met=None)


async def _yardstick(seconds: float) -> Figure:
    """A bare websocket echo, at a low rate: what the machine itself adds to a tail in this hour."""
    times = Times()
    with echo_process() as url:
        async with open_websocket_url(url) as socket:
            begin = trio.current_time()
            for number in range(round(ECHOES_PER_SECOND * seconds)):
                due = begin + number / ECHOES_PER_SECOND
                await trio.sleep_until(due)
                await socket.send_message(VALUE)
                assert await socket.get_message() == VALUE
                times.note(trio.current_time() - due)
    return Figure(f"bare websocket echo, {ECHOES_PER_SECOND:,}/s: p99", times.quantile(0.99) * 1_000, "ms")


@dataclass(frozen=True, slots=True)
class Round:
    peak: float
    times: Times


async def _latency(url: str, arrival: Arrival, acks: str, rounds: int, seconds: float) -> list[Figure]:
    """Medians over the calmest rounds of one peak and one open loop each: the rate belongs to the same minute."""
    async with goqueue.connect(url) as client:
        topic = f"latency-{arrival.messages}-{acks}"
        await client.create_topic(topic, partitions=3)
        async with client.producer(topic, acks=acks) as producer:
            call = arrival.call(producer)
            await peak_rate(call, arrival.at_a_time, seconds / 4)
            found = await calmest(rounds, partial(_round, call, arrival, seconds))
        count = sum(each.end for each in (await client.topic(topic)).partitions)
        assert count % arrival.messages == 0
        await client.delete_topic(topic)
    name, p99 = f"{arrival.name}, acks={acks}", _median_ms(found, 0.99)
    return [
        Figure(f"{name}: peak", statistics.median(each.peak for each in found), "messages/s"),
        Figure(f"{name}: p50 at half of it", _median_ms(found, 0.5), "ms"),
        Figure(f"{name}: p99 at half of it", p99, "ms", f"< {P99_MS_MAX:g}", p99 < P99_MS_MAX),
    ]


async def _round(call: Call, arrival: Arrival, seconds: float) -> Round:
    peak = await peak_rate(call, arrival.at_a_time, seconds / 2)
    loop = OpenLoop(peak / 2, max(1, round(peak / 2 * seconds)), call)
    await loop.run()
    return Round(peak * arrival.messages, loop.times)


def _median_ms(rounds: Sequence[Round], share: float) -> float:
    return statistics.median(each.times.quantile(share) * 1_000 for each in rounds)


@dataclass
class OpenLoop:
    """Each turn begins all that are due by then, late by a tick at most, which counts as theirs."""

    rate: float
    count: int
    call: Call
    times: Times = field(default_factory=Times)

    async def run(self) -> None:
        begin, begun = trio.current_time(), 0
        async with trio.open_nursery() as nursery:
            while begun < self.count:
                due = min(self.count, int((trio.current_time() - begin) * self.rate) + 1)
                for number in range(begun, due):
                    nursery.start_soon(self._one, begin + number / self.rate)
                begun = due
                await trio.sleep_until(max(begin + begun / self.rate, self._next_tick(begin)))
        assert self.times.count == self.count

    def _next_tick(self, begin: float) -> float:
        return begin + (int((trio.current_time() - begin) / TICK_SECONDS) + 1) * TICK_SECONDS

    async def _one(self, due: float) -> None:
        await self.call()
        self.times.note(trio.current_time() - due)


async def peak_rate(call: Call, at_a_time: int, seconds: float) -> float:
    """Calls a second when so many at a time follow one another, each a task of its own as in the open loop."""
    done = 0

    async def one() -> None:
        nonlocal done
        await call()
        done += 1
        if trio.current_time() < deadline:
            nursery.start_soon(one)

    deadline = trio.current_time() + seconds
    with timed() as watch:
        async with trio.open_nursery() as nursery:
            for _ in range(at_a_time):
                nursery.start_soon(one)
    return done / watch.seconds
