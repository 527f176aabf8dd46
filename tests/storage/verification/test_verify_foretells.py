"""A start does with a crashed and damaged log what verification foretold, and no more."""

from random import Random

import pytest
from trio.testing import MockClock

from goqueue.storage.log.log import Log
from goqueue.storage.log.views import LogStatistics
from goqueue.storage.verification.findings import Finding, FindingKind, Report
from goqueue.testing.disk import SimulatedDisk
from tests.storage.logs import DIRECTORY, NOW, batch, file_names, mounted, open_log
from tests.storage.verification.checks import checked

STILL_THERE = {
    FindingKind.KEPT_ASIDE,
    FindingKind.INDEX_MISSING,
    FindingKind.INDEX_DAMAGED,
    FindingKind.SEAL_DAMAGED,
}
"""Warnings that a start leaves to the first read, or to the operator."""


async def step(log: Log, random: Random, number: int) -> None:
    values = [b"value %d" % number] * random.randrange(1, 4)
    log.append([batch(*values, b"x" * random.randrange(700), zstd=random.random() < 0.3)], NOW + number)
    chance = random.random()
    if chance < 0.3:
        log.advance_high_watermark(await log.commit())
    elif chance < 0.4:
        await log.checkpoint()
    elif chance < 0.43:
        await log.delete_before(random.randrange(log.log_start, log.high_watermark + 1))
    elif chance < 0.46:
        await log.commit()
        await log.truncate(random.randrange(log.log_start, log.end_offset + 1))


async def crashed_log(random: Random) -> SimulatedDisk:
    disk = SimulatedDisk(Random(random.random()))
    async with mounted(disk) as volume:
        log = await open_log(volume)
        for number in range(random.randrange(1, 30)):
            await step(log, random, number)
        if random.random() < 0.2:
            await log.close()
        return disk.crash() if random.random() < 0.8 else disk.kill()


def harm(disk: SimulatedDisk, random: Random) -> None:
    """Flip, cut or remove one of the files; the version bytes apart, as only a newer goqueue changes these."""
    names = [name for name in file_names(disk) if disk.size(f"{DIRECTORY}/{name}") > 4]
    if not names:
        return
    path = f"{DIRECTORY}/{random.choice(names)}"
    size, chance = disk.size(path), random.random()
    if chance < 0.5:
        disk.flip_bit(path, random.randrange(4, size), random.randrange(8))
    elif chance < 0.75:
        disk.cut(path, random.randrange(size))
    else:
        disk.remove(path)


def torn(report: Report) -> list[tuple[str, int | None, int]]:
    found = [finding for finding in report.warnings() if finding.kind is FindingKind.TORN_TAIL]
    sizes = [(each.end_position or 0) - (each.position or 0) for each in found]
    return sorted((each.path, each.offset, size) for each, size in zip(found, sizes, strict=True) if size)


def offsets(findings: tuple[Finding, ...]) -> list[tuple[int, int]]:
    return sorted((each.offset or 0, each.end_offset or 0) for each in findings)


def is_named(report: Report, statistics: LogStatistics) -> bool:
    """Whether verification had named all damage that the start found; the start does not look everywhere."""
    named = offsets(report.damage())
    found = [each for each in statistics.damage if each.end_offset > max(each.offset, statistics.log_start)]
    return all(any(first <= each.offset and each.end_offset <= end for first, end in named) for each in found)


@pytest.mark.parametrize("seed", range(60))
async def test_a_start_does_what_verification_foretold(seed: int, autojump_clock: MockClock) -> None:
    random = Random(seed)
    disk = await crashed_log(random)
    for _ in range(random.choice([0, 0, 1, 1, 2])):
        harm(disk, random)
    if not disk.is_directory(DIRECTORY) or not file_names(disk):
        return  # the crash came before anything was durable
    before = await checked(disk)
    async with mounted(disk) as volume:
        log = await open_log(volume)
        statistics = log.statistics()
        await log.close()
    assert sorted((each.path, each.offset, each.size) for each in statistics.torn) == torn(before)
    assert statistics.end_offset == before.partitions[0].end_offset
    assert is_named(before, statistics)
    after = await checked(disk)
    assert offsets(after.damage()) == offsets(before.damage())
    assert {finding.kind for finding in after.warnings()} <= STILL_THERE
