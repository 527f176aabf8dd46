"""What a power loss leaves of the names on the disk."""

import pytest
import trio
from trio.testing import MockClock

from goqueue.errors import DiskFailed
from goqueue.testing.disk import SimulatedDisk
from tests.testing.disks import crashes, durable_file, new_disk, read, survivors


async def test_a_created_file_may_be_gone_until_its_folder_is_synced(autojump_clock: MockClock) -> None:
    async def story(disk: SimulatedDisk) -> None:
        file = disk.open("/data/file", create=True)
        file.write(0, [b"abc"])
        await file.sync()

    assert await survivors(story) == {b"abc", None}


async def test_a_synced_folder_keeps_the_name_but_not_the_bytes(autojump_clock: MockClock) -> None:
    async def story(disk: SimulatedDisk) -> None:
        disk.open("/data/file", create=True).write(0, [b"a"])
        await disk.sync_directory("/data")

    assert await survivors(story) == {b"a", b"", b"\0"}


async def test_names_survive_independently_of_each_other(autojump_clock: MockClock) -> None:
    async def story(disk: SimulatedDisk) -> None:
        disk.open("/data/first", create=True)
        disk.open("/data/second", create=True)

    found = [disk.list("/data") for disk in await crashes(story)]
    for outcome in ([], ["first"], ["second"], ["first", "second"]):
        assert outcome in found


async def test_a_removed_file_may_come_back_until_its_folder_is_synced(autojump_clock: MockClock) -> None:
    async def story(disk: SimulatedDisk) -> None:
        await durable_file(disk, contents=b"abc")
        disk.remove("/data/file")

    assert await survivors(story) == {b"abc", None}


async def test_a_removed_file_stays_removed_once_its_folder_is_synced(autojump_clock: MockClock) -> None:
    async def story(disk: SimulatedDisk) -> None:
        await durable_file(disk, contents=b"abc")
        disk.remove("/data/file")
        await disk.sync_directory("/data")

    assert await survivors(story) == {None}


async def test_a_replaced_file_is_the_old_or_the_new_one_and_never_missing(autojump_clock: MockClock) -> None:
    async def story(disk: SimulatedDisk) -> None:
        await durable_file(disk, contents=b"old")
        new = disk.open("/data/file.tmp", create=True)
        new.write(0, [b"new"])
        await new.sync()
        disk.rename("/data/file.tmp", "/data/file")

    assert await survivors(story) == {b"old", b"new"}


async def test_a_replacement_whose_bytes_were_not_synced_may_be_empty(autojump_clock: MockClock) -> None:
    async def story(disk: SimulatedDisk) -> None:
        await durable_file(disk, contents=b"old")
        disk.open("/data/file.tmp", create=True).write(0, [b"n"])
        disk.rename("/data/file.tmp", "/data/file")
        await disk.sync_directory("/data")

    assert await survivors(story) == {b"n", b"", b"\0"}


async def test_a_renamed_file_has_one_name_the_old_or_the_new(autojump_clock: MockClock) -> None:
    async def story(disk: SimulatedDisk) -> None:
        await durable_file(disk, "/data/old")
        disk.rename("/data/old", "/data/new")

    assert {tuple(disk.list("/data")) for disk in await crashes(story)} == {("old",), ("new",)}


async def test_two_renames_in_a_row_reach_the_disk_in_their_order(autojump_clock: MockClock) -> None:
    async def story(disk: SimulatedDisk) -> None:
        await durable_file(disk, "/data/file", b"old")
        await durable_file(disk, "/data/file.tmp", b"new")
        disk.rename("/data/file", "/data/file.bak")
        disk.rename("/data/file.tmp", "/data/file")

    found = {tuple(disk.list("/data")) for disk in await crashes(story)}
    assert found == {("file", "file.tmp"), ("file.bak", "file.tmp"), ("file", "file.bak")}


async def test_a_name_made_after_the_sync_began_is_not_covered(autojump_clock: MockClock) -> None:
    async def story(disk: SimulatedDisk) -> None:
        disk.open("/data/before", create=True)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(create_behind, disk)
            await disk.sync_directory("/data")

    async def create_behind(disk: SimulatedDisk) -> None:
        disk.open("/data/behind", create=True)

    found = {tuple(disk.list("/data")) for disk in await crashes(story)}
    assert found == {("before",), ("before", "behind")}


async def test_a_folder_whose_name_is_lost_takes_its_files_along(autojump_clock: MockClock) -> None:
    async def story(disk: SimulatedDisk) -> None:
        disk.make_directory("/data/folder")
        await durable_file(disk, "/data/folder/file", b"abc")

    found = [await read(disk, "/data/folder/file") for disk in await crashes(story)]
    assert set(found) == {b"abc", None}


async def test_a_move_to_another_folder_is_durable_when_that_folder_is_synced(autojump_clock: MockClock) -> None:
    async def story(disk: SimulatedDisk, synced: str) -> None:
        disk.make_directory("/aside")
        await disk.sync_directory("/")
        await durable_file(disk, "/data/file")
        disk.rename("/data/file", "/aside/file")
        await disk.sync_directory(synced)

    def names(disk: SimulatedDisk) -> tuple[str, ...]:
        return (*disk.list("/data"), *("aside" for _ in disk.list("/aside")))

    assert {names(disk) for disk in await crashes(lambda disk: story(disk, "/aside"))} == {("aside",)}
    assert {names(disk) for disk in await crashes(lambda disk: story(disk, "/data"))} == {("aside",), ("file",)}


async def test_a_move_into_a_folder_that_is_lost_did_not_happen(autojump_clock: MockClock) -> None:
    """G13: what is set aside is somewhere, whenever the power fails."""

    async def story(disk: SimulatedDisk) -> None:
        await durable_file(disk, "/data/file", b"abc")
        disk.make_directory("/data/aside")
        disk.rename("/data/file", "/data/aside/file")

    found = [(await read(disk), await read(disk, "/data/aside/file")) for disk in await crashes(story)]
    assert set(found) == {(b"abc", None), (None, b"abc")}


async def test_syncing_the_folder_of_a_moved_file_keeps_that_folder_too(autojump_clock: MockClock) -> None:
    async def story(disk: SimulatedDisk) -> None:
        await durable_file(disk, "/data/file", b"abc")
        disk.make_directory("/data/aside")
        disk.rename("/data/file", "/data/aside/file")
        await disk.sync_directory("/data/aside")

    assert {await read(disk, "/data/aside/file") for disk in await crashes(story)} == {b"abc"}


async def test_a_replaced_folder_does_not_take_along_what_was_moved_out_of_it(autojump_clock: MockClock) -> None:
    async def story(disk: SimulatedDisk) -> None:
        disk.make_directory("/data/old")
        disk.make_directory("/data/new")
        await durable_file(disk, "/data/old/file", b"abc")
        await disk.sync_directory("/data")
        disk.rename("/data/old/file", "/data/file")
        disk.rename("/data/new", "/data/old")

    for disk in await crashes(story):
        assert b"abc" in (await read(disk), await read(disk, "/data/old/file"))


async def test_a_removed_folder_may_come_back_until_the_one_above_is_synced(autojump_clock: MockClock) -> None:
    async def story(disk: SimulatedDisk) -> None:
        disk.make_directory("/data/folder")
        await disk.sync_directory("/data")
        disk.remove_directory("/data/folder")

    async def synced(disk: SimulatedDisk) -> None:
        await story(disk)
        await disk.sync_directory("/data")

    assert {disk.is_directory("/data/folder") for disk in await crashes(story)} == {True, False}
    assert {disk.is_directory("/data/folder") for disk in await crashes(synced)} == {False}


async def test_a_removed_folder_does_not_take_along_what_was_moved_out_of_it(autojump_clock: MockClock) -> None:
    async def story(disk: SimulatedDisk) -> None:
        disk.make_directory("/data/old")
        await durable_file(disk, "/data/old/file", b"abc")
        await disk.sync_directory("/data")
        disk.rename("/data/old/file", "/data/file")
        disk.remove_directory("/data/old")

    for disk in await crashes(story):
        assert b"abc" in (await read(disk), await read(disk, "/data/old/file"))


async def test_folders_moved_into_each_other_are_never_lost(autojump_clock: MockClock) -> None:
    async def story(disk: SimulatedDisk) -> None:
        disk.make_directory("/data/outer")
        disk.make_directory("/data/outer/inner")
        await disk.sync_directory("/data")
        await durable_file(disk, "/data/outer/file", b"abc")
        disk.rename("/data/outer/inner", "/data/inner")
        disk.rename("/data/outer", "/data/inner/outer")

    for disk in await crashes(story):
        places = ("/data/outer/file", "/data/inner/outer/file")
        found = [await read(disk, place) for place in places]
        assert found.count(b"abc") == found.count(None) == 1


async def test_a_failed_sync_of_a_folder_can_not_be_made_good_by_another(autojump_clock: MockClock) -> None:
    async def story(disk: SimulatedDisk) -> None:
        disk.open("/data/file", create=True)
        disk.fail_next_sync()
        with pytest.raises(DiskFailed):
            await disk.sync_directory("/data")
        disk.open("/data/later", create=True)
        await disk.sync_directory("/data")

    assert {tuple(disk.list("/data")) for disk in await crashes(story)} == {("later",)}


async def test_a_name_built_on_one_that_failed_to_sync_can_be_synced(autojump_clock: MockClock) -> None:
    async def story(disk: SimulatedDisk) -> None:
        disk.open("/data/file.tmp", create=True)
        disk.fail_next_sync("/data")
        with pytest.raises(DiskFailed):
            await disk.sync_directory("/data")
        disk.rename("/data/file.tmp", "/data/file")
        await disk.sync_directory("/data")

    assert {tuple(disk.list("/data")) for disk in await crashes(story)} == {("file",)}


async def test_a_removed_and_created_again_file_is_never_a_mixture(autojump_clock: MockClock) -> None:
    async def story(disk: SimulatedDisk) -> None:
        await durable_file(disk, contents=b"old")
        disk.remove("/data/file")
        file = disk.open("/data/file", create=True)
        file.write(0, [b"new"])
        await file.sync()

    assert await survivors(story) == {b"old", None, b"new"}


async def test_paths_may_be_written_loosely(autojump_clock: MockClock) -> None:
    disk = await new_disk()
    await durable_file(disk, "/data/file", b"abc")
    assert await read(disk, "data//./file") == b"abc"
    assert disk.list(".") == disk.list("/") == ["data"]
    with pytest.raises(DiskFailed):
        disk.rename("/", "/data/root")
