"""A damaged list of topics is rebuilt from the partitions' folders; a crash at any step can be repeated (G13)."""

from random import Random

import pytest
from trio.testing import MockClock

from goqueue.actors.topics.board import described_topics
from goqueue.actors.topics.requests import AlterTopic, CreateTopic, DeleteTopic, TopicView
from goqueue.errors import PartitionLost, UnknownFormat
from goqueue.storage.directory.rebuilding import RebuiltList, put_in_place, rebuild
from goqueue.storage.log.segment import LOG
from goqueue.storage.verification.verify import verify
from goqueue.testing.disk import SimulatedDisk
from goqueue.testing.faults import Faults
from tests.actors.delivery.gatherers import WatchedDisk, broker, partition_of, values
from tests.actors.partition.test_partition import publish
from tests.actors.topics.test_lost import remove_tree
from tests.storage.logs import mounted

LIST = "/data/logs/__metadata/0"
QUICK = Faults(sync_seconds=(0.0, 0.001), cold_read_seconds=(0.0, 0.0))


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(Random(0), faults=QUICK)


async def two_topics(disk: SimulatedDisk) -> list[TopicView]:
    async with broker(disk) as running:
        await running.topics.call(CreateTopic("gone", 1, {}))
        made = [
            await running.topics.call(CreateTopic("bills", 2, {"retention_hours": 7})),
            await running.topics.call(CreateTopic("orders", 3, {"retention_hours": 9})),
        ]
        await running.topics.call(DeleteTopic("gone"))
        for topic in made:
            await (await partition_of(running, topic)).call(publish(topic.name.encode()))
        await running.topics.call(AlterTopic("bills", {"retention_hours": 8}))
    return made


def log_file(disk: SimulatedDisk) -> str:
    [name] = [name for name in disk.list(LIST) if name.endswith(LOG)]
    return f"{LIST}/{name}"


async def found_at(disk: SimulatedDisk, value: bytes) -> int:
    data = bytes(await disk.open(log_file(disk)).read(0, disk.size(log_file(disk))))
    return data.index(value)


async def rebuilt_on(disk: SimulatedDisk | WatchedDisk, *, write: bool) -> tuple[RebuiltList, str | None]:
    async with mounted(disk) as volume:  # type: ignore[arg-type]
        rebuilt = await rebuild(volume, "/data", Random(0))
        aside = await put_in_place(volume, "/data", rebuilt.record, 0) if write else None
    return rebuilt, aside


async def test_a_damaged_list_is_named_with_one_advice_and_rebuilt(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """The creation of `bills` is damaged: its settings are lost, and its messages are kept until they are set."""
    made = await two_topics(disk)
    disk.flip_bit(log_file(disk), await found_at(disk, b"bills"), 0)
    with pytest.raises(UnknownFormat) as refusal:
        async with broker(disk):
            pytest.fail("it never started")
    assert "`goqueue recover topics --data /data`" in refusal.value.message
    assert "backup" not in refusal.value.message
    before = disk.list(LIST)
    rebuilt, _ = await rebuilt_on(disk, write=False)
    assert [(each.topic.name, each.has_settings) for each in rebuilt.topics] == [("bills", False), ("orders", True)]
    assert (rebuilt.is_same, bool(rebuilt.faults)) == (False, True)
    assert disk.list(LIST) == before
    _, aside = await rebuilt_on(disk, write=True)
    assert disk.list(f"/data/{aside}/0") == before
    async with broker(disk) as running:
        found = await described_topics(running.topics)
        assert [(each.name, each.uuid) for each in found] == [(each.name, each.uuid) for each in made]
        assert [each.config["retention_hours"] for each in found] == ["unlimited", 9]
        for topic in found:
            assert await values(await partition_of(running, topic)) == [topic.name.encode()]
    assert (await rebuilt_on(disk, write=False))[0].is_same


async def test_a_partition_without_a_folder_is_lost_in_the_rebuilt_list_too(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G3"""
    await two_topics(disk)
    remove_tree(disk, "/data/logs/orders/1")
    remove_tree(disk, "/data/logs/__metadata")
    rebuilt, _ = await rebuilt_on(disk, write=True)
    assert [(each.topic.name, each.missing) for each in rebuilt.topics] == [("bills", ()), ("orders", (1,))]
    async with broker(disk) as running:
        [_, orders] = await described_topics(running.topics)
        assert [isinstance(each.error, PartitionLost) for each in orders.partitions] == [False, True, False]


async def test_a_topic_whose_deletion_is_known_does_not_come_back(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with broker(disk) as running:
        made = await running.topics.call(CreateTopic("orders", 1, {}))
        await running.topics.call(DeleteTopic("orders"))
    disk.rename(f"/data/deleted/{made.uuid}", "/data/logs/orders")
    rebuilt, _ = await rebuilt_on(disk, write=False)
    assert rebuilt.topics == []


async def test_a_kill_at_any_step_of_a_recovery_can_be_repeated(autojump_clock: MockClock) -> None:
    disk = SimulatedDisk(Random(0), faults=QUICK)
    made = await two_topics(disk)
    disk.flip_bit(log_file(disk), await found_at(disk, b"bills"), 0)
    watched = WatchedDisk(disk, SimulatedDisk.kill)
    watched.images = []
    await rebuilt_on(watched, write=True)
    images, watched.images = watched.images, None
    for image in images[:: max(1, len(images) // 12)] + images[-3:]:
        await rebuilt_on(image, write=True)
        async with broker(image) as running:
            found = await described_topics(running.topics)
            assert [(each.name, each.uuid) for each in found] == [(each.name, each.uuid) for each in made]
            assert [each.config["retention_hours"] for each in found] == ["unlimited", 9]


async def test_no_broker_starts_between_the_two_moves_of_a_recovery(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G13: it would take every topic for an unknown one."""
    made = await two_topics(disk)
    disk.rename("/data/logs/__metadata", "/data/recovered-topics")
    with pytest.raises(UnknownFormat, match="goqueue recover topics --data /data --write"):
        async with broker(disk):
            pytest.fail("it never started")
    assert not (await rebuilt_on(disk, write=True))[0].is_same
    async with broker(disk) as running:
        assert [each.uuid for each in await described_topics(running.topics)] == [each.uuid for each in made]


async def test_verification_reports_a_lost_partition(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    await two_topics(disk)
    assert not (await verify(disk, "/data")).damage()
    remove_tree(disk, "/data/logs/orders/1")
    [finding] = (await verify(disk, "/data")).damage()
    assert (finding.kind, finding.path) == ("partition_lost", "/data/logs/orders/1")
    assert "goqueue topic restore-partition orders/1" in finding.text
