"""The log of the metadata: all records are there after a crash, damage stops the start, nothing is too large."""

from uuid import UUID

import pytest
from trio.testing import MockClock

from goqueue.core.metadata.metadata import BrokerMetadata, group_record
from goqueue.core.topics.metadata import Metadata, MetadataRecord
from goqueue.errors import DiskFull, UnknownFormat
from goqueue.storage.directory.recordlog import PART_BYTES, RecordLog
from goqueue.storage.log.volume import Volume
from goqueue.testing.disk import SimulatedDisk
from tests.storage.journals.crashes import crashes_of, leave_room
from tests.storage.logs import NOW, mounted
from tests.storage.oldregister import LIST, entries_of

SEGMENT = f"{LIST}/{0:020d}.log"
LARGE = BrokerMetadata().snapshot() | {"padding": bytes(3 * PART_BYTES)}


def topic(name: str, number: int) -> MetadataRecord:
    return Metadata().create_topic(name, 1, {}, UUID(int=number))


async def records_on(disk: SimulatedDisk) -> list[object]:
    async with mounted(disk) as volume:
        log, found = await RecordLog.open(volume, LIST)
        log.abandon()
        return found.records


async def test_what_was_committed_is_there_after_a_power_cut(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G1: records that are written together stay together."""
    log, _ = await RecordLog.open(volume, LIST)
    first, pair = topic("orders", 1), [topic("bills", 2), *map(group_record, entries_of("billing"))]
    await log.append([first], NOW)
    await log.commit()
    await log.append(pair, NOW)
    assert not log.is_durable
    for image in crashes_of(disk):
        assert await records_on(image) in ([first], [first, *pair])
    assert await records_on(disk.kill()) == [first, *pair]


async def test_on_a_full_disk_nothing_has_changed_and_it_works_again_once_there_is_room(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    log, _ = await RecordLog.open(volume, LIST)
    await log.append([topic("orders", 1)], NOW)
    leave_room(disk, 10)
    with pytest.raises(DiskFull):
        await log.append([topic("bills", 2)], NOW)
    with pytest.raises(DiskFull):
        await log.replace(BrokerMetadata().snapshot(), NOW)
    leave_room(disk, 1_000_000)
    await log.append([topic("audit", 3)], NOW)
    await log.commit()
    assert await records_on(disk.crash()) == [topic("orders", 1), topic("audit", 3)]


@pytest.mark.parametrize("damage", ["a cut", "a flipped bit"])
async def test_a_damaged_end_is_recognised_once_it_was_claimed(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock, damage: str
) -> None:
    """G13: it stops the start with the command that helps, again and again, and nothing is dropped silently."""
    log, _ = await RecordLog.open(volume, LIST)
    await log.append([topic("orders", 1)], NOW)
    await log.append([group_record(entry) for entry in entries_of("billing")], NOW)
    await log.commit()
    await log.checkpoint()
    disk = disk.kill()
    if damage == "a cut":
        disk.cut(SEGMENT, disk.size(SEGMENT) - 40)
    else:
        disk.flip_bit(SEGMENT, disk.size(SEGMENT) - 10, 0)
    for _ in range(2):
        async with mounted(disk) as again:
            with pytest.raises(UnknownFormat, match=r"groups is damaged.*`goqueue recover topics --data /data`"):
                await RecordLog.open(again, LIST)


async def test_a_torn_end_was_promised_to_nobody_and_is_cut(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    log, _ = await RecordLog.open(volume, LIST)
    await log.append([topic("orders", 1)], NOW)
    await log.commit()
    await log.append([topic("bills", 2)], NOW)
    disk = disk.kill()
    disk.cut(SEGMENT, disk.size(SEGMENT) - 40)
    async with mounted(disk) as again:
        log, found = await RecordLog.open(again, LIST)
        assert (found.records, found.torn > 0) == ([topic("orders", 1)], True)
        assert "torn tail" in found.reports[0]
        await log.close()


async def test_a_snapshot_of_any_size_is_one_record(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    log, _ = await RecordLog.open(volume, LIST)
    await log.append([topic("orders", 1)], NOW)
    await log.replace(LARGE, NOW)
    await log.append([topic("bills", 2)], NOW)
    await log.commit()
    assert await records_on(disk.crash()) == [LARGE, topic("bills", 2)]


async def test_a_large_snapshot_that_a_crash_cut_short_counts_for_nothing(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """The records before it are there."""
    log, _ = await RecordLog.open(volume, LIST)
    await log.append([topic("orders", 1)], NOW)
    await log.commit()
    before = await _segments(disk)
    await log.replace(LARGE, NOW)
    log.abandon()
    [large] = [name for name in disk.list(LIST) if name.endswith(".log") and disk.size(f"{LIST}/{name}")]
    for part in (1, 2, 3):
        image = disk.kill()
        for name in image.list(LIST):
            if name != large:
                image.remove(f"{LIST}/{name}")
        for name, contents in before.items():
            image.open(f"{LIST}/{name}", create=True).write(0, [contents])
        image.cut(f"{LIST}/{large}", part * PART_BYTES - 1)
        assert await records_on(image) == [topic("orders", 1)]


async def _segments(disk: SimulatedDisk) -> dict[str, bytes]:
    names = [name for name in disk.list(LIST) if name.endswith(".log") or name == "recovery-point"]
    return {name: await disk.open(f"{LIST}/{name}").read(0, disk.size(f"{LIST}/{name}")) for name in names}
