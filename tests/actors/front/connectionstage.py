"""A connection, which is the real one, in front of groups and partitions that do what a test tells them."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from random import Random
from typing import Any, TypeAlias
from uuid import UUID

import trio

from goqueue.actors.deadletters.requests import LettersDecided, RedriveDeadLetters
from goqueue.actors.delivery import requests as partition
from goqueue.actors.delivery.board import LedgerBoard
from goqueue.actors.front.bounds import Bounds
from goqueue.actors.front.connection import Common, Connection
from goqueue.actors.groups import requests as ask
from goqueue.actors.groups.board import GroupBoard, GroupsBoard
from goqueue.actors.node.broker import Broker
from goqueue.actors.registry.board import SchemaBoard
from goqueue.actors.registry.rules import RULES
from goqueue.actors.runtime.actor import Actor
from goqueue.actors.runtime.child import ChildSpec
from goqueue.actors.runtime.handlers import answers, defers
from goqueue.actors.runtime.messages import Reply, Request
from goqueue.actors.runtime.ref import ActorRef
from goqueue.actors.runtime.root import running
from goqueue.actors.statistics.start import StartReport
from goqueue.actors.statistics.statistics import Statistics, TopicCounts
from goqueue.actors.topics.board import TopicsBoard
from goqueue.actors.topics.requests import FindPartition, FindPartitions
from goqueue.core.groups.views import (
    DescribedGroup,
    DescribedMember,
    DescribedPartition,
    MemberState,
    MovedOffset,
    OwnedPartition,
)
from goqueue.core.ledger.attempts import AttemptRun
from goqueue.core.slices.cachebudget import CacheBudget
from goqueue.core.topics.metadata import Metadata
from goqueue.environment import Environment, TcpNetwork
from goqueue.errors import GoQueueError, UnknownGroup, UnknownPartition
from goqueue.net.transport.transport import memory_transport_pair
from goqueue.net.wire.groups import ReceivePartition
from goqueue.storage.log.openlogs import RecoverySurvey
from goqueue.storage.log.volume import Volume
from goqueue.storage.slices import Slices
from goqueue.testing.clock import SimulatedClock
from goqueue.testing.disk import SimulatedDisk
from goqueue.types import Scalar
from tests.actors.front.bareclient import BareClient

TOPIC = bytes(range(16))
EMPTY = partition.Taken(0, (), b"", is_alone=False, alone_waits=False)
MEMBERSHIP = MemberState(
    "m", 3, {"mode": "queue"}, (OwnedPartition("orders", bytes(16), 1),), (OwnedPartition("orders", bytes(16), 2),)
)
PARTITION = DescribedPartition("orders", 0, None)

Settled: TypeAlias = tuple[AttemptRun, ...] | GoQueueError


def delivery(
    nonce: int,
    first: int,
    last: int,
    data: bytes = b"batch",
    *,
    attempt: int = 1,
    is_alone: bool = False,
    alone_waits: bool = False,
) -> partition.Taken:
    return partition.Taken(nonce, (AttemptRun(first, last, attempt),), data, is_alone, alone_waits)


class StagePartition(Actor):
    """Gives out what it was given, in order, and tells those who wait."""

    def __init__(self) -> None:
        self.asked: list[Request[Any]] = []
        self.stock: list[partition.Taken | GoQueueError] = []
        self.outcomes: list[Settled] = []
        """Of what is settled; without any it is all good."""
        self.waiting: list[Reply[None]] = []
        self.gate: trio.Event | None = None
        """Until it is open, nothing is taken or settled."""
        self.is_eager = False
        """Says that there is something when there is nothing."""
        self.slowness = 0.0
        """So many seconds a take takes."""
        self.unwanted = 0
        """Takes whose caller was gone."""

    def give(self, taken: partition.Taken | GoQueueError) -> None:
        self.stock.append(taken)
        for reply in self.waiting:
            reply.resolve(None)
        self.waiting.clear()

    @defers(partition.Take)
    async def take(self, message: partition.Take, reply: Reply[partition.Taken]) -> None:
        self.asked.append(message)
        await self._gate()
        await trio.sleep(self.slowness)
        taken = self.stock.pop(0) if self.stock else EMPTY
        if isinstance(taken, GoQueueError):
            raise taken
        self.unwanted += not reply.resolve(taken)

    @defers(partition.AwaitDeliverable)
    async def await_deliverable(self, message: partition.AwaitDeliverable, reply: Reply[None]) -> None:
        self.asked.append(message)
        if self.stock or self.is_eager:
            reply.resolve(None)
        else:
            self.waiting.append(reply)
            self.background(self._until, reply, message.deadline, endless=True)

    async def _until(self, reply: Reply[None], deadline: float) -> None:
        await trio.sleep_until(deadline)
        if reply in self.waiting:
            self.waiting.remove(reply)
            reply.resolve(None)

    @answers(partition.SettleRuns)
    async def settle_runs(self, message: partition.SettleRuns) -> tuple[AttemptRun, ...]:
        self.asked.append(message)
        await self._gate()
        outcome: Settled = self.outcomes.pop(0) if self.outcomes else ()
        if isinstance(outcome, GoQueueError):
            raise outcome
        return outcome

    @answers(partition.CommitOffset)
    async def commit_offset(self, message: partition.CommitOffset) -> None:
        self.asked.append(message)
        await self._gate()
        outcome: Settled = self.outcomes.pop(0) if self.outcomes else ()
        if isinstance(outcome, GoQueueError):
            raise outcome

    async def _gate(self) -> None:
        if self.gate is not None:
            await self.gate.wait()

    def takes(self) -> list[partition.Take]:
        return [each for each in self.asked if isinstance(each, partition.Take)]

    def settles(self) -> list[partition.SettleRuns]:
        return [each for each in self.asked if isinstance(each, partition.SettleRuns)]


class StageBoard(GroupBoard):
    """What a group on the stage shows."""

    def __init__(self, group: "StageGroup") -> None:
        self._group = group

    async def describe(self, slices: Slices) -> DescribedGroup:
        group = self._group
        partitions = group.described or (PARTITION,) * group.partitions
        return DescribedGroup(group.name, "stable", 3, group.settings, group.members, partitions)

    @property
    def places(self) -> int:
        return 1

    def lanes(self) -> Iterator[LedgerBoard]:
        yield StageLedgers(self._group)


class StageLedgers(LedgerBoard):
    """A partition on which the group has work."""

    def __init__(self, group: "StageGroup") -> None:
        self._group = group

    def has_work(self, group: str) -> bool:
        return True

    async def view(self, group: str) -> None:
        if self._group.gate is not None:
            await self._group.gate.wait()
        if self._group.refusal is not None:
            raise self._group.refusal


class StageGroup(Actor):
    """Answers heartbeats when told to, and writes down everything."""

    def __init__(self) -> None:
        self.heard: list[Request[Any]] = []
        self.refusal: GoQueueError | None = None
        self.waiting: list[Reply[MemberState]] = []
        self.gate: trio.Event | None = None
        """Until it is open, nobody joins."""
        self.settings: dict[str, Scalar] = {}
        self.partitions = 0
        self.described: tuple[DescribedPartition, ...] = ()
        self.members: tuple[DescribedMember, ...] = ()
        """How many it describes."""

    async def start(self) -> None:
        self.show(StageBoard(self))

    def heard_of(self, kind: type[Any]) -> list[Any]:
        return [each for each in self.heard if isinstance(each, kind)]

    def _note(self, message: Request[Any]) -> None:
        self.heard.append(message)
        if self.refusal is not None:
            raise self.refusal

    @answers(ask.Join)
    async def join(self, message: ask.Join) -> MemberState:
        self._note(message)
        if self.gate is not None:
            await self.gate.wait()
        return MEMBERSHIP

    @defers(ask.AwaitMembership)
    async def await_membership(self, message: ask.AwaitMembership, reply: Reply[MemberState]) -> None:
        self._note(message)
        self.waiting.append(reply)

    @answers(ask.Leave)
    async def leave(self, message: ask.Leave) -> None:
        self._note(message)

    @answers(ask.MemberLost)
    async def member_lost(self, message: ask.MemberLost) -> None:
        self._note(message)

    @answers(ask.Alter)
    async def alter(self, message: ask.Alter) -> None:
        self._note(message)
        self.settings = message.settings

    @answers(ask.ResetOffsets)
    async def reset(self, message: ask.ResetOffsets) -> tuple[MovedOffset, ...]:
        self._note(message)
        return (MovedOffset("orders", 0, 5, 0),)


class StageGroupsBoard(GroupsBoard):
    def refs(self) -> dict[str, ActorRef]:
        """With one that is gone when it is looked for."""
        return {**super().refs(), "gone-meanwhile": ChildSpec("gone-meanwhile", StageGroup).ref}


class StageGroups(Actor):
    def __init__(self, groups: dict[str, ActorRef]) -> None:
        self.groups = groups
        self.heard: list[Request[Any]] = []
        self.gate: trio.Event | None = None

    async def start(self) -> None:
        self.show(StageGroupsBoard(self.groups, ""))

    @answers(ask.FindGroup)
    async def find(self, message: ask.FindGroup) -> ActorRef:
        self.heard.append(message)
        if message.name not in self.groups:
            raise UnknownGroup(f"there is no group {message.name}")
        return self.groups[message.name]

    @answers(ask.RemoveGroup)
    async def remove(self, message: ask.RemoveGroup) -> None:
        self.heard.append(message)

    @defers(RedriveDeadLetters)
    async def redrive(self, message: RedriveDeadLetters, reply: Reply[LettersDecided]) -> None:
        self.heard.append(message)
        self.background(self._redrive, reply)

    async def _redrive(self, reply: Reply[LettersDecided]) -> None:
        if self.gate is not None:
            await self.gate.wait()
        reply.resolve(LettersDecided(7, 2, 9, 1, ""))


class StageTopics(Actor):
    def __init__(self, partitions: Sequence[ActorRef]) -> None:
        self._partitions = partitions
        self.nothing_found: GoQueueError | None = None
        """What it says when it is asked for many at once."""

    async def start(self) -> None:
        self.show(TopicsBoard(Metadata(), {}, (), ()))

    @answers(FindPartition)
    async def find_partition(self, message: FindPartition) -> ActorRef:
        found = self._find(message.topic, message.partition)
        if isinstance(found, GoQueueError):
            raise found
        return found

    @answers(FindPartitions)
    async def find_partitions(self, message: FindPartitions) -> tuple[ActorRef | GoQueueError, ...]:
        if self.nothing_found is not None:
            raise self.nothing_found
        return tuple(self._find(*place) for place in message.places)

    def _find(self, topic: UUID, number: int) -> ActorRef | GoQueueError:
        if topic != UUID(bytes=TOPIC) or number >= len(self._partitions):
            return UnknownPartition("there is no such partition")
        return self._partitions[number]


@dataclass
class Stage:
    client: BareClient
    broker: Broker
    partitions: list[StagePartition]
    group: StageGroup
    """Named g."""
    groups: StageGroups
    topics: StageTopics
    common: Common
    nursery: trio.Nursery

    @property
    def where(self) -> tuple[ReceivePartition, ...]:
        return tuple(ReceivePartition(TOPIC, number) for number in range(len(self.partitions)))


@asynccontextmanager
async def staged(partitions: int = 1, bounds: Bounds | None = None) -> AsyncIterator[Stage]:
    """A connection that has been greeted."""
    rows, group = [StagePartition() for _ in range(partitions)], StageGroup()
    async with AsyncExitStack() as stack:
        refs = [await stack.enter_async_context(alive(row, f"p{at}")) for at, row in enumerate(rows)]
        topics = StageTopics(refs)
        groups = StageGroups({"g": await stack.enter_async_context(alive(group, "g"))})
        disk = SimulatedDisk(Random(0))
        broker = Broker(
            environment=Environment(disk, TcpNetwork(), SimulatedClock(), Random(0)),
            topics=await stack.enter_async_context(alive(topics, "topics")),
            groups=(groups_ref := await stack.enter_async_context(alive(groups, "groups"))),
            dead_letters=groups_ref,
            registry=groups_ref,
            schemas=SchemaBoard(RULES),
            cluster=bytes(16),
            node="node-1",
            statistics=Statistics(Volume(disk), "/", CacheBudget()),
            start=StartReport("node-1", True, TopicCounts(0, 0, 0, 0, 0), RecoverySurvey(), 0.0),
        )
        common, nursery = Common(bounds), await stack.enter_async_context(trio.open_nursery())
        stage = Stage(connected(broker, common, nursery), broker, rows, group, groups, topics, common, nursery)
        await stage.client.greet()
        yield stage
        nursery.cancel_scope.cancel()


def connected(broker: Broker, common: Common, nursery: trio.Nursery) -> BareClient:
    ours, theirs = memory_transport_pair()
    connection = Connection(broker, theirs, common)
    nursery.start_soon(connection.run)
    return BareClient(ours, connection)


def alive(actor: Actor, name: str) -> Any:
    """It runs while the block does."""
    return running(ChildSpec(name, lambda: actor))
