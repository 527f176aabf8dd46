"""Full disks, failed syncs, slow platters, flipped bits: all that happens while the power is on."""

import pytest
import trio
from trio.testing import MockClock

from goqueue.environment import Space
from goqueue.errors import DiskFailed, DiskFull
from goqueue.testing.disk import SimulatedDisk
from goqueue.testing.faults import NORMAL_SYNC, SLOW_SYNC, Counts
from tests.testing.disks import PATH, SEEDS, durable_file, new_disk, read, survivors

# A full disk.


async def test_a_write_on_a_full_disk_leaves_a_part_of_itself(autojump_clock: MockClock) -> None:
    left = set()
    for seed in SEEDS:
        disk = await new_disk(seed)
        disk.capacity = 5
        file = disk.open(PATH, create=True)
        file.write(0, [b"ab"])
        with pytest.raises(DiskFull, match="no room to write /data/file"):
            file.write(2, [b"cd", b"ef"])
        left.add(await read(disk))
        assert disk.space("/data").free == 5 - file.size()
    assert left == {b"ab", b"abc", b"abcd", b"abcde"}


async def test_a_full_disk_still_takes_what_needs_no_room(autojump_clock: MockClock) -> None:
    disk = await new_disk()
    disk.capacity = 3
    file = disk.open(PATH, create=True)
    file.write(0, [b"abc"])
    file.write(1, [b"X"])
    await file.sync()
    disk.rename(PATH, "/data/moved")
    assert await read(disk, "/data/moved") == b"aXc"
    assert disk.space("/") == Space(free=0, total=3)


async def test_nothing_is_created_on_a_full_disk(autojump_clock: MockClock) -> None:
    disk = await new_disk()
    await durable_file(disk, contents=b"abc")
    disk.capacity = 3
    with pytest.raises(DiskFull):
        disk.open("/data/new", create=True)
    with pytest.raises(DiskFull):
        disk.make_directory("/data/folder")
    disk.open(PATH, create=True)
    disk.make_directory("/data")
    assert disk.list("/data") == ["file"]


async def test_truncating_removing_and_replacing_free_room(autojump_clock: MockClock) -> None:
    disk = await new_disk()
    disk.capacity = 100
    for name in ("one", "two", "three"):
        (await durable_file(disk, f"/data/{name}", b"x" * 30)).close()
    disk.rename("/data/one", "/data/two")
    assert disk.space("/").free == 40
    disk.remove("/data/three")
    assert disk.space("/").free == 70
    disk.open("/data/two").truncate(10)
    assert disk.space("/").free == 90
    disk.cut("/data/two", 5)
    assert disk.space("/").free == 95


async def test_a_removed_file_takes_its_room_until_it_is_closed(autojump_clock: MockClock) -> None:
    disk = await new_disk()
    disk.capacity = 100
    file = await durable_file(disk, contents=b"x" * 30)
    disk.remove(PATH)
    assert disk.space("/").free == 70
    file.close()
    file.close()
    assert disk.space("/").free == 100


async def test_a_rename_to_itself_frees_nothing(autojump_clock: MockClock) -> None:
    disk = await new_disk()
    disk.capacity = 100
    (await durable_file(disk, contents=b"x" * 30)).close()
    disk.rename(PATH, PATH)
    disk.open(PATH).close()
    assert disk.space("/").free == 70


async def test_a_file_that_a_crash_brought_back_is_a_file_like_any_other(autojump_clock: MockClock) -> None:
    disk = await new_disk()
    disk.capacity = 100
    await durable_file(disk, contents=b"x" * 30)
    disk.remove(PATH)
    back = next(after for after in (disk.crash() for _ in SEEDS) if after.exists(PATH))
    back.open(PATH).close()
    assert back.space("/").free == 70
    back.remove(PATH)
    assert back.space("/").free == 100


async def test_the_capacity_may_change_during_a_run(autojump_clock: MockClock) -> None:
    disk = await new_disk()
    file = await durable_file(disk, contents=b"abc")
    disk.capacity = 1
    assert disk.space("/") == Space(free=0, total=1)
    with pytest.raises(DiskFull):
        file.write(3, [b"d"])
    disk.capacity = 10
    file.write(3, [b"d"])
    assert disk.space("/") == Space(free=6, total=10)


async def test_the_next_process_finds_the_room_that_is_left(autojump_clock: MockClock) -> None:
    disk = await new_disk()
    disk.capacity = 100
    await durable_file(disk, contents=b"x" * 30)
    await durable_file(disk, "/data/gone", b"x" * 30)
    disk.remove("/data/gone")
    assert disk.kill().space("/") == Space(free=70, total=100)
    assert {disk.crash().space("/").free for _ in SEEDS} == {70, 40}


# A failed sync.


async def test_what_a_failed_sync_lost_no_later_sync_brings_back(autojump_clock: MockClock) -> None:
    async def story(disk: SimulatedDisk) -> None:
        file = await durable_file(disk, contents=b"a")
        file.write(1, [b"b"])
        disk.fail_next_sync()
        with pytest.raises(DiskFailed, match="could not be synced"):
            await file.sync()
        assert await read(disk) == b"ab"
        await file.sync()

    assert await survivors(story) == {b"a"}


async def test_what_is_written_after_a_failed_sync_is_durable_after_the_next(autojump_clock: MockClock) -> None:
    async def story(disk: SimulatedDisk) -> None:
        file = await durable_file(disk, contents=b"a")
        file.write(1, [b"b"])
        disk.fail_next_sync()
        with pytest.raises(DiskFailed):
            await file.sync()
        file.write(2, [b"c"])
        await file.sync()

    assert await survivors(story) == {b"a\0c"}


async def test_what_was_synced_before_survives_a_failed_sync(autojump_clock: MockClock) -> None:
    async def story(disk: SimulatedDisk) -> None:
        file = await durable_file(disk, contents=b"abc")
        file.truncate(0)
        disk.fail_next_sync()
        with pytest.raises(DiskFailed):
            await file.sync()

    assert await survivors(story) == {b"abc"}


async def test_every_open_handle_hears_once_of_a_failed_sync(autojump_clock: MockClock) -> None:
    disk = await new_disk()
    first, second = await durable_file(disk), disk.open(PATH)
    disk.fail_next_sync()
    for file in (first, second):
        with pytest.raises(DiskFailed):
            await file.sync()
        await file.sync()
    await disk.open(PATH).sync()


async def test_a_failure_armed_for_one_file_spares_the_others(autojump_clock: MockClock) -> None:
    disk = await new_disk()
    chosen, other = await durable_file(disk), await durable_file(disk, "/data/other")
    disk.fail_next_sync(PATH)
    await other.sync()
    await disk.sync_directory("/data")
    with pytest.raises(DiskFailed):
        await chosen.sync()
    await chosen.sync()


async def test_syncs_fail_as_often_as_the_odds_say(autojump_clock: MockClock) -> None:
    disk = await new_disk()
    file = await durable_file(disk)
    disk.faults.sync_failure_odds = 0.25
    failed = 0
    for _ in range(400):
        try:
            await file.sync()
        except DiskFailed:
            failed += 1
    assert 60 < failed < 140


# Time.


@pytest.mark.parametrize("seconds", [NORMAL_SYNC, SLOW_SYNC])
async def test_a_sync_takes_the_time_it_is_given(autojump_clock: MockClock, seconds: tuple[float, float]) -> None:
    disk = await new_disk()
    file = await durable_file(disk)
    disk.faults.sync_seconds = seconds
    for sync in (file.sync, lambda: disk.sync_directory("/data")):
        took = []
        for _ in range(50):
            began = trio.current_time()
            await sync()
            took.append(trio.current_time() - began)
        assert seconds[0] <= min(took) < max(took) <= seconds[1] * 1.000_001


async def test_a_read_waits_only_when_it_is_cold(autojump_clock: MockClock) -> None:
    disk = await new_disk()
    file = await durable_file(disk, contents=b"abc")
    began = trio.current_time()
    with trio.testing.assert_no_checkpoints():
        assert await file.read(0, 3) == b"abc"
    disk.faults.cold_read_odds = 1.0
    disk.faults.cold_read_seconds = (0.5, 0.5)
    assert await file.read(0, 3) == b"abc"
    assert trio.current_time() - began == pytest.approx(0.5)


async def test_the_next_process_meets_the_same_faults_and_none_that_was_armed(
    autojump_clock: MockClock,
) -> None:
    disk = await new_disk()
    await durable_file(disk)
    disk.faults.sync_seconds = (3.0, 3.0)
    disk.fail_next_sync()
    began = trio.current_time()
    await disk.crash().open(PATH).sync()
    assert trio.current_time() - began == pytest.approx(3.0)


# Damage.


async def test_a_flipped_bit_outlives_syncs_and_crashes(autojump_clock: MockClock) -> None:
    disk = await new_disk()
    file = await durable_file(disk, contents=b"abc")
    disk.flip_bit(PATH, 1, 0)
    assert await read(disk) == b"acc"
    await file.sync()
    assert await read(disk.crash()) == b"acc"


async def test_a_flipped_bit_is_not_healed_by_writing_back_what_was_unsynced(autojump_clock: MockClock) -> None:
    disk = await new_disk()
    file = await durable_file(disk, contents=b"abc")
    file.write(1, [b"XY"])
    file.truncate(3)
    disk.flip_bit(PATH, 2, 7)
    await file.sync()
    assert await read(disk) == await read(disk.crash()) == b"aX" + bytes([ord("Y") ^ 0x80])


async def test_damage_changes_one_bit_somewhere(autojump_clock: MockClock) -> None:
    positions = set()
    for seed in SEEDS:
        disk = await new_disk(seed)
        await durable_file(disk, contents=bytes(4))
        position = disk.damage(PATH)
        image = await read(disk) or b""
        assert image[position].bit_count() == 1
        assert sum(image) == image[position]
        positions.add(position)
    assert positions == {0, 1, 2, 3}


async def test_a_file_cut_from_outside_stays_cut(autojump_clock: MockClock) -> None:
    disk = await new_disk()
    file = await durable_file(disk, contents=b"abcdef")
    file.write(4, [b"XYZ"])
    file.write(9, [b"!"])
    file.truncate(20)
    disk.cut(PATH, 5)
    assert await read(disk) == b"abcdX"
    assert {await read(disk.crash()) for _ in SEEDS} == {b"abcde", b"abcdX"}
    await file.sync()
    assert await read(disk.crash()) == b"abcdX"


# Counting.


async def test_the_disk_counts_what_is_asked_of_it(autojump_clock: MockClock) -> None:
    disk = await new_disk()
    file = await durable_file(disk, contents=b"abc")
    file.write(3, [b"de", b"f"])
    await file.read(0, 100)
    await file.sync()
    assert disk.counts == Counts(writes=2, bytes_written=6, reads=1, bytes_read=6, syncs=2, directory_syncs=2)
    assert disk.kill().counts == Counts()
