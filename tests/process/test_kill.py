"""Real processes on a real disk, ended by `kill -9`, by a signal and by themselves."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from random import Random

import pytest
import trio

from goqueue.errors import DataDirectoryLocked
from goqueue.storage.directory.datadirectory import DataDirectory
from goqueue.storage.disk.disk import RealDisk
from goqueue.storage.log.log import Log
from goqueue.storage.log.volume import Volume
from tests.process.appender import CONFIG, LOCKED, WRITERS, value_of
from tests.process.children import Child, child
from tests.storage.logs import read_all

LINES_MAX = 80


def appender(path: Path, *options: str) -> AbstractAsyncContextManager[Child]:
    return child("tests.process.appender", str(path), *options)


def confirmed_by(appender: Child) -> int:
    """Below which offset everything was confirmed."""
    return max((int(line.split()[1]) for line in appender.lines if line.startswith("confirmed")), default=0)


@asynccontextmanager
async def real_volume() -> AsyncIterator[Volume]:
    async with trio.open_nursery() as nursery:
        volume = Volume(RealDisk())
        await nursery.start(volume.run)
        yield volume
        volume.close()
        nursery.cancel_scope.cancel()


async def take(volume: Volume, path: Path) -> DataDirectory:
    return await DataDirectory.open(volume, str(path), node="one", random=Random(0))


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[Log]:
    """The directory and its log, in this process; it must be free."""
    async with real_volume() as volume:
        directory = await take(volume, path)
        log = await Log.open(volume, directory.log_directory("orders", 0), CONFIG)
        yield log
        await log.close()
        directory.release()


async def check(log: Log) -> None:
    """Every record once, in order, with its right contents, without a gap (G2, G3)."""
    records = await read_all(log, bytes_max=1_000_000)
    assert [record.offset for record in records] == list(range(log.end_offset))
    assert all(record.value == value_of(record.offset) for record in records)
    assert log.statistics().damage == ()


@pytest.mark.parametrize("seed", range(2))
async def test_what_was_confirmed_survives_kill_9_again_and_again(tmp_path: Path, kills: int, seed: int) -> None:
    """G1: killed while it starts, recovers, appends, commits, rolls segments, writes recovery points."""
    random, confirmed = Random(seed), 0
    for _ in range(kills):
        async with appender(tmp_path) as process:
            await process.listen(random.randint(0, LINES_MAX))
            process.process.kill()
            assert await process.end() == -9
        confirmed = max(confirmed, confirmed_by(process))
        async with opened(tmp_path) as log:
            assert log.end_offset >= confirmed
            await check(log)


async def test_processes_killed_while_they_recover_do_no_harm(tmp_path: Path, kills: int) -> None:
    """G1: they hold the directory, and what the one before left is not yet open."""
    async with appender(tmp_path) as process:
        await process.listen(LINES_MAX)
        process.process.kill()
        await process.end()
    for _ in range(kills):
        async with appender(tmp_path) as next_process:
            await next_process.listen(1)
            next_process.process.kill()
            await next_process.end()
    async with opened(tmp_path) as log:
        assert log.end_offset >= confirmed_by(process)
        await check(log)


async def test_a_second_process_is_refused_and_told_who_holds_the_directory(tmp_path: Path) -> None:
    async with appender(tmp_path) as first:
        await first.listen(2)
        async with appender(tmp_path) as second:
            assert await second.end() == LOCKED
        assert second.lines == [f"locked by {first.process.pid}"]
        async with real_volume() as volume:
            with pytest.raises(DataDirectoryLocked, match=f"process {first.process.pid} holds") as error:
                await take(volume, tmp_path)
        assert error.value.details["pid"] == str(first.process.pid)
        first.process.kill()
        await first.process.wait()
        async with opened(tmp_path) as log:  # free at once
            await check(log)


async def test_a_process_that_is_asked_to_stop_closes_the_log_in_order(tmp_path: Path) -> None:
    """G15: everything accepted is on disk, and the next start has next to nothing to scan."""
    async with appender(tmp_path) as process:
        await process.listen(LINES_MAX)
        process.process.terminate()
        assert await process.end() == 0
    await check_closed(tmp_path, process)


async def test_a_process_that_ends_by_itself_closes_the_log_in_order(tmp_path: Path) -> None:
    """G15"""
    async with appender(tmp_path, "20") as process:
        assert await process.end() == 0
    assert sum(line.startswith("confirmed") for line in process.lines) == 20 * WRITERS
    await check_closed(tmp_path, process)


async def check_closed(path: Path, process: Child) -> None:
    async with opened(path) as log:
        assert process.lines[-1] == f"closed {log.end_offset}"
        assert confirmed_by(process) <= log.end_offset
        assert log.statistics().torn == ()
        assert log.statistics().scanned_bytes < log.statistics().size / 5
        await check(log)
