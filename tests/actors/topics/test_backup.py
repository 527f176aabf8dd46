"""The moment of a backup: a partition is in it with its ledgers, or it is waited for."""

from random import Random
from uuid import UUID

import pytest
from trio.testing import MockClock

from goqueue.actors.topics.backup import Absent, snapshot_of
from goqueue.actors.topics.requests import SnapshotView, TakeSnapshot
from goqueue.core.schemas.registry import SchemaRegistry
from goqueue.core.topics.metadata import Metadata
from goqueue.storage.directory.folders import TopicFolders
from goqueue.storage.snapshotlog.ledgers import FOLDER
from goqueue.storage.snapshotlog.snapshotlog import SnapshotLog
from goqueue.testing.disk import SimulatedDisk
from tests.actors.delivery.gatherers import broker
from tests.actors.groups.groupworld import consumer, create
from tests.storage.logs import DIRECTORY, mounted, open_log


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(Random(0))


async def test_ledgers_that_lie_there_and_are_not_open_yet_are_waited_for(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G5: a partition that starts opens its log first. A copy without its ledgers would begin anew."""
    metadata = Metadata()
    metadata.apply(metadata.create_topic("orders", 1, {}, UUID(int=1, version=4)))
    async with mounted(disk) as volume:
        folders = TopicFolders(volume, "/data", lambda _: None)
        log = await open_log(volume)
        volume.logs.enter(log)
        found = snapshot_of(metadata, folders, volume, 0, SchemaRegistry())
        assert isinstance(found, SnapshotView)
        assert (found.groups.registry, found.groups.ledgers) == (None, {})
        companion, _ = await SnapshotLog.open(volume, f"{DIRECTORY}/{FOLDER}", leader_epoch=1)
        assert isinstance(snapshot_of(metadata, folders, volume, 0, SchemaRegistry()), Absent)
        volume.journals.enter(DIRECTORY, lambda: b"ledgers")
        found = snapshot_of(metadata, folders, volume, 0, SchemaRegistry())
        assert isinstance(found, SnapshotView)
        assert found.groups.ledgers == {("orders", 0): b"ledgers"}
        companion.abandon()
        log.abandon()


async def test_partitions_that_a_group_reads_are_in_it_with_their_ledgers_also_after_a_start(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with broker(disk) as running:
        await create(running, "orders", 2)
        await create(running, "unread")
        assert (await running.topics.call(TakeSnapshot())).groups.ledgers == {}
        await consumer(running, "orders")
        first = (await running.topics.call(TakeSnapshot())).groups
    async with broker(disk) as running:
        second = (await running.topics.call(TakeSnapshot())).groups
    for groups in (first, second):
        assert groups.ledgers.keys() == {("orders", 0), ("orders", 1)}
        assert groups.registry is not None
        assert b"billing" in groups.registry
