"""What clients ask about topics, and about the broker as a whole."""

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from goqueue.actors.front.restoration import restore_partition
from goqueue.actors.front.session import Desk
from goqueue.actors.groups.lanefigures import lane_figures
from goqueue.actors.groups.requests import ListGroups
from goqueue.actors.node.broker import Broker
from goqueue.actors.partition.requests import DeleteBefore
from goqueue.actors.statistics.statistics import CountTopics
from goqueue.actors.topics.backup import SnapshotView, TakeSnapshot
from goqueue.actors.topics.requests import (
    AddPartitions,
    AlterTopic,
    CreateTopic,
    DeleteTopic,
    DescribeTopics,
    TopicView,
)
from goqueue.errors import PartitionLost, StorageError, Unavailable, UnknownFormat
from goqueue.net.wire import messages as wire
from goqueue.net.wire.failures import error_body
from goqueue.storage.backup.groups import pack_with

METADATA_SIZE_MAX = 32 * 1024 * 1024
"""Of a snapshot: an answer takes a little more."""


async def create_topic(desk: Desk, request: wire.CreateTopic) -> wire.Topics:
    token = UUID(bytes=request.token) if request.token is not None else None
    topic = CreateTopic(request.name, request.partitions, request.config, token)
    return _topics(await desk.broker.topics.call(topic))


async def alter_topic(desk: Desk, request: wire.AlterTopic) -> wire.Topics:
    return _topics(await desk.broker.topics.call(AlterTopic(request.name, request.config)))


async def add_partitions(desk: Desk, request: wire.AddPartitions) -> wire.Topics:
    return _topics(await desk.broker.topics.call(AddPartitions(request.name, request.partitions)))


async def describe_topics(desk: Desk, request: wire.DescribeTopics) -> wire.Topics:
    return _topics(*await desk.broker.topics.call(DescribeTopics(request.names)))


async def delete_topic(desk: Desk, request: wire.DeleteTopic) -> wire.Done:
    uuid = UUID(bytes=request.uuid) if request.uuid is not None else None
    await desk.broker.topics.call(DeleteTopic(request.name, uuid))
    return wire.Done()


async def purge(desk: Desk, request: wire.Purge) -> wire.Done:
    [topic] = await desk.broker.topics.call(DescribeTopics((request.name,)))
    for view in topic.partitions:
        if not isinstance(view.error, PartitionLost):  # of a lost one nothing is left to delete
            ref = await desk.partition(topic.uuid.bytes, view.partition)
            await ref.call(DeleteBefore(None))
    return wire.Done()


async def delete_before(desk: Desk, request: wire.DeleteBefore) -> wire.Done:
    [topic] = await desk.broker.topics.call(DescribeTopics((request.name,)))
    ref = await desk.partition(topic.uuid.bytes, request.partition)
    await ref.call(DeleteBefore(request.offset))
    return wire.Done()


async def take_snapshot(desk: Desk, _: wire.TakeSnapshot) -> wire.Snapshot:
    try:
        await desk.broker.groups.call(ListGroups())
    except UnknownFormat as error:
        raise StorageError(f"a backup would lack how far groups are: {error.message}") from error
    view = await desk.broker.topics.call(TakeSnapshot())
    if view.groups.registry is None:
        raise Unavailable("the register of groups is being started; try again")
    return _snapshot(view, desk.broker)


async def stats(desk: Desk, _: wire.Stats) -> wire.StatsReport:
    topics, names = await desk.broker.topics.call(CountTopics()), await _names_of_groups(desk)
    async with desk.describing:
        lanes = await lane_figures(desk.broker.groups, names, topics.partitions)
    return wire.StatsReport(desk.statistics.report(topics, len(names), lanes))


async def _names_of_groups(desk: Desk) -> Sequence[str]:
    try:
        return await desk.broker.groups.call(ListGroups())
    except UnknownFormat:
        return []  # the register cannot be read; whoever asks for a group hears why


ANSWERED: dict[type[Any], Callable[[Desk, Any], Any]] = {
    wire.CreateTopic: create_topic,
    wire.AlterTopic: alter_topic,
    wire.AddPartitions: add_partitions,
    wire.DescribeTopics: describe_topics,
    wire.DeleteTopic: delete_topic,
    wire.Purge: purge,
    wire.DeleteBefore: delete_before,
    wire.Stats: stats,
    wire.TakeSnapshot: take_snapshot,
    wire.RestorePartition: restore_partition,
}


def _topics(*views: TopicView) -> wire.Topics:
    return wire.Topics(tuple(map(_described, views)))


def _described(view: TopicView) -> wire.TopicDescription:
    partitions = tuple(
        wire.PartitionDescription(
            each.partition,
            each.leader_epoch,
            each.start,
            each.end,
            error_body(each.error) if each.error else None,
            tuple(wire.DamagedOffsets(some.offset, some.end_offset - 1, some.path) for some in each.damage),
        )
        for each in view.partitions
    )
    return wire.TopicDescription(view.name, view.uuid.bytes, view.config, partitions)


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
