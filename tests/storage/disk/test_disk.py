"""What only the real disk can show: cold pages, full devices, short writes. The rest is in the disks' contract."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from goqueue.errors import DiskFailed, DiskFull, TooManyFiles, UnexpectedFile
from goqueue.storage.disk.disk import BUFFERS_PER_CALL_MAX, RealDisk

MEBIBYTE = 1024 * 1024


def evict(path: Path) -> None:
    """Have the system forget the file's pages, so that the next read must wait for the device."""
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


async def test_cold_pages_are_read_in_a_thread_and_come_back_whole(tmp_path: Path) -> None:
    path = tmp_path / "cold"
    contents = os.urandom(4 * MEBIBYTE)
    path.write_bytes(contents)
    file = RealDisk().open(str(path))
    for position, length in ((0, len(contents)), (MEBIBYTE + 1, 999), (4 * MEBIBYTE - 10, 100), (5 * MEBIBYTE, 10)):
        evict(path)
        assert bytes(await file.read(position, length)) == contents[position : position + length]
    file.close()


async def test_a_file_closed_during_a_read_is_closed_when_the_read_has_ended(tmp_path: Path) -> None:
    """Else the kernel gives the number to the next file, and the read returns its bytes."""
    path = tmp_path / "cold"
    path.write_bytes(bytes(8 * MEBIBYTE))
    file = RealDisk().open(str(path))
    found: list[int] = []

    async def read() -> None:
        found.append(len(await file.read(0, 8 * MEBIBYTE)))

    evict(path)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await wait_all_tasks_blocked()
        file.close()
    assert found == [8 * MEBIBYTE]
    with pytest.raises(ValueError, match="closed"):
        file.size()


def test_a_device_without_room_is_a_full_disk() -> None:
    file = RealDisk().open("/dev/full")
    with pytest.raises(DiskFull, match="no room") as error:
        file.write(0, [b"x"])
    assert error.value.retryable
    file.close()


def test_a_short_write_is_continued_until_it_is_whole_or_fails(tmp_path: Path) -> None:
    """A limit on the file's size cuts the first call short; the second one says why."""
    file = RealDisk().open(str(tmp_path / "limited"), create=True)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        with pytest.raises(DiskFailed, match="limited"):
            file.write(0, [bytes(8_000), bytes(8_000)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    file.truncate(0)
    assert file.write(0, [bytes(8_000), bytes(8_000)]) == 16_000
    file.close()


async def test_more_buffers_than_one_call_takes_are_written_in_order(tmp_path: Path) -> None:
    buffers = [number.to_bytes(4, "big") for number in range(2 * BUFFERS_PER_CALL_MAX + 5)]
    file = RealDisk().open(str(tmp_path / "many"), create=True)
    assert file.write(3, buffers) == 4 * len(buffers)
    assert bytes(await file.read(3, 4 * len(buffers))) == b"".join(buffers)
    file.close()


async def test_what_the_system_refuses_is_named_with_its_path(tmp_path: Path) -> None:
    disk = RealDisk()
    (tmp_path / "file").touch()
    for call in (disk.open, disk.make_directory, disk.list):
        with pytest.raises(UnexpectedFile, match=f"{tmp_path}/file is a file, where a directory is expected"):
            call(str(tmp_path / "file" / "below"))
    with pytest.raises(UnexpectedFile, match=f"{tmp_path}/file is a file, where a directory is expected"):
        disk.make_directory(str(tmp_path / "file"))
    for writable in (True, False):
        with pytest.raises(UnexpectedFile, match=f"{tmp_path} is a directory, where a file is expected"):
            disk.open(str(tmp_path), writable=writable)
    reader = disk.open(str(tmp_path / "file"), writable=False)
    with pytest.raises(DiskFailed):
        reader.write(0, [b"x"])
    reader.close()


def test_a_lock_that_cannot_be_signed_is_not_held(tmp_path: Path) -> None:
    disk = RealDisk()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        with pytest.raises(DiskFailed):
            disk.lock(str(tmp_path / "lock"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    disk.lock(str(tmp_path / "lock")).release()


def test_the_disk_takes_as_many_descriptors_as_the_system_grants() -> None:
    """A thousand partitions that are written to hold a thousand files open; many systems begin with 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 512), hard))
    try:
        RealDisk()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_a_fifo_in_place_of_a_file_is_named_and_not_waited_for(tmp_path: Path) -> None:
    path = str(tmp_path / "fifo")
    os.mkfifo(path)
    disk = RealDisk()
    for writable in (True, False):
        with pytest.raises(UnexpectedFile, match="is a fifo, where a file is expected"):
            disk.open(path, writable=writable)
    with pytest.raises(UnexpectedFile, match="is a fifo"):
        disk.lock(path)
    with pytest.raises(UnexpectedFile, match="is a fifo"):
        await disk.put(path, str(tmp_path / "file"), [bytes(100_000)])


@contextmanager
def no_descriptors_left() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 1, hard))
    try:
        for _ in range(10_000):
            try:
                taken.append(os.open(os.devnull, os.O_RDONLY))
            except OSError:
                break
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in taken:
            os.close(descriptor)


async def test_without_a_descriptor_files_are_put_and_folders_synced_and_what_is_opened_is_told(
    tmp_path: Path,
) -> None:
    """A log that cannot sync its folder would have to stop."""
    disk, folder = RealDisk(), str(tmp_path)
    (await disk.put(f"{folder}/a.tmp", f"{folder}/a", [b"before"])).close()
    with no_descriptors_left():
        with pytest.raises(TooManyFiles, match="ulimit") as refusal:
            disk.open(f"{folder}/a")
        assert refusal.value.retryable
        for _ in range(20):
            await disk.sync_directory(folder)
            assert await disk.sync_all([folder, f"{folder}/."]) == {}
            (await disk.put(f"{folder}/b.tmp", f"{folder}/b", [b"kept"])).close()
    file = disk.open(f"{folder}/b")
    assert bytes(await file.read(0, 10)) == b"kept"
    file.close()
    disk.rest()
