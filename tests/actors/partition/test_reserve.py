"""A disk that is full to the last block can be freed through the broker."""

from random import Random

import pytest
import trio
from trio.testing import MockClock

from goqueue.actors.node.broker import Broker
from goqueue.actors.partition.requests import DeleteBefore, Fetch
from goqueue.actors.topics.board import described_topics
from goqueue.actors.topics.janitor import DISPOSAL_SECONDS
from goqueue.actors.topics.requests import AlterTopic, CreateTopic, DeleteTopic, TopicView
from goqueue.errors import DiskFull
from goqueue.storage.disk.reserve import RESERVE_BYTES
from goqueue.storage.verification.verify import verify
from goqueue.testing.clock import SimulatedClock
from goqueue.testing.disk import SimulatedDisk
from goqueue.types import Acks
from tests.actors.delivery.gatherers import broker, partition_of
from tests.actors.partition.test_partition import publish

RESERVE = "/data/reserve"
MESSAGE = bytes(100_000)
HOUR = 3_600_000_000
ROOM = 1 << 33


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(Random(0), capacity=ROOM)


async def filled(running: Broker, disk: SimulatedDisk, name: str = "orders") -> TopicView:
    """A topic with some messages, and no byte free."""
    made = await running.topics.call(CreateTopic(name, 1, {}))
    for _ in range(5):
        await (await partition_of(running, made)).call(publish(MESSAGE))
    disk.capacity -= disk.space("/").free
    return made


def used(disk: SimulatedDisk) -> int:
    return disk.capacity - disk.space("/").free


async def test_the_reserve_is_made_at_the_start_and_takes_its_room(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with broker(disk, reserve_bytes=RESERVE_BYTES):
        assert disk.size(RESERVE) == RESERVE_BYTES
        assert used(disk) >= RESERVE_BYTES
    disk.cut(RESERVE, 7)
    async with broker(disk, reserve_bytes=RESERVE_BYTES):
        assert disk.size(RESERVE) == RESERVE_BYTES
    assert not (await verify(disk, "/data")).findings()


async def test_a_topic_is_deleted_on_a_full_disk_and_the_reserve_comes_back(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with broker(disk, reserve_bytes=RESERVE_BYTES) as running:
        await filled(running, disk)
        await running.topics.call(DeleteTopic("orders"))
        await trio.sleep(2 * DISPOSAL_SECONDS)
        assert disk.space("/").free > 5 * len(MESSAGE)
        assert not disk.exists(RESERVE), "there is not twice its size"
        disk.capacity += 2 * RESERVE_BYTES
        await trio.sleep(2 * DISPOSAL_SECONDS)
        assert disk.size(RESERVE) == RESERVE_BYTES


@pytest.mark.parametrize("offset", [None, 5])
async def test_a_purge_on_a_full_disk_frees_the_segment_that_grows(
    disk: SimulatedDisk, autojump_clock: MockClock, offset: int | None
) -> None:
    async with broker(disk, reserve_bytes=RESERVE_BYTES) as running:
        made = await filled(running, disk)
        ref = await partition_of(running, made)
        await ref.call(DeleteBefore(offset))
        assert disk.space("/").free > 5 * len(MESSAGE)
        [found] = await described_topics(running.topics)
        assert (found.partitions[0].start, found.partitions[0].end) == (5, 5)
    async with broker(disk) as running:
        [found] = await described_topics(running.topics)
        assert (found.partitions[0].start, found.partitions[0].end) == (5, 5)


async def test_retention_is_shortened_on_a_full_disk_and_frees_it(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    clock = SimulatedClock()
    async with broker(disk, clock, reserve_bytes=RESERVE_BYTES) as running:
        await filled(running, disk)
        clock.step(2 * HOUR)
        await running.topics.call(AlterTopic("orders", {"retention_hours": 1}))
        await trio.sleep(61)
        assert disk.space("/").free > 5 * len(MESSAGE)


async def test_what_is_not_synced_yet_is_purged_too(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with broker(disk) as running:
        made = await running.topics.call(CreateTopic("orders", 1, {}))
        ref = await partition_of(running, made)
        before = used(disk)
        await ref.call(publish(MESSAGE, acks=Acks.LEADER))
        await ref.call(DeleteBefore(None))
        assert used(disk) < before + len(MESSAGE)
        assert (await ref.call(Fetch(1, 100))).log_start == 1


@pytest.mark.parametrize("free", [0, 10])
async def test_without_a_reserve_a_refused_purge_changes_nothing_and_works_once_there_is_room(
    disk: SimulatedDisk, autojump_clock: MockClock, free: int
) -> None:
    """The log's start moved in memory alone, and a repeat did nothing."""
    async with broker(disk) as running:
        made = await filled(running, disk)
        disk.capacity += free
        ref = await partition_of(running, made)
        with pytest.raises(DiskFull):
            await ref.call(DeleteBefore(None))
        assert (await ref.call(Fetch(0, 100))).log_start == 0
        disk.capacity = ROOM
        await ref.call(DeleteBefore(None))
        assert used(disk) < 5 * len(MESSAGE)
