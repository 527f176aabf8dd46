"""Many files and folders made durable at once, on the real disk and on the simulated one."""

import errno
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from goqueue.environment import Disk
from goqueue.errors import DiskFailed
from goqueue.storage.disk import kernelsync
from goqueue.storage.disk.disk import RealDisk
from goqueue.storage.disk.kernelsync import TOGETHER_MAX, KernelSync, Request, Result
from goqueue.testing.disk import SimulatedDisk
from goqueue.testing.faults import Faults


@pytest.fixture(params=["kernel", "threads", "simulated"])
def disk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    if request.param == "simulated":
        yield SimulatedDisk(Random(1), faults=Faults(sync_seconds=(0.0, 0.0)))
        return
    if request.param == "threads":
        monkeypatch.setattr(kernelsync, "_CALLS", {})
    disk = RealDisk()
    yield disk
    disk.rest()


async def folder_on(disk: Disk, tmp_path: Path) -> str:
    if isinstance(disk, RealDisk):
        return str(tmp_path)
    disk.make_directory("/data")
    await disk.sync_directory("/")
    return "/data"


async def test_all_of_them_are_synced_and_those_that_failed_are_named(disk: Disk, tmp_path: Path) -> None:
    folder = await folder_on(disk, tmp_path)
    files = [disk.open(f"{folder}/{number}", create=True) for number in range(TOGETHER_MAX + 5)]
    closed, missing = disk.open(f"{folder}/closed", create=True), f"{folder}/missing"
    closed.close()
    for file in files:
        file.write(0, [b"record"])
    failures = await disk.sync_all([*files, folder, closed, missing])
    assert set(failures) == {closed, missing}
    assert (type(failures[closed]), type(failures[missing])) == (ValueError, FileNotFoundError)
    if isinstance(disk, SimulatedDisk):
        crashed = disk.crash()
        assert {crashed.size(file.path) for file in files} == {6}


async def test_folders_are_open_a_bounded_number_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk, most = RealDisk(), 0
    folders = [f"{tmp_path}/{number}" for number in range(2 * TOGETHER_MAX + 1)]
    for folder in folders:
        disk.make_directory(folder)
    before = len(os.listdir("/proc/self/fd"))
    sync_all = KernelSync.sync_all

    async def count(kernel: KernelSync, wanted: Sequence[Request]) -> list[Result]:
        nonlocal most
        most = max(most, len(os.listdir("/proc/self/fd")) - before)
        return await sync_all(kernel, wanted)

    monkeypatch.setattr(KernelSync, "sync_all", count)
    assert await disk.sync_all(folders) == {}
    assert TOGETHER_MAX <= most <= TOGETHER_MAX + 2
    disk.rest()
    assert len(os.listdir("/proc/self/fd")) == before


async def test_files_are_given_back_once_they_are_synced(tmp_path: Path) -> None:
    disk = RealDisk()
    before = len(os.listdir("/proc/self/fd"))
    files = [disk.open(f"{tmp_path}/{number}", create=True) for number in range(3)]
    assert await disk.sync_all(files) == {}
    for file in files:
        file.close()
    disk.rest()
    assert len(os.listdir("/proc/self/fd")) == before


async def test_of_nothing_nothing_fails(disk: Disk) -> None:
    assert await disk.sync_all([]) == {}


async def test_what_the_device_says_of_one_file_is_said_of_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = RealDisk()
    files = [disk.open(f"{tmp_path}/{number}", create=True) for number in range(3)]

    async def sync_all(_: KernelSync, wanted: Sequence[Request]) -> list[Result]:
        return [0, errno.EIO, None][: len(wanted)]  # the last was not taken, and goes to a thread

    monkeypatch.setattr(KernelSync, "sync_all", sync_all)
    failures = await disk.sync_all(files)
    assert list(failures) == [files[1]]
    assert isinstance(failures[files[1]], DiskFailed)
    assert files[1].path in str(failures[files[1]])
    disk.rest()


async def test_a_file_closed_meanwhile_stays_open_until_it_is_synced(disk: Disk, tmp_path: Path) -> None:
    folder = await folder_on(disk, tmp_path)
    files = [disk.open(f"{folder}/{number}", create=True) for number in range(3)]
    found = list[object]()

    async def sync() -> None:
        found.append(await disk.sync_all(files))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(sync)
        await wait_all_tasks_blocked()
        for file in files:
            file.close()
    assert found == [{}]
