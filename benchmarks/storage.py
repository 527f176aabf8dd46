"""What the storage engine costs, as ratios to the least that could be done: `./dev bench`.

100-byte values in batches of 1,000, on the real disk, every result checked. Each pair is measured in
alternation and the median of five runs is shown: on a shared machine only ratios taken side by side mean
anything.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import trio
from crc32c import crc32c
from rich.console import Console
from rich.progress import Progress

from benchmarks.commandline import Size, add_sizes
from benchmarks.figures import Figure, show, timed
from goqueue.config import MEBIBYTE, LogConfig
from goqueue.core.records.batch import Batch, accept
from goqueue.core.records.record import CHECKSUMMED_FROM, HEADER, HEADER_SIZE, encode_record
from goqueue.storage.disk.disk import RealDisk
from goqueue.storage.log.log import Log
from goqueue.storage.log.volume import Volume

RECORDS = 1_000
NOW = 1_700_000_000_000_000
BODY = b"".join(encode_record(number, NOW + number, bytes(100)) for number in range(RECORDS))


@dataclass(frozen=True, slots=True)
class Sizes:
    runs: int = 5
    batches: int = 200
    scanned_mebibytes: int = 64
    segments: int = 1_000
    index_segment_mebibytes: int = 4


SIZES: dict[Size, tuple[Sizes, float | None]] = {
    "full": (Sizes(), None),
    "quick": (Sizes(runs=3), 0.25),
    "tiny": (Sizes(runs=1, batches=2, scanned_mebibytes=1, segments=5, index_segment_mebibytes=1), 0.001),
}
"""Beside the sizes, the gibibytes of the large log; `--gib` says them for `full`."""


@asynccontextmanager
async def volume_on_disk() -> AsyncIterator[Volume]:
    async with trio.open_nursery() as nursery:
        volume = Volume(RealDisk())
        await nursery.start(volume.run)
        yield volume
        volume.close()
        nursery.cancel_scope.cancel()


def walk_and_check(body: memoryview) -> int:
    """The least that a broker must do with records that strangers sent."""
    position = count = 0
    while position < len(body):
        _, _, _, crc, _, _, _, _, key_size, value_size = HEADER.unpack_from(body, position)
        end = position + HEADER_SIZE + key_size + value_size
        assert crc32c(body[position + CHECKSUMMED_FROM : end]) == crc
        position = end
        count += 1
    return count


async def bare_loop(sizes: Sizes, _folder: Path) -> float:
    with timed() as watch:
        for _ in range(sizes.batches):
            assert walk_and_check(memoryview(BODY)) == RECORDS
    return watch.seconds


async def append_validated(sizes: Sizes, folder: Path) -> float:
    async with volume_on_disk() as volume:
        log = await Log.open(volume, str(folder / "append"), LogConfig())
        before = log.end_offset
        with timed() as watch:
            for _ in range(sizes.batches):
                log.append([accept(BODY, RECORDS)], NOW)
        assert log.end_offset == before + sizes.batches * RECORDS
        await log.close()
        return watch.seconds


async def read_file(_sizes: Sizes, folder: Path) -> float:
    path = next((folder / "read").glob("*.log"))
    with timed() as watch, path.open("rb", buffering=0) as file:
        size = 0
        while chunk := file.read(MEBIBYTE):
            size += len(chunk)
    assert size == path.stat().st_size
    return watch.seconds


async def read_log(_sizes: Sizes, folder: Path) -> float:
    async with volume_on_disk() as volume:
        log = await Log.open(volume, str(folder / "read"), LogConfig())
        with timed() as watch:
            offset = size = 0
            while offset < log.high_watermark:
                found = await log.read(offset, MEBIBYTE)
                offset, size = found.next_offset, size + len(found.data)
        assert size == log.statistics().size
        log.abandon()
        return watch.seconds


async def alternated(sizes: Sizes, folder: Path, *works: Callable[[Sizes, Path], Awaitable[float]]) -> list[float]:
    """The median seconds of each, measured in turns."""
    runs = [[await work(sizes, folder) for work in works] for _ in range(sizes.runs)]
    return [statistics.median(column) for column in zip(*runs, strict=True)]


async def fill(log: Log, size: int, batch: Batch, tick: Callable[[int], None] = lambda _: None) -> None:
    while log.appended.bytes < size:
        log.append([batch] * 4, NOW)
        await log.commit()
        tick(4 * batch.size)


async def recovery_of_a_full_segment(sizes: Sizes, folder: Path) -> float:
    """Its recovery point and indexes are gone, so every byte is scanned."""
    async with volume_on_disk() as volume:
        path, size = folder / "recovery", sizes.scanned_mebibytes * MEBIBYTE
        log = await Log.open(volume, str(path), LogConfig(segment_bytes=128 * MEBIBYTE))
        if not log.end_offset:
            await fill(log, size, accept(BODY, RECORDS))
        log.abandon()
        (path / "recovery-point").unlink()
        with timed() as watch:
            log = await Log.open(volume, str(path), LogConfig(segment_bytes=128 * MEBIBYTE))
        assert log.statistics().scanned_bytes >= size
        log.abandon()
        return watch.seconds


async def start_with_sealed_segments(sizes: Sizes, folder: Path) -> float:
    config = LogConfig(segment_bytes=64 * 1024)
    async with volume_on_disk() as volume:
        path = str(folder / "sealed")
        log = await Log.open(volume, path, config)
        small = accept(b"".join(encode_record(number, NOW, bytes(100)) for number in range(400)), 400)
        while log.statistics().segments <= sizes.segments:
            log.append([small], NOW)
        await log.close()
        with timed() as watch:
            log = await Log.open(volume, path, config)
        assert log.statistics().segments == sizes.segments + 1
        await log.close()
        return watch.seconds


async def syncs_for_concurrent_appends(folder: Path) -> float:
    async with volume_on_disk() as volume:
        log = await Log.open(volume, str(folder / "syncs"), LogConfig())
        batch = accept(encode_record(0, NOW, bytes(100)), 1)
        before = volume.committer.syncs

        async def publish() -> None:
            log.append([batch], NOW)
            await log.commit()

        async with trio.open_nursery() as nursery:
            for _ in range(1_000):
                nursery.start_soon(publish)
        assert log.durable_offset == 1_000
        syncs = volume.committer.syncs - before
        await log.close()
        return syncs


async def index_memory(sizes: Sizes, folder: Path) -> float:
    """Bytes per 4 KiB of log, with single small records: the most entries that a log can have."""
    async with volume_on_disk() as volume:
        config = LogConfig(segment_bytes=sizes.index_segment_mebibytes * MEBIBYTE)
        log = await Log.open(volume, str(folder / "index"), config)
        single = accept(encode_record(0, NOW, bytes(100)), 1)
        while log.statistics().segments < 3:
            log.append([single] * 100, NOW)
        await log.commit()
        log.advance_high_watermark(log.durable_offset)
        await log.checkpoint()
        offset = 0
        while offset < log.high_watermark:
            offset = (await log.read(offset, MEBIBYTE)).next_offset
        sealed = sum(segment.summary.size for segment in log.finished_segments())
        memory = volume.index_memory() / (sealed / 4_096)
        await log.close()
        return memory


async def append_into_a_large_log(
    sizes: Sizes, folder: Path, gibibytes: float, progress: Progress
) -> tuple[float, float]:
    """Microseconds of processor time per record in an empty log and in a large one, both open, in turns."""
    size = int(gibibytes * 1024 * MEBIBYTE)
    task = progress.add_task(f"filling {gibibytes:g} GiB", total=size)
    async with volume_on_disk() as volume:
        large = await Log.open(volume, str(folder / "large"), LogConfig())
        await fill(large, size, accept(BODY, RECORDS), lambda done: progress.advance(task, done))
        await large.checkpoint()
        costs = []
        for run in range(2 * sizes.runs):
            empty = await Log.open(volume, str(folder / f"empty-{run}"), LogConfig())
            # Who comes first finds the disk idle, so they take turns at that too.
            order = (empty, large) if run % 2 else (large, empty)
            cost = {log: await _append_cost(log) for log in order}
            costs.append((cost[empty], cost[large]))
            await empty.close()
        await large.close()
    medians = [statistics.median(column) for column in zip(*costs, strict=True)]
    return medians[0], medians[1]


async def _append_cost(log: Log) -> float:
    """Processor time: the system may hold back whoever has just written 10 GiB."""
    begin = time.process_time()
    for _ in range(50):
        log.append([accept(BODY, RECORDS)], NOW)
    seconds = time.process_time() - begin
    await log.commit()
    return seconds / 50 / RECORDS * 1e6


async def measure(sizes: Sizes, folder: Path, gibibytes: float, progress: Progress) -> list[Figure]:
    steps = progress.add_task("measuring", total=7)

    def step() -> None:
        progress.advance(steps)

    per_record = 1e6 / (sizes.batches * RECORDS)
    bare, append = await alternated(sizes, folder, bare_loop, append_validated)
    step()
    async with volume_on_disk() as volume:
        log = await Log.open(volume, str(folder / "read"), LogConfig(segment_bytes=256 * MEBIBYTE))
        await fill(log, sizes.scanned_mebibytes * MEBIBYTE, accept(BODY, RECORDS))
        await log.close()
    raw, read = await alternated(sizes, folder, read_file, read_log)
    records_read = sizes.scanned_mebibytes * MEBIBYTE / (len(BODY) / RECORDS)
    step()
    [recovery] = await alternated(sizes, folder, recovery_of_a_full_segment)
    step()
    start = await start_with_sealed_segments(sizes, folder)
    step()
    syncs = await syncs_for_concurrent_appends(folder)
    step()
    memory = await index_memory(sizes, folder)
    step()
    empty, large = await append_into_a_large_log(sizes, folder, gibibytes, progress)
    step()
    return [
        Figure("bare loop: walk and check", bare * per_record, "µs/record"),
        Figure("append, validated", append * per_record, "µs/record"),
        Figure("append / bare loop", append / bare, "×", "≤ 2", append / bare <= 2),
        Figure("read the file", raw / records_read * 1e6, "µs/record"),
        Figure("read slices, body CRC checked", read / records_read * 1e6, "µs/record"),
        Figure("read / read the file", read / raw, "×"),
        Figure(f"recovery of an unsealed {sizes.scanned_mebibytes} MiB segment", recovery, "s"),
        Figure(f"start with {sizes.segments:,} sealed segments", start, "s", "< 1", start < 1),
        Figure("fsyncs per 1,000 concurrent appends", syncs, ""),
        Figure("index memory per 4 KiB of log", memory, "bytes", "≤ 16", memory <= 16),
        Figure("append into an empty log", empty, "µs CPU/record"),
        Figure(f"append into a log of {gibibytes:g} GiB", large, "µs CPU/record"),
        Figure("large / empty", large / empty, "×", "≈ 1", 0.7 < large / empty < 1.3),
    ]


def main(given: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.storage", description=__doc__)
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table")
    parser.add_argument("--gib", type=float, default=10.0, help="how large the large log is")
    parser.add_argument("--folder", help="where to write; a temporary folder unless given")
    add_sizes(parser)
    arguments = parser.parse_args(given)
    with (
        tempfile.TemporaryDirectory(dir=arguments.folder) as folder,
        Progress(console=Console(stderr=True), transient=True) as progress,
    ):
        sizes, gib = SIZES[arguments.size]
        figures = trio.run(measure, sizes, Path(folder), gib or arguments.gib, progress)
    title = "storage: 100-byte values, batches of 1,000, page cache unless fsync is named"
    return show(title, figures, arguments.output)


if __name__ == "__main__":
    sys.exit(main())
