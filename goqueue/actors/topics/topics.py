"""The topics of a node, and their partitions.

A change is written to the metadata, durably, before anything else happens. Then it is applied to the copy that is
kept here, and partitions are started or stopped to fit, some at a time. A start does the same from all of the
metadata, so a crash in between heals.

The folders of new partitions are made durable, then a second record says so, then the partitions start. So a start
can tell a lost partition from one that was never created (core/topics/loss.py).

A partition that cannot be opened, or was lost, does not affect the others: a stand-in answers for it and says why.
Only a disk that fails ends the node.
"""

import logging
from collections.abc import Awaitable, Callable, Container, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from uuid import UUID

from goqueue.actors.metadata.requests import ReadTopics, WriteTopics
from goqueue.actors.partition.board import board_of
from goqueue.actors.partition.partition import Partition
from goqueue.actors.partition.validation import MessageValidation, no_schemas
from goqueue.actors.runtime.actor import Actor
from goqueue.actors.runtime.concurrently import concurrently
from goqueue.actors.runtime.handlers import answers, defers
from goqueue.actors.runtime.messages import Reply
from goqueue.actors.runtime.ref import ActorRef
from goqueue.actors.statistics.delays import DelayCounts
from goqueue.actors.statistics.groups import GroupCounts
from goqueue.actors.statistics.schemas import SchemaCounts
from goqueue.actors.statistics.traffic import FetchCounts
from goqueue.actors.topics.backup import snapshot_of
from goqueue.actors.topics.board import TopicsBoard
from goqueue.actors.topics.lost import LostPartitions
from goqueue.actors.topics.opening import WIDTH, PartitionOpening
from goqueue.actors.topics.partitions import PartitionChild, settings_of
from goqueue.actors.topics.requests import (
    AddPartitions,
    AlterTopic,
    CreateTopic,
    DeleteTopic,
    FindPartition,
    FindPartitions,
    OutlineTopics,
    RestorationView,
    RestorePartition,
    SnapshotView,
    TakeSnapshot,
    TopicOutline,
    TopicView,
    WatchTopics,
)
from goqueue.actors.topics.watching import Watchers
from goqueue.core.log.admission import DISK_FREE_MIN
from goqueue.core.schemas.registry import SchemaRegistry
from goqueue.core.schemas.validation.topicschemas import TopicSchemas
from goqueue.core.sending.partitioner import check_partition
from goqueue.core.slices.cachebudget import CacheBudget
from goqueue.core.topics.metadata import KnownTopic, Metadata, MetadataRecord
from goqueue.environment import Environment
from goqueue.errors import (
    ActorDied,
    DiskFull,
    GoQueueError,
    PartitionUnavailable,
    UnknownPartition,
    UnknownTopic,
)
from goqueue.storage.directory.folders import TopicFolders
from goqueue.storage.log.volume import Volume
from goqueue.storage.slices import Slices

logger = logging.getLogger("goqueue.topics")

SNAPSHOT_LOOKS_MAX = 100
"""Maximum number of looks for a moment at which all partitions are open."""


class Topics(Actor):
    def __init__(
        self,
        environment: Environment,
        volume: Volume,
        data: str,
        partitions: ActorRef,
        metadata: ActorRef,
        *,
        disk_free_min: int = DISK_FREE_MIN,
        counts: GroupCounts | None = None,
        budget: CacheBudget | None = None,
        timers: ActorRef | None = None,
        delay_counts: DelayCounts | None = None,
        fetch_counts: FetchCounts | None = None,
        dead_letters: ActorRef | None = None,
        schemas: Callable[[str], TopicSchemas | None] = no_schemas,
        schema_counts: SchemaCounts | None = None,
        registry: SchemaRegistry | None = None,
    ) -> None:
        """`schemas` are those in force for a topic; `registry` has all of them, for backups."""
        self._counts = counts or GroupCounts()
        self._budget = budget or CacheBudget()
        self._timers = timers
        self._delay_counts = delay_counts or DelayCounts()
        self._fetch_counts = fetch_counts or FetchCounts()
        self._dead_letters = dead_letters
        self._schemas = schemas
        self._registry = registry or SchemaRegistry()
        self._schema_counts = schema_counts or SchemaCounts()
        self._environment = environment
        self._volume = volume
        self._disk_free_min = disk_free_min
        self._owner = metadata
        self._metadata = Metadata()
        """The topics, as far as they are durable."""
        self._folders = TopicFolders(volume, data, self._report)
        self._lost = LostPartitions(volume, data, self._folders, self._report)
        self._opening = PartitionOpening(self._folders, self._lost, partitions, self._partition_at, self._report)
        self._watchers = Watchers(self._metadata)
        self._board = TopicsBoard(self._metadata, self._opening.refs, self._opening.unavailable, self._lost)
        self.reports: list[str] = []

    async def start(self) -> None:
        self._metadata.apply(await self._owner.call(ReadTopics()))
        await self._folders.clear(self._metadata)
        places = [PartitionChild(topic, number) for topic in self._metadata for number in topic.numbers]
        await concurrently(lambda place: self._lost.look_at(place.topic, place.number), places, WIDTH)
        await self._start_partitions(places, self._sign_known)
        for topic in self._metadata:
            self._show_new(topic)
        names = {topic.name for topic in self._metadata}
        self._volume.logs.complete(names)
        self._delay_counts.of.complete(names)
        self._fetch_counts.of.complete(names)
        self._schema_counts.of.complete(names)
        self.show(self._board)

    def close(self) -> None:
        self.show(None)

    def _report(self, text: str) -> None:
        self.reports.append(text)
        logger.warning("%s", text)

    # Changes

    @defers(CreateTopic)
    async def create(self, message: CreateTopic, reply: Reply[TopicView]) -> None:
        topic = self._metadata.made_by(message.name, message.token)
        if topic is None:
            uuid = UUID(int=self._environment.random.getrandbits(128), version=4)
            topic = await self._create(message, uuid)
        self.background(self._tell_topic, topic, reply)

    async def _create(self, message: CreateTopic, uuid: UUID) -> KnownTopic:
        record = self._metadata.create_topic(
            message.name,
            message.partitions,
            message.config,
            uuid,
            token=message.token,
            by_broker=message.by_broker,
        )
        await self._folders.make_way(message.name, self._metadata)
        await self._write(record)
        topic = self._metadata.topic(message.name)
        places = [PartitionChild(topic, number) for number in topic.numbers]
        await self._start_partitions(places, partial(self._sign_new, topic))
        self._show_new(topic)
        self._watchers.tell(self.name)
        return topic

    def _show_new(self, topic: KnownTopic) -> None:
        self._fetch_counts.of.begin(topic.name)
        self._schema_counts.of.begin(topic.name)
        self._board.put(topic)

    @defers(AlterTopic)
    async def alter(self, message: AlterTopic, reply: Reply[TopicView]) -> None:
        await self._write_with_reserve(self._metadata.alter_topic(message.name, message.changes))
        topic = self._metadata.topic(message.name)
        self._board.put(topic)
        await self._configure(topic, topic.numbers)
        self.background(self._tell_topic, topic, reply)

    @defers(AddPartitions)
    async def add_partitions(self, message: AddPartitions, reply: Reply[TopicView]) -> None:
        before = self._metadata.topic(message.name)
        await self._write(self._metadata.add_partitions(message.name, message.total))
        topic = self._metadata.topic(message.name)
        places = [PartitionChild(topic, number) for number in topic.numbers[before.partitions :]]
        await self._start_partitions(places, partial(self._sign_new, topic))
        self._board.put(topic)
        self._watchers.tell(self.name)
        await self._configure(topic, before.numbers)  # each has a smaller share of the limits
        self.background(self._tell_topic, topic, reply)

    @answers(DeleteTopic)
    async def delete(self, message: DeleteTopic) -> None:
        if message.uuid is not None and self._metadata.is_deleted(message.uuid):
            return
        record = self._metadata.delete_topic(message.name, message.uuid)
        topic = self._metadata.topic(message.name)
        await self._write_with_reserve(record)
        self._board.remove(topic)
        await self._opening.remove(topic)
        self._volume.logs.end_topic(topic.name)
        self._delay_counts.of.end(topic.name)
        self._fetch_counts.of.end(topic.name)
        self._schema_counts.of.end(topic.name)
        self._watchers.tell(self.name)
        with suppress(DiskFull):  # it is deleted; the next start removes the folder, or a topic that needs its name
            await self._volume.reserve.with_room(partial(self._folders.discard, topic))

    @answers(RestorePartition)
    async def restore_partition(self, message: RestorePartition) -> RestorationView:
        topic = self._metadata.topic(message.name)
        check_partition(message.partition, topic.partitions)
        plan = await self._lost.plan(topic, message)
        if not (plan.was_lost and message.accept_loss):
            return plan
        await self._lost.restore(topic, message.partition, plan.start)
        await self._opening.reopen(PartitionChild(topic, message.partition))
        return replace(plan, is_restored=True)

    def next_deadline(self) -> float | None:
        return self._opening.retry_at

    async def tick(self, _now: float) -> None:
        await self._sign_known(await self._opening.retry())

    async def _write_with_reserve(self, record: MetadataRecord) -> None:
        """A change that frees room, or lets it be freed: on a full disk it uses the reserve."""
        await self._volume.reserve.with_room(partial(self._write, record))

    async def _write(self, *records: MetadataRecord) -> None:
        """Make them durable first, all or none, then apply them."""
        await self._owner.call(WriteTopics(records))
        for record in records:
            self._metadata.apply(record)

    async def _configure(self, topic: KnownTopic, numbers: Sequence[int]) -> None:
        settings = settings_of(topic)

        async def tell(number: int) -> None:
            with suppress(PartitionUnavailable, ActorDied):  # a partition that restarts gets them from here
                await self._board.ref(topic, number).call(settings)

        await concurrently(tell, numbers, WIDTH)

    # Questions. Views are made in background tasks: a partition may be restarting.

    @defers(TakeSnapshot)
    async def take_snapshot(self, _: TakeSnapshot, reply: Reply[SnapshotView]) -> None:
        self.background(self._tell_snapshot, reply)

    async def _tell_snapshot(self, reply: Reply[SnapshotView]) -> None:
        try:
            reply.resolve(await self._snapshot())
        except GoQueueError as error:
            reply.fail(error)

    async def _snapshot(self) -> SnapshotView:
        """Taken when all partitions are open. It waits for one that is starting; one that cannot start raises."""
        for _ in range(SNAPSHOT_LOOKS_MAX):
            now = self._environment.clock.now()
            found = snapshot_of(self._metadata, self._folders, self._volume, now, self._registry)
            if isinstance(found, SnapshotView):
                return found
            await board_of(self._board.ref(found.topic, found.number))
        raise ActorDied("partitions are being started again and again; look into the broker's log, then try again")

    async def _tell_topic(self, topic: KnownTopic, reply: Reply[TopicView]) -> None:
        try:
            reply.resolve(await self._board.view(topic, Slices()))
        except GoQueueError as error:
            reply.fail(error)

    @answers(WatchTopics)
    async def watch(self, message: WatchTopics) -> Sequence[TopicOutline]:
        return self._watchers.add(message.listener)

    @answers(OutlineTopics)
    async def outline(self, _: OutlineTopics) -> Sequence[TopicOutline]:
        return self._watchers.outline

    @answers(FindPartition)
    async def find(self, message: FindPartition) -> ActorRef:
        place = message.topic, message.partition
        if place not in self._opening.refs:
            raise self._why_not(*place)
        return self._opening.refs[place]

    @answers(FindPartitions)
    async def find_many(self, message: FindPartitions) -> tuple[ActorRef | GoQueueError, ...]:
        return tuple(self._opening.refs.get(place) or self._why_not(*place) for place in message.places)

    def _why_not(self, uuid: UUID, number: int) -> GoQueueError:
        for topic in self._metadata:
            if topic.uuid == uuid:
                return UnknownPartition(
                    f"topic {topic.name} has partitions 0 to {topic.partitions - 1}, not {number}"
                )
        return UnknownTopic(f"there is no topic {uuid}; it was deleted, ask for its name again")

    # Partitions

    async def _start_partitions(
        self, places: Sequence[PartitionChild], note_signed: Callable[[Container[str]], Awaitable[None]]
    ) -> None:
        """The folders first, then the record that counts them, then the partitions."""
        failures = await self._opening.sign(places)
        await note_signed({place.topic.name for place in failures})
        await self._opening.start(places, failures)

    async def _sign_new(self, topic: KnownTopic, failed: Container[str]) -> None:
        """Record durably that the folders exist. If that fails, the next start creates missing ones."""
        if topic.name not in failed:
            with suppress(DiskFull):
                await self._write(self._metadata.sign_partitions(topic.name))

    async def _sign_known(self, failed: Container[str]) -> None:
        """The same for topics that an earlier goqueue created, or a process that was killed."""
        unsigned = [topic.name for topic in self._metadata if topic.signed < topic.partitions]
        records = [self._metadata.sign_partitions(name) for name in unsigned if name not in failed]
        if records:
            with suppress(DiskFull):
                await self._write(*records)

    def _partition_at(self, place: PartitionChild) -> Partition:
        settings = settings_of(self._metadata.find(place.topic.name) or place.topic)
        return Partition(
            self._volume,
            self._environment.clock,
            self._folders.partition(place.topic, place.number),
            settings.config,
            admission=settings.admission,
            validation=MessageValidation(place.topic.name, self._schemas, self._schema_counts),
            disk_free_min=self._disk_free_min,
            random=self._environment.random,
            counts=self._counts,
            budget=self._budget,
            timers=self._timers,
            delay_counts=self._delay_counts,
            dead_letters=self._dead_letters,
        )
