"""The data directory: one process at a time, and a note of what it is that is never lost silently."""

import json
from random import Random
from uuid import UUID

import pytest
import trio
from trio.testing import MockClock

from goqueue.errors import DataDirectoryLocked, DiskFull, UnknownFormat
from goqueue.storage.checkedjson import _checksum
from goqueue.storage.directory.datadirectory import META_SIZE_MAX, DataDirectory
from goqueue.storage.log.volume import Volume
from goqueue.testing.disk import CAPACITY, SimulatedDisk
from tests.storage.logs import mounted

PATH = "/srv/goqueue"
META = f"{PATH}/meta.json"


async def open_directory(volume: Volume, seed: int = 1, node: str = "one") -> DataDirectory:
    return await DataDirectory.open(volume, PATH, node=node, random=Random(seed))


async def contents(disk: SimulatedDisk, path: str = META) -> bytes:
    return await disk.open(path).read(0, disk.size(path))


def overwrite(disk: SimulatedDisk, data: bytes, path: str = META) -> None:
    file = disk.open(path, create=True)
    file.truncate(0)
    file.write(0, [data])
    file.close()


def copies(disk: SimulatedDisk) -> list[str]:
    return [name for name in disk.list(PATH) if name.endswith(".damaged")]


# What the directory is.


async def test_a_new_directory_is_marked_with_its_format_its_cluster_and_its_node(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    directory = await open_directory(volume)
    assert directory.reports == ()
    assert directory.meta.node == "one"
    assert directory.meta.cluster.version == 4
    fields = {"format": 1, "cluster": str(directory.meta.cluster), "node": "one"}
    assert json.loads(await contents(disk)) == {**fields, "crc32c": _checksum(fields)}
    assert directory.log_directory("orders", 3) == f"{PATH}/logs/orders/3"


async def test_the_cluster_comes_from_the_given_chance(volume: Volume, autojump_clock: MockClock) -> None:
    directory = await open_directory(volume, seed=7)
    assert directory.meta.cluster == UUID(int=Random(7).getrandbits(128), version=4)


async def test_what_was_written_first_is_kept_over_restarts_and_power_losses(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    meta = (await open_directory(volume)).meta
    for seed in range(10):
        disk = disk.crash()
        async with mounted(disk) as later:
            directory = await open_directory(later, seed=seed, node="another")
            assert (directory.meta, directory.reports) == (meta, ())


async def test_a_power_loss_at_the_first_start_leaves_a_directory_that_can_be_opened(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    images = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(open_directory, volume)
        for _ in range(60):
            images.append(disk.crash())
            await trio.sleep(0.000_1)
    for image in images:
        async with mounted(image) as later:
            assert (await open_directory(later)).reports == ()


# One process at a time.


async def test_a_second_opener_is_refused_and_told_who_holds_the_directory(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    await open_directory(volume)
    with pytest.raises(DataDirectoryLocked, match=f"process {disk.pid} holds {PATH}/lock") as error:
        await open_directory(volume)
    assert error.value.details["pid"] == str(disk.pid)


async def test_the_directory_is_free_once_it_is_released(volume: Volume, autojump_clock: MockClock) -> None:
    first = await open_directory(volume)
    first.release()
    second = await open_directory(volume)
    first.release()
    with pytest.raises(DataDirectoryLocked):
        await open_directory(volume)
    second.release()


async def test_the_directory_is_free_when_its_process_is_dead(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    await open_directory(volume)
    async with mounted(disk.kill()) as later:
        await open_directory(later)


async def test_a_start_that_fails_leaves_no_lock_behind(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    await volume.make_directories(PATH)
    overwrite(disk, b"x", "/ballast")
    overwrite(disk, b"", f"{PATH}/lock")
    disk.capacity = 1
    with pytest.raises(DiskFull):
        await open_directory(volume)
    disk.capacity = CAPACITY
    await open_directory(volume)


async def test_a_start_that_is_cancelled_leaves_no_lock_behind(volume: Volume, autojump_clock: MockClock) -> None:
    for moment in range(1, 30):
        with trio.move_on_after(moment / 5_000):
            (await open_directory(volume)).release()
    (await open_directory(volume)).release()


# Damage.

DAMAGED = {
    "empty": b"",
    "half": b'{"format": 1, "cluster": "0b0f',
    "zeros": bytes(100),
    "another encoding": b"\xff\xfe\x00",
    "a list": b"[1, 2]",
    "deep": b"[" * 50_000,
    "no cluster": b'{"format": 1, "node": "one"}',
    "no format": b'{"cluster": "00000000-0000-4000-8000-000000000000", "node": "one"}',
    "a number for a cluster": b'{"format": 1, "cluster": 5, "node": "one"}',
}


@pytest.mark.parametrize("damaged", DAMAGED.values(), ids=DAMAGED.keys())
async def test_a_damaged_note_is_set_aside_and_reported(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock, damaged: bytes
) -> None:
    """G13"""
    (await open_directory(volume)).release()
    overwrite(disk, damaged)
    directory = await open_directory(volume, seed=2)
    [kept] = copies(disk)
    assert await contents(disk, f"{PATH}/{kept}") == damaged
    [report] = directory.reports
    assert META in report
    assert kept in report
    directory.release()
    again = await open_directory(volume, seed=3)
    assert (again.meta, again.reports) == (directory.meta, ())


async def test_a_second_damaged_note_does_not_replace_the_first(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G13"""
    for damaged in (b"first", b"second"):
        (await open_directory(volume)).release()
        overwrite(disk, damaged)
    await open_directory(volume)
    assert {await contents(disk, f"{PATH}/{kept}") for kept in copies(disk)} == {b"first", b"second"}


async def test_a_byte_that_is_not_text_any_more_is_noticed_wherever_it_is(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G13"""
    await open_directory(volume)
    for position in range(disk.size(META)):
        flipped = disk.kill()
        flipped.flip_bit(META, position, 7)
        async with mounted(flipped) as later:
            assert (await open_directory(later, seed=2)).reports
        assert len(copies(flipped)) == 1


async def test_a_note_missing_beside_logs_is_reported(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G13: the logs are left alone."""
    directory = await open_directory(volume)
    directory.release()
    await volume.make_directories(directory.log_directory("orders", 0))
    segment = directory.log_directory("orders", 0) + "/00000000000000000000.log"
    overwrite(disk, b"batches", segment)
    disk.remove(META)
    [report] = (await open_directory(volume, seed=2)).reports
    assert f"{META} was missing" in report
    assert await contents(disk, segment) == b"batches"


@pytest.mark.parametrize("newer", [b'{"format": 2}', b'{"format": 2, "cluster": {"id": 5}}', b'{"format": "next"}'])
async def test_a_newer_format_is_refused_left_alone_and_not_held(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock, newer: bytes
) -> None:
    """G13: whatever else the newer format says or does not say."""
    (await open_directory(volume)).release()
    overwrite(disk, newer)
    for _ in range(2):
        with pytest.raises(UnknownFormat, match=r"format (2|next); this goqueue reads format 1"):
            await open_directory(volume)
    assert (await contents(disk), disk.list(PATH)) == (newer, ["lock", "meta.json"])


async def test_a_file_too_large_to_be_the_note_is_refused_and_left_alone(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G13, G14: half of it would be neither read nor kept."""
    (await open_directory(volume)).release()
    overwrite(disk, b" " * (META_SIZE_MAX + 1))
    with pytest.raises(UnknownFormat, match="too large"):
        await open_directory(volume)
    assert disk.size(META) == META_SIZE_MAX + 1
