"""A copy of one partition: whatever became of the original meanwhile, its offsets are those of the copy."""

import msgpack
import pytest
from crc32c import crc32c
from trio.testing import MockClock

from goqueue.core.ledger.ledger import Ledger
from goqueue.core.ledger.settings import LedgerSettings
from goqueue.core.records.batch import seal_envelope
from goqueue.errors import IncompleteCopy
from goqueue.storage.backup.backup import CopiedPartition, Lost, PartitionCopy
from goqueue.storage.backup.groups import read_ledgers, write_ledgers
from goqueue.storage.journals.journal import Journal
from goqueue.storage.log.growing import CopiedBatch
from goqueue.storage.log.log import Log
from goqueue.storage.log.volume import Volume
from goqueue.storage.snapshotlog.ledgers import FOLDER as LEDGERS
from goqueue.storage.snapshotlog.ledgers import JOURNAL, LedgerLog, WrittenLedger, snapshot_parts
from goqueue.storage.snapshotlog.snapshotlog import SnapshotLog
from goqueue.testing.disk import SimulatedDisk
from tests.storage.journals.crashes import crashes_of
from tests.storage.log.test_thrift import copied
from tests.storage.logs import NOW, SMALL, batch, mounted, open_log, publish, read_all
from tests.storage.oldregister import write_copied_journal

FOLDER = "/copy"


async def original(volume: Volume) -> list[CopiedBatch]:
    """Four batches of three records each."""
    log = await open_log(volume)
    for number in range(4):
        await publish(log, batch(*(b"%d" % (3 * number + each) for each in range(3))))
    return await copied(log)


def begun(volume: Volume, start: int = 0, end: int = 12) -> PartitionCopy:
    volume.disk.make_directory(FOLDER)
    return PartitionCopy(volume, FOLDER, SMALL, CopiedPartition("orders", "", 0, 4, start, end))


def emptied(batches: list[CopiedBatch]) -> CopiedBatch:
    """What compaction leaves of batches that lost all records."""
    first, last = batches[0].envelope, batches[-1].envelope
    delta = last.end_offset - first.base_offset - 1
    envelope = last._replace(
        length=0, record_count=0, body_crc=0, base_offset=first.base_offset, last_offset_delta=delta
    )
    return CopiedBatch(envelope, seal_envelope(envelope))


async def offsets(volume: Volume) -> tuple[int, list[int], int]:
    log = await Log.open(volume, FOLDER, SMALL)
    assert log.statistics().damage == ()
    return log.log_start, [record.offset for record in await read_all(log)], log.end_offset


async def test_an_empty_batch_that_swallowed_its_neighbours_is_taken_in_part(
    volume: Volume, disk: SimulatedDisk
) -> None:
    batches = await original(volume)
    copy = begun(volume, end=9)
    await copy.add(batches[:2])
    await copy.add([emptied(batches[1:])])
    assert (await copy.finish()).records == 6
    assert await offsets(volume) == (0, [0, 1, 2, 3, 4, 5], 9)


async def test_a_copy_may_begin_with_a_part_of_an_empty_batch(volume: Volume, disk: SimulatedDisk) -> None:
    batches = await original(volume)
    copy = begun(volume, start=2)
    await copy.add([emptied(batches[:2]), *batches[2:]])
    await copy.finish()
    assert await offsets(volume) == (2, [6, 7, 8, 9, 10, 11], 12)


async def test_what_was_let_go_meanwhile_is_not_there(volume: Volume, disk: SimulatedDisk) -> None:
    batches = await original(volume)
    copy = begun(volume)
    await copy.add(batches[:1])
    copy.begin_later(7)
    await copy.add(batches[2:])
    assert (await copy.finish()).start == 7
    assert await offsets(volume) == (7, [7, 8, 9, 10, 11], 12)


async def test_everything_may_be_let_go_meanwhile(volume: Volume, disk: SimulatedDisk) -> None:
    """G3: it goes on where the original does."""
    batches = await original(volume)
    copy = begun(volume)
    await copy.add(batches[:1])
    copy.begin_later(99)
    assert ((await copy.finish()).start, copy.position) == (12, 12)
    assert await offsets(volume) == (12, [], 12)


async def test_what_cannot_be_read_leaves_its_offsets(volume: Volume, disk: SimulatedDisk) -> None:
    batches = await original(volume)
    copy = begun(volume)
    await copy.pass_over(3)
    await copy.add(batches[1:3])
    await copy.pass_over(99)
    assert (await copy.finish()).lost == [Lost(0, 3), Lost(9, 12)]
    assert await offsets(volume) == (0, [3, 4, 5, 6, 7, 8], 12)


async def test_a_copy_that_misses_something_is_not_finished(volume: Volume, disk: SimulatedDisk) -> None:
    batches = await original(volume)
    copy = begun(volume)
    await copy.add(batches[:1])
    with pytest.raises(IncompleteCopy, match="offset 3 is missing"):
        await copy.add(batches[2:])
    with pytest.raises(IncompleteCopy, match="ends at 3"):
        await copy.finish()


async def test_leader_epochs_go_on_rising(volume: Volume, disk: SimulatedDisk) -> None:
    copy = begun(volume, start=12)
    await copy.finish()
    log = await Log.open(volume, FOLDER, SMALL)
    assert (log.leader_epoch, log.end_offset) == (6, 12)


# Groups


async def test_the_ledgers_of_a_copy_are_read_by_whoever_opens_its_partition(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    written = WrittenLedger("billing", 7, 4711, Ledger(LedgerSettings()), number=3, is_spent=True)
    written.ledger.apply(written.ledger.begin(5), 10.0)
    [snapshot] = snapshot_parts([written], 10.0, NOW, doubtful=True)
    copy = begun(volume)
    await copy.add(await original(volume))
    await copy.add_ledgers(snapshot)
    assert (await copy.finish()).ledgers_crc32c == crc32c(snapshot)
    for image in crashes_of(disk):
        async with mounted(image) as after:
            log, found = await LedgerLog.open(after, FOLDER, 6, 20.0, NOW)
            [again] = found.ledgers.values()
            assert (again.group_id, again.producer_id, again.number, again.is_spent) == (7, 4711, 3, True)
            assert again.ledger.snapshot(20.0) == written.ledger.snapshot(10.0)
            assert (found.lost, found.torn, found.is_doubtful) == (0, 0, True)
            await log.log.close()
            assert await read_ledgers(after, FOLDER, crc32c(snapshot)) == snapshot


async def test_a_partition_that_no_group_has_read_from_has_no_ledgers_in_its_copy(
    volume: Volume, disk: SimulatedDisk
) -> None:
    copy = begun(volume, start=12)
    await copy.add_ledgers(None)
    assert (await copy.finish()).ledgers_crc32c is None
    assert not disk.exists(f"{FOLDER}/{LEDGERS}")
    assert await read_ledgers(volume, FOLDER, None) is None


async def test_ledgers_that_were_replaced_since_they_were_copied_are_not_the_backups(
    volume: Volume, autojump_clock: MockClock
) -> None:
    """A broker that is started on a backup adds to it, and may put a later snapshot in its place."""
    then = msgpack.packb([1, NOW, False, []])
    checksum = await write_ledgers(volume, FOLDER, then)
    log, _ = await SnapshotLog.open(volume, f"{FOLDER}/{LEDGERS}", leader_epoch=1)
    log.append([b"since"], NOW)
    await log.commit()
    assert await read_ledgers(volume, FOLDER, checksum) == then
    await log.replace([b"later"], NOW)
    with pytest.raises(IncompleteCopy, match="use another backup"):
        await read_ledgers(volume, FOLDER, checksum)


async def test_the_ledgers_of_an_earlier_backup_are_in_a_journal(volume: Volume, autojump_clock: MockClock) -> None:
    checksum = await write_copied_journal(volume, FOLDER, JOURNAL, b"then")
    assert await read_ledgers(volume, FOLDER, checksum) == b"then"
    journal, _ = await Journal.open(volume, FOLDER, JOURNAL)
    await journal.compact(b"later")
    with pytest.raises(IncompleteCopy, match="use another backup"):
        await read_ledgers(volume, FOLDER, checksum)
