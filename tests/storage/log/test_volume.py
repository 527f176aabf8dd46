"""What all logs of a node share: open files, whole files, folders, indexes."""

from contextlib import ExitStack, suppress
from random import Random

import pytest
import trio
from trio.testing import MockClock

from goqueue.environment import File
from goqueue.errors import DiskFailed, DiskFull
from goqueue.storage.log.index import SparseIndex
from goqueue.storage.log.volume import Volume
from goqueue.testing.disk import CAPACITY, SimulatedDisk
from tests.storage.logs import mounted

CRASHES = 30


@pytest.fixture
async def data(volume: Volume) -> str:
    """A folder that a crash leaves alone."""
    await volume.make_directories("/data")
    return "/data"


def write(disk: SimulatedDisk, path: str, contents: bytes) -> str:
    file = disk.open(path, create=True)
    file.write(0, [contents])
    file.close()
    return path


async def contents(disk: SimulatedDisk, path: str) -> bytes | None:
    return await disk.open(path).read(0, disk.size(path)) if disk.exists(path) else None


def is_closed(file: File) -> bool:
    try:
        file.size()
    except ValueError:
        return True
    return False


# Files open for reading.


def test_a_file_is_opened_once_and_kept_open(disk: SimulatedDisk) -> None:
    volume, path = Volume(disk), write(disk, "/a", b"x")
    with volume.reader(path) as first, volume.reader(path) as second:
        assert first is second
    assert not is_closed(first)
    with volume.reader(path) as third:
        assert third is first
    assert volume.open_files == 1


def test_of_too_many_open_files_the_least_recently_used_is_closed(disk: SimulatedDisk) -> None:
    volume = Volume(disk, open_files_max=3)
    opened = {}
    for path in ("/a", "/b", "/c", "/a", "/d"):
        with volume.reader(write(disk, path, b"x")) as file:
            opened[path] = file
    assert volume.open_files == 3
    assert [path for path, file in opened.items() if is_closed(file)] == ["/b"]


def test_a_thousand_files_can_be_read_with_a_few_open(disk: SimulatedDisk) -> None:
    volume = Volume(disk, open_files_max=3)
    opened = []
    for number in range(1_000):
        with volume.reader(write(disk, f"/{number}", b"x")) as file:
            opened.append(file)
        assert volume.open_files <= 3
    assert sum(not is_closed(file) for file in opened) == 3


def test_a_file_in_use_is_not_closed_by_others_and_is_closed_after(disk: SimulatedDisk) -> None:
    volume = Volume(disk, open_files_max=2)
    with volume.reader(write(disk, "/used", b"x")) as used:
        with volume.reader("/used") as again:
            for path in ("/a", "/b", "/c"):
                with volume.reader(write(disk, path, b"x")):
                    pass
            assert again is used
        assert not is_closed(used)
    assert is_closed(used)
    assert volume.open_files == 2


def test_a_forgotten_file_in_use_is_closed_after_and_its_name_is_opened_anew(disk: SimulatedDisk) -> None:
    """As when compaction puts another file in its place while somebody reads."""
    volume, path = Volume(disk), write(disk, "/a", b"old")
    with volume.reader(path) as old:
        disk.rename(write(disk, "/new", b"newer"), path)
        volume.forget(path)
        assert old.size() == 3
        with volume.reader(path) as new:
            assert new.size() == 5
        assert not is_closed(old)
    assert is_closed(old)
    assert not is_closed(new)
    volume.forget(path)
    volume.forget(path)
    assert is_closed(new)


def test_a_reader_that_fails_lets_its_file_go(disk: SimulatedDisk) -> None:
    volume, path = Volume(disk), write(disk, "/a", b"x")
    with suppress(RuntimeError), volume.reader(path) as file:
        volume.forget(path)
        raise RuntimeError
    assert is_closed(file)


def test_a_missing_file_is_missing_and_takes_no_place(disk: SimulatedDisk) -> None:
    volume = Volume(disk)
    with pytest.raises(FileNotFoundError), volume.reader("/nowhere"):
        pass
    assert volume.open_files == 0


def test_closing_closes_every_file_that_is_not_in_use(disk: SimulatedDisk) -> None:
    """G15"""
    volume = Volume(disk)
    with ExitStack() as stack:
        used = stack.enter_context(volume.reader(write(disk, "/used", b"x")))
        with volume.reader(write(disk, "/unused", b"x")) as unused:
            pass
        volume.close()
        assert (is_closed(unused), is_closed(used)) == (True, False)
    assert is_closed(used)
    assert volume.open_files == 0


# Whole files.


async def test_a_file_is_replaced_whole(
    volume: Volume, disk: SimulatedDisk, data: str, autojump_clock: MockClock
) -> None:
    write(disk, "/data/file.tmp", b"what a crash left of an earlier attempt")
    for expected in (b"old and long", b"new"):
        await volume.replace(data, "file", [expected[:2], expected[2:]])
        assert await contents(disk, "/data/file") == expected
        assert disk.list(data) == ["file"]


async def test_a_replaced_file_is_durable(
    volume: Volume, disk: SimulatedDisk, data: str, autojump_clock: MockClock
) -> None:
    await volume.replace(data, "file", [b"old"])
    await volume.replace(data, "file", [b"new"])
    for _ in range(CRASHES):
        assert await contents(disk.crash(), "/data/file") == b"new"


async def test_a_power_loss_during_a_replacement_leaves_the_old_or_the_new_file(
    volume: Volume, disk: SimulatedDisk, data: str, autojump_clock: MockClock
) -> None:
    old, new = b"old" * 1_000, b"new!" * 1_000
    await volume.replace(data, "file", [old])
    found = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(volume.replace, data, "file", [new])
        for _ in range(60):
            found.append(await contents(disk.crash(), "/data/file"))
            await trio.sleep(0.000_1)
    assert set(found) == {old, new}


async def test_a_power_loss_during_the_first_writing_leaves_nothing_or_the_whole_file(
    volume: Volume, disk: SimulatedDisk, data: str, autojump_clock: MockClock
) -> None:
    found = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(volume.replace, data, "file", [b"new!" * 1_000])
        for _ in range(60):
            found.append(await contents(disk.crash(), "/data/file"))
            await trio.sleep(0.000_1)
    assert set(found) == {None, b"new!" * 1_000}


async def test_readers_of_a_replaced_file_get_the_new_one(
    volume: Volume, disk: SimulatedDisk, data: str, autojump_clock: MockClock
) -> None:
    await volume.replace(data, "file", [b"old"])
    with volume.reader("/data/file") as old:
        await volume.replace(data, "file", [b"newer"])
        assert old.size() == 3
    with volume.reader("/data/file") as new:
        assert new.size() == 5
    assert is_closed(old)


@pytest.mark.parametrize("room", [0, 1, 100])
async def test_on_a_full_disk_the_old_file_stays_and_nothing_is_left_of_the_new_one(
    volume: Volume, disk: SimulatedDisk, data: str, autojump_clock: MockClock, room: int
) -> None:
    await volume.replace(data, "file", [b"old"])
    disk.capacity = CAPACITY - disk.space("/").free + room
    with pytest.raises(DiskFull):
        await volume.replace(data, "file", [bytes(1_000)])
    assert (disk.list(data), await contents(disk, "/data/file")) == (["file"], b"old")
    assert disk.space("/").free == room
    disk.capacity = CAPACITY
    await volume.replace(data, "file", [bytes(1_000)])


async def test_when_a_sync_fails_the_old_file_stays_and_nothing_is_left_of_the_new_one(
    volume: Volume, disk: SimulatedDisk, data: str, autojump_clock: MockClock
) -> None:
    await volume.replace(data, "file", [b"old"])
    disk.fail_next_sync("/data/file.tmp")
    with pytest.raises(DiskFailed):
        await volume.replace(data, "file", [b"new"])
    assert disk.list(data) == ["file"]
    assert await contents(disk.crash(), "/data/file") == b"old"


async def test_a_cancelled_replacement_troubles_nobody(
    volume: Volume, disk: SimulatedDisk, data: str, autojump_clock: MockClock
) -> None:
    """Its file is closed while it waits to be synced."""
    await volume.replace(data, "file", [b"old"])
    for moment in range(20):
        with trio.move_on_after(moment / 5_000):
            await volume.replace(data, "file", [b"new"])
        assert await contents(disk, "/data/file") in (b"old", b"new")
        await volume.replace(data, "file", [b"old"])
        assert disk.list(data) == ["file"]


async def test_a_small_file_is_read_up_to_the_limit(
    volume: Volume, disk: SimulatedDisk, data: str, autojump_clock: MockClock
) -> None:
    """G14: a file that is too large does not take the memory, and so fails whatever check its reader makes."""
    await volume.replace(data, "file", [b"0123456789"])
    assert await volume.read_whole("/data/file", 10) == b"0123456789"
    assert await volume.read_whole("/data/file", 9) == b"012345678"
    with pytest.raises(FileNotFoundError):
        await volume.read_whole("/data/nowhere", 9)


# Folders.


async def test_folders_are_durable_when_they_are_made(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    await volume.make_directories("/data/logs/orders/0")
    await volume.make_directories("/data/logs/orders/1")
    for _ in range(CRASHES):
        assert disk.crash().list("/data/logs/orders") == ["0", "1"]


async def test_folders_that_exist_are_left_alone(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    await volume.make_directories("/data/logs")
    write(disk, "/data/logs/file", b"x")
    await volume.make_directories("/data/logs")
    assert disk.list("/data/logs") == ["file"]


async def test_a_file_in_the_way_of_a_folder_is_an_error_with_a_name(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    write(disk, "/data", b"x")
    with pytest.raises(DiskFailed):
        await volume.make_directories("/data/logs")


async def test_a_power_loss_while_folders_are_made_leaves_the_upper_ones(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """And the next start makes the rest."""
    images = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(volume.make_directories, "/data/logs/orders/0")
        for _ in range(40):
            images.append(disk.crash())
            await trio.sleep(0.000_1)
    for image in images:
        async with mounted(image) as later:
            await later.make_directories("/data/logs/orders/0")
        assert image.crash().is_directory("/data/logs/orders/0")


class NotingDisk(SimulatedDisk):
    """Writes down which folders are synced."""

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self.synced: list[str] = []

    async def sync_directory(self, path: str) -> None:
        self.synced.append(path)
        await super().sync_directory(path)


async def test_the_name_of_each_new_folder_is_synced_in_the_one_above_it(autojump_clock: MockClock) -> None:
    disk = NotingDisk(Random(0))
    async with mounted(disk) as volume:
        await volume.make_directories("/data/logs")
        await volume.make_directories("relative/logs")
    assert disk.synced == ["/", "/data", ".", "relative"]


async def test_a_folder_that_a_killed_process_made_is_durable_before_anything_is_put_into_it(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G1: else a power loss takes the folder, and with it whatever was confirmed in it."""
    disk.make_directory("/data")  # and here the process was killed
    async with mounted(disk.kill()) as volume:
        await volume.make_directories("/data/logs")
        assert isinstance(volume.disk, SimulatedDisk)
        for _ in range(CRASHES):
            assert volume.disk.crash().is_directory("/data/logs")


async def test_two_that_make_the_same_folder_at_once_both_return_when_it_is_durable(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G1"""
    disk.faults.sync_seconds = (1.0, 1.0)

    async def make() -> None:
        await volume.make_directories("/data")
        for _ in range(CRASHES):
            assert disk.crash().is_directory("/data")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(make)
        await trio.sleep(0.5)
        nursery.start_soon(make)


# Indexes of sealed segments.


def test_of_too_many_indexes_the_least_recently_used_is_dropped(disk: SimulatedDisk) -> None:
    volume = Volume(disk, indexes_max=2)
    indexes = {owner: SparseIndex() for owner in "abc"}
    volume.keep_index("a", indexes["a"])
    volume.keep_index("b", indexes["b"])
    assert volume.index("a") is indexes["a"]
    volume.keep_index("c", indexes["c"])
    assert volume.index("b") is None
    assert volume.index("a") is indexes["a"]
    assert volume.index("c") is indexes["c"]


def test_a_forgotten_index_is_gone(disk: SimulatedDisk) -> None:
    volume = Volume(disk)
    volume.keep_index("a", SparseIndex())
    assert volume.index_memory() == SparseIndex().memory()
    volume.forget_index("a")
    volume.forget_index("a")
    assert (volume.index("a"), volume.index_memory()) == (None, 0)
