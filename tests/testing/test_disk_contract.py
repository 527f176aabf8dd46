"""What every disk promises, held against the real one and the simulated one alike."""

import os
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest
import trio

from goqueue.environment import Disk, File
from goqueue.errors import DataDirectoryLocked, DiskFailed
from goqueue.storage.disk.disk import RealDisk
from goqueue.testing.disk import SimulatedDisk
from goqueue.testing.faults import Faults


@dataclass
class Machine:
    disk: Disk
    folder: str
    pid: int

    def path(self, name: str) -> str:
        return f"{self.folder}/{name}"

    def file(self, name: str = "file", contents: bytes = b"") -> File:
        file = self.disk.open(self.path(name), create=True)
        file.write(0, [contents])
        return file

    async def contents(self, name: str) -> bytes:
        return await whole(self.disk.open(self.path(name), writable=False))


async def whole(file: File) -> bytes:
    return bytes(await file.read(0, file.size()))


@pytest.fixture(params=["real", "simulated"])
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Machine]:
    if request.param == "real":
        real = RealDisk()
        yield Machine(real, str(tmp_path), os.getpid())
        real.rest()
        return
    disk = SimulatedDisk(Random(1), faults=Faults(sync_seconds=(0.0, 0.0), cold_read_seconds=(0.0, 0.0)))
    disk.make_directory("/data")
    yield Machine(disk, "/data", disk.pid)


# An open file.


def test_a_file_knows_its_path(machine: Machine) -> None:
    assert machine.file("segment").path == machine.path("segment")


async def test_what_is_written_is_read_back_at_once(machine: Machine) -> None:
    file = machine.file()
    assert file.write(0, [b"abc", bytearray(b"de"), memoryview(b"fgh")[1:]]) == 7
    assert file.size() == 7
    assert bytes(await file.read(1, 4)) == b"bcde"
    assert await whole(file) == b"abcdegh"


async def test_thousands_of_buffers_are_written_in_one_call(machine: Machine) -> None:
    file, buffers = machine.file(), [number.to_bytes(2) for number in range(5_000)]
    assert file.write(3, buffers) == 10_000
    assert bytes(await file.read(3, 10_000)) == b"".join(buffers)


@pytest.mark.parametrize("buffers", [[], [b""]])
def test_writing_nothing_changes_nothing(machine: Machine, buffers: list[bytes]) -> None:
    file = machine.file(contents=b"abc")
    assert file.write(10, buffers) == 0
    assert file.size() == 3


async def test_a_write_in_the_middle_leaves_its_neighbours_alone(machine: Machine) -> None:
    file = machine.file(contents=b"abcdef")
    file.write(2, [b"XY"])
    assert await whole(file) == b"abXYef"


async def test_a_write_behind_the_end_leaves_zeros_between(machine: Machine) -> None:
    file = machine.file(contents=b"ab")
    file.write(5, [b"c"])
    assert await whole(file) == b"ab\0\0\0c"


async def test_a_read_is_shorter_only_at_the_end_of_the_file(machine: Machine) -> None:
    file = machine.file(contents=b"abc")
    assert bytes(await file.read(1, 100)) == b"bc"
    assert bytes(await file.read(3, 100)) == b""
    assert bytes(await file.read(7, 100)) == b""
    assert bytes(await file.read(0, 0)) == b""


async def test_a_result_of_read_does_not_change_when_the_file_does(machine: Machine) -> None:
    file = machine.file(contents=b"abc")
    before = await file.read(0, 3)
    file.write(0, [b"xyz"])
    assert bytes(before) == b"abc"


async def test_truncating_cuts_and_lengthens_with_zeros(machine: Machine) -> None:
    file = machine.file(contents=b"abcdef")
    file.truncate(2)
    assert file.size() == 2
    file.truncate(4)
    assert await whole(file) == b"ab\0\0"


async def test_a_synced_file_reads_as_before(machine: Machine) -> None:
    file = machine.file(contents=b"abc")
    await file.sync()
    await file.sync()
    assert await whole(file) == b"abc"


async def test_two_handles_of_one_file_see_each_other(machine: Machine) -> None:
    one, other = machine.file("same"), machine.file("same")
    one.write(0, [b"abc"])
    other.truncate(2)
    assert await whole(one) == await whole(other) == b"ab"


def test_a_file_opened_for_reading_refuses_changes(machine: Machine) -> None:
    machine.file("sealed", b"abc").close()
    file = machine.disk.open(machine.path("sealed"), writable=False)
    with pytest.raises(DiskFailed):
        file.write(0, [b"x"])
    with pytest.raises(DiskFailed):
        file.truncate(0)
    assert file.size() == 3


def test_closing_twice_is_closing_once(machine: Machine) -> None:
    file = machine.file("one")
    file.close()
    other = machine.file("other", b"abc")  # which may get the number of the closed one
    file.close()
    assert other.size() == 3


@pytest.mark.parametrize(
    "use",
    [
        lambda file: file.size(),
        lambda file: file.write(0, [b"x"]),
        lambda file: file.truncate(0),
    ],
)
def test_a_closed_file_is_of_no_use(machine: Machine, use: Callable[[File], Any]) -> None:
    file = machine.file()
    file.close()
    with pytest.raises(ValueError, match="closed"):
        use(file)


@pytest.mark.parametrize("wait", [lambda file: file.read(0, 1), lambda file: file.sync()])
async def test_a_closed_file_is_not_worth_waiting_for(
    machine: Machine, wait: Callable[[File], Awaitable[Any]]
) -> None:
    file = machine.file()
    file.close()
    with pytest.raises(ValueError, match="closed"):
        await wait(file)


async def test_a_sync_under_way_survives_the_closing_of_its_file(machine: Machine) -> None:
    file = machine.file(contents=b"abc")

    async def close() -> None:
        file.close()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(close)  # runs when the sync below waits for the first time
        await file.sync()
    assert await machine.contents("file") == b"abc"


# Names.


def test_a_missing_file_is_not_opened(machine: Machine) -> None:
    with pytest.raises(FileNotFoundError):
        machine.disk.open(machine.path("missing"))
    assert not machine.disk.exists(machine.path("missing"))


def test_a_file_is_created_empty(machine: Machine) -> None:
    machine.disk.open(machine.path("new"), create=True)
    assert machine.disk.exists(machine.path("new"))
    assert machine.disk.size(machine.path("new")) == 0


async def test_creating_an_existing_file_opens_it_as_it_is(machine: Machine) -> None:
    machine.file("old", b"abc")
    assert await whole(machine.disk.open(machine.path("old"), create=True)) == b"abc"


def test_no_file_is_created_in_a_missing_folder(machine: Machine) -> None:
    with pytest.raises(FileNotFoundError):
        machine.disk.open(machine.path("missing/file"), create=True)


def test_a_folder_is_no_file(machine: Machine) -> None:
    machine.disk.make_directory(machine.path("folder"))
    with pytest.raises(DiskFailed):
        machine.disk.open(machine.path("folder"))
    with pytest.raises(DiskFailed):
        machine.disk.remove(machine.path("folder"))


def test_a_file_is_no_folder(machine: Machine) -> None:
    machine.file("file")
    for use in (machine.disk.list, machine.disk.make_directory):
        with pytest.raises(DiskFailed):
            use(machine.path("file"))
    assert not machine.disk.exists(machine.path("file/below"))
    with pytest.raises(DiskFailed):
        machine.disk.open(machine.path("file/below"), create=True)


def test_what_exists_is_a_folder_or_not(machine: Machine) -> None:
    machine.disk.make_directory(machine.path("folder"))
    machine.file("file")
    assert machine.disk.exists(machine.path("folder"))
    assert machine.disk.is_directory(machine.path("folder"))
    assert not machine.disk.is_directory(machine.path("file"))
    assert not machine.disk.is_directory(machine.path("missing"))


def test_the_size_of_a_file_follows_its_writes(machine: Machine) -> None:
    file = machine.file("file", b"abc")
    assert machine.disk.size(machine.path("file")) == 3
    file.write(3, [b"de"])
    assert machine.disk.size(machine.path("file")) == 5
    with pytest.raises(FileNotFoundError):
        machine.disk.size(machine.path("missing"))


def test_names_are_listed_in_order(machine: Machine) -> None:
    for name in ("10", "9", "b", "a"):
        machine.file(name)
    machine.disk.make_directory(machine.path("aa"))
    assert machine.disk.list(machine.folder) == ["10", "9", "a", "aa", "b"]
    assert machine.disk.list(machine.path("aa")) == []
    with pytest.raises(FileNotFoundError):
        machine.disk.list(machine.path("missing"))


def test_making_a_folder_again_does_nothing(machine: Machine) -> None:
    machine.disk.make_directory(machine.path("folder"))
    machine.file("folder/file")
    machine.disk.make_directory(machine.path("folder"))
    assert machine.disk.list(machine.path("folder")) == ["file"]


def test_a_folder_is_made_only_in_a_folder_that_exists(machine: Machine) -> None:
    with pytest.raises(FileNotFoundError):
        machine.disk.make_directory(machine.path("missing/folder"))


async def test_a_rename_replaces_its_target(machine: Machine) -> None:
    machine.file("new", b"new")
    old = machine.file("file", b"old")
    machine.disk.rename(machine.path("new"), machine.path("file"))
    assert machine.disk.list(machine.folder) == ["file"]
    assert await machine.contents("file") == b"new"
    assert await whole(old) == b"old"


async def test_a_rename_to_itself_changes_nothing(machine: Machine) -> None:
    machine.file("file", b"abc")
    machine.disk.rename(machine.path("file"), machine.path("file"))
    assert await machine.contents("file") == b"abc"


async def test_a_handle_follows_its_file_through_a_rename(machine: Machine) -> None:
    file = machine.file("before")
    machine.disk.rename(machine.path("before"), machine.path("after"))
    file.write(0, [b"abc"])
    assert await machine.contents("after") == b"abc"


async def test_a_folder_moves_with_all_that_is_in_it(machine: Machine) -> None:
    machine.disk.make_directory(machine.path("topic"))
    machine.disk.make_directory(machine.path("deleted"))
    machine.file("topic/file", b"abc")
    machine.disk.rename(machine.path("topic"), machine.path("deleted/uuid"))
    assert not machine.disk.exists(machine.path("topic"))
    assert await machine.contents("deleted/uuid/file") == b"abc"


def test_a_rename_needs_a_file_and_a_folder_to_move_it_to(machine: Machine) -> None:
    machine.file("file")
    with pytest.raises(FileNotFoundError):
        machine.disk.rename(machine.path("missing"), machine.path("file"))
    with pytest.raises(FileNotFoundError):
        machine.disk.rename(machine.path("file"), machine.path("missing/file"))
    assert machine.disk.list(machine.folder) == ["file"]


@pytest.mark.parametrize(
    ("old", "new"), [("file", "empty"), ("empty", "file"), ("empty", "full"), ("full", "full/below")]
)
def test_a_rename_that_makes_no_sense_changes_nothing(machine: Machine, old: str, new: str) -> None:
    machine.file("file")
    machine.disk.make_directory(machine.path("empty"))
    machine.disk.make_directory(machine.path("full"))
    machine.file("full/inside")
    with pytest.raises(DiskFailed):
        machine.disk.rename(machine.path(old), machine.path(new))
    assert machine.disk.list(machine.folder) == ["empty", "file", "full"]
    assert machine.disk.list(machine.path("full")) == ["inside"]


def test_a_folder_replaces_an_empty_one(machine: Machine) -> None:
    machine.disk.make_directory(machine.path("empty"))
    machine.disk.make_directory(machine.path("full"))
    machine.file("full/inside")
    machine.disk.rename(machine.path("full"), machine.path("empty"))
    assert machine.disk.list(machine.folder) == ["empty"]
    assert machine.disk.list(machine.path("empty")) == ["inside"]


async def test_a_removed_file_stays_readable_for_who_has_it_open(machine: Machine) -> None:
    file = machine.file("file", b"abc")
    machine.disk.remove(machine.path("file"))
    assert not machine.disk.exists(machine.path("file"))
    assert await whole(file) == b"abc"
    with pytest.raises(FileNotFoundError):
        machine.disk.remove(machine.path("file"))


async def test_a_file_created_after_a_removal_is_another_file(machine: Machine) -> None:
    old = machine.file("file", b"old")
    machine.disk.remove(machine.path("file"))
    machine.file("file", b"new")
    assert await whole(old) == b"old"
    assert await machine.contents("file") == b"new"


async def test_a_file_is_put_in_the_place_of_another_or_of_none(machine: Machine) -> None:
    """What an earlier attempt left is no hindrance, and what is returned is the file of that name."""
    machine.file("file.tmp", b"left behind, and longer")
    for contents in ([b"a", b"bc"], [b"newer"], []):
        file = await machine.disk.put(machine.path("file.tmp"), machine.path("file"), contents)
        assert await machine.contents("file") == b"".join(contents)
        file.write(0, [b"x"])
        file.close()
        assert (await machine.contents("file"))[:1] == b"x"
        assert machine.disk.list(machine.folder) == ["file"]


async def test_nothing_is_left_of_a_file_that_cannot_be_put_there(machine: Machine) -> None:
    machine.disk.make_directory(machine.path("folder"))
    with pytest.raises(DiskFailed):
        await machine.disk.put(machine.path("folder.tmp"), machine.path("folder"), [b"abc"])
    with pytest.raises(FileNotFoundError):
        await machine.disk.put(machine.path("missing/file.tmp"), machine.path("missing/file"), [b"abc"])
    assert machine.disk.list(machine.folder) == ["folder"]


async def test_a_file_replaces_another_or_none(machine: Machine) -> None:
    machine.file("new", b"new")
    await machine.disk.replace(machine.path("new"), machine.path("file"))
    machine.file("newer", b"newer")
    await machine.disk.replace(machine.path("newer"), machine.path("file"))
    assert machine.disk.list(machine.folder) == ["file"]
    assert await machine.contents("file") == b"newer"
    with pytest.raises(FileNotFoundError):
        await machine.disk.replace(machine.path("missing"), machine.path("file"))


async def test_a_replacement_that_was_begun_is_finished(machine: Machine) -> None:
    machine.file("new", b"new")
    with trio.CancelScope() as scope:
        scope.cancel()
        await machine.disk.replace(machine.path("new"), machine.path("file"))
    assert machine.disk.list(machine.folder) == ["file"]


def test_an_empty_folder_can_be_removed(machine: Machine) -> None:
    machine.disk.make_directory(machine.path("empty"))
    machine.disk.remove_directory(machine.path("empty"))
    assert machine.disk.list(machine.folder) == []
    with pytest.raises(FileNotFoundError):
        machine.disk.remove_directory(machine.path("empty"))


def test_a_folder_with_something_in_it_and_a_file_are_not_removed_as_folders(machine: Machine) -> None:
    machine.disk.make_directory(machine.path("full"))
    machine.file("full/file")
    for name in ("full", "full/file"):
        with pytest.raises(DiskFailed):
            machine.disk.remove_directory(machine.path(name))
    assert machine.disk.list(machine.path("full")) == ["file"]


async def test_only_folders_that_exist_can_be_synced(machine: Machine) -> None:
    machine.file("file")
    await machine.disk.sync_directory(machine.folder)
    with pytest.raises(FileNotFoundError):
        await machine.disk.sync_directory(machine.path("missing"))
    with pytest.raises(DiskFailed):
        await machine.disk.sync_directory(machine.path("file"))


# Room and locks.


def test_the_disk_tells_how_much_room_there_is(machine: Machine) -> None:
    space = machine.disk.space(machine.folder)
    assert 0 < space.free <= space.total
    with pytest.raises(FileNotFoundError):
        machine.disk.space(machine.path("missing"))


def test_a_lock_is_held_once_and_names_its_holder(machine: Machine) -> None:
    lock = machine.disk.lock(machine.path("lock"))
    assert machine.disk.exists(machine.path("lock"))
    with pytest.raises(DataDirectoryLocked, match=str(machine.pid)) as refused:
        machine.disk.lock(machine.path("lock"))
    assert refused.value.details["pid"] == str(machine.pid)
    lock.release()
    machine.disk.lock(machine.path("lock")).release()


def test_releasing_a_lock_twice_does_not_take_it_from_the_next_holder(machine: Machine) -> None:
    first = machine.disk.lock(machine.path("lock"))
    first.release()
    second = machine.disk.lock(machine.path("lock"))
    first.release()
    with pytest.raises(DataDirectoryLocked):
        machine.disk.lock(machine.path("lock"))
    second.release()
