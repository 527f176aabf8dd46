"""The log as the specification reads: appending, reading, looking up, rolling."""

import pytest
import trio

from goqueue.config import LogConfig
from goqueue.core.records.batch import Producer
from goqueue.errors import Closed, OffsetOutOfRange
from goqueue.storage.log.log import Log
from goqueue.storage.log.volume import Volume
from goqueue.testing.disk import SimulatedDisk
from goqueue.types import Priority
from tests.storage.logs import (
    NOW,
    SMALL,
    batch,
    envelopes_in,
    file_names,
    mounted,
    open_log,
    publish,
    read_all,
    records_in,
    values_in,
)

HOUR = 3_600_000_000


async def test_offsets_begin_at_zero_and_rise_without_gaps(volume: Volume) -> None:
    """G3"""
    log = await open_log(volume)
    assert await publish(log, batch(b"a", b"b"), batch(b"c")) == [0, 2]
    assert await publish(log, batch(b"d")) == [3]
    assert [record.offset for record in await read_all(log)] == [0, 1, 2, 3]
    assert await values_in(log) == [b"a", b"b", b"c", b"d"]


async def test_many_batches_are_one_write(volume: Volume, disk: SimulatedDisk) -> None:
    log = await open_log(volume, LogConfig())
    log.append([batch(b"first")], NOW)
    before = disk.counts.writes
    log.append([batch(b"x")] * 100, NOW)
    assert disk.counts.writes == before + 1


async def test_appending_nothing_changes_nothing(volume: Volume) -> None:
    log = await open_log(volume)
    assert log.append([], NOW) == []
    assert log.end_offset == 0


async def test_readers_see_nothing_above_the_high_watermark(volume: Volume) -> None:
    log = await open_log(volume)
    await publish(log, batch(b"seen"))
    log.append([batch(b"unseen")], NOW)
    assert (await log.read(0, 10_000)).next_offset == 1
    assert (await log.read(1, 10_000)).data == b""
    with pytest.raises(OffsetOutOfRange) as error:
        await log.read(2, 10_000)
    assert error.value.details == {"start": 0, "end": 1}


async def test_followers_may_read_up_to_the_end(volume: Volume) -> None:
    log = await open_log(volume)
    log.append([batch(b"a")], NOW)
    assert (await log.read(0, 10_000, limit=log.end_offset)).next_offset == 1


async def test_the_high_watermark_never_falls_and_never_passes_what_is_durable(volume: Volume) -> None:
    log = await open_log(volume)
    log.append([batch(b"a")], NOW)
    log.advance_high_watermark(1)
    assert log.high_watermark == 0
    await log.commit()
    log.advance_high_watermark(1)
    log.advance_high_watermark(0)
    assert log.high_watermark == 1


async def test_a_slice_begins_with_the_batch_that_holds_the_offset(volume: Volume) -> None:
    log = await open_log(volume)
    await publish(log, batch(b"a", b"b", b"c"), batch(b"d"))
    found = await log.read(1, 10_000)
    assert [envelope.base_offset for envelope, _ in envelopes_in(found.data)] == [0, 3]
    assert (found.next_offset, found.log_start, found.high_watermark) == (4, 0, 4)


async def test_a_slice_keeps_to_its_byte_limit_but_holds_one_batch_at_least(volume: Volume) -> None:
    log = await open_log(volume)
    await publish(log, *[batch(bytes(100))] * 4)
    size = batch(bytes(100)).size
    for limit, expected in ((0, 1), (size, 1), (2 * size - 1, 1), (2 * size, 2), (100 * size, 4)):
        assert (await log.read(0, limit)).next_offset == expected
    assert (await log.read(3, 0)).next_offset == 4


async def test_a_batch_larger_than_any_window_is_read_whole(volume: Volume) -> None:
    log = await open_log(volume)
    large = bytes(3 * 1024 * 1024)
    await publish(log, batch(b"before"), batch(large), batch(b"after"))
    assert await values_in(log) == [b"before", large, b"after"]


async def test_segments_roll_by_size_and_reading_crosses_them(volume: Volume, disk: SimulatedDisk) -> None:
    log = await open_log(volume)
    values = [bytes([number]) * 300 for number in range(20)]
    for value in values:
        await publish(log, batch(value))
    assert len(file_names(disk, ".log")) == log.statistics().segments == 5
    assert await values_in(log) == values
    for start in range(20):
        assert await values_in(log, start) == values[start:]


async def test_segments_roll_by_age(volume: Volume) -> None:
    log = await open_log(volume, LogConfig(segment_age=HOUR))
    await publish(log, batch(b"a"), now=NOW)
    await publish(log, batch(b"b"), now=NOW + HOUR - 1)
    assert log.statistics().segments == 1
    await publish(log, batch(b"c"), now=NOW + HOUR)
    assert log.statistics().segments == 2


async def test_one_append_lies_in_one_segment_whatever_its_size(volume: Volume) -> None:
    log = await open_log(volume)
    await publish(log, batch(b"a"))
    await publish(log, *[batch(bytes(500))] * 20)
    assert log.statistics().segments == 2


async def test_append_time_is_the_brokers_and_never_falls(volume: Volume) -> None:
    log = await open_log(volume)
    for now in (NOW, NOW - HOUR, NOW + 1):
        await publish(log, batch(b"a", timestamp=7), now=now)
    times = [envelope.append_time for envelope, _ in envelopes_in((await log.read(0, 10_000)).data)]
    assert times == [NOW, NOW, NOW + 1]


async def test_append_time_does_not_fall_after_everything_was_removed_and_reopened(volume: Volume) -> None:
    log = await open_log(volume)
    await publish(log, batch(b"a"), now=NOW)
    await log.delete_before(1)
    await log.close()
    log = await open_log(volume)
    await publish(log, batch(b"b"), now=5)
    [(envelope, _)] = envelopes_in((await log.read(1, 10_000)).data)
    assert envelope.append_time == NOW


async def test_each_batch_says_what_was_durable_when_it_was_written(volume: Volume) -> None:
    log = await open_log(volume)
    log.append([batch(b"a")], NOW)
    log.append([batch(b"b")], NOW)
    await publish(log, batch(b"c"))
    await publish(log, batch(b"d"))
    claims = [envelope.durable_offset for envelope, _ in envelopes_in((await log.read(0, 10_000)).data)]
    assert claims == [0, 0, 0, 3]


async def test_the_leader_epoch_rises_at_every_start(volume: Volume) -> None:
    for expected in (1, 2, 3):
        log = await open_log(volume)
        assert log.leader_epoch == expected
        await log.close()


async def test_the_first_record_of_a_time_is_found(volume: Volume) -> None:
    log = await open_log(volume)
    for number in range(30):
        await publish(log, batch(bytes(200), timestamp=NOW + 10 * number))
    for time, expected in ((0, 0), (NOW, 0), (NOW + 1, 1), (NOW + 145, 15), (NOW + 290, 29), (NOW + 291, None)):
        assert await log.offset_at_time(time) == expected


async def test_a_time_is_found_behind_a_clock_that_jumped(volume: Volume) -> None:
    """Not stuck in the oldest segment, and not past what lies behind a jump."""
    log = await open_log(volume)
    times = [50, 10, 20, 70, 15, 60, 80]
    for time in times:
        await publish(log, batch(bytes(900), timestamp=time))
    for wanted in range(85):
        expected = next((offset for offset, time in enumerate(times) if time >= wanted), None)
        assert await log.offset_at_time(wanted) == expected


async def test_a_time_inside_a_batch_names_the_record(volume: Volume) -> None:
    log = await open_log(volume)
    await publish(log, batch(b"a", timestamp=5), batch(b"b", b"c", timestamp=9, zstd=True))
    assert await log.offset_at_time(6) == 1


async def test_times_above_the_high_watermark_are_not_found(volume: Volume) -> None:
    log = await open_log(volume)
    await publish(log, batch(b"a", timestamp=5))
    log.append([batch(b"b", timestamp=9)], NOW)
    assert await log.offset_at_time(6) is None


async def test_the_next_record_of_a_lane_is_found_however_much_lies_before_it(volume: Volume) -> None:
    log = await open_log(volume)
    for number in range(40):
        await publish(log, batch(bytes(300), priority=Priority.CRITICAL if number % 13 == 12 else Priority.NORMAL))
    log.append([batch(b"unseen", priority=Priority.LOW)], NOW)
    assert [await log.next_of_lane(Priority.CRITICAL, offset) for offset in (0, 12, 13, 38, 39)] == [
        12,
        12,
        25,
        38,
        None,
    ]
    assert await log.next_of_lane(Priority.NORMAL, 12) == 13
    assert await log.next_of_lane(Priority.LOW, 0) is None
    for offset in range(log.end_offset):
        for lane in Priority:
            await check_stretch(log, lane, offset)


async def check_stretch(log: Log, lane: Priority, offset: int) -> None:
    """From where it says, reading on finds what is next of the lane; and when it says nothing, there is nothing."""
    exact = await log.next_of_lane(lane, offset)
    begin = await log.stretch_of_lane(lane, offset, log.high_watermark)
    if exact is not None:
        assert begin is not None
        assert offset <= begin <= exact
        assert log.lanes_from(offset) >> lane & 1
        assert await log.stretch_of_lane(lane, offset, begin) is None
    elif begin is not None:
        assert await log.next_of_lane(lane, begin) is None


async def test_producers_are_remembered_over_seals_and_restarts(volume: Volume, disk: SimulatedDisk) -> None:
    """G11: state kept in seals and recovery points, the rest replayed from the tail."""
    log = await open_log(volume)
    for sequence in range(20):
        await publish(log, batch(bytes(300), producer=Producer(7, 1, sequence)))
        if sequence == 12:
            await log.checkpoint()
    expected = log.producers.snapshot()
    async with mounted(disk.kill()) as killed:
        assert (await open_log(killed)).producers.snapshot() == expected
    await log.close()
    assert (await open_log(volume)).producers.snapshot() == expected
    state = (await open_log(volume)).producers.get(7)
    assert state is not None
    assert [batch.first_sequence for batch in state.batches] == [15, 16, 17, 18, 19]


async def test_a_producer_is_forgotten_after_a_day_of_silence(volume: Volume) -> None:
    log = await open_log(volume)
    await publish(log, batch(b"a", producer=Producer(7, 0, 0)), now=NOW)
    await publish(log, batch(b"b", producer=Producer(8, 0, 0)), now=NOW + 24 * HOUR)
    await log.checkpoint()
    assert log.producers.get(7) is None
    assert log.producers.get(8) is not None


async def test_the_beginning_of_each_epoch_is_known_as_far_as_the_log_goes(
    volume: Volume, disk: SimulatedDisk
) -> None:
    for _ in range(4):
        log = await open_log(volume)
        await publish(log, batch(bytes(900)), batch(bytes(900)))
        await log.close()
    log = await open_log(volume)
    assert log.epochs == [(1, 0), (2, 2), (3, 4), (4, 6)]
    await log.delete_before(5)
    assert log.epochs == [(3, 4), (4, 6)]
    await log.truncate(6)
    assert log.epochs == [(3, 4)]
    async with mounted(disk.crash()) as crashed:
        assert (await open_log(crashed)).epochs == [(3, 4)]


async def test_statistics_tell_what_is_there(volume: Volume) -> None:
    log = await open_log(volume)
    await publish(log, batch(b"a", b"b"), batch(b"c"))
    found = log.statistics()
    assert (found.log_start, found.end_offset, found.durable_offset, found.high_watermark) == (0, 3, 3, 3)
    assert (found.segments, found.appended.batches, found.appended.records) == (1, 2, 3)
    assert found.size == found.appended.bytes == batch(b"a", b"b").size + batch(b"c").size
    assert (found.damage, found.torn) == ((), ())


async def test_after_close_nothing_can_be_done_and_closing_again_does_nothing(volume: Volume) -> None:
    """G15"""
    log = await open_log(volume)
    await publish(log, batch(b"a"))
    await log.close()
    await log.close()
    with pytest.raises(Closed):
        log.append([batch(b"b")], NOW)
    with pytest.raises(Closed):
        await log.read(0, 100)
    with pytest.raises(Closed):
        await log.commit()


async def test_closing_makes_everything_durable(volume: Volume, disk: SimulatedDisk) -> None:
    """G15: also what nobody waited for."""
    log = await open_log(volume)
    log.append([batch(b"a")], NOW)
    await log.close()
    async with mounted(disk.crash()) as crashed:
        assert await values_in(await open_log(crashed)) == [b"a"]


async def test_an_orderly_restart_scans_next_to_nothing(volume: Volume) -> None:
    log = await open_log(volume, LogConfig())
    for _ in range(300):
        await publish(log, batch(bytes(1_000)))
    await log.close()
    log = await open_log(volume, LogConfig())
    assert log.statistics().scanned_bytes < 8_000
    assert len(await values_in(log)) == 300


async def test_sealed_segments_are_not_scanned_at_start(volume: Volume, disk: SimulatedDisk) -> None:
    log = await open_log(volume)
    for _ in range(100):
        await publish(log, batch(bytes(300)))
    await log.close()
    before = disk.counts.bytes_read
    log = await open_log(volume)
    assert log.statistics().segments > 20
    assert disk.counts.bytes_read - before < 8_000


async def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="segment_bytes"):
        LogConfig(segment_bytes=0)
    with pytest.raises(ValueError, match="segment_age"):
        LogConfig(segment_age=0)
    assert SMALL.segment_bytes == 2_000


async def test_whoever_appends_at_the_same_time_finds_its_own_message_at_its_own_offset(volume: Volume) -> None:
    """An offset and its place in the index are taken in one step, so no search can miss what was confirmed."""
    log = await open_log(volume)
    confirmed: dict[int, bytes] = {}

    async def publish_some(client: int) -> None:
        for number in range(10):
            value = b"%d-%d " % (client, number) + bytes(100)
            [offset] = log.append([batch(value)], NOW)
            await log.commit()
            confirmed[offset] = value

    async with trio.open_nursery() as nursery:
        for client in range(20):
            nursery.start_soon(publish_some, client)
    log.advance_high_watermark(log.durable_offset)
    assert sorted(confirmed) == list(range(200))
    for offset, value in confirmed.items():
        [record, *_] = [each for each in records_in((await log.read(offset, 1)).data) if each.offset == offset]
        assert record.value == value
