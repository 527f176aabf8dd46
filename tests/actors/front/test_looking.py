"""Looking costs nothing: figures and descriptions are read from boards, and no actor gets a message for them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from goqueue.actors.front.connection import Common
from goqueue.actors.groups.board import groups_board
from goqueue.actors.groups.requests import FindGroup
from goqueue.actors.node.broker import Broker
from goqueue.actors.runtime.messages import Request
from goqueue.actors.runtime.ref import ActorRef
from goqueue.actors.topics import board as topicsboard
from goqueue.actors.topics.board import described_topics
from goqueue.core.ledger.settlements import Action
from goqueue.errors import TooLarge, UnknownTopic
from goqueue.net.wire import groups as groupwire
from goqueue.net.wire import kinds
from goqueue.net.wire import messages as wire
from goqueue.testing.disk import SimulatedDisk
from goqueue.types import Acks
from tests.actors.delivery.gatherers import broker
from tests.actors.front.bareclient import BareClient
from tests.actors.front.connectionstage import connected
from tests.actors.groups.groupworld import consumer, create, partition_of
from tests.actors.groups.test_why import delayed
from tests.actors.partition.test_partition import publish
from tests.net import bodies

LOOKS: tuple[kinds.Request, ...] = (
    wire.Stats(),
    wire.DescribeTopics(None),
    wire.DescribeTopics(("orders",)),
    groupwire.DescribeGroups(None),
    groupwire.DescribeGroups(("billing",)),
    groupwire.Why("billing"),
    groupwire.Why("billing", "ann"),
    wire.CheckHealth(),
)


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(Random(0))


@dataclass
class Watched:
    """A broker, a client of it, and the actors that others could call for what they want to know."""

    broker: Broker
    client: BareClient
    actors: list[ActorRef]

    def letters(self) -> dict[str, int]:
        """How many each has got so far."""
        return {each.name: each.counts.handled + each.counts.depth for each in self.actors}


@asynccontextmanager
async def watched(disk: SimulatedDisk) -> AsyncIterator[Watched]:
    """Three partitions with messages, some of them delayed; one group at rest, another with work in hand."""
    async with broker(disk) as running, trio.open_nursery() as nursery:
        await create(running, "orders", 3)
        partitions = [await partition_of(running, "orders", number) for number in range(3)]
        for ref in partitions:
            await ref.call(publish(b"a", b"b", b"c"))
        billing, audit = await consumer(running, "orders"), await consumer(running, "orders", group="audit")
        for number in range(3):
            await audit.settle("orders", number, await audit.take("orders", number), Action.ACK)
        await billing.take("orders", 0, count=2)
        await partitions[2].call(delayed(600))
        groups = [await running.groups.call(FindGroup(name)) for name in ("billing", "audit")]
        client = connected(running, Common(), nursery)
        await client.greet()
        await wait_all_tasks_blocked()
        yield Watched(running, client, [running.topics, running.groups, *partitions, *groups])
        nursery.cancel_scope.cancel()


async def test_whoever_looks_sends_no_actor_a_message(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with watched(disk) as there:
        for look in LOOKS:
            before = there.letters()
            assert await there.client.ask(look)
            assert there.letters() == before, f"{type(look).__name__} calls an actor"


@pytest.mark.parametrize("acks", [Acks.LEADER, Acks.ALL])
async def test_the_end_of_a_partition_is_right_as_soon_as_a_publish_is_confirmed(
    disk: SimulatedDisk, autojump_clock: MockClock, acks: Acks
) -> None:
    async with broker(disk) as running:
        await create(running, "orders", 1)
        ref = await partition_of(running, "orders")
        for count in range(1, 20):
            await ref.call(publish(b"a", acks=acks))
            [topic] = await described_topics(running.topics)
            assert topic.partitions[0].end == count


class Nonsense(Request[None]):
    """No actor has a method for it: it crashes."""


@pytest.mark.parametrize("at", range(5))
async def test_what_is_being_started_is_waited_for_without_a_message(
    disk: SimulatedDisk, autojump_clock: MockClock, at: int
) -> None:
    """Each partition and each group crashes once; whoever looks meanwhile is told as usual."""
    async with watched(disk) as there:
        expected = [await there.client.ask(look) for look in LOOKS[1:4]]
        crashing = there.actors[2 + at]
        crashing.cast(Nonsense())
        told = [await there.client.ask(look) for look in LOOKS[1:4]]
        assert crashing.restarts == 1
        assert [type(each) for each in told] == [type(each) for each in expected]
        assert _ends(told[0]) == _ends(expected[0])


def _ends(answer: object) -> list[int]:
    assert isinstance(answer, wire.Topics)
    return [partition.end for topic in answer.topics for partition in topic.partitions]


async def test_a_topic_is_shown_once_it_is_made_and_until_it_is_deleted(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with broker(disk) as running, trio.open_nursery() as nursery:
        shown: list[int] = []

        async def look() -> None:
            while True:
                shown.extend(len(each.partitions) for each in await described_topics(running.topics))
                await trio.sleep(0.0001)

        nursery.start_soon(look)
        await create(running, "orders", 50)
        nursery.cancel_scope.cancel()
    assert set(shown) <= {50}, "half of it is never seen"


async def test_a_topic_that_is_being_created_is_waited_for(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    """A producer that opens meanwhile is not told that there is none."""
    async with broker(disk) as running, trio.open_nursery() as nursery:
        nursery.start_soon(create, running, "orders", 5)
        while running.topics.is_idle:
            await trio.lowlevel.checkpoint()
        [topic] = await described_topics(running.topics, ("orders",))
        assert len(topic.partitions) == 5
        with pytest.raises(UnknownTopic):
            await described_topics(running.topics, ("nothing",))


async def test_a_group_that_was_deleted_is_not_shown(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with watched(disk) as there:
        await there.client.ask(bodies.leave("audit", "ann", 0))
        await there.client.ask(groupwire.DeleteGroup("audit"))
        assert list((await groups_board(there.broker.groups)).refs()) == ["billing"]


async def test_a_topic_is_described_once_and_an_answer_has_a_bound(
    disk: SimulatedDisk, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G14: a request of a few bytes must not cost gigabytes."""
    async with broker(disk) as running:
        await create(running, "orders", 3)
        await create(running, "invoices", 3)
        [topic] = await described_topics(running.topics, ("orders",) * 1_000)
        assert topic.name == "orders"
        monkeypatch.setattr(topicsboard, "PARTITIONS_SHOWN_MAX", 5)
        for names in (None, ("orders", "invoices")):
            with pytest.raises(TooLarge, match="ask for fewer by name"):
                await described_topics(running.topics, names)
        assert await described_topics(running.topics, ("orders",))
