"""The topics of a node: what there is, and the partitions that hold it.

A change is written to `__metadata`, durably, before anything else happens; then partitions are started or
stopped to fit. A start does the same from what was written, so a crash in between heals. Every partition's
folder names its topic's UUID: a folder that belongs to another topic of the same name is set aside, never taken
over and never deleted (G13).
"""

import json
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from goqueue.actors.base import Actor
from goqueue.actors.child import ChildSpec
from goqueue.actors.handlers import answers
from goqueue.actors.messages import Request
from goqueue.actors.partition import Configure, Describe, Partition
from goqueue.actors.ref import ActorRef
from goqueue.actors.supervisor import AddChild, RemoveChild
from goqueue.core.admission import DISK_FREE_MIN, Admission
from goqueue.core.metadata import Metadata, MetadataRecord, Topic
from goqueue.core.names import METADATA_LOG
from goqueue.environment import Environment
from goqueue.errors import UnknownPartition, UnknownTopic
from goqueue.storage.metadatalog import MetadataLog
from goqueue.storage.volume import Volume
from goqueue.types import Offset

IDENTITY = "topic.json"
IDENTITY_SIZE_MAX = 4_096
LOGS, DELETED, STRAY = "logs", "deleted", "stray"
STOP_SECONDS_MAX = 20.0


@dataclass(frozen=True, slots=True)
class PartitionView:
    partition: int
    leader_epoch: int
    start: Offset
    end: Offset


@dataclass(frozen=True, slots=True)
class TopicView:
    name: str
    uuid: UUID
    config: dict[str, Any]
    partitions: tuple[PartitionView, ...]


@dataclass(frozen=True, slots=True)
class CreateTopic(Request[TopicView]):
    name: str
    partitions: int
    config: dict[str, Any]


@dataclass(frozen=True, slots=True)
class AlterTopic(Request[TopicView]):
    name: str
    changes: dict[str, Any]


@dataclass(frozen=True, slots=True)
class AddPartitions(Request[TopicView]):
    name: str
    total: int


@dataclass(frozen=True, slots=True)
class DeleteTopic(Request[None]):
    name: str


@dataclass(frozen=True, slots=True)
class DescribeTopics(Request[tuple[TopicView, ...]]):
    """None asks for all."""

    names: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class FindPartition(Request[ActorRef]):
    """Who holds this partition; the ref stays good until the topic is deleted."""

    topic: UUID
    partition: int


class Topics(Actor):
    def __init__(
        self,
        environment: Environment,
        volume: Volume,
        data: str,
        partitions: ActorRef,
        disk_free_min: int = DISK_FREE_MIN,
    ) -> None:
        self._environment = environment
        self._volume = volume
        self._data = data
        self._supervisor = partitions
        self._disk_free_min = disk_free_min
        self._metadata = Metadata()
        self._log: MetadataLog | None = None
        self._refs: dict[tuple[UUID, int], ActorRef] = {}
        self.reports: list[str] = []

    async def start(self) -> None:
        self._log, records = await MetadataLog.open(self._volume, f"{self._folder(METADATA_LOG)}/0")
        deleted = [uuid for record in records for uuid in self._replay(record)]
        await self._clear_folders(deleted)
        for topic in self._metadata:
            await self._start_partitions(topic, 0)

    def _replay(self, record: object) -> list[UUID]:
        """Take up a record; which topics it deleted."""
        changes = self._metadata.apply(record)
        return [change.before.uuid for change in changes if change.before and not change.after]

    async def stop(self) -> None:
        if self._log is not None:
            await self._log.close()

    def close(self) -> None:
        if self._log is not None:
            self._log.abandon()

    # Changes

    @answers(CreateTopic)
    async def create(self, message: CreateTopic) -> TopicView:
        uuid = UUID(int=self._environment.random.getrandbits(128), version=4)
        await self._write(self._metadata.create_topic(message.name, message.partitions, message.config, uuid))
        topic = self._metadata.topic(message.name)
        await self._start_partitions(topic, 0)
        return await self._view(topic)

    @answers(AlterTopic)
    async def alter(self, message: AlterTopic) -> TopicView:
        await self._write(self._metadata.alter_topic(message.name, message.changes))
        topic = self._metadata.topic(message.name)
        for number in range(topic.partitions):
            await self._refs[topic.uuid, number].call(_settings(topic))
        return await self._view(topic)

    @answers(AddPartitions)
    async def add_partitions(self, message: AddPartitions) -> TopicView:
        before = self._metadata.topic(message.name).partitions
        await self._write(self._metadata.add_partitions(message.name, message.total))
        topic = self._metadata.topic(message.name)
        await self._start_partitions(topic, before)
        for number in range(before):
            await self._refs[topic.uuid, number].call(_settings(topic))  # each has a smaller share of the limits
        return await self._view(topic)

    @answers(DeleteTopic)
    async def delete(self, message: DeleteTopic) -> None:
        record = self._metadata.delete_topic(message.name)
        topic = self._metadata.topic(message.name)
        await self._write(record)
        for number in range(topic.partitions):
            await self._supervisor.call(RemoveChild(_child_name(topic, number)))
            del self._refs[topic.uuid, number]
        await self._move_folder(topic.name, f"{DELETED}/{topic.uuid}")

    async def _write(self, record: MetadataRecord) -> None:
        """Durable first, true after."""
        assert self._log is not None
        now = self._environment.clock.now()
        await self._log.write(record, now)
        self._metadata.apply(record)
        if self._log.wants_snapshot:
            await self._log.write_snapshot(self._metadata.snapshot(), now)

    # Questions

    @answers(DescribeTopics)
    async def describe(self, message: DescribeTopics) -> tuple[TopicView, ...]:
        topics = list(self._metadata) if message.names is None else map(self._metadata.topic, message.names)
        return tuple([await self._view(topic) for topic in topics])

    @answers(FindPartition)
    async def find(self, message: FindPartition) -> ActorRef:
        ref = self._refs.get((message.topic, message.partition))
        if ref is not None:
            return ref
        for topic in self._metadata:
            if topic.uuid == message.topic:
                raise UnknownPartition(
                    f"topic {topic.name} has partitions 0 to {topic.partitions - 1}, not {message.partition}"
                )
        raise UnknownTopic(f"there is no topic {message.topic}; it was deleted, ask for its name again")

    async def _view(self, topic: Topic) -> TopicView:
        views = []
        for number in range(topic.partitions):
            found = await self._refs[topic.uuid, number].call(Describe())
            views.append(PartitionView(number, found.leader_epoch, found.log_start, found.end_offset))
        return TopicView(topic.name, topic.uuid, topic.config.to_plain(), tuple(views))

    # Partitions and their folders

    async def _start_partitions(self, topic: Topic, first: int) -> None:
        for number in range(first, topic.partitions):
            folder = f"{self._folder(topic.name)}/{number}"
            await self._sign(folder, topic, number)
            self._refs[topic.uuid, number] = await self._start_partition(topic, number, folder)

    async def _start_partition(self, topic: Topic, number: int, folder: str) -> ActorRef:
        def factory() -> Partition:
            settings = _settings(self._metadata.find(topic.name) or topic)
            return Partition(
                self._volume,
                self._environment.clock,
                folder,
                settings.config,
                admission=settings.admission,
                disk_free_min=self._disk_free_min,
            )

        name = _child_name(topic, number)
        await self._supervisor.call(RemoveChild(name))  # left over from before a restart of ours
        spec = ChildSpec(name, factory, stop_timeout_seconds=STOP_SECONDS_MAX)
        return await self._supervisor.call(AddChild(spec))

    async def _sign(self, folder: str, topic: Topic, number: int) -> None:
        """The folder says whose it is, before anything else is in it."""
        await self._volume.make_directories(folder)
        if not self._volume.disk.exists(f"{folder}/{IDENTITY}"):
            identity = {"topic": topic.name, "uuid": str(topic.uuid), "partition": number}
            await self._volume.replace(folder, IDENTITY, [json.dumps(identity).encode() + b"\n"])

    async def _clear_folders(self, deleted: list[UUID]) -> None:
        """Finish deletions that a crash cut short; set aside what belongs to no topic."""
        for name in self._volume.disk.list(f"{self._data}/{LOGS}"):
            topic = self._metadata.find(name)
            uuid = await self._signature(name)
            if name == METADATA_LOG or uuid is None or (topic is not None and topic.uuid == uuid):
                continue
            place = f"{DELETED}/{uuid}" if uuid in deleted else f"{STRAY}/{name}-{uuid}"
            await self._move_folder(name, place)
            if uuid not in deleted:
                self.reports.append(f"{LOGS}/{name} belongs to no topic that is known; it was set aside as {place}")

    async def _signature(self, name: str) -> UUID | None:
        """Whose folder it is, by the first partition that says so."""
        folder = self._folder(name)
        for partition in self._volume.disk.list(folder) if self._volume.disk.is_directory(folder) else []:
            path = f"{folder}/{partition}/{IDENTITY}"
            if self._volume.disk.exists(path):
                try:
                    return UUID(json.loads(await self._volume.read_whole(path, IDENTITY_SIZE_MAX))["uuid"])
                except (ValueError, KeyError, TypeError, AttributeError):
                    self.reports.append(f"{path} is damaged; the folder is taken to be its topic's")
        return None

    async def _move_folder(self, name: str, place: str) -> None:
        target = f"{self._data}/{place}"
        await self._volume.make_directories(target.rpartition("/")[0])
        self._volume.disk.rename(self._folder(name), target)
        self._volume.forget_folders(self._folder(name))
        await self._volume.sync(directories=[f"{self._data}/{LOGS}", target.rpartition("/")[0]])

    def _folder(self, name: str) -> str:
        return f"{self._data}/{LOGS}/{name}"


def _settings(topic: Topic) -> Configure:
    return Configure(topic.config.to_log_config(), Admission.of(topic.config, topic.partitions))


def _child_name(topic: Topic, number: int) -> str:
    return f"{topic.name}/{number} {topic.uuid}"
