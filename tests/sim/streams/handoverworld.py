"""A stream whose members come and go without any fault: no message goes to two of them (G10).

Nothing is cut, nobody dies, no lease or session ends. Only commits, and questions where to go on, are held on their
way, as by a partition that is busy. A seed decides who joins when, how long each works, and how it commits.

A program is done with a message once it has asked for more behind it (auto-commit), or has begun to commit it. From
then on nobody else may be handed the message. What was in work when a consumer closed comes again.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from random import Random
from typing import Any

import trio

import goqueue
from goqueue.testing import Machine
from tests.sim.disk.history import Violation
from tests.sim.groups.answers import burden

PARTITIONS = 3
MESSAGES = 40
"""Of each partition, published while members come and go."""
HELD_ODDS = 0.5
WORK_SECONDS = (0.0, 0.1, 0.5, 3.0)
AWAY_SECONDS = (0.0, 0.5, 3.0)
RUN_SECONDS = 40.0


@dataclass(slots=True)
class Handovers:
    """Who was handed what, and is done with it."""

    done: dict[tuple[int, int], str] = field(default_factory=dict)
    seen: set[tuple[int, int]] = field(default_factory=set)
    moves: int = 0
    """How often a member was asked to let go of a partition."""

    def hand(self, holder: str, messages: Sequence[Any]) -> None:
        for message in messages:
            place = (message.partition, message.offset)
            if place in self.done:
                raise Violation(f"G10: {place} is handed to {holder}, and {self.done[place]} was done with it")
            self.seen.add(place)

    def finish(self, holder: str, messages: Sequence[Any]) -> None:
        self.done |= {(message.partition, message.offset): holder for message in messages}

    def let_go(self, partitions: Sequence[Any]) -> None:
        self.moves += len(partitions)


class HandoverWorld:
    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._machine = Machine(seed)
        self.book = Handovers()

    def bug(self) -> AbstractContextManager[None]:
        """For those in which one is planted."""
        return nullcontext()

    async def run(self) -> None:
        with self.bug():
            async with self._machine.running(), self._machine.client("publisher") as client:
                await client.create_topic("orders", partitions=PARTITIONS)
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._publish, client)
                    for number in range(self._random.choice([2, 3, 4])):
                        nursery.start_soon(self._come_and_go, f"m{number}", Random(self._random.random()))
                await self._drain(client)

    async def _publish(self, client: goqueue.Client) -> None:
        for number in range(MESSAGES):
            for partition in range(PARTITIONS):
                await client.publish("orders", b"%d" % number, partition=partition)
            await trio.sleep(self._random.choice([0.0, 0.5, 1.0]))

    async def _come_and_go(self, name: str, random: Random) -> None:
        async with self._machine.client(name) as client:
            burden(client, random, HELD_ODDS)
            until = trio.current_time() + RUN_SECONDS
            while trio.current_time() < until:
                await trio.sleep(random.choice(AWAY_SECONDS))
                await self._work(client, name, random, auto_commits=random.random() < 0.5)

    async def _work(self, client: goqueue.Client, name: str, random: Random, *, auto_commits: bool) -> None:
        consumer = client.consumer(
            "orders", group="audit", mode="stream", auto_commit=auto_commits, on_revoked=self.book.let_go
        )
        async with consumer:
            messages: Sequence[Any] = ()
            for _ in range(random.randint(1, 12)):
                self.book.finish(name, messages)
                messages = await consumer.receive(random.choice([1, 3, 10]), timeout=1)
                self.book.hand(name, messages)
                await trio.sleep(random.choice(WORK_SECONDS))
                if not auto_commits:
                    self.book.finish(name, messages)
                    await self._commit(consumer, name)

    async def _commit(self, consumer: Any, name: str) -> None:
        try:
            await consumer.commit()
        except goqueue.StaleGeneration as error:
            raise Violation(f"§5: a commit of {name} is refused, and nothing went wrong: {error}") from error

    async def _drain(self, client: goqueue.Client) -> None:
        """G5: all that is left comes."""
        ends = {partition.number: partition.end for partition in (await client.topic("orders")).partitions}
        wanted = {(number, offset) for number, end in ends.items() for offset in range(end)}
        async with client.consumer("orders", group="audit", mode="stream") as consumer:
            while not wanted <= self.book.seen:
                messages = await consumer.receive(timeout=60)
                if not messages:
                    raise Violation(f"G5: nobody was handed {sorted(wanted - self.book.seen)}")
                self.book.hand("careful", messages)
