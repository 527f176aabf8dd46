"""Syncs that the kernel does for us; where it does not, a thread takes over."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from goqueue.storage.disk import kernelsync
from goqueue.storage.disk.disk import RealDisk
from goqueue.storage.disk.kernelsync import FDSYNC, FSYNC, TOGETHER_MAX, KernelSync, SyncRefused

pytestmark = pytest.mark.skipif(not KernelSync(1).is_known, reason="this system has no such requests")


async def test_a_file_is_synced(tmp_path: Path) -> None:
    kernel = KernelSync(2)
    with (tmp_path / "log").open("wb") as file:
        for _ in range(3):
            os.write(file.fileno(), b"record")
            await kernel.fdatasync(file.fileno())
    kernel.close()


async def test_many_at_once_are_refused_beyond_the_limit_and_each_hears_of_its_own(tmp_path: Path) -> None:
    kernel, done, refused = KernelSync(4), [], []

    async def sync(number: int) -> None:
        with (tmp_path / str(number)).open("wb") as file:
            os.write(file.fileno(), bytes(4096))
            try:
                await kernel.fdatasync(file.fileno())
            except SyncRefused:
                refused.append(number)
            else:
                done.append(number)

    async with trio.open_nursery() as nursery:
        for number in range(6):
            nursery.start_soon(sync, number)
    assert (len(done), len(refused)) == (4, 2)
    assert kernel.is_known, "too many at once say nothing of the system"
    kernel.close()


async def test_what_cannot_be_synced_is_refused_before_anything_is_begun(tmp_path: Path) -> None:
    kernel = KernelSync(1)
    reading, writing = os.pipe()
    with pytest.raises(SyncRefused):
        await kernel.fdatasync(writing)
    assert not kernel.is_known
    os.close(reading)
    os.close(writing)
    kernel.close()


async def test_a_system_that_refuses_leaves_it_to_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernelsync, "_CALLS", {})
    disk = RealDisk()
    file = disk.open(str(tmp_path / "log"), create=True)
    file.write(0, [b"record"])
    await file.sync()
    file.close()
    disk.rest()


async def test_without_a_free_descriptor_it_is_left_to_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_more(*_: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    disk = RealDisk()
    file = disk.open(str(tmp_path / "log"), create=True)
    monkeypatch.setattr(os, "eventfd", no_more)
    await file.sync()
    file.close()
    disk.rest()


async def test_a_sync_that_was_begun_is_waited_for_though_its_caller_is_cancelled(tmp_path: Path) -> None:
    """The descriptor may be closed once it returns, and its slot be given to the next."""
    kernel = KernelSync(1)
    with (tmp_path / "log").open("wb") as file:
        os.write(file.fileno(), bytes(1 << 20))
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(kernel.fdatasync, file.fileno())
                await trio.testing.wait_all_tasks_blocked()
                scope.cancel()
        await kernel.fdatasync(file.fileno())
        with trio.CancelScope() as cancelled:
            cancelled.cancel()
            await kernel.fdatasync(file.fileno())
        assert cancelled.cancelled_caught
    kernel.close()


async def test_a_failed_sync_says_what_the_device_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = KernelSync(1)
    with (tmp_path / "log").open("wb") as file:
        await kernel.fdatasync(file.fileno())
        calls = kernel._calls
        assert calls is not None
        take = calls.take_events

        def fail(context: Any, most: int, events: Any) -> int:
            count = take(context, most, events)
            kernelsync._EVENT.pack_into(events, 0, 0, 0, -errno.EIO, 0)
            return count

        monkeypatch.setattr(calls, "take_events", fail)
        with pytest.raises(OSError, match="Input/output error") as failure:
            await kernel.fdatasync(file.fileno())
    assert failure.value.errno == errno.EIO
    kernel.close()


# Many at once


def many_files(folder: Path, count: int) -> list[int]:
    return [os.open(folder / str(number), os.O_RDWR | os.O_CREAT) for number in range(count)]


def close_all(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


@pytest.mark.parametrize("count", [0, 1, TOGETHER_MAX, TOGETHER_MAX + 1, 3 * TOGETHER_MAX])
@pytest.mark.parametrize("taken_max", [1_000, 7])
async def test_many_are_synced_by_one_call_however_many_the_system_takes_at_a_time(
    count: int, taken_max: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel, descriptors, asked = KernelSync(1), many_files(tmp_path, count), list[int]()
    calls = kernel._calls
    assert calls is not None
    submit = calls.submit

    def take_some(context: Any, count: int, requests: Any) -> int:
        asked.append(count)
        return submit(context, min(count, taken_max), requests)

    monkeypatch.setattr(calls, "submit", take_some)
    for _ in range(2):  # what is left of the first signal does not end the second
        results = await kernel.sync_all([(FDSYNC, descriptor) for descriptor in descriptors])
        assert results == [0] * count
    assert max(asked, default=0) <= TOGETHER_MAX
    if taken_max > count:
        assert len(asked) == 2 * -(-count // TOGETHER_MAX)
    kernel.close()
    close_all(descriptors)


async def test_folders_are_synced_with_files(tmp_path: Path) -> None:
    kernel, folder = KernelSync(1), os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    [file] = many_files(tmp_path, 1)
    assert await kernel.sync_all([(FDSYNC, file), (FSYNC, folder)]) == [0, 0]
    kernel.close()
    close_all([file, folder])


async def test_what_the_system_does_not_take_has_no_result_and_what_came_before_it_has(tmp_path: Path) -> None:
    kernel, descriptors = KernelSync(1), many_files(tmp_path, 2)
    reading, writing = os.pipe()
    requests = [(FDSYNC, each) for each in (descriptors[0], writing, descriptors[1])]
    assert await kernel.sync_all(requests) == [0, None, None]
    assert kernel.is_known
    kernel.close()
    close_all([*descriptors, reading, writing])
