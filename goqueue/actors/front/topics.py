"""The requests of clients about topics, and about the broker as a whole.

To restore a lost partition, the dead letters of the topic are read first, as they name offsets of the partition,
too. They are in other partitions and are read before the list of topics is asked, so that no other request waits
for the reading.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any
from uuid import UUID

import trio

from goqueue.actors.front.lanefigures import lane_figures
from goqueue.actors.front.schemas import schema_figures
from goqueue.actors.front.session import BrokerSession
from goqueue.actors.groups.board import groups_board
from goqueue.actors.node.broker import Broker
from goqueue.actors.partition.requests import DeleteBefore, Fetch
from goqueue.actors.runtime.ref import ActorRef
from goqueue.actors.topics.board import described_topics, topics_board
from goqueue.actors.topics.requests import (
    AddPartitions,
    AlterTopic,
    CreateTopic,
    DeleteTopic,
    PartitionView,
    RestorationView,
    RestorePartition,
    SnapshotView,
    TakeSnapshot,
    TopicView,
)
from goqueue.core.groups.deadletter import Story
from goqueue.core.health import HealthFacts, judge
from goqueue.core.log.admission import disk_needed
from goqueue.core.names import dead_letter_topic
from goqueue.core.records.batch import ENVELOPE_SIZE, parse_envelope, records_of
from goqueue.core.records.record import decode_records
from goqueue.errors import (
    DamagedData,
    InvalidName,
    PartitionLost,
    PartitionUnavailable,
    StorageError,
    Unavailable,
    UnknownFormat,
    UnknownTopic,
)
from goqueue.net.wire import messages as wire
from goqueue.net.wire.failures import error_body
from goqueue.net.wire.fields import PROSE_SIZE_MAX
from goqueue.storage.backup.groups import pack_with
from goqueue.storage.directory.storedschemas import packed
from goqueue.storage.slices import Slices
from goqueue.types import Buffer, Offset

METADATA_SIZE_MAX = 32 * 1024 * 1024
"""Limit of the metadata in a snapshot; the answer takes a little more."""


async def create_topic(session: BrokerSession, request: wire.CreateTopic) -> wire.Topics:
    token = UUID(bytes=request.token) if request.token is not None else None
    topic = CreateTopic(request.name, request.partitions, request.config, token)
    return await _topics([await session.broker.topics.call(topic)], Slices())


async def alter_topic(session: BrokerSession, request: wire.AlterTopic) -> wire.Topics:
    return await _topics([await session.broker.topics.call(AlterTopic(request.name, request.config))], Slices())


async def add_partitions(session: BrokerSession, request: wire.AddPartitions) -> wire.Topics:
    return await _topics(
        [await session.broker.topics.call(AddPartitions(request.name, request.partitions))], Slices()
    )


async def describe_topics(session: BrokerSession, request: wire.DescribeTopics) -> wire.Topics:
    """One at a time on a connection."""
    async with session.describing:
        slices = Slices()
        return await _topics(await described_topics(session.broker.topics, request.names, slices), slices)


async def delete_topic(session: BrokerSession, request: wire.DeleteTopic) -> wire.Done:
    uuid = UUID(bytes=request.uuid) if request.uuid is not None else None
    await session.broker.topics.call(DeleteTopic(request.name, uuid))
    return wire.Done()


async def purge(session: BrokerSession, request: wire.Purge) -> wire.Done:
    [topic] = await described_topics(session.broker.topics, (request.name,))
    for view in topic.partitions:
        if not isinstance(view.error, PartitionLost):  # a lost one has nothing left to delete
            ref = await session.partition(topic.uuid.bytes, view.partition)
            await ref.call(DeleteBefore(None))
    return wire.Done()


async def delete_before(session: BrokerSession, request: wire.DeleteBefore) -> wire.Done:
    [topic] = await described_topics(session.broker.topics, (request.name,))
    ref = await session.partition(topic.uuid.bytes, request.partition)
    await ref.call(DeleteBefore(request.offset))
    return wire.Done()


async def take_snapshot(session: BrokerSession, _: wire.TakeSnapshot) -> wire.Snapshot:
    try:
        (await groups_board(session.broker.groups)).refs()
    except UnknownFormat as error:
        raise StorageError(f"a backup would lack how far groups are: {error.message}") from error
    view = await session.broker.topics.call(TakeSnapshot())
    if view.groups.registry is None:
        raise Unavailable("the register of groups is being started; try again")
    pieces = session.registry_pieces = await packed(view.registry, Slices())
    return _snapshot(view, session.broker)._replace(registry_pieces=len(pieces))


async def stats(session: BrokerSession, _: wire.Stats) -> wire.StatsReport:
    async with session.describing:
        slices, groups = Slices(), await _groups(session)
        topics = await (await topics_board(session.broker.topics)).count(slices)
        lanes = await lane_figures(groups, (await session.statistics.all_groups(slices)).served, slices)
        return wire.StatsReport(
            await session.statistics.report(
                topics, len(groups), lanes, schema_figures(session.broker.schemas), slices
            )
        )


async def _groups(session: BrokerSession) -> dict[str, ActorRef]:
    try:
        return (await groups_board(session.broker.groups)).refs()
    except UnknownFormat:
        return {}  # they cannot be read; a request for a group says why


async def check_health(session: BrokerSession, request: wire.CheckHealth) -> wire.HealthReport:
    """Facts from boards, and the one rule that judges them. One at a time on a connection."""
    async with session.describing:
        health = judge(await _facts(session, Slices()), for_publish=request.for_publish)
    reasons = (
        wire.HealthReasonReport(each.code, _short(each.message), _short(each.cure)) for each in health.degraded
    )
    return wire.HealthReport(health.status, tuple(reasons))


async def _facts(session: BrokerSession, slices: Slices) -> HealthFacts:
    broker, statistics = session.broker, session.statistics
    topics = await topics_board(broker.topics)
    unavailable, lost = topics.impaired()
    space, stalls = statistics.disk_space(), statistics.stalls
    return HealthFacts(
        disk_free=space.free,
        disk_needed=disk_needed(space.total, least=broker.disk_free_min),
        is_draining=broker.leaving.is_set(),
        lost=lost,
        unavailable=unavailable,
        damaged=await statistics.damaged(slices),
        stall_seconds=0.0 if stalls is None else stalls.longest_lately(trio.current_time()),
        dead_letters=await broker.waiting_letters.count(topics, broker.environment.clock, slices),
    )


def _short(text: str) -> str:
    return text[:PROSE_SIZE_MAX]


async def _topics(views: Iterable[TopicView], slices: Slices) -> wire.Topics:
    return wire.Topics(tuple([await _described(view, slices) for view in views]))


async def _described(view: TopicView, slices: Slices) -> wire.TopicDescription:
    partitions = []
    for each in view.partitions:
        error = None if each.error is None else error_body(each.error)
        damage = tuple(wire.DamagedOffsets(some.offset, some.end_offset - 1, some.path) for some in each.damage)
        described = wire.PartitionDescription(
            *(each.partition, each.leader_epoch, each.start, each.end, error, damage, _held(each)),
            *(each.size, each.messages),
        )
        partitions.append(described)
        await slices.step()
    return wire.TopicDescription(view.name, view.uuid.bytes, view.config, tuple(partitions))


def _held(view: PartitionView) -> wire.SegmentsHeld | None:
    return None if view.hold is None else wire.SegmentsHeld(*view.hold[:-1], *view.hold.kept)


def _snapshot(view: SnapshotView, broker: Broker) -> wire.Snapshot:
    topics = tuple(
        wire.TopicPoint(
            topic.name,
            topic.uuid.bytes,
            tuple(
                wire.PartitionPoint(number, each.leader_epoch, each.start, each.end)
                for number, each in enumerate(topic.partitions)
            ),
        )
        for topic in view.topics
    )
    metadata = pack_with(view.metadata, view.groups)
    if len(metadata) > METADATA_SIZE_MAX:
        raise StorageError(
            f"topics and groups take {len(metadata):,} bytes, and {METADATA_SIZE_MAX:,} travel at once; "
            "delete groups that are not used, or copy the directory of the stopped broker"
        )
    return wire.Snapshot(view.time, metadata, topics, broker.cluster, broker.node)


READ_SIZE = 1024 * 1024


async def restore_partition(session: BrokerSession, request: wire.RestorePartition) -> wire.PartitionRestored:
    known, by = request.at_least, "the offset that was given"
    letters = await _highest_dead_letter(session, request.name, request.partition)
    if letters > known:
        known, by = letters, f"a dead letter in {dead_letter_topic(request.name)}"
    asked = RestorePartition(request.name, request.partition, request.accept_loss, known, by)
    return _answer(await session.broker.topics.call(asked))


def _answer(view: RestorationView) -> wire.PartitionRestored:
    return wire.PartitionRestored(
        view.name,
        view.partition,
        view.was_lost,
        view.is_restored,
        view.missing,
        view.highest,
        view.named_by,
        view.start,
    )


async def _highest_dead_letter(session: BrokerSession, topic: str, number: int) -> Offset:
    """The highest offset of this partition that a dead letter names; 0 if none does."""
    try:
        [letters] = await described_topics(session.broker.topics, (dead_letter_topic(topic),))
    except (UnknownTopic, InvalidName):
        return 0
    highest = 0
    for view in letters.partitions:
        if view.error is None:
            ref = await session.partition(letters.uuid.bytes, view.partition)
            highest = max(highest, await _highest_in(ref, view.start, view.end, topic, number))
    return highest


async def _highest_in(ref: ActorRef, offset: Offset, end: Offset, topic: str, number: int) -> Offset:
    highest = 0
    while offset < end:
        try:
            found = await ref.call(Fetch(offset, READ_SIZE))
        except DamagedData as damage:
            offset = damage.end_offset
            continue
        except PartitionUnavailable:
            break
        highest = max([highest, *_offsets_in(found.data, topic, number)])
        if found.next_offset <= offset:
            break  # the rest is not durable yet
        offset = found.next_offset
    return highest


def _offsets_in(data: Buffer, topic: str, number: int) -> Iterator[Offset]:
    view, position = memoryview(data), 0
    while position < len(view) and (envelope := parse_envelope(view, position)) is not None:
        body = records_of(envelope, view[position + ENVELOPE_SIZE : position + envelope.size])
        for record in decode_records(body, envelope.record_count, envelope.base_offset):
            story = Story.from_headers(record.headers)
            if story is not None and (story.topic, story.partition) == (topic, number):
                yield story.offset
        position += envelope.size


ANSWERED: dict[type[Any], Callable[[BrokerSession, Any], Any]] = {
    wire.CreateTopic: create_topic,
    wire.AlterTopic: alter_topic,
    wire.AddPartitions: add_partitions,
    wire.DescribeTopics: describe_topics,
    wire.DeleteTopic: delete_topic,
    wire.Purge: purge,
    wire.DeleteBefore: delete_before,
    wire.Stats: stats,
    wire.CheckHealth: check_health,
    wire.TakeSnapshot: take_snapshot,
    wire.RestorePartition: restore_partition,
}
