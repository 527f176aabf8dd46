"""Full disks, failing syncs, damage found while reading."""

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from goqueue.config import LogConfig
from goqueue.environment import File
from goqueue.errors import Closed, DamagedData, DiskFailed, DiskFull, LogStopped
from goqueue.storage.log.volume import Volume
from goqueue.testing.disk import SimulatedDisk
from goqueue.types import Buffer
from tests.storage.logs import NOW, SMALL, batch, mounted, open_log, path_of, publish, values_in

BIG = LogConfig()
SIZE = batch(b"x").size


async def used(disk: SimulatedDisk) -> int:
    return disk.capacity - disk.space("/").free


async def test_a_full_disk_refuses_the_append_and_cuts_the_tail_back(volume: Volume, disk: SimulatedDisk) -> None:
    """G2: all or nothing."""
    log = await open_log(volume, BIG)
    await publish(log, batch(b"before"))
    size = disk.size(path_of(0))
    for room in (0, 1, 50, 150):
        disk.capacity = await used(disk) + room
        with pytest.raises(DiskFull) as error:
            log.append([batch(b"too much"), batch(bytes(200))], NOW)
        assert error.value.retryable
        assert (disk.size(path_of(0)), log.end_offset) == (size, 1)
        await log.commit()
    disk.capacity = 1 << 30
    assert await publish(log, batch(b"after")) == [1]
    assert await values_in(log) == [b"before", b"after"]
    async with mounted(disk.crash()) as crashed:
        assert await values_in(await open_log(crashed)) == [b"before", b"after"]


async def test_a_full_disk_at_the_roll_changes_nothing(volume: Volume, disk: SimulatedDisk) -> None:
    log = await open_log(volume)
    await publish(log, batch(bytes(1_900)))
    disk.capacity = await used(disk)
    with pytest.raises(DiskFull):
        log.append([batch(bytes(500))], NOW)
    assert log.statistics().segments == 1
    disk.capacity = 1 << 30
    assert await publish(log, batch(bytes(500))) == [1]


async def test_a_full_disk_spoils_the_checkpoint_and_nothing_else(volume: Volume, disk: SimulatedDisk) -> None:
    log = await open_log(volume)
    for _ in range(10):
        await publish(log, batch(bytes(500)))
    disk.capacity = await used(disk)
    with pytest.raises(DiskFull):
        await log.checkpoint()
    assert len(await values_in(log)) == 10
    disk.capacity = 1 << 30
    await log.checkpoint()
    await log.close()
    assert len(await values_in(await open_log(volume))) == 10


async def test_a_log_opens_and_closes_on_a_full_disk(volume: Volume, disk: SimulatedDisk) -> None:
    log = await open_log(volume)
    for _ in range(10):
        await publish(log, batch(bytes(500)))
    disk.capacity = await used(disk)
    async with mounted(disk.kill()) as killed:
        log = await open_log(killed)
        assert len(await values_in(log)) == 10
        await log.close()


async def test_a_failed_sync_stops_the_log_until_it_is_reopened(volume: Volume, disk: SimulatedDisk) -> None:
    """The system forgets pages that it could not write: a second sync that succeeds proves nothing."""
    log = await open_log(volume, BIG)
    await publish(log, batch(b"durable"))
    log.append([batch(b"doomed")], NOW)
    disk.fail_next_sync()
    with pytest.raises(LogStopped):
        await log.commit()
    assert log.durable_offset == 1
    for attempt in (log.commit, log.checkpoint):
        with pytest.raises(LogStopped):
            await attempt()
    with pytest.raises(LogStopped):
        log.append([batch(b"more")], NOW)
    assert await values_in(log) == [b"durable"]
    await log.close()
    async with mounted(disk.crash()) as crashed:
        log = await open_log(crashed)
        assert await values_in(log) == [b"durable"]
        await publish(log, batch(b"again"))


async def test_a_failed_sync_of_the_folder_stops_the_log_too(volume: Volume, disk: SimulatedDisk) -> None:
    log = await open_log(volume)
    await publish(log, batch(bytes(1_900)))
    log.append([batch(bytes(500))], NOW)
    disk.fail_next_sync("/data/logs/orders/0")
    with pytest.raises(LogStopped):
        await log.commit()


async def test_damage_in_a_sealed_segment_is_named_by_reads_inside_and_felt_by_no_other(
    volume: Volume, disk: SimulatedDisk
) -> None:
    log = await open_log(volume)
    values = [bytes([number]) * 500 for number in range(12)]
    for value in values:
        await publish(log, batch(value))
    await log.checkpoint()
    disk.flip_bit(path_of(3), 700, 0)
    assert await values_in(log) == values[:4] + values[5:]
    with pytest.raises(DamagedData) as error:
        await log.read(4, 10_000)
    assert (error.value.offset, error.value.end_offset, error.value.path) == (4, 5, path_of(3))
    assert "go on reading at offset 5" in error.value.message
    assert (await log.read(3, 10_000)).next_offset == 4
    assert (await log.read(5, 10_000)).next_offset == 6


async def test_a_damaged_envelope_hides_its_own_batch_alone(volume: Volume, disk: SimulatedDisk) -> None:
    log = await open_log(volume, BIG)
    values = [b"%d" % number for number in range(30)]
    for value in values:
        await publish(log, batch(value))
    size = batch(b"0").size
    disk.flip_bit(path_of(0), 5 * size + 9, 0)
    assert await values_in(log) == values[:5] + values[6:]


async def test_a_sealed_file_that_lost_its_end_is_named(volume: Volume, disk: SimulatedDisk) -> None:
    log = await open_log(volume)
    for _ in range(12):
        await publish(log, batch(bytes(500)))
    await log.checkpoint()
    disk.cut(path_of(3), 700)
    with pytest.raises(DamagedData) as error:
        await log.read(5, 10_000)
    assert (error.value.offset, error.value.end_offset) == (4, 6)
    assert len(await values_in(log)) == 10


async def test_group_commit_shares_syncs_among_many(volume: Volume, disk: SimulatedDisk) -> None:
    log = await open_log(volume, BIG)
    before = disk.counts.syncs

    async def publish_one() -> None:
        log.append([batch(b"x")], NOW)
        await log.commit()

    async with trio.open_nursery() as nursery:
        for _ in range(1_000):
            nursery.start_soon(publish_one)
    assert log.durable_offset == 1_000
    assert disk.counts.syncs - before <= 3


async def test_a_commit_covers_only_what_was_appended_before_it(volume: Volume, disk: SimulatedDisk) -> None:
    log = await open_log(volume, BIG)
    log.append([batch(b"before")], NOW)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(log.commit)
        await trio.testing.wait_all_tasks_blocked()
        log.append([batch(b"during")], NOW)
    assert log.durable_offset == 1


async def test_a_cancelled_commit_leaves_nothing_unsynced_behind(volume: Volume, disk: SimulatedDisk) -> None:
    log = await open_log(volume)
    await publish(log, batch(bytes(1_900)))
    log.append([batch(bytes(500))], NOW)
    with trio.CancelScope() as scope:
        scope.cancel()
        await log.commit()
    await log.commit()
    async with mounted(disk.crash()) as crashed:
        assert len(await values_in(await open_log(crashed))) == 2


async def test_reads_go_on_while_their_segment_is_sealed_and_removed(volume: Volume, disk: SimulatedDisk) -> None:
    disk.faults.cold_read_odds = 1.0
    log = await open_log(volume)
    for _ in range(12):
        await publish(log, batch(bytes(500)))
    read: list[int] = []

    async def read_first() -> None:
        read.append((await log.read(0, 10_000)).next_offset)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read_first)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(log.delete_before, 12)
    assert read == [3]
    assert log.log_start == 12


async def test_an_idle_log_can_be_made_durable_without_another_append(volume: Volume, disk: SimulatedDisk) -> None:
    log = await open_log(volume, SMALL)
    log.append([batch(b"idle")], NOW)
    await log.commit()
    async with mounted(disk.crash()) as crashed:
        assert await values_in(await open_log(crashed)) == [b"idle"]


async def test_a_log_whose_committer_stopped_says_so(disk: SimulatedDisk) -> None:
    async with mounted(disk) as volume:
        log = await open_log(volume)
        log.append([batch(b"a")], NOW)
    with pytest.raises(Closed):
        await log.commit()


async def test_debris_of_a_refused_write_is_not_taken_for_damage(volume: Volume, disk: SimulatedDisk) -> None:
    """The cut after a full disk was not yet durable when the power failed, and the log had gone on meanwhile."""
    log = await open_log(volume)
    await publish(log, batch(bytes(1_500)))
    await publish(log, batch(bytes(1_500)))
    await publish(log, batch(b"claims what lies before as durable"))
    file = disk.open(path_of(0))
    file.write(file.size(), [b"debris"])
    async with mounted(disk.kill()) as killed:
        log = await open_log(killed)
        assert (len(await values_in(log)), log.statistics().damage) == (3, ())
        assert log.statistics().torn[0].size == len(b"debris")
        await log.close()
        assert (await open_log(killed)).statistics().torn == ()


async def test_a_recovery_point_that_cannot_be_synced_stops_the_log(volume: Volume, disk: SimulatedDisk) -> None:
    log = await open_log(volume)
    await publish(log, batch(b"a"))
    disk.fail_next_sync("/data/logs/orders/0/recovery-point.tmp")
    with pytest.raises(LogStopped):
        await log.checkpoint()
    with pytest.raises(LogStopped):
        log.append([batch(b"b")], NOW)


class BrokenFile:
    """A file of the simulated disk on a device that begins to fail."""

    def __init__(self, file: File) -> None:
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, position: int, buffers: Sequence[Buffer]) -> int:
        raise DiskFailed("the device does not answer")


class BreakingDisk(SimulatedDisk):
    broken = False

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> Any:
        file = super().open(path, create=create, writable=writable)
        return BrokenFile(file) if self.broken and path.endswith(".log") else file


async def test_a_write_that_the_device_refuses_stops_the_log(autojump_clock: MockClock) -> None:
    disk = BreakingDisk(Random(0))
    async with mounted(disk) as volume:
        log = await open_log(volume)
        await publish(log, batch(bytes(1_900)))
        disk.broken = True
        with pytest.raises(LogStopped):
            log.append([batch(bytes(1_900))], NOW)
        with pytest.raises(LogStopped):
            log.append([batch(b"x")], NOW)
        assert log.end_offset == 1


async def test_a_refused_write_never_comes_back_behind_what_is_written_after_it(disk: SimulatedDisk) -> None:
    """Its bytes may outlive the cut at a power cut; so nothing is written there before the cut is durable."""
    for seed in range(40):
        disk = SimulatedDisk(Random(seed))
        async with mounted(disk) as volume:
            log = await open_log(volume, BIG)
            await publish(log, batch(b"a"))
            disk.capacity = await used(disk) + 2 * SIZE + 10
            with pytest.raises(DiskFull):
                log.append([batch(b"x"), batch(b"y"), batch(bytes(500))], NOW)
            disk.capacity = 1 << 30
            with pytest.raises(DiskFull, match="commit"):
                log.append([batch(b"b")], NOW)
            await log.commit()
            await publish(log, batch(b"b"))
        async with mounted(disk.crash()) as crashed:
            assert await values_in(await open_log(crashed)) == [b"a", b"b"]


async def test_nothing_is_taken_while_the_log_closes(volume: Volume, disk: SimulatedDisk) -> None:
    """G15: everything accepted is on disk, so what cannot be is not accepted."""
    log = await open_log(volume, BIG)
    log.append([batch(b"before")], NOW)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(log.close)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(Closed):
            log.append([batch(b"during")], NOW)
