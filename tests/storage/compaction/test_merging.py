"""Compacted logs keep few files, whatever their segments were."""

import pytest
import trio

from goqueue.config import LogConfig
from goqueue.core.log.retention import RemovalCause
from goqueue.core.offsetset import OffsetSet
from goqueue.core.records.batch import Producer
from goqueue.core.records.record import Record
from goqueue.storage.compaction.bykey import compact_by_key
from goqueue.storage.compaction.retention import retain
from goqueue.storage.compaction.thinning import thin
from goqueue.storage.log.log import Log
from goqueue.storage.log.volume import Volume
from goqueue.testing.disk import SimulatedDisk
from tests.storage.logs import (
    DIRECTORY,
    NOW,
    batch,
    file_names,
    mounted,
    open_log,
    path_of,
    publish,
    read_all,
)

TINY = LogConfig(segment_bytes=1_000)
"""Three or four batches in a segment."""


async def written(volume: Volume, count: int = 120, keys: int = 5) -> Log:
    log = await open_log(volume, TINY)
    for number in range(count):
        producer = Producer(2**62 + number % 3, 0, number // 3)
        await publish(log, batch(b"%d" % number + bytes(100), key=b"k%d" % (number % keys), producer=producer))
    return log


def facts(records: list[Record]) -> list[tuple[int, bytes, bytes | None]]:
    return [(record.offset, record.value, record.key) for record in records]


async def test_a_compacted_log_keeps_few_files(volume: Volume, disk: SimulatedDisk) -> None:
    log = await written(volume)
    before = len(file_names(disk, ".log"))
    newest = facts(await read_all(log))[-5:]
    log.roll()
    await compact_by_key(log, NOW)
    assert before > 20
    assert len(file_names(disk, ".log")) <= 4
    assert len(file_names(disk)) <= 15
    assert facts(await read_all(log)) == newest
    assert (log.log_start, log.end_offset) == (0, 120)


async def test_files_stay_few_however_long_it_goes_on(volume: Volume, disk: SimulatedDisk) -> None:
    log, counts = await open_log(volume, TINY), []
    for number in range(12):
        await publish(log, *[batch(bytes(100), key=b"k%d" % (each % 5)) for each in range(20)])
        for each in range(20):
            await publish(log, batch(bytes(100), key=b"k%d" % (each % 5)))
        await compact_by_key(log, NOW + number)
        counts.append(len(file_names(disk, ".log")))
    assert max(counts[3:]) <= 16


@pytest.mark.parametrize("way", ["kill", "crash", "close"])
async def test_a_merged_log_is_the_same_after_a_restart(volume: Volume, disk: SimulatedDisk, way: str) -> None:
    log = await written(volume)
    log.roll()
    await compact_by_key(log, NOW)
    expected, producers = facts(await read_all(log)), log.producers.snapshot()
    times = {time: await log.offset_at_time(time) for time in (0, NOW, NOW + 1)}
    if way == "close":
        await log.close()
    image = disk.kill() if way != "crash" else disk.crash()
    async with mounted(image) as again:
        reopened = await open_log(again, TINY)
        assert facts(await read_all(reopened)) == expected
        assert reopened.producers.snapshot() == producers
        assert not reopened.statistics().damage
        assert {time: await reopened.offset_at_time(time) for time in times} == times


async def test_a_reader_goes_on_over_segments_that_are_merged_under_it(volume: Volume) -> None:
    log = await written(volume)
    log.roll()
    newest = facts(await read_all(log))[-5:]
    seen: list[Record] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(compact_by_key, log, NOW)
        for offset in range(200):
            seen += [record for record in await read_all(log, offset) if record.offset == offset]
            await trio.sleep(0.001)
    assert facts(seen)[-5:] == newest


async def test_a_damaged_segment_stays_where_it_is(volume: Volume, disk: SimulatedDisk) -> None:
    log = await written(volume, count=40)
    log.roll()
    names = file_names(disk, ".log")
    await log.close()
    disk.flip_bit(f"{DIRECTORY}/{names[3]}", 120, 1)
    async with mounted(disk.kill()) as again:
        reopened = await open_log(again, TINY)
        await compact_by_key(reopened, NOW)
        assert names[3] in [name for name in again.disk.list(DIRECTORY) if name.endswith(".log")]


async def test_an_older_file_with_the_size_of_a_merged_one_is_not_taken_for_it(
    volume: Volume, disk: SimulatedDisk
) -> None:
    """Segments of one empty envelope each have that size too. The crash came before the rename."""
    log = await open_log(volume, TINY)
    for number in range(12):
        await publish(log, batch(bytes(300 if number else 100), key=b"k%d" % (number // 10)))
    log.roll()
    await thin(log, log.finished_segments()[:3], lambda *_: False, RemovalCause.COMPACTION)
    first, expected = disk.size(path_of(0)), [record.offset for record in await read_all(log)]
    before = disk.kill()
    await log.merge(log.finished_segments()[:3])
    assert disk.size(path_of(0)) == first, "else this shows nothing"
    assert len(file_names(disk, ".log")) < len(file_names(before, ".log"))
    seal = await volume.read_whole(path_of(0, ".seal"), 10_000)
    async with mounted(before) as again:
        file = before.open(path_of(0, ".seal"), create=True)
        file.truncate(0)
        file.write(0, [seal])
        file.close()
        reopened = await open_log(again, TINY)
        assert reopened.end_offset == 12
        assert not reopened.statistics().damage
        assert [record.offset for record in await read_all(reopened)] == expected
        await reopened.close()
        before.remove(path_of(0, ".seal"))
        assert not (await open_log(again, TINY)).statistics().damage


async def test_what_waits_for_its_time_does_not_keep_a_file_for_each_expired_segment(
    volume: Volume, disk: SimulatedDisk
) -> None:
    log = await written(volume)
    later = NOW + 1_000 * 3_600 * 1_000_000
    pending = OffsetSet()
    pending.add(0, 0)
    await retain(log, later, pending)
    assert len(file_names(disk, ".log")) <= 4
    assert log.log_start == 0


async def test_a_crash_at_any_step_of_a_merge_costs_nothing(volume: Volume, disk: SimulatedDisk) -> None:
    """G1, G3, G11"""
    log = await written(volume, count=10)
    log.roll()
    await log.checkpoint()
    expected, apart = facts(await read_all(log)), log.statistics().segments
    for number in range(100):
        image = await crashed_in_merge(disk.kill(), number * 0.000_07, is_kill=number % 5 == 0)
        async with mounted(image) as again:
            reopened = await open_log(again, TINY)
            assert not reopened.statistics().damage
            assert facts(await read_all(reopened)) == expected
            assert reopened.producers.snapshot() == log.producers.snapshot()
            assert reopened.statistics().segments in (2, apart), "a file is left that holds what another one has"


async def crashed_in_merge(disk: SimulatedDisk, seconds: float, *, is_kill: bool) -> SimulatedDisk:
    async with mounted(disk) as volume:
        log = await open_log(volume, TINY)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(log.merge, log.finished_segments())
            await trio.sleep(seconds)
            image = disk.kill() if is_kill else disk.crash()
            nursery.cancel_scope.cancel()
    return image
