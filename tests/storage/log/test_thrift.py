"""What a log costs when nothing happens: syncs at its start and stop, descriptors while it rests."""

from random import Random
from typing import Any
from uuid import UUID

import msgpack
import pytest
from trio.testing import MockClock

from goqueue.config import HOUR, LogConfig
from goqueue.core.records.batch import Producer
from goqueue.core.topics.metadata import Metadata, MetadataRecord
from goqueue.storage.directory.recordlog import RecordLog
from goqueue.storage.log.growing import CopiedBatch
from goqueue.storage.log.log import Log
from goqueue.storage.log.volume import Volume
from goqueue.storage.snapshotlog.snapshotlog import SEGMENT_BYTES
from goqueue.testing.disk import SimulatedDisk
from tests.storage.logs import (
    DIRECTORY,
    NOW,
    SMALL,
    batch,
    envelopes_in,
    file_names,
    mounted,
    open_log,
    publish,
    read_all,
    values_in,
)

CHANGES = 9_000


def syncs(disk: SimulatedDisk) -> tuple[int, int]:
    """Of files and of folders, so far."""
    return disk.counts.syncs, disk.counts.directory_syncs


async def test_the_stop_of_an_idle_log_costs_no_sync(volume: Volume, disk: SimulatedDisk) -> None:
    log = await open_log(volume)
    await publish(log, batch(b"a"))
    await log.checkpoint()
    before = syncs(disk)
    await log.close()
    assert syncs(disk) == before
    async with mounted(disk.crash()) as crashed:
        log = await open_log(crashed)
        assert log.statistics().scanned_bytes > 0
        assert await values_in(log) == [b"a"]


async def test_the_stop_of_a_log_that_was_written_to_moves_its_recovery_point(
    volume: Volume, disk: SimulatedDisk
) -> None:
    log = await open_log(volume)
    await log.checkpoint()
    await publish(log, batch(b"a"))
    before = syncs(disk)
    await log.close()
    assert syncs(disk) == (before[0] + 1, before[1] + 1)


async def test_a_start_after_an_orderly_stop_syncs_the_file_and_the_recovery_point(
    volume: Volume, disk: SimulatedDisk
) -> None:
    log = await open_log(volume)
    await publish(log, batch(b"a"))
    await log.close()
    before = syncs(disk)
    log = await open_log(volume)
    assert syncs(disk) == (before[0] + 2, before[1] + 1)
    assert log.leader_epoch == 2
    assert log.high_watermark == 1


@pytest.mark.parametrize("seed", range(20))
async def test_a_name_that_was_never_synced_is_synced_by_the_next_start(disk: SimulatedDisk, seed: int) -> None:
    """G1: a segment that a killed process left is confirmed only with its name."""
    disk = SimulatedDisk(Random(seed))
    async with mounted(disk) as volume:
        log = await open_log(volume)
        await publish(log, batch(b"a"))
        await log.checkpoint()
        log.roll()
    killed = disk.kill()
    async with mounted(killed) as volume:
        log = await open_log(volume)
        await publish(log, batch(b"b"))
    async with mounted(killed.crash()) as volume:
        assert await values_in(await open_log(volume)) == [b"a", b"b"]


class CountingDisk:
    """Knows how many files are open for writing."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self._disk = disk
        self.open_now: set[Any] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._disk, name)

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> Any:
        file = self._disk.open(path, create=create, writable=writable)
        if writable:
            self.open_now.add(file)
            close = file.close

            def counted() -> None:
                self.open_now.discard(file)
                close()

            file.close = counted  # type: ignore[method-assign]
        return file


async def test_logs_at_rest_share_a_bounded_number_of_descriptors(autojump_clock: MockClock, nursery: Any) -> None:
    disk = CountingDisk(SimulatedDisk(Random(0)))
    volume = Volume(disk, growing_files_max=3)
    await nursery.start(volume.run)
    logs = [await Log.open(volume, f"/data/logs/orders/{number}", SMALL) for number in range(10)]
    for turn in range(5):
        for log in logs:
            await publish(log, batch(b"%d" % turn))
        assert len(disk.open_now) <= 3
    for log in logs:
        log.append([batch(b"unsynced")], NOW)
    assert len(disk.open_now) == 10, "what is not durable stays open"
    for number, log in enumerate(logs):
        log.advance_high_watermark(await log.commit())
        unsynced, resting = 9 - number, min(number + 1, 3)
        assert len(disk.open_now) == unsynced + resting, "those that are not durable yet are still open"
        assert await values_in(log) == [*(b"%d" % turn for turn in range(5)), b"unsynced"]
    assert len(disk.open_now) <= 3
    for log in logs:
        await log.close()
    assert not disk.open_now


async def test_a_list_of_topics_that_changes_for_ever_stays_small(volume: Volume, disk: SimulatedDisk) -> None:
    """What it says is a snapshot and the changes since; what it was goes, a segment at a time."""
    metadata, written = Metadata(), 0
    log, _ = await RecordLog.open(volume, DIRECTORY)

    async def change(record: MetadataRecord) -> None:
        nonlocal written
        await log.append([record], NOW)
        await log.commit()
        metadata.apply(record)
        written += len(msgpack.packb(record))
        if log.has_grown:
            await log.replace(metadata.snapshot(), NOW)

    sizes = []
    for number in range(CHANGES // 3):
        await change(metadata.create_topic("passing", 1, {}, UUID(int=number + 1)))
        await change(metadata.alter_topic("passing", {"retention_hours": number + 1}))
        await change(metadata.delete_topic("passing"))
        sizes.append(sum(disk.size(f"{DIRECTORY}/{name}") for name in disk.list(DIRECTORY)))
    assert max(sizes) < 2.5 * SEGMENT_BYTES
    assert written > 2 * SEGMENT_BYTES
    await log.close()
    log, found = await RecordLog.open(volume, DIRECTORY)
    assert len(found.records) < CHANGES / 3
    await log.close()


# Copies


async def copied(log: Log) -> list[CopiedBatch]:
    batches, offset = [], log.log_start
    while offset < log.end_offset:
        found = await log.read(offset, 100_000)
        position = 0
        for envelope, _ in envelopes_in(found.data):
            batches.append(CopiedBatch(envelope, memoryview(found.data)[position : position + envelope.size]))
            position += envelope.size
        offset = found.next_offset
    return batches


async def test_a_copy_has_the_batches_and_the_segments_of_its_original(volume: Volume, disk: SimulatedDisk) -> None:
    """Rolled by size and by age, as if each batch had come when it came."""
    config = LogConfig(segment_bytes=2_000, segment_age=HOUR)
    log = await open_log(volume, config)
    for number in range(12):
        value = bytes([number]) * (500 if number < 6 else 50)
        now = NOW + number * (HOUR // 2 if number >= 6 else 1)
        await publish(log, batch(value, timestamp=now, producer=Producer(7, 0, number)), now=now)
    copy = await Log.open(volume, "/copy", config)
    copy.append_copied(await copied(log))
    copy.advance_high_watermark(await copy.commit())
    assert await copied(copy) == await copied(log)
    assert await read_all(copy) == await read_all(log)
    await copy.checkpoint()
    await log.checkpoint()
    names = [name for name in disk.list("/copy") if name.endswith(".log")]
    assert names == file_names(disk, ".log")
    assert len(names) > 4
    remembered = copy.producers.get(7)
    assert remembered == log.producers.get(7)
    assert disk.list(DIRECTORY) == disk.list("/copy")


async def test_a_copy_with_a_gap_is_a_bug(volume: Volume, disk: SimulatedDisk) -> None:
    log = await open_log(volume)
    for number in range(3):
        await publish(log, batch(b"%d" % number))
    copy = await Log.open(volume, "/copy", SMALL)
    first, _, third = await copied(log)
    with pytest.raises(AssertionError, match="no gaps"):
        copy.append_copied([first, third])


def seals(disk: SimulatedDisk) -> int:
    return sum(name.endswith(".seal") for name in file_names(disk))


async def test_who_closes_a_log_does_not_wait_for_a_checkpoint_that_has_much_to_seal(
    volume: Volume, disk: SimulatedDisk
) -> None:
    """G15: on a slow disk what was accepted must be durable before the patience of a stop is over."""
    log = await open_log(volume, SMALL)
    for number in range(10):
        await publish(log, batch(b"%d" % number + bytes(200)))
    before = seals(disk)
    log.hurry()
    await log.checkpoint()
    assert seals(disk) == before
    assert log.durable_offset == 10
    await log.close()
    assert seals(disk) > before
