"""A partition that cannot be opened: the others are served, and it says why and touches nothing."""

from random import Random
from uuid import UUID

import pytest
from crc32c import crc32c
from trio.testing import MockClock

from goqueue.actors.partition.board import board_of
from goqueue.actors.partition.requests import Fetch, Maintain
from goqueue.actors.topics.board import described_topics
from goqueue.actors.topics.requests import (
    AddPartitions,
    AlterTopic,
    CreateTopic,
    DeleteTopic,
    TopicView,
)
from goqueue.core.records.batch import ENVELOPE_SIZE
from goqueue.errors import DiskFailed, LogStopped, PartitionUnavailable
from goqueue.storage.checkedjson import pack
from goqueue.testing.disk import SimulatedDisk
from tests.actors.delivery.gatherers import broker, partition_of, values
from tests.actors.partition.test_partition import publish

FOLDER = "/data/logs/orders/1"


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(Random(0))


async def three_partitions(disk: SimulatedDisk) -> TopicView:
    async with broker(disk) as running:
        made = await running.topics.call(CreateTopic("orders", 3, {}))
        for number in range(3):
            await (await partition_of(running, made, number)).call(publish(b"%d" % number))
    return made


async def from_the_future(disk: SimulatedDisk) -> TopicView:
    """Partition 1 has a sound batch of a version that this goqueue does not know, and no recovery point."""
    made = await three_partitions(disk)
    path = f"{FOLDER}/00000000000000000000.log"
    head = bytearray(await disk.open(path).read(0, ENVELOPE_SIZE))
    head[3] = 9
    head[4:8] = crc32c(head[8:], crc32c(head[:4])).to_bytes(4, "big")
    disk.open(path).write(0, [head])
    disk.remove(f"{FOLDER}/recovery-point")
    return made


async def folder_of(disk: SimulatedDisk) -> dict[str, bytes]:
    return {
        name: bytes(await disk.open(f"{FOLDER}/{name}").read(0, disk.size(f"{FOLDER}/{name}")))
        for name in disk.list(FOLDER)
    }


async def test_the_others_are_served_and_every_request_to_it_is_told_why(
    disk: SimulatedDisk, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """G13, G14"""
    made = await from_the_future(disk)
    before = await folder_of(disk)
    async with broker(disk) as running:
        for number in (0, 2):
            assert await values(await partition_of(running, made, number)) == [b"%d" % number]
        ref = await partition_of(running, made, 1)
        for message in (publish(b"more"), Fetch(0, 100), Maintain(compact=False)):
            with pytest.raises(PartitionUnavailable, match="batch version 9 is unknown") as refusal:
                await ref.call(message)
            assert FOLDER in refusal.value.message
            assert refusal.value.details["partition"] == 1
    assert await folder_of(disk) == before
    assert FOLDER in caplog.text


async def test_its_topic_is_described_altered_widened_and_deleted_all_the_same(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    made = await from_the_future(disk)
    async with broker(disk) as running:
        [found] = await described_topics(running.topics)
        assert [view.end for view in found.partitions] == [1, 0, 1]
        assert [view.error is not None for view in found.partitions] == [False, True, False]
        await running.topics.call(AlterTopic("orders", {"retention_hours": 7}))
        assert len((await running.topics.call(AddPartitions("orders", 4))).partitions) == 4
        await running.topics.call(DeleteTopic("orders"))
        assert await described_topics(running.topics) == ()
        assert disk.is_directory(f"/data/deleted/{made.uuid}/1")


async def test_it_is_served_again_once_it_was_mended(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    made = await three_partitions(disk)
    kept = await folder_of(disk)
    identity = f"{FOLDER}/topic.json"
    disk.open(identity).write(0, [pack({"topic": "orders", "uuid": str(UUID(int=1)), "partition": 1})])
    async with broker(disk) as running:
        with pytest.raises(PartitionUnavailable, match="names another topic"):
            await board_of(await partition_of(running, made, 1))
    disk.open(identity).write(0, [kept["topic.json"]])
    async with broker(disk) as running:
        assert await values(await partition_of(running, made, 1)) == [b"1"]


@pytest.mark.parametrize(("folder", "error"), [(FOLDER, LogStopped), ("/data/logs/orders", DiskFailed)])
async def test_a_failed_sync_at_its_start_still_ends_the_node(
    disk: SimulatedDisk, autojump_clock: MockClock, folder: str, error: type[Exception]
) -> None:
    """What that sync was to keep is unknown, and the disk is the others' too."""
    await three_partitions(disk)
    disk.fail_next_sync(folder)
    with pytest.raises(error):
        async with broker(disk):
            pytest.fail("it never started")
    async with broker(disk) as running:
        [found] = await described_topics(running.topics)
        assert [view.end for view in found.partitions] == [1, 1, 1]
