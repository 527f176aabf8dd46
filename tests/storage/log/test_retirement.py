"""How a log gives room back: truncation, deletion, retention, compaction."""

import pytest

from goqueue.config import HOUR, LogConfig
from goqueue.core.offsetset import OffsetSet
from goqueue.core.records.batch import Attribute, Producer
from goqueue.core.records.record import Flag, Record
from goqueue.errors import OffsetOutOfRange
from goqueue.storage.compaction.bykey import compact_by_key
from goqueue.storage.compaction.retention import retain
from goqueue.storage.log.log import Log
from goqueue.storage.log.volume import Volume
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
    path_of,
    publish,
    read_all,
    values_in,
)

VALUES = [bytes([number]) * 500 for number in range(12)]
"""Three fit into a segment."""


async def filled(volume: Volume, config: LogConfig = SMALL) -> Log:
    log = await open_log(volume, config)
    for number, value in enumerate(VALUES):
        await publish(log, batch(value, timestamp=NOW + number, producer=Producer(1, 0, number)), now=NOW + number)
    return log


async def test_a_log_says_how_often_its_past_has_changed(volume: Volume) -> None:
    """Who keeps something of what was read has to know."""
    log = await filled(volume)
    await values_in(log)
    await log.checkpoint()
    assert log.past_changes == 0
    await log.truncate(11)
    assert log.past_changes == 1
    await log.delete_before(2)
    assert log.past_changes == 2
    await log.compact(log.finished_segments()[0], lambda *_: False)
    assert log.past_changes == 3
    await publish(log, batch(b"more"))
    assert log.past_changes == 3


# Truncation


@pytest.mark.parametrize("offset", range(13))
async def test_truncation_cuts_the_log_and_all_that_knows_of_it(
    volume: Volume, disk: SimulatedDisk, offset: int
) -> None:
    log = await filled(volume)
    await log.checkpoint()
    assert await log.truncate(offset) == log.end_offset == offset
    assert (log.high_watermark, log.durable_offset) == (offset, offset)
    assert await values_in(log) == VALUES[:offset]
    assert await log.offset_at_time(NOW + offset) is None
    producer = log.producers.get(1)
    remembered = [each.first_sequence for each in producer.batches] if producer else []
    assert remembered == list(range(max(0, offset - 5), offset))
    assert await publish(log, batch(b"other", timestamp=NOW + 99)) == [offset]
    assert await log.offset_at_time(NOW + 50) == offset
    async with mounted(disk.crash()) as crashed:
        log = await open_log(crashed)
        assert await values_in(log) == [*VALUES[:offset], b"other"]
        assert (log.statistics().damage, log.statistics().torn) == ((), ())


async def test_truncation_inside_a_batch_takes_the_whole_batch(volume: Volume) -> None:
    """G2"""
    log = await open_log(volume)
    await publish(log, batch(b"a"), batch(b"b", b"c", b"d"), batch(b"e"))
    assert await log.truncate(3) == 1
    assert await values_in(log) == [b"a"]


async def test_truncation_of_the_batch_in_which_the_log_begins_leaves_an_empty_log(
    volume: Volume, disk: SimulatedDisk
) -> None:
    """G1: what is published next is where it was confirmed, whatever happens then."""
    log = await open_log(volume)
    await publish(log, batch(b"a", b"b", b"c", b"d"))
    await log.delete_before(2)
    assert await log.truncate(3) == 2
    assert await publish(log, batch(b"new")) == [2]
    async with mounted(disk.crash()) as crashed:
        log = await open_log(crashed)
        assert (await values_in(log), log.log_start) == ([b"new"], 2)
        assert (log.statistics().damage, log.statistics().torn) == ((), ())


async def test_truncation_needs_an_offset_of_the_log(volume: Volume) -> None:
    log = await filled(volume)
    await log.delete_before(6)
    for offset in (5, 13):
        with pytest.raises(OffsetOutOfRange):
            await log.truncate(offset)


async def test_a_crash_during_truncation_leaves_a_sound_log(volume: Volume, disk: SimulatedDisk) -> None:
    log = await filled(volume)
    await log.checkpoint()
    disk.fail_next_sync(DIRECTORY)
    with pytest.raises(Exception, match="sync"):
        await log.truncate(4)
    async with mounted(disk.crash()) as crashed:
        found = await values_in(await open_log(crashed))
        assert len(found) >= 4
        assert found == VALUES[: len(found)]


# Deletion


async def test_the_log_begins_where_it_was_told_to(volume: Volume, disk: SimulatedDisk) -> None:
    log = await filled(volume)
    await log.delete_before(4)
    assert (log.log_start, await values_in(log)) == (4, VALUES[4:])
    assert file_names(disk, ".log")[0] == path_of(3).rpartition("/")[2]
    with pytest.raises(OffsetOutOfRange):
        await log.read(3, 100)
    async with mounted(disk.crash()) as crashed:
        log = await open_log(crashed)
        assert (log.log_start, await values_in(log)) == (4, VALUES[4:])
        assert log.statistics().damage == ()


async def test_a_time_before_the_beginning_finds_the_first_that_is_left(volume: Volume) -> None:
    log = await filled(volume)
    await log.delete_before(4)
    assert [await log.offset_at_time(time) for time in (0, NOW + 2, NOW + 5)] == [4, 4, 5]


async def test_purging_leaves_nothing_and_offsets_go_on(volume: Volume, disk: SimulatedDisk) -> None:
    log = await filled(volume)
    await log.delete_before(12)
    assert log.statistics().size == 0
    disk.remove(f"{DIRECTORY}/recovery-point")
    async with mounted(disk.crash()) as crashed:
        log = await open_log(crashed)
        assert await publish(log, batch(b"new")) == [12]
        assert await values_in(log) == [b"new"]


async def test_nothing_above_the_high_watermark_can_be_deleted(volume: Volume) -> None:
    log = await filled(volume)
    log.append([batch(b"unseen")], NOW)
    with pytest.raises(OffsetOutOfRange):
        await log.delete_before(13)
    assert len(await values_in(log)) == 12


async def test_deleting_what_is_deleted_does_nothing(volume: Volume) -> None:
    log = await filled(volume)
    await log.delete_before(4)
    await log.delete_before(2)
    assert log.log_start == 4


# Retention


async def test_a_segment_goes_when_its_newest_record_has_its_age(volume: Volume) -> None:
    log = await filled(volume, LogConfig(segment_bytes=2_000, retention_age=HOUR))
    await retain(log, NOW + 2 + HOUR - 1)
    assert log.log_start == 0
    await retain(log, NOW + 2 + HOUR)
    assert (log.log_start, await values_in(log)) == (3, VALUES[3:])


async def test_the_growing_segment_expires_as_well(volume: Volume, disk: SimulatedDisk) -> None:
    """A cut-off that could never be reached would keep an idle topic's last messages for ever."""
    log = await filled(volume, LogConfig(retention_age=HOUR))
    await retain(log, NOW + 11 + HOUR)
    assert (log.log_start, log.end_offset, log.statistics().size) == (12, 12, 0)
    assert file_names(disk, ".log") == [path_of(12).rpartition("/")[2]]
    assert await publish(log, batch(b"new")) == [12]


async def test_a_client_with_a_wrong_clock_changes_nothing_about_retention(volume: Volume) -> None:
    log = await open_log(volume, LogConfig(retention_age=HOUR))
    await publish(log, batch(b"from the future", timestamp=NOW * 2), now=NOW)
    await retain(log, NOW + HOUR)
    assert log.log_start == 1


async def test_the_oldest_segments_go_until_the_rest_fits(volume: Volume) -> None:
    log = await filled(volume, LogConfig(segment_bytes=2_000, retention_bytes=4_000))
    await retain(log, NOW)
    assert (log.log_start, await values_in(log)) == (6, VALUES[6:])


async def test_an_expired_segment_is_reduced_to_its_pending_messages(volume: Volume, disk: SimulatedDisk) -> None:
    log = await open_log(volume, LogConfig(segment_bytes=2_000, retention_age=HOUR))
    for number in range(12):
        delayed = number in (1, 4, 7)
        await publish(log, batch(VALUES[number], due=5 if delayed else None), now=NOW)
    assert log.thinned_to == 0
    await retain(log, NOW + HOUR, pending=OffsetSet([(4, 4), (7, 7)]))
    kept = await read_all(log)
    assert [(record.offset, record.value) for record in kept] == [(4, VALUES[4]), (7, VALUES[7])]
    assert (log.log_start, log.end_offset) == (3, 12)
    assert log.statistics().size < 2_000
    assert log.thinned_to == 12
    async with mounted(disk.crash()) as crashed:
        log = await open_log(crashed, LogConfig(retention_age=HOUR))
        assert await read_all(log) == kept
        assert log.thinned_to == 12
        assert log.statistics().damage == ()
        await retain(log, NOW + HOUR, pending=OffsetSet([(7, 7)]))
        assert [record.offset for record in await read_all(log)] == [7]


# Compaction by key


async def keyed(volume: Volume, *keys: bytes) -> Log:
    log = await open_log(volume)
    for number, key in enumerate(keys):
        await publish(log, batch(b"%d" % number + bytes(400), key=key), now=NOW)
    return log


def offsets(records: list[Record]) -> list[int]:
    return [record.offset for record in records]


async def test_only_the_newest_record_of_each_key_stays_at_its_offset(volume: Volume, disk: SimulatedDisk) -> None:
    log = await keyed(volume, *[b"a", b"b", b"c", b"a", b"b", b"d"] * 3)
    before = {record.offset: record for record in await read_all(log)}
    assert not await compact_by_key(log, NOW)
    after = await read_all(log)
    growing_from = int(file_names(disk, ".log")[-1][:20])
    newest = {record.key: record.offset for record in before.values()}
    expected = [offset for offset in before if offset in newest.values() or offset >= growing_from]
    assert offsets(after) == expected
    assert await publish(log, batch(b"open as before", key=b"z")) == [18]
    assert await log.truncate(18) == 18
    assert all(before[record.offset] == record for record in after)
    async with mounted(disk.crash()) as crashed:
        log = await open_log(crashed)
        assert await read_all(log) == after
        assert await publish(log, batch(b"x")) == [18]


async def test_a_compacted_log_is_read_the_same_from_every_offset(volume: Volume) -> None:
    log = await keyed(volume, *[b"a", b"b"] * 10)
    await compact_by_key(log, NOW)
    everything = await read_all(log)
    for start in range(20):
        assert await read_all(log, start) == [record for record in everything if record.offset >= start]


async def test_some_records_of_a_batch_may_go(volume: Volume) -> None:
    for number, zstd in enumerate((False, True)):
        log = await Log.open(volume, f"/data/logs/part/{number}", SMALL)
        keys = [b"a", b"b", b"a", b"c"]
        await publish(log, batch(b"0", b"1", b"2", b"3", keys=keys, zstd=zstd))
        await publish(log, batch(bytes(1_900)), batch(b"b", key=b"b"))
        await publish(log, batch(bytes(1_900)))
        await compact_by_key(log, NOW)
        found = [(record.offset, record.value[:1]) for record in await read_all(log)]
        assert found[:2] == [(2, b"2"), (3, b"3")]
        [(envelope, _), *_] = envelopes_in((await log.read(0, 1)).data)
        assert (envelope.base_offset, envelope.end_offset, envelope.record_count) == (0, 4, 2)
        assert bool(envelope.attributes & Attribute.ZSTD) is zstd


async def test_records_without_a_key_and_delayed_originals_that_are_pending_stay(volume: Volume) -> None:
    log = await open_log(volume)
    await publish(log, batch(bytes(900)), batch(b"hidden", key=b"k", due=7), batch(b"old", key=b"k"))
    await publish(log, batch(b"done", key=b"k", due=7), batch(bytes(1_800)), batch(b"new", key=b"k"))
    await publish(log, batch(bytes(1_900)))
    await compact_by_key(log, NOW, OffsetSet([(1, 1)]))
    assert [record.value[:6] for record in await read_all(log)] == [bytes(6), b"hidden", bytes(6), b"new", bytes(6)]


async def test_a_tombstone_goes_after_a_day_with_what_it_deleted(volume: Volume) -> None:
    log = await open_log(volume)
    await publish(log, batch(b"value", key=b"k"), now=NOW)
    await publish(log, batch(b"", key=b"k", flags=Flag.TOMBSTONE), now=NOW)
    await publish(log, batch(bytes(1_900)), now=NOW)
    await publish(log, batch(bytes(1_900)), now=NOW)
    await compact_by_key(log, NOW + 24 * HOUR - 1)
    assert offsets(await read_all(log)) == [1, 2, 3]
    await compact_by_key(log, NOW + 24 * HOUR)
    assert offsets(await read_all(log)) == [2, 3]


async def test_a_log_with_more_keys_than_memory_allows_is_compacted_in_several_runs(volume: Volume) -> None:
    names = [b"%d" % (number % 30) for number in range(90)]
    log = await keyed(volume, *names)
    runs = 1
    while await compact_by_key(log, NOW, keys_max=10):
        runs += 1
    assert runs > 3
    newest = {record.key: record.offset for record in await read_all(log)}
    assert newest == {name: 60 + number for number, name in enumerate(names[:30])}
    assert len(await read_all(log)) < 40


async def test_a_damaged_segment_is_left_as_it_is(volume: Volume, disk: SimulatedDisk) -> None:
    """G13"""
    log = await keyed(volume, *[b"a"] * 12)
    await log.checkpoint()
    disk.flip_bit(path_of(3), 200, 0)
    size = disk.size(path_of(3))
    await compact_by_key(log, NOW)
    assert disk.size(path_of(3)) == size
    assert disk.size(path_of(0)) < size


async def test_compacting_again_changes_nothing(volume: Volume, disk: SimulatedDisk) -> None:
    log = await keyed(volume, *[b"a", b"b"] * 10)
    await compact_by_key(log, NOW)
    written = disk.counts.bytes_written
    await compact_by_key(log, NOW)
    assert disk.counts.bytes_written == written


async def test_a_compacted_segment_can_be_deleted_truncated_and_found_by_time(volume: Volume) -> None:
    log = await keyed(volume, *[b"a", b"b"] * 10)
    await compact_by_key(log, NOW)
    assert await log.offset_at_time(NOW) == (await read_all(log))[0].offset
    assert await log.truncate(10) == 0, "a run of dropped batches is one batch, and goes as a whole"
    assert await read_all(log) == []
    assert await publish(log, batch(b"new")) == [0]
    await log.delete_before(0)
    assert await values_in(log) == [b"new"]


async def test_a_full_disk_during_compaction_changes_nothing(volume: Volume, disk: SimulatedDisk) -> None:
    log = await keyed(volume, *[b"a", b"b"] * 10)
    await log.checkpoint()
    before = await read_all(log)
    disk.capacity = disk.capacity - disk.space("/").free + 10
    with pytest.raises(Exception, match="room"):
        await compact_by_key(log, NOW)
    assert await read_all(log) == before
    assert not [name for name in disk.list(DIRECTORY) if name.endswith(".tmp")]
