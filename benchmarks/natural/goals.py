"""What goqueue promises itself where each message is handled alone: ratios within one run, and costs."""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.figures import Figure
from benchmarks.natural.playing import Result

Results = Mapping[str, Result]
"""By the names of their rows."""

RATE, BROKER, P50 = "rate", "broker_us", "p50_ms"
DRAMATIQ_INCR = "Dramatiq: 1 process, 10 threads, one INCR"
PIKA = "pika: consume, basic_ack each, prefetch 500"
NATS_PULLS = "nats-py: pulls of 500, ack each, unconfirmed"
NATS_PUSHED = "nats-py: pushed, ack each, unconfirmed"
ONE_CONNECTION = "goqueue: send, acks=leader, 1 connection"
MANY_CONNECTIONS = "goqueue: send, acks=leader, 50 connections"


@dataclass(frozen=True, slots=True)
class Ratio:
    name: str
    ours: str
    theirs: tuple[str, ...]
    """The best of those that ran."""
    of: str = RATE
    at_least: float | None = None
    at_most: float | None = None

    def figure(self, results: Results) -> Figure | None:
        theirs = [results[name] for name in self.theirs if name in results]
        if self.ours not in results or not theirs:
            return None
        best = max if self.of == RATE else min
        rounds = zip(*(each.values(self.of) for each in theirs), strict=True)
        others = [best(found) for found in rounds if None not in found]
        ratios = [one / two for one, two in zip(results[self.ours].values(self.of), others, strict=True)]
        return _judged(self.name, statistics.median(ratios), "×", self.at_least, self.at_most)


@dataclass(frozen=True, slots=True)
class Cost:
    name: str
    row: str
    at_most: float

    def figure(self, results: Results) -> Figure | None:
        found = results[self.row].median(BROKER) if self.row in results else None
        return None if found is None else _judged(self.name, found, "µs CPU/message", None, self.at_most)


def _judged(name: str, value: float, unit: str, at_least: float | None, at_most: float | None) -> Figure:
    if at_least is not None:
        return Figure(name, value, unit, f"≥ {at_least:g}", value >= at_least)
    if at_most is not None:
        return Figure(name, value, unit, f"≤ {at_most:g}", value <= at_most)
    return Figure(name, value, unit)


GOALS: list[Ratio | Cost] = [
    Ratio(
        "worker, ten threads, one INCR / Dramatiq",
        "goqueue.blocking: worker, 10 threads, one INCR",
        (DRAMATIQ_INCR,),
        at_least=1.5,
    ),
    Ratio(
        "async for with unconfirmed acks on Trio / the better of pika and nats-py",
        "goqueue: async for, await ack, unconfirmed",
        (PIKA, NATS_PULLS, NATS_PUSHED),
        at_least=1.0,
    ),
    Ratio(
        "async for with unconfirmed acks on asyncio / the better of pika and nats-py",
        "goqueue.aio: async for, await ack, unconfirmed",
        (PIKA, NATS_PULLS, NATS_PUSHED),
    ),
    Ratio(
        "blocking send, acks=leader / Dramatiq's enqueue",
        "goqueue.blocking: send, acks=leader",
        ("Dramatiq: .send",),
        at_least=0.7,
    ),
    Cost("broker's processor time of a publish, 50 connections", MANY_CONNECTIONS, 70),
    Cost("broker's processor time to receive one and ack it", "goqueue: receive(max_messages=1), ack", 400),
    Ratio(
        "single publish, acks=leader, p50 / nats-py",
        ONE_CONNECTION,
        ("nats-py: js.publish, 1 connection",),
        P50,
        at_most=1.4,
    ),
]


def goals_of(results: list[Result]) -> list[Figure]:
    """Those for which both sides ran."""
    by_name = {result.row.name: result for result in results}
    return [figure for goal in GOALS if (figure := goal.figure(by_name)) is not None]
