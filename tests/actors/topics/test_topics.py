"""Topics: made, changed and deleted durably; nothing is lost or taken over by mistake."""

from random import Random

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from goqueue.actors.partition.requests import DeleteBefore
from goqueue.actors.topics.board import described_topics
from goqueue.actors.topics.requests import (
    AddPartitions,
    AlterTopic,
    CreateTopic,
    DeleteTopic,
    FindPartition,
    TopicView,
)
from goqueue.errors import (
    DataDirectoryLocked,
    DiskFailed,
    DiskFull,
    InvalidConfig,
    InvalidName,
    TopicExists,
    UnknownPartition,
    UnknownTopic,
)
from goqueue.storage.directory.recordlog import RecordLog
from goqueue.testing.clock import SimulatedClock
from goqueue.testing.disk import SimulatedDisk
from tests.actors.delivery.gatherers import broker, partition_of, values
from tests.actors.partition.test_partition import publish
from tests.storage.logs import mounted

HOUR = 3_600_000_000
MANY = 3_000
"""Changes that together are larger than the metadata may grow."""


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(Random(0))


async def test_a_topic_has_what_it_was_made_with(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with broker(disk) as running:
        made = await running.topics.call(CreateTopic("orders", 3, {"retention_hours": 5}))
        assert (made.name, len(made.partitions), made.config["retention_hours"]) == ("orders", 3, 5)
        assert [view.partition for view in made.partitions] == [0, 1, 2]
        assert await described_topics(running.topics, ("orders",)) == (made,)


async def test_topics_settings_and_messages_survive_a_power_cut(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G1, and settings are not lost at a restart."""
    async with broker(disk) as running:
        made = await running.topics.call(CreateTopic("orders", 2, {}))
        await running.topics.call(AlterTopic("orders", {"overflow": "drop_oldest"}))
        await running.topics.call(AddPartitions("orders", 4))
        await (await partition_of(running, made, 3)).call(publish(b"kept"))
        image = disk.crash()
    async with broker(image) as running:
        [found] = await described_topics(running.topics)
        assert (found.uuid, len(found.partitions), found.config["overflow"]) == (made.uuid, 4, "drop_oldest")
        assert await values(await partition_of(running, found, 3)) == [b"kept"]


async def test_a_topic_made_again_has_another_uuid_and_none_of_the_old_data(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with broker(disk) as running:
        first = await running.topics.call(CreateTopic("orders", 1, {}))
        await (await partition_of(running, first)).call(publish(b"old"))
        await running.topics.call(DeleteTopic("orders"))
        second = await running.topics.call(CreateTopic("orders", 1, {}))
        assert second.uuid != first.uuid
        assert await values(await partition_of(running, second)) == []
        with pytest.raises(UnknownTopic):
            await partition_of(running, first)
        image = disk.crash()
    async with broker(image) as running:
        [found] = await described_topics(running.topics)
        assert found.uuid == second.uuid
        assert image.is_directory(f"/data/deleted/{first.uuid}")


async def test_a_deletion_that_a_crash_cut_short_is_finished(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with broker(disk) as running:
        made = await running.topics.call(CreateTopic("orders", 1, {}))
        await running.topics.call(DeleteTopic("orders"))
    disk.rename(f"/data/deleted/{made.uuid}", "/data/logs/orders")
    async with broker(disk) as running:
        assert await described_topics(running.topics) == ()
        assert disk.is_directory(f"/data/deleted/{made.uuid}")


async def test_a_folder_that_belongs_to_no_topic_is_set_aside_and_not_deleted(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G13"""
    async with broker(disk) as running:
        made = await running.topics.call(CreateTopic("orders", 1, {}))
        await (await partition_of(running, made)).call(publish(b"kept"))
    for name in disk.list("/data/logs/__metadata/0"):
        disk.remove(f"/data/logs/__metadata/0/{name}")
    async with broker(disk) as running:
        assert await described_topics(running.topics) == ()
        other = await running.topics.call(CreateTopic("orders", 1, {}))
        assert await values(await partition_of(running, other)) == []
    assert disk.list(f"/data/stray/orders-{made.uuid}/0")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "__mine", "x" * 197, "ü", "a\0b"])
async def test_a_bad_name_reaches_no_path(disk: SimulatedDisk, autojump_clock: MockClock, name: str) -> None:
    async with broker(disk) as running:
        before = disk.list("/data/logs")
        with pytest.raises(InvalidName):
            await running.topics.call(CreateTopic(name, 1, {}))
        assert disk.list("/data/logs") == before


async def test_refusals_change_nothing(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    """G14"""
    async with broker(disk) as running:
        made = await running.topics.call(CreateTopic("orders", 2, {}))
        for message, error in (
            (CreateTopic("orders", 1, {}), TopicExists),
            (CreateTopic("other", 0, {}), InvalidConfig),
            (CreateTopic("other", 1, {"retention": 5, "nonsense": 1}), InvalidConfig),
            (AlterTopic("orders", {"segment_bytes": -1}), InvalidConfig),
            (AddPartitions("orders", 1), InvalidConfig),
            (AlterTopic("missing", {}), UnknownTopic),
            (DeleteTopic("missing"), UnknownTopic),
            (FindPartition(made.uuid, 2), UnknownPartition),
        ):
            with pytest.raises(error):
                await running.topics.call(message)
        with pytest.raises(UnknownTopic):
            await described_topics(running.topics, ("missing",))
        assert await described_topics(running.topics) == (made,)


async def test_many_changes_become_a_snapshot(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with broker(disk) as running:
        await running.topics.call(CreateTopic("orders", 1, {}))
        for number in range(MANY):
            await running.topics.call(AlterTopic("orders", {"retention_hours": 1 + number}))
    async with broker(disk) as running:
        [found] = await described_topics(running.topics)
        assert found.config["retention_hours"] == MANY
    async with mounted(disk) as volume:
        log, metadata = await RecordLog.open(volume, "/data/logs/__metadata/0")
        assert len(metadata.records) < MANY / 2
        await log.close()


async def test_settings_count_at_once(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    clock = SimulatedClock()
    async with broker(disk, clock) as running:
        made = await running.topics.call(CreateTopic("orders", 1, {}))
        await (await partition_of(running, made)).call(publish(b"old"))
        await running.topics.call(AlterTopic("orders", {"retention_hours": 1}))
        clock.step(2 * HOUR)
        await trio.sleep(61)
        [found] = await described_topics(running.topics)
        assert found.partitions[0].start == 1, "the janitor came round"


async def test_a_second_broker_on_the_directory_is_refused_and_leaves_nothing_behind(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with broker(disk) as running:
        with pytest.raises(DataDirectoryLocked):
            async with broker(disk):
                pass
        assert await described_topics(running.topics) == ()
    async with broker(disk):
        pass


async def test_a_deleted_topic_whose_folder_cannot_be_moved_leaves_nothing_to_the_next_of_its_name(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with broker(disk) as running:
        first = await running.topics.call(CreateTopic("orders", 1, {}))
        await (await partition_of(running, first)).call(publish(b"old"))
        disk.open("/data/deleted", create=True).close()
        for message in (DeleteTopic("orders"), CreateTopic("orders", 1, {})):
            with pytest.raises(DiskFailed):
                await running.topics.call(message)
        with pytest.raises(UnknownTopic):
            await described_topics(running.topics, ("missing",))
        assert await described_topics(running.topics) == ()
        disk.remove("/data/deleted")
        second = await running.topics.call(CreateTopic("orders", 1, {}))
        assert await values(await partition_of(running, second)) == []
        assert disk.list("/data/deleted") == [str(first.uuid)]


async def test_a_change_refused_by_a_full_disk_works_once_there_is_room(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with broker(disk) as running:
        await running.topics.call(CreateTopic("orders", 1, {}))
        capacity, disk.capacity = disk.capacity, disk.capacity - disk.space("/").free
        for message in (DeleteTopic("orders"), CreateTopic("others", 1, {}), AlterTopic("orders", {})):
            with pytest.raises(DiskFull):
                await running.topics.call(message)
        disk.capacity = capacity
        assert [topic.name for topic in await described_topics(running.topics)] == ["orders"]
        await running.topics.call(DeleteTopic("orders"))
    async with broker(disk) as running:
        assert await described_topics(running.topics) == ()


async def test_what_nobody_signed_is_not_taken_over_by_a_new_topic(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G13: it is set aside, each time under another name."""
    async with broker(disk) as running:
        for number in (1, 2):
            for path in ("/data/logs/orders", "/data/logs/orders/0"):
                disk.make_directory(path)
            disk.open("/data/logs/orders/0/00000000000000000000.log", create=True).write(0, [b"theirs"])
            made = await running.topics.call(CreateTopic("orders", 1, {}))
            assert await values(await partition_of(running, made)) == []
            assert len(disk.list("/data/stray")) == number
            await running.topics.call(DeleteTopic("orders"))


async def test_a_question_to_a_partition_that_is_busy_keeps_nobody_else_waiting(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with broker(disk) as running:
        made = await running.topics.call(CreateTopic("orders", 1, {}))
        ref = await partition_of(running, made)
        async with trio.open_nursery() as nursery:
            disk.faults.sync_seconds = (30.0, 30.0)
            nursery.start_soon(ref.call, DeleteBefore(None))
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(described_topics, running.topics)
            await trio.testing.wait_all_tasks_blocked()
            with trio.fail_after(1):
                assert await partition_of(running, made) == ref


async def test_describing_all_topics_passes_over_one_that_is_deleted_meanwhile(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with broker(disk) as running:
        for name in ("orders", "others"):
            await running.topics.call(CreateTopic(name, 2, {}))
        found: list[tuple[TopicView, ...]] = []

        async def describe() -> None:
            found.append(await described_topics(running.topics))

        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(describe)
            nursery.start_soon(running.topics.call, DeleteTopic("orders"))
        assert all([view.name for view in views][-1:] == ["others"] for views in found)
        assert len(found) == 20
