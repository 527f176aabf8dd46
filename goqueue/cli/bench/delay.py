"""The work of `goqueue bench delay`: messages are due one after the other, and each is read when it comes."""

from collections.abc import Callable
from dataclasses import dataclass

import click
import trio

from goqueue.cli.bench.times import Times
from goqueue.cli.bench.work import NUMBER_SIZE, SETTLE_SECONDS_MAX, Advance, Cost, Load, measured
from goqueue.client.client import Client
from goqueue.nursery import PlainNursery

LEAD_SECONDS_MIN = 1.0
PUBLISHED_PER_SECOND = 20_000
"""A rate at which messages are surely published: the first is due after all are published at this rate."""
_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class DelayRun:
    publishing: Cost
    lateness: Times
    """From when a message was due until the reader had it."""
    early: int


async def measure_delays(client: Client, topic: str, load: Load, rate: float, advance: Advance) -> DelayRun:
    """`rate` messages are due in each second, and neighbours in the log are not due together."""
    begin = client.clock.now() + round(max(LEAD_SECONDS_MIN, load.count / PUBLISHED_PER_SECOND) * _MILLION)
    dues = [begin + round(number / rate * _MILLION) for number in _shuffled(load.count)]
    late, early = Times(), Times()

    def note(microseconds: int) -> None:
        (late if microseconds >= 0 else early).note(abs(microseconds) / _MILLION)
        advance(1)

    async with PlainNursery() as nursery:
        nursery.start_soon(_read, client, topic, load.count, note)
        with measured() as cost:
            await _publish(client, topic, load, dues)
        if client.clock.now() > begin:
            raise click.ClickException("the first was due before the last was published; try a smaller --count")
        nursery.cancel_scope.deadline = trio.current_time() + (max(dues) - begin) / _MILLION + SETTLE_SECONDS_MAX
    if late.count + early.count != load.count:
        raise click.ClickException(f"{load.count:,} messages were published and {late.count + early.count:,} came")
    return DelayRun(cost, late, early.count)


def _shuffled(count: int) -> list[int]:
    """Each number once, in an order that is the same in every run."""
    step = next(each for each in (7_919, 104_729, 1_299_709) if count % each)
    return [number * step % count for number in range(count)]


async def _publish(client: Client, topic: str, load: Load, dues: list[int]) -> None:
    padding, left = bytes(load.size - NUMBER_SIZE), iter(dues)
    async with client.producer(topic, acks=load.acks) as producer, PlainNursery() as nursery:

        async def work() -> None:
            for due in left:
                value = due.to_bytes(NUMBER_SIZE, "big") + padding
                await producer.send(value, deliver_at=due / _MILLION)

        for _ in range(min(load.producers, load.count)):
            nursery.start_soon(work)


async def _read(client: Client, topic: str, count: int, note: Callable[[int], None]) -> None:
    """Call `note` with the lateness of each message, in microseconds."""
    async with client.read(topic) as messages:
        async for message in messages:
            note(client.clock.now() - int.from_bytes(message.value[:NUMBER_SIZE], "big"))
            count -= 1
            if not count:
                return
