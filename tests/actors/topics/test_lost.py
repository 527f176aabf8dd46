"""A partition that the list of topics has and the disk lacks: it is not begun anew, and it can be restored (G3)."""

from collections.abc import Callable
from random import Random

import pytest
from trio.testing import MockClock

from goqueue.actors.partition.requests import DeleteBefore, Fetch
from goqueue.actors.topics.board import described_topics, topics_board
from goqueue.actors.topics.requests import (
    CreateTopic,
    RestorePartition,
    TopicView,
)
from goqueue.core.topics.loss import RESTART_GAP
from goqueue.errors import PartitionLost, UnknownPartition
from goqueue.storage.checkedjson import pack
from goqueue.storage.directory.recordlog import RecordLog
from goqueue.storage.slices import Slices
from goqueue.testing.disk import SimulatedDisk
from goqueue.testing.faults import Faults
from tests.actors.delivery.gatherers import WatchedDisk, broker, partition_of, values
from tests.actors.partition.test_partition import publish
from tests.storage.logs import mounted

FOLDER = "/data/logs/orders/1"
End = Callable[[SimulatedDisk], SimulatedDisk]
QUICK = Faults(sync_seconds=(0.0, 0.001), cold_read_seconds=(0.0, 0.0))


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(Random(0), faults=QUICK)


async def three_partitions(disk: SimulatedDisk) -> TopicView:
    async with broker(disk) as running:
        made = await running.topics.call(CreateTopic("orders", 3, {}))
        for number in range(3):
            await (await partition_of(running, made, number)).call(publish(b"%d" % number))
    return made


def remove_tree(disk: SimulatedDisk, path: str) -> None:
    if not disk.is_directory(path):
        disk.remove(path)
        return
    for name in disk.list(path):
        remove_tree(disk, f"{path}/{name}")
    disk.remove_directory(path)


def empty(disk: SimulatedDisk, path: str, *, but: tuple[str, ...] = ()) -> None:
    for name in disk.list(path):
        if name not in but:
            disk.remove(f"{path}/{name}")


async def test_a_missing_folder_is_lost_and_the_rest_is_served(
    disk: SimulatedDisk, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """G3, G13: it was once begun anew at offset 0, without a word."""
    made = await three_partitions(disk)
    remove_tree(disk, FOLDER)
    for _ in range(2):
        async with broker(disk) as running:
            for number in (0, 2):
                assert await values(await partition_of(running, made, number)) == [b"%d" % number]
            for message in (publish(b"more"), Fetch(0, 100), DeleteBefore(None)):
                with pytest.raises(PartitionLost, match="topic restore-partition orders/1") as refusal:
                    await (await partition_of(running, made, 1)).call(message)
                assert not refusal.value.retryable
            [found] = await described_topics(running.topics)
            assert [isinstance(view.error, PartitionLost) for view in found.partitions] == [False, True, False]
            counts = await (await topics_board(running.topics)).count(Slices())
            assert (counts.lost, counts.unavailable) == (1, 0)
        assert not disk.exists(FOLDER)
    assert "its folder is gone" in caplog.text


@pytest.mark.parametrize("but", [(), ("topic.json", "recovery-point")])
async def test_an_emptied_folder_is_lost_too(
    disk: SimulatedDisk, autojump_clock: MockClock, but: tuple[str, ...]
) -> None:
    """G3"""
    made = await three_partitions(disk)
    empty(disk, FOLDER, but=but)
    async with broker(disk) as running:
        with pytest.raises(PartitionLost):
            await (await partition_of(running, made, 1)).call(publish(b"more"))
        found = await running.topics.call(RestorePartition("orders", 1, accept_loss=True))
        assert found.is_restored
        [view] = await described_topics(running.topics)
        assert view.partitions[1].start == view.partitions[1].end == found.start


async def test_what_was_never_written_to_or_was_purged_is_not_lost(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with broker(disk) as running:
        made = await running.topics.call(CreateTopic("orders", 2, {}))
        ref = await partition_of(running, made, 1)
        await ref.call(publish(b"old"))
        await ref.call(DeleteBefore(None))
    for _ in range(2):
        async with broker(disk) as running:
            [found] = await described_topics(running.topics)
            assert [view.error for view in found.partitions] == [None, None]
            assert [view.end for view in found.partitions] == [0, 1]


async def test_a_lost_partition_is_restarted_behind_all_offsets_that_are_named(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G3: it keeps its place for whoever knows it, and a second request changes nothing."""
    made = await three_partitions(disk)
    remove_tree(disk, FOLDER)
    committed(disk, "billing", {"orders": {"0": 9_000, "1": 700}}, str(made.uuid))
    async with broker(disk) as running:
        ref = await partition_of(running, made, 1)
        plan = await running.topics.call(RestorePartition("orders", 1))
        assert (plan.was_lost, plan.is_restored, plan.highest) == (True, False, 700)
        assert plan.named_by == "/data/offsets/billing/offsets.json"
        assert not disk.exists(FOLDER), "a dry run changes nothing"
        known = RestorePartition("orders", 1, accept_loss=True, at_least=5_000, known_by="a backup")
        done = await running.topics.call(known)
        assert (done.is_restored, done.start, done.named_by) == (True, 5_000 + RESTART_GAP, "a backup")
        assert (await ref.call(publish(b"new"))).base_offset == done.start
        assert not (await running.topics.call(known)).was_lost
        assert (await (await topics_board(running.topics)).count(Slices())).lost == 0
    async with broker(disk) as running:
        [found] = await described_topics(running.topics)
        assert [(view.start, view.end) for view in found.partitions] == [
            (0, 1),
            (done.start, done.start + 1),
            (0, 1),
        ]


def committed(disk: SimulatedDisk, group: str, offsets: dict[str, dict[str, int]], uuid: str) -> None:
    for folder in ("/data/offsets", f"/data/offsets/{group}"):
        disk.make_directory(folder)
    contents = pack({"group": group, "offsets": offsets, "topics": dict.fromkeys(offsets, uuid)})
    disk.open(f"/data/offsets/{group}/offsets.json", create=True).write(0, [contents])


async def test_a_partition_that_is_not_lost_is_left_alone(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    made = await three_partitions(disk)
    async with broker(disk) as running:
        found = await running.topics.call(RestorePartition("orders", 1, accept_loss=True))
        assert not found.was_lost
        assert await values(await partition_of(running, made, 1)) == [b"1"]
        with pytest.raises(UnknownPartition):
            await running.topics.call(RestorePartition("orders", 3, accept_loss=True))


async def test_a_lost_partition_is_served_again_once_its_folder_is_back(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    made = await three_partitions(disk)
    disk.rename(FOLDER, "/kept")
    async with broker(disk):
        pass
    disk.rename("/kept", FOLDER)
    async with broker(disk) as running:
        assert await values(await partition_of(running, made, 1)) == [b"1"]


@pytest.mark.parametrize("end", [SimulatedDisk.crash, SimulatedDisk.kill], ids=["power cut", "kill"])
async def test_an_end_at_any_step_of_a_restoration_leaves_it_lost_or_restored(
    end: End, autojump_clock: MockClock
) -> None:
    """G3: at no step does it begin at 0."""
    disk = SimulatedDisk(Random(0), faults=QUICK)
    await three_partitions(disk)
    empty(disk, FOLDER, but=("topic.json", "recovery-point"))
    await disk.sync_directory(FOLDER)
    watched = WatchedDisk(disk, end)
    async with broker(watched) as running:
        watched.images = []
        done = await running.topics.call(RestorePartition("orders", 1, accept_loss=True))
        images, watched.images = watched.images, None
    outcomes = set()
    for image in images[::2]:
        async with broker(image) as running:
            [found] = await described_topics(running.topics)
            view = found.partitions[1]
            outcomes.add("lost" if view.error is not None else view.start)
    assert outcomes == {"lost", done.start}


async def test_a_directory_of_an_earlier_goqueue_loses_nothing_and_is_watched_from_then_on(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """Its records do not say which folders were made: what is missing is made, once."""
    await three_partitions(disk)
    await forget_signatures(disk)
    remove_tree(disk, "/data/logs/orders/2")
    async with broker(disk) as running:
        [found] = await described_topics(running.topics)
        assert [view.error for view in found.partitions] == [None] * 3
    remove_tree(disk, "/data/logs/orders/2")
    async with broker(disk) as running:
        [found] = await described_topics(running.topics)
        assert [view.error is not None for view in found.partitions] == [False, False, True]


async def test_a_directory_of_an_earlier_goqueue_is_known_to_have_lost_what_groups_have_read(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    made = await three_partitions(disk)
    await forget_signatures(disk)
    remove_tree(disk, FOLDER)
    committed(disk, "billing", {"orders": {"1": 1}}, str(made.uuid))
    async with broker(disk) as running:
        [found] = await described_topics(running.topics)
        assert [view.error is not None for view in found.partitions] == [False, True, False]


async def forget_signatures(disk: SimulatedDisk) -> None:
    """As if the topics had been made before folders were counted."""
    async with mounted(disk) as volume:
        log, found = await RecordLog.open(volume, "/data/logs/__metadata/0")
        [topic] = [each for each in found.records if isinstance(each, dict) and each["kind"] == "create_topic"]
        plain = {key: value for key, value in topic.items() if key not in ("kind", "v")}
        await log.replace({"v": 1, "kind": "snapshot", "topics": [plain], "deleted": []}, 0)
        await log.close()
