"""A broker with groups on a simulated disk, and a consumer of a few words."""

from dataclasses import dataclass

import trio

from goqueue.actors.delivery.requests import SettleRuns, Take, Taken
from goqueue.actors.groups.board import found_board
from goqueue.actors.groups.requests import FindGroup, Join
from goqueue.actors.node.broker import Broker
from goqueue.actors.partition.requests import Fetch
from goqueue.actors.runtime.ref import ActorRef
from goqueue.actors.topics.board import described_topics
from goqueue.actors.topics.requests import CreateTopic, FindPartition, TopicView
from goqueue.core.groups.subscription import Subscription
from goqueue.core.groups.views import DescribedGroup, MemberState
from goqueue.core.ledger.settlements import Action
from goqueue.core.records.record import Record
from goqueue.errors import UnknownTopic
from goqueue.storage.slices import Slices
from tests.storage.logs import records_in


@dataclass
class Consumer:
    """A member of a group that takes from one partition and settles there."""

    broker: Broker
    held: MemberState
    group: str

    async def take(
        self, topic: str, number: int = 0, count: int = 100, visibility: float = 30.0, *, tells_begun: bool = False
    ) -> Taken:
        ref = await partition_of(self.broker, topic, number)
        message = Take(
            self.group,
            self.held.member,
            self.held.generation,
            count,
            1_000_000,
            visibility,
            is_busy=False,
            tells_begun=tells_begun,
        )
        return await ref.call(message)

    async def settle(self, topic: str, number: int, taken: Taken, action: Action, reason: str = "") -> None:
        ref = await partition_of(self.broker, topic, number)
        stale = await ref.call(SettleRuns(self.group, taken.nonce, action, taken.runs, reason=reason))
        assert stale == ()


async def consumer(
    broker: Broker, *topics: str, group: str = "billing", member: str = "ann", max_deliveries: int = 3
) -> Consumer:
    ref = await broker.groups.call(FindGroup(group, create=True))
    subscription = Subscription.to(list(topics) if len(topics) > 1 else topics[0])
    join = Join(member, "client", subscription, {"max_deliveries": max_deliveries}, "earliest", 600.0, True, 1)
    return Consumer(broker, await ref.call(join), group)


async def partition_of(broker: Broker, topic: str, number: int = 0) -> ActorRef:
    [view] = await described_topics(broker.topics, (topic,))
    return await broker.topics.call(FindPartition(view.uuid, number))


async def create(broker: Broker, name: str, partitions: int = 1) -> TopicView:
    return await broker.topics.call(CreateTopic(name, partitions, {}))


async def records(broker: Broker, topic: str, number: int = 0) -> list[Record]:
    """All that readers see; nothing where there is no topic."""
    try:
        ref = await partition_of(broker, topic, number)
    except UnknownTopic:
        return []
    found, offset = list[Record](), 0
    while True:
        slice_ = await ref.call(Fetch(offset, 1_000_000))
        if slice_.next_offset == offset:
            return found
        found += records_in(slice_.data)
        offset = slice_.next_offset


async def described(broker: Broker, group: str = "billing") -> DescribedGroup:
    return await (await found_board(broker.groups, group)).describe(Slices())


async def patience(seconds: float = 3.0) -> None:
    """For what happens beside the calls."""
    await trio.sleep(seconds)
