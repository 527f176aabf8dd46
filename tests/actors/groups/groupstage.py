"""Groups on a stage: real groups and their register, among topics and partitions that write down what they hear."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any, cast
from uuid import UUID

import trio

from goqueue.actors.delivery.board import LedgerBoard
from goqueue.actors.delivery.requests import (
    AssignPartition,
    AttachGroup,
    ForgetGroup,
    LedgerHolder,
    LedgerView,
    ListLedgers,
    ResetLedger,
)
from goqueue.actors.groups.board import group_board, groups_board
from goqueue.actors.groups.groups import Groups
from goqueue.actors.groups.requests import AwaitMembership, FindGroup, Join
from goqueue.actors.metadata.metadata import MetadataOwner
from goqueue.actors.partition.board import PartitionBoard
from goqueue.actors.runtime.actor import Actor
from goqueue.actors.runtime.child import ChildSpec, supervised
from goqueue.actors.runtime.handlers import answers
from goqueue.actors.runtime.messages import Letter
from goqueue.actors.runtime.ref import ActorRef
from goqueue.actors.runtime.restarts import Strategy
from goqueue.actors.runtime.root import running
from goqueue.actors.runtime.supervisor import RemoveChildren, Supervisor
from goqueue.actors.topics.requests import (
    FindPartition,
    FindPartitions,
    OutlineTopics,
    TopicOutline,
    TopicsChanged,
    WatchTopics,
)
from goqueue.core.groups.subscription import Subscription
from goqueue.core.groups.views import DescribedGroup, MemberState
from goqueue.core.ledger.views import Progress
from goqueue.environment import Environment, TcpNetwork
from goqueue.errors import GoQueueError, UnknownTopic
from goqueue.storage.log.volume import Volume
from goqueue.storage.slices import Slices
from goqueue.testing.clock import SimulatedClock
from goqueue.testing.disk import SimulatedDisk
from tests.actors.runtime.troupe import Bug, add_child

Place = tuple[str, int]


@dataclass
class Script:
    """What the partitions do, and what they heard."""

    heard: list[tuple[Place, Any]] = field(default_factory=list)
    looks: list[Place] = field(default_factory=list)
    """The boards that were looked at for offsets."""
    refusing: dict[Place, GoQueueError] = field(default_factory=dict)
    hanging: set[Place] = field(default_factory=set)
    crashing: set[Place] = field(default_factory=set)
    committed: dict[Place, int] = field(default_factory=dict)
    ledgers: dict[Place, tuple[LedgerHolder, ...]] = field(default_factory=dict)
    """The groups that a partition says it has."""
    nothing_found: GoQueueError | None = None
    """What the topics' actor says when it is asked for partitions."""
    finding_hangs: bool = False

    def of(self, kind: type[Any]) -> list[tuple[Place, Any]]:
        return [(place, message) for place, message in self.heard if isinstance(message, kind)]

    def owner(self, topic: str, number: int) -> str | None:
        """Who may take from this partition, as far as it knows."""
        known = [
            m
            for place, m in self.heard
            if place == (topic, number) and isinstance(m, AttachGroup | AssignPartition)
        ]
        member: str | None = known[-1].member if known else None
        return member


class ScriptedBoard(LedgerBoard):
    def __init__(self, script: Script, place: Place) -> None:
        self._script = script
        self._place = place

    def at_rest(self, group: str) -> None:
        return None

    async def view(self, group: str) -> LedgerView:
        if self._place in self._script.hanging:
            await trio.sleep_forever()
        error = self._script.refusing.get(self._place)
        if error is not None:
            raise error
        committed = self._script.committed.get(self._place, 0)
        progress = Progress(committed, committed, 1, 2, 0, 3, 1, 5, None)
        return LedgerView(progress, 100, 100 - committed, 7)

    async def facts(self, group: str) -> None:
        return None

    def committed(self, group: str) -> int:
        self._script.looks.append(self._place)
        return self._script.committed.get(self._place, 0)

    def is_durable(self, group: str) -> bool:
        return True


class ScriptedPartition(Actor):
    def __init__(self, script: Script, place: Place) -> None:
        self._script = script
        self._place = place
        self._listeners: dict[str, ActorRef] = {}

    async def start(self) -> None:
        self.show(PartitionBoard(cast(Any, None), cast(Any, None), ScriptedBoard(self._script, self._place)))

    def close(self) -> None:
        self.show(None)

    async def handle_batch(self, batch: Sequence[Letter]) -> None:
        for letter in batch:
            if self._place in self._script.hanging:
                await trio.sleep_forever()
            if self._place in self._script.crashing:
                self._script.crashing.remove(self._place)
                raise Bug("crash")
            error = self._script.refusing.get(self._place)
            if error is not None:
                letter.reply.fail(error)
                continue
            self._script.heard.append((self._place, letter.message))
            letter.reply.resolve(self._answer(letter.message))

    def _answer(self, message: object) -> object:
        committed = self._script.committed.get(self._place, 0)
        if isinstance(message, ListLedgers):
            return self._script.ledgers.get(self._place, ())
        if isinstance(message, ForgetGroup):
            self._script.ledgers.pop(self._place, None)
        if isinstance(message, AttachGroup):
            self._listeners[message.group] = message.listener
        for listener in self._listeners.values():
            listener.hint()
        if isinstance(message, ResetLedger):
            if not message.dry_run:
                self._script.committed[self._place] = 50
            return (committed, 50)
        return None


class ScriptedTopics(Actor):
    """Topics that come and go by direct word."""

    def __init__(self, stage: "Stage") -> None:
        self._stage = stage

    @answers(WatchTopics)
    async def watch(self, message: WatchTopics) -> Sequence[TopicOutline]:
        self._stage.watchers.append(message.listener)
        return list(self._stage.topics.values())

    @answers(OutlineTopics)
    async def outline(self, _: OutlineTopics) -> Sequence[TopicOutline]:
        return list(self._stage.topics.values())

    @answers(FindPartition)
    async def find(self, message: FindPartition) -> ActorRef:
        [found] = await self.find_many(FindPartitions([(message.topic, message.partition)]))
        if isinstance(found, GoQueueError):
            raise found
        return found

    @answers(FindPartitions)
    async def find_many(self, message: FindPartitions) -> tuple[ActorRef | GoQueueError, ...]:
        there, script = self._stage.refs, self._stage.script
        if script.finding_hangs:
            await trio.sleep_forever()
        if script.nothing_found is not None:
            raise script.nothing_found
        return tuple(there.get(place) or UnknownTopic("there is no such partition") for place in message.places)


class Stage:
    def __init__(self, disk: SimulatedDisk, before: "Stage | None" = None) -> None:
        """After a crash, the topics are those of before."""
        self.disk = disk
        self.script: Script = before.script if before is not None else Script()
        self.topics: dict[str, TopicOutline] = dict(before.topics) if before is not None else {}
        self.refs: dict[tuple[UUID, int], ActorRef] = {}
        self.watchers: list[ActorRef] = []
        self.partitions = supervised("partitions", lambda: Supervisor(restarts_max=100))
        self.groups: ActorRef
        self._random = Random(len(self.topics))

    async def create(self, name: str, partitions: int = 3) -> None:
        uuid = UUID(int=self._random.getrandbits(128), version=4)
        self.topics[name] = TopicOutline(name, uuid, 0)
        await self.grow(name, partitions)

    async def grow(self, name: str, partitions: int) -> None:
        before = self.topics[name]
        self.topics[name] = TopicOutline(name, before.uuid, partitions)
        for number in range(before.partitions, partitions):
            await self._start_partition(before.uuid, name, number)
        self._tell()

    async def delete(self, name: str) -> None:
        gone = self.topics.pop(name)
        for number in range(gone.partitions):
            self.refs.pop((gone.uuid, number))
            await self.partitions.ref.call(RemoveChildren((f"{name}/{number} {gone.uuid}",)))
        self._tell()

    async def start_partitions(self) -> None:
        for topic in self.topics.values():
            for number in range(topic.partitions):
                await self._start_partition(topic.uuid, topic.name, number)

    async def _start_partition(self, uuid: UUID, name: str, number: int) -> None:
        spec = ChildSpec(f"{name}/{number} {uuid}", lambda: ScriptedPartition(self.script, (name, number)))
        self.refs[uuid, number] = await add_child(self.partitions.ref, spec)

    def _tell(self) -> None:
        for watcher in self.watchers:
            watcher.news("topics", TopicsChanged())

    async def group(self, name: str = "billing") -> ActorRef:
        return await self.groups.call(FindGroup(name, create=True))


@asynccontextmanager
async def on_stage(disk: SimulatedDisk, before: Stage | None = None) -> AsyncIterator[Stage]:
    """Without a word to the topics at the end: `disk.kill()` and `disk.crash()` give what is left of it."""
    stage, volume = Stage(disk, before), Volume(disk)
    environment = Environment(disk, TcpNetwork(), SimulatedClock(), Random(disk.pid))
    topics = ChildSpec("topics", lambda: ScriptedTopics(stage))
    register = ChildSpec("metadata", lambda: MetadataOwner(volume, "/data", environment.clock))
    actors = supervised("groupactors", lambda: Supervisor(width=4))
    groups = ChildSpec(
        "groups",
        lambda: Groups(
            environment, volume, "/data", topics=topics.ref, register=register.ref, supervisor=actors.ref
        ),
    )
    async with trio.open_nursery() as nursery:
        await nursery.start(volume.run)
        async with running(stage.partitions):
            await stage.start_partitions()
            root = supervised(
                "broker", lambda: Supervisor([topics, register, actors, groups], strategy=Strategy.REST_FOR_ONE)
            )
            async with running(root):
                stage.groups = groups.ref
                yield stage
        nursery.cancel_scope.cancel()


async def group_names(groups: ActorRef) -> list[str]:
    return list((await groups_board(groups)).refs())


async def description(group: ActorRef) -> DescribedGroup:
    return await (await group_board(group)).describe(Slices())


def join(
    member: str,
    *topics: str,
    connection: int = 1,
    start: str = "earliest",
    session: float = 30.0,
    static: bool = False,
    instance: int = 0,
    defaults: dict[str, Any] | None = None,
    **settings: Any,
) -> Join:
    subscription = Subscription.to(list(topics) if len(topics) > 1 else topics[0])
    given = (settings, start, session, static, connection, instance, defaults or {})
    return Join(member, "client", subscription, *given)


def heartbeat(held: MemberState, seconds: float = 3.0, connection: int = 1, instance: int = 0) -> AwaitMembership:
    deadline = trio.current_time() + seconds
    return AwaitMembership(held.member, held.generation, deadline, connection, instance)


def parts(held: MemberState) -> list[Place]:
    return [(each.topic, each.partition) for each in held.assignment]
