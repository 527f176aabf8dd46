"""Entries and snapshots as records of a log: what is durable comes back, and what is lost is noticed."""

from random import Random

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from goqueue.errors import DiskFull, TooLarge
from goqueue.storage.log.volume import Volume
from goqueue.storage.snapshotlog import snapshotlog
from goqueue.storage.snapshotlog.snapshotlog import LostRecords, ReplayedRecords, SnapshotLog
from goqueue.testing.disk import CAPACITY, SimulatedDisk
from tests.storage.logs import NOW, mounted
from tests.storage.snapshotlog.images import images_at

DIRECTORY = "/data/state"
CRASHES = 20


async def opened(volume: Volume) -> SnapshotLog:
    return (await SnapshotLog.open(volume, DIRECTORY, leader_epoch=1))[0]


async def filled(volume: Volume, *payloads: bytes) -> SnapshotLog:
    """With these records, each committed on its own."""
    log = await opened(volume)
    for payload in payloads:
        log.append([payload], NOW)
        await log.commit()
    return log


async def found_on(disk: SimulatedDisk) -> ReplayedRecords:
    """What the next process finds."""
    async with mounted(disk) as volume:
        return (await SnapshotLog.open(volume, DIRECTORY, leader_epoch=2))[1]


def claimed(log: SnapshotLog) -> bool:
    return log.is_claimed


def grown(log: SnapshotLog) -> bool:
    return log.has_grown


def segment(disk: SimulatedDisk, number: int = -1) -> str:
    return f"{DIRECTORY}/{[name for name in disk.list(DIRECTORY) if name.endswith('.log')][number]}"


async def test_records_come_back_in_order(volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    log = await opened(volume)
    log.append([b"a", b"b"], NOW)
    log.append([b"", b"c" * 5_000], NOW - 7)
    assert (log.written, log.durable) == (4, 0)
    await log.commit()
    assert log.durable == 4
    for crashed in (disk.crash(), disk.kill()):
        assert (await found_on(crashed)).items == [b"a", b"b", b"", b"c" * 5_000]


async def test_an_append_is_whole_or_not_there(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G2: a power loss may leave any part of what was not synced."""
    log = await filled(volume, b"a")
    log.append([b"b" * 3_000, b"c" * 3_000], NOW)
    outcomes = [(await found_on(disk.crash())).items for _ in range(CRASHES)]
    assert all(each in ([b"a"], [b"a", b"b" * 3_000, b"c" * 3_000]) for each in outcomes)


async def test_the_folder_is_durable_with_what_is_in_it_though_the_first_append_found_no_room(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    log = await opened(volume)
    disk.capacity = CAPACITY - disk.space("/").free
    with pytest.raises(DiskFull):
        log.append([b"a"], NOW)
    disk.capacity = CAPACITY
    await log.checkpoint()
    async with mounted(image := disk.kill()) as again:
        log = await opened(again)
        log.append([b"b"], NOW)
        await log.commit()
        assert [(await found_on(image.crash())).items for _ in range(CRASHES)] == [[b"b"]] * CRASHES


async def test_a_snapshot_stands_for_all_before_it(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    log = await filled(volume, b"a", b"b")
    await log.replace([b"AB"], NOW)
    log.append([b"c"], NOW)
    await log.commit()
    assert [name for name in disk.list(DIRECTORY) if name.endswith(".log")] == [f"{2:020d}.log"]
    assert (await found_on(disk.crash())).items == [b"AB", b"c"]
    assert log.written == 4, "offsets go on"


async def test_a_crash_during_a_snapshot_loses_nothing(autojump_clock: MockClock) -> None:
    """The disk is stopped at every write, sync and rename in turn: before it the records are there, after it the
    snapshot."""
    for stop in range(1, 40):
        disk = SimulatedDisk(Random(stop))
        async with mounted(disk) as volume:
            log = await filled(volume, b"a", b"b")
            images = images_at(disk, stop)
            await log.replace([b"AB"], NOW)
            log.append([b"c"], NOW)
            await log.commit()
        for image in images:
            items = (await found_on(image)).items
            after = items[items.index(b"AB") :] if b"AB" in items else items
            assert after in ([b"a", b"b"], [b"AB"], [b"AB", b"c"]), f"{items} at step {stop}"


async def test_entries_that_come_during_a_snapshot_follow_it(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    log = await filled(volume, b"a")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(log.replace, [b"A"], NOW)
        await wait_all_tasks_blocked()
        log.append([b"b"], NOW)
    await log.commit()
    assert (await found_on(disk.crash())).items == [b"A", b"b"]


async def test_a_large_snapshot_is_cut_into_batches(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    log = await filled(volume, b"a")
    snapshot = [bytes([number]) * 1_500_000 for number in range(9)]
    await log.replace(snapshot, NOW)
    assert (await found_on(disk.crash())).items == snapshot
    assert not grown(log)
    with pytest.raises(TooLarge):
        log.append([b"x" * 34_000_000], NOW)


async def test_the_log_asks_for_a_snapshot_when_it_has_grown(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    log = await filled(volume, b"a")
    assert not grown(log)
    log.append([b"b" * snapshotlog.GROWN_BYTES], NOW)
    assert grown(log)
    await log.replace([b"c" * 500_000], NOW)
    assert not grown(log)
    log.append([b"d" * 1_400_000], NOW)
    assert not grown(log), "less than four times the snapshot"


# Claims


async def test_a_checkpoint_claims_the_end(volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    """G13: the last record was durable, and a start says that it is gone instead of cutting it."""
    log = await filled(volume, b"a", b"b")
    assert not claimed(log)
    await log.checkpoint()
    assert claimed(log)
    path = segment(disk)
    size = disk.size(path)
    flipped, cut = disk.crash(), disk.crash()
    flipped.flip_bit(path, size - 1, 0)
    cut.cut(path, size - 40)
    for damaged in (flipped, cut):
        found = await found_on(damaged)
        assert found.items == [b"a", LostRecords(1, 2)]
        assert found.torn == 0
        [report] = found.reports
        assert "records 1 to 1" in report
        [copy] = [name for name in damaged.list(DIRECTORY) if name.endswith(".damaged")]
        assert copy in report


async def test_an_unclaimed_end_is_a_torn_tail(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    log = await filled(volume, b"a")
    log.append([b"b"], NOW)
    path = segment(disk)
    killed = disk.kill()
    killed.cut(path, disk.size(path) - 1)
    found = await found_on(killed)
    assert found.items == [b"a"]
    assert found.torn > 0
    assert "torn tail" in found.reports[0]


async def test_a_log_without_its_file_lost_everything(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    log = await filled(volume, b"a", b"b")
    await log.close()
    disk.remove(segment(disk))
    found = await found_on(disk)
    assert found.items == [LostRecords(0, 2)]
    assert "their file is gone" in found.reports[0]


async def test_records_behind_damage_are_found(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    log = await filled(volume, b"a" * 50, b"b" * 50, b"c" * 50)
    await log.close()
    disk.flip_bit(segment(disk), disk.size(segment(disk)) // 2, 0)
    found = await found_on(disk)
    assert found.items == [b"a" * 50, LostRecords(1, 2), b"c" * 50]


async def test_a_damaged_file_stays_aside_when_a_snapshot_replaces_it(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G13. The copy is made once, however often it is opened."""
    log = await filled(volume, b"a", b"b")
    await log.close()
    path = segment(disk)
    disk.flip_bit(path, disk.size(path) - 1, 0)
    damaged = await disk.open(path).read(0, disk.size(path))
    await found_on(disk)
    async with mounted(disk) as again:
        log, _ = await SnapshotLog.open(again, DIRECTORY, leader_epoch=3)
        await log.replace([b"A"], NOW)
    assert not disk.exists(path)
    [copy] = [name for name in disk.list(DIRECTORY) if name.endswith(".damaged")]
    assert await disk.open(f"{DIRECTORY}/{copy}").read(0, 1_000) == damaged
    assert (await found_on(disk)).items == [b"A"]


async def test_what_a_kill_left_can_be_claimed_after_the_next_start(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    await filled(volume, b"a")
    killed = disk.kill()
    async with mounted(killed) as again:
        log, _ = await SnapshotLog.open(again, DIRECTORY, leader_epoch=2)
        assert not claimed(log)
        await log.checkpoint()
        assert claimed(log)
    async with mounted(killed) as again:
        log, _ = await SnapshotLog.open(again, DIRECTORY, leader_epoch=3)
        assert claimed(log), "nothing was written since"


async def test_an_opening_writes_nothing_when_all_is_claimed(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """A start opens one for each partition with a group."""
    await (await filled(volume, b"a")).close()
    writes, syncs = disk.counts.writes, disk.counts.syncs
    log = await opened(volume)
    assert (disk.counts.writes, disk.counts.syncs) == (writes, syncs + 1)
    await log.close()
    assert disk.counts.writes == writes, "and neither does its close"


# A full disk


async def test_on_a_full_disk_nothing_changes_and_it_goes_on_after_a_commit(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    log = await filled(volume, b"a")
    disk.capacity = CAPACITY - disk.space("/").free
    with pytest.raises(DiskFull):
        log.append([b"b" * 10_000], NOW)
    disk.capacity = CAPACITY
    await log.commit()
    log.append([b"c"], NOW)
    await log.commit()
    assert (await found_on(disk.crash())).items == [b"a", b"c"]
