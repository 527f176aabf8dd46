"""Counters never fall while the process lives, whatever crashes, restarts, is reopened, deleted or made again."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import fields, is_dataclass
from random import Random
from typing import Any, TypeAlias

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from goqueue.actors.delays.requests import CancelDelayed, MoveDelayed
from goqueue.actors.front.connection import Common
from goqueue.actors.groups.requests import FindGroup
from goqueue.actors.node.broker import Broker
from goqueue.actors.partition.board import board_of
from goqueue.actors.partition.requests import DeleteBefore
from goqueue.actors.runtime.messages import Request
from goqueue.actors.runtime.ref import ActorRef
from goqueue.actors.statistics.statistics import TopicCounts
from goqueue.core.histogram import Histogram
from goqueue.core.ledger.settlements import Action
from goqueue.core.records.record import DELAY_BIT
from goqueue.errors import ActorDied, GoQueueError
from goqueue.net.wire import groups as wire
from goqueue.net.wire import messages
from goqueue.storage.slices import Slices
from goqueue.testing.disk import SimulatedDisk
from goqueue.types import Priority
from tests.actors.delivery.gatherers import broker
from tests.actors.front.bareclient import BareClient
from tests.actors.front.connectionstage import connected
from tests.actors.groups.groupworld import partition_of
from tests.actors.groups.test_why import delayed
from tests.actors.partition.test_partition import publish
from tests.net import bodies

TOPICS, GROUPS = ("orders", "bills"), ("billing", "audit")
NO_TOPICS = TopicCounts(0, 0, 0, 0, 0)
GAUGES = ("pending", "delay.pending", "delay.lateness", "groups.members", "groups.bytes_kept")
COUNTED = ("published.", "delivered.", "settled.", "dead_letters", "groups.", "delay.", "restarts")
ACTIONS = (Action.ACK, Action.NACK, Action.REJECT, Action.RELEASE)
Figures: TypeAlias = dict[tuple[str, ...], int]


class Nonsense(Request[None]):
    """No actor has a method for it: it crashes."""


class Machine:
    """A broker with two topics and two groups, which come and go, and the highest value of each counter so far."""

    def __init__(self, running: Broker, client: BareClient) -> None:
        self.running = running
        self.client = client
        self.highest: Figures = {}
        self.deliveries: list[tuple[str, wire.SettleDelivery]] = []

    # What happens

    async def publish(self, topic: str, _group: str) -> None:
        await (await self._partition(topic)).call(publish(b"a", b"b", b"c"))

    async def delay(self, topic: str, _group: str) -> None:
        await (await self._partition(topic)).call(delayed(0.5, 0.5, 60, 60))

    async def cancel(self, topic: str, _group: str) -> None:
        """The last message, if it is delayed; the one before gets another time."""
        ref = await self._partition(topic)
        end = (await board_of(ref)).log.end_offset
        await ref.call(CancelDelayed(end - 1))
        await ref.call(MoveDelayed(end - 2, DELAY_BIT | 90_000_000))

    async def join(self, topic: str, group: str) -> None:
        settings: dict[str, Any] = {"max_deliveries": 2}
        await self.client.ask(bodies.join(group, "ann", "client", (topic,), settings, "earliest", 600_000, True))

    async def receive(self, topic: str, group: str) -> None:
        """Leases of a second: most end before they are settled."""
        member = await self.client.ask(bodies.join(group, "ann", "client", (topic,), {}, "earliest", 600_000, True))
        assert isinstance(member, wire.Membership)
        places = [wire.ReceivePartition(each.uuid, each.partition) for each in member.assignment]
        asked = bodies.receive(group, "ann", member.generation, 0, 2, 1_000_000, 1_000, False, places)
        answer = await self.client.ask(asked)
        assert isinstance(answer, wire.Received)
        for place, delivery in zip(places, answer.partitions, strict=True):
            action = int(ACTIONS[len(self.deliveries) % len(ACTIONS)])
            settled = bodies.settle(place.topic, place.partition, delivery.nonce, action, delivery.runs)
            self.deliveries.append((group, settled))

    async def settle(self, _topic: str, _group: str) -> None:
        """What was received last, and what was received before, whose receipts are stale by now."""
        for group, delivery in self.deliveries[-2:]:
            await self.client.ask(wire.Settle(group, (delivery,)))

    async def purge(self, topic: str, _group: str) -> None:
        await (await self._partition(topic)).call(DeleteBefore(None))

    async def wait(self, _topic: str, _group: str) -> None:
        await trio.sleep(2)

    async def crash_partition(self, topic: str, _group: str) -> None:
        await self._crash(await self._partition(topic))

    async def crash_group(self, _topic: str, group: str) -> None:
        await self._crash(await self.running.groups.call(FindGroup(group)))

    async def crash_topics(self, _topic: str, _group: str) -> None:
        await self._crash(self.running.topics)

    async def crash_groups(self, _topic: str, _group: str) -> None:
        await self._crash(self.running.groups)

    async def make(self, topic: str, _group: str) -> None:
        await self.client.ask(messages.CreateTopic(topic, 1, {}, None))

    async def delete_topic(self, topic: str, _group: str) -> None:
        await self.client.ask(messages.DeleteTopic(topic, None))
        self._forget("topic", topic)

    async def delete_group(self, _topic: str, group: str) -> None:
        await self.client.ask(bodies.leave(group, "ann"))
        await self.client.ask(wire.DeleteGroup(group))
        self._forget("group", group)

    async def _partition(self, topic: str) -> ActorRef:
        return await partition_of(self.running, topic)

    async def _crash(self, ref: ActorRef) -> None:
        """With a pause: too many restarts in a short time end the node."""
        with pytest.raises(ActorDied):
            await ref.call(Nonsense())
        await self.look()
        await trio.sleep(6)

    def _forget(self, *series: str) -> None:
        self.highest = {name: value for name, value in self.highest.items() if name[:2] != series}

    # What is counted

    async def look(self) -> None:
        """Compare each counter with what it was before."""
        now = dict(await self._figures())
        for name, before in self.highest.items():
            assert now.get(name, 0) >= before, f"{name} fell from {before} to {now.get(name)}"
        self.highest |= now

    async def _figures(self) -> Figures:
        counted, slices = self.running.statistics, Slices()
        found: Figures = {}
        for topic, series in (await counted.by_topic(slices)).items():
            found |= _flat(("topic", topic), series)
        for group, of_group in counted.by_group().items():
            found |= _flat(("group", group), of_group)
        report = await counted.report(NO_TOPICS, 0, {}, {}, slices)
        return found | _flat(
            ("total",), {name: value for name, value in report.items() if name.startswith(COUNTED)}
        )


def _flat(above: tuple[str, ...], figures: Any) -> Figures:
    """Each number, with the way to it as its name."""
    found: Figures = {}
    for name, value in _items(figures):
        if name.startswith(GAUGES):
            continue
        found |= {(*above, name): value} if isinstance(value, int) else _flat((*above, name), value)
    return found


def _items(figures: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(figures, Histogram):
        figures = {"count": figures.count}
    elif is_dataclass(figures):
        figures = {field.name: getattr(figures, field.name) for field in fields(figures)}
    for name, value in figures.items() if isinstance(figures, dict) else enumerate(figures):
        yield str(name), value


STEPS: tuple[Callable[[Machine, str, str], Awaitable[None]], ...] = (
    Machine.publish,
    Machine.delay,
    Machine.cancel,
    Machine.join,
    Machine.receive,
    Machine.settle,
    Machine.purge,
    Machine.wait,
    Machine.crash_partition,
    Machine.crash_group,
    Machine.crash_topics,
    Machine.crash_groups,
    Machine.make,
    Machine.delete_topic,
    Machine.delete_group,
)
Step: TypeAlias = tuple[Callable[[Machine, str, str], Awaitable[None]], str, str]


async def went_through(steps: list[Step]) -> Figures:
    async with broker(SimulatedDisk(Random(0))) as running, trio.open_nursery() as nursery:
        client = connected(running, Common(), nursery)
        await client.greet()
        machine = Machine(running, client)
        for topic in TOPICS:
            await machine.make(topic, "")
        for step, topic, group in steps:
            with suppress(GoQueueError):  # there is no such topic or group just now, or it is there already
                await step(machine, topic, group)
            await machine.look()
        nursery.cancel_scope.cancel()
        return machine.highest


def run(steps: list[Step]) -> Figures:
    return trio.run(went_through, steps, clock=MockClock(autojump_threshold=0))


PLACES = st.tuples(st.sampled_from(STEPS), st.sampled_from(TOPICS), st.sampled_from(GROUPS))


@given(steps=st.lists(PLACES, max_size=40))
@settings(max_examples=30, deadline=None)
def test_no_counter_ever_falls(steps: list[Step]) -> None:
    run(steps)


def test_all_that_is_counted_goes_on_after_each_restart() -> None:
    """Each counter moves, so that a crash of any actor could let it fall."""
    received = [Machine.receive, Machine.settle, Machine.publish] * len(ACTIONS)
    delays = [Machine.delay, Machine.cancel, Machine.wait]
    again = [Machine.receive, Machine.wait, Machine.receive]
    once = [Machine.publish, *received, *again, *delays, Machine.publish, Machine.purge]
    crashes = [Machine.crash_partition, Machine.crash_group, Machine.crash_topics, Machine.crash_groups]
    steps = [*once, *(each for crash in crashes for each in (crash, *once))]
    found = run([(step, "orders", "billing") for step in steps])
    still = {name for name, value in found.items() if not value and name[:2] in SERIES and "served" not in name}
    assert still == set()
    assert found["group", "billing", "served", str(int(Priority.NORMAL))] > 0


SERIES = (("topic", "orders"), ("group", "billing"))
