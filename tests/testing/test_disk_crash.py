"""What a power loss and a kill leave of a file's bytes. Without these, G1 could not be tested."""

import pytest
import trio
from trio.testing import MockClock

from goqueue.errors import DataDirectoryLocked
from goqueue.testing.disk import SimulatedDisk
from goqueue.testing.faults import Faults
from goqueue.testing.file import SimulatedFile
from goqueue.testing.powerloss import SECTOR
from tests.testing.disks import PATH, SEEDS, durable_file, new_disk, read, survivors


async def test_a_crash_never_takes_what_was_synced(autojump_clock: MockClock) -> None:
    async def story(disk: SimulatedDisk) -> None:
        await durable_file(disk, contents=b"synced")

    assert await survivors(story) == {b"synced"}


async def test_an_unsynced_write_is_kept_lost_or_torn(autojump_clock: MockClock) -> None:
    async def story(disk: SimulatedDisk) -> None:
        (await durable_file(disk)).write(0, [b"abc"])

    assert await survivors(story) == {b"abc", b"", b"a", b"ab", b"\0\0\0"}


async def test_a_later_write_may_survive_an_earlier_one(autojump_clock: MockClock) -> None:
    async def story(disk: SimulatedDisk) -> None:
        file = await durable_file(disk)
        file.write(0, [b"a"])
        file.write(1, [b"b"])

    assert await survivors(story) == {b"", b"a", b"ab", b"\0b", b"a\0", b"\0", b"\0\0"}


async def test_overwritten_bytes_are_the_old_or_the_new_ones(autojump_clock: MockClock) -> None:
    async def story(disk: SimulatedDisk) -> None:
        file = await durable_file(disk, contents=b"....")
        file.write(1, [b"ab"])

    assert await survivors(story) == {b"....", b".a..", b".ab."}


async def test_a_write_tears_at_the_borders_of_sectors(autojump_clock: MockClock) -> None:
    async def story(disk: SimulatedDisk) -> None:
        file = await durable_file(disk, contents=b"." * 3 * SECTOR)
        file.write(SECTOR - 1, [b"x" * (SECTOR + 2)])

    found = await survivors(story)
    first, second, third = SECTOR - 1, slice(SECTOR, 2 * SECTOR), 2 * SECTOR
    torn = {(image[first : first + 1], image[second], image[third : third + 1]) for image in found if image}
    assert (b".", b"x" * SECTOR, b".") in torn
    assert (b"x", b"." * SECTOR, b"x") in torn


async def test_an_unsynced_truncation_is_kept_or_lost(autojump_clock: MockClock) -> None:
    async def story(disk: SimulatedDisk) -> None:
        (await durable_file(disk, contents=b"abcdef")).truncate(3)

    assert await survivors(story) == {b"abcdef", b"abc"}


async def test_a_lost_truncation_shows_the_old_tail_behind_new_bytes(autojump_clock: MockClock) -> None:
    """Whoever cuts a torn tail and appends must sync in between."""

    async def story(disk: SimulatedDisk) -> None:
        file = await durable_file(disk, contents=b"abcdef")
        file.truncate(3)
        file.write(3, [b"X"])

    assert b"abcXef" in await survivors(story)


async def test_a_thousand_unsynced_writes_may_all_survive_and_all_be_lost(autojump_clock: MockClock) -> None:
    async def story(disk: SimulatedDisk) -> None:
        file = await durable_file(disk)
        for position in range(1_000):
            file.write(position, [b"x"])

    assert {b"", b"x" * 1_000} <= await survivors(story)


async def test_a_hole_holds_garbage_where_blocks_are_not_cleared(autojump_clock: MockClock) -> None:
    holes = set()
    for seed in SEEDS:
        disk = await new_disk(seed, Faults(garbage_odds=1.0))
        file = await durable_file(disk)
        file.write(0, [b"a" * 8])
        file.write(8, [b"b" * 8])
        image = await read(disk.crash()) or b""
        if image.endswith(b"b" * 8):
            holes.add(image[:8])
    assert b"a" * 8 in holes
    assert bytes(8) not in holes
    assert len(holes) > 2


async def test_a_sync_covers_what_was_written_before_it_and_no_more(autojump_clock: MockClock) -> None:
    async def story(disk: SimulatedDisk) -> None:
        file = await durable_file(disk)
        file.write(0, [b"a"])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(write_behind, file)  # runs when the sync below waits
            await file.sync()

    async def write_behind(file: SimulatedFile) -> None:
        file.write(1, [b"b"])

    assert await survivors(story) == {b"a", b"ab", b"a\0"}


async def test_two_syncs_at_once_each_cover_their_own_part(autojump_clock: MockClock) -> None:
    disk = await new_disk()
    file = await durable_file(disk)
    file.write(0, [b"a"])
    disk.faults.sync_seconds = (2.0, 2.0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(file.sync)
        await trio.sleep(1)
        file.write(1, [b"b"])
        nursery.start_soon(file.sync)
        await trio.sleep(1.5)
        file.write(2, [b"c"])
    left = {await read(disk.crash()) for _ in SEEDS}
    assert left == {b"ab", b"abc", b"ab\0"}


async def test_a_sync_cancelled_before_it_begins_promises_nothing(autojump_clock: MockClock) -> None:
    async def story(disk: SimulatedDisk) -> None:
        file = await durable_file(disk)
        file.write(0, [b"a"])
        with trio.move_on_after(0):
            await file.sync()

    assert {b"", b"a"} <= await survivors(story)


async def test_a_sync_that_has_begun_goes_on_to_its_end(autojump_clock: MockClock) -> None:
    """No thread can be called back from the kernel."""

    async def story(disk: SimulatedDisk) -> None:
        file = await durable_file(disk)
        file.write(0, [b"a"])
        with trio.move_on_after(0.000_1):
            await file.sync()

    assert await survivors(story) == {b"a"}


async def test_the_last_words_of_a_dying_process_reach_nobody(autojump_clock: MockClock) -> None:
    disk = await new_disk()
    file = await durable_file(disk, contents=b"abc")
    for after in (disk.crash(), disk.kill()):
        file.write(0, [b"XYZ"])
        await file.sync()
        disk.open("/data/late", create=True)
        assert await read(after) == b"abc"
        assert after.list("/data") == ["file"]
    assert await file.read(0, 3) == b"XYZ"


async def test_a_kill_loses_nothing_and_a_later_crash_what_was_not_synced(autojump_clock: MockClock) -> None:
    disk = await new_disk()
    (await durable_file(disk, contents=b"abc")).write(3, [b"d"])
    disk.open("/data/new", create=True)
    killed = disk.kill()
    assert await read(killed) == b"abcd"
    assert killed.list("/data") == ["file", "new"]
    crashed = [killed.crash() for _ in SEEDS]
    assert {await read(after) for after in crashed} == {b"abc", b"abcd", b"abc\0"}
    assert {after.exists("/data/new") for after in crashed} == {True, False}


async def test_what_a_killed_process_wrote_the_next_one_can_sync(autojump_clock: MockClock) -> None:
    disk = await new_disk()
    (await durable_file(disk)).write(0, [b"abc"])
    killed = disk.kill()
    await killed.open(PATH).sync()
    assert {await read(killed.crash()) for _ in SEEDS} == {b"abc"}


async def test_a_second_crash_finds_what_the_first_one_left(autojump_clock: MockClock) -> None:
    disk = await new_disk()
    (await durable_file(disk)).write(0, [b"abc"])
    for _ in SEEDS:
        once = disk.crash()
        assert await read(once.crash()) == await read(once)


async def test_locks_end_with_their_process(autojump_clock: MockClock) -> None:
    disk = await new_disk()
    held = disk.lock("/data/lock")
    await disk.sync_directory("/data")
    for after in (disk.kill(), disk.crash()):
        assert after.pid != disk.pid
        after.lock("/data/lock")
        held.release()
        with pytest.raises(DataDirectoryLocked, match=str(after.pid)):
            after.lock("/data/lock")


async def test_a_crash_replays_from_its_seed(autojump_clock: MockClock) -> None:
    async def image(seed: int) -> bytes | None:
        disk = await new_disk(seed)
        (await durable_file(disk)).write(0, [b"x" * 50 * SECTOR])
        return await read(disk.crash())

    assert [await image(seed) for seed in SEEDS] == [await image(seed) for seed in SEEDS]
    assert len({await image(seed) for seed in SEEDS}) > 20
