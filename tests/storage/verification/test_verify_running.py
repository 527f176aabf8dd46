"""Verification beside a running broker, which adds, removes and replaces files all the while."""

import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import ClassVar

from trio.testing import MockClock

from goqueue.storage.log.volume import Volume
from goqueue.storage.verification.findings import FindingKind
from goqueue.storage.verification.verify import verify
from goqueue.testing.disk import SimulatedDisk
from tests.storage.logs import DIRECTORY, batch, mounted, open_log, path_of, publish
from tests.storage.verification.checks import (
    BIG,
    POINT,
    bases,
    closed_log,
    places,
    whole,
)

# Beside a running broker


@dataclass
class Meanwhile:
    """Does something once, after the first window was read."""

    deed: Callable[[], object]
    done: bool = False

    def begin(self, total_bytes: int) -> None:
        pass

    def advance(self, read_bytes: int) -> None:
        if not self.done:
            self.done = True
            self.deed()


async def test_an_append_under_way_is_no_torn_tail(volume: Volume, disk: SimulatedDisk) -> None:
    await closed_log(volume, count=5, config=BIG)
    data, (last, _) = whole(disk, path_of(0)), places(disk, 0)[-1]
    disk.remove(POINT)  # it would promise the last batch
    disk.cut(path_of(0), last + 70)
    meanwhile = Meanwhile(lambda: disk.open(path_of(0)).write(last + 70, [data[last + 70 :]]))
    report = await verify(disk, DIRECTORY, meanwhile)
    assert [finding.kind for finding in report.findings()] == [FindingKind.RECOVERY_POINT_MISSING]
    assert report.partitions[0].end_offset == 10


async def test_a_segment_that_retention_removes_meanwhile_is_no_hole(volume: Volume, disk: SimulatedDisk) -> None:
    await closed_log(volume)
    second = bases(disk)[1]
    report = await verify(disk, DIRECTORY, Meanwhile(lambda: disk.remove(path_of(second))))
    assert [(finding.kind, finding.path) for finding in report.findings()] == [
        (FindingKind.REMOVED_MEANWHILE, path_of(second))
    ]


class Outdated(SimulatedDisk):
    """Its folders look for a while as they did before."""

    old_names: ClassVar[list[list[str]]] = []

    def list(self, path: str) -> "list[str]":
        return self.old_names.pop() if self.old_names else super().list(path)


async def test_names_and_recovery_point_are_of_one_moment(autojump_clock: MockClock) -> None:
    """Retention moved the log's start between the look at the names and that at the recovery point."""
    disk = Outdated(Random(0))
    async with mounted(disk) as volume:
        await closed_log(volume)
        before = disk.list(DIRECTORY)
        log = await open_log(volume)
        await log.delete_before(bases(disk)[1])
        await log.close()
    disk.old_names[:] = [before] * 3
    assert (await verify(disk, DIRECTORY)).findings() == ()
    assert disk.old_names == []


# Memory


async def test_memory_stays_flat(volume: Volume, disk: SimulatedDisk) -> None:
    log = await open_log(volume, BIG)
    for _ in range(32):
        await publish(log, batch(*[b"x" * 50_000] * 10))
    await log.close()
    assert disk.size(path_of(0)) > 15_000_000
    tracemalloc.start()
    try:
        assert (await verify(disk, DIRECTORY)).findings() == ()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 6_000_000
