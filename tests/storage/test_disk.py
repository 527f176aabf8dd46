"""What only the real disk can show: cold pages, full devices, short writes. The rest is in the disks' contract."""

import os
import resource
from pathlib import Path

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from goqueue.errors import DiskFailed, DiskFull
from goqueue.storage.disk import BUFFERS_PER_CALL_MAX, RealDisk

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
    with pytest.raises(DiskFailed, match=r"file/below: .*directory"):
        disk.open(str(tmp_path / "file" / "below"))
    with pytest.raises(DiskFailed, match="file"):
        disk.make_directory(str(tmp_path / "file"))
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
