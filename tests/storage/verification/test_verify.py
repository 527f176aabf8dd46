"""Verification names what is damaged, and just that, and touches nothing."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from goqueue.core.records.batch import ENVELOPE_SIZE, seal_envelope
from goqueue.storage.directory.datadirectory import DataDirectory
from goqueue.storage.log.log import Log
from goqueue.storage.log.volume import Volume
from goqueue.storage.verification.findings import FindingKind, SegmentState
from goqueue.testing.disk import SimulatedDisk
from tests.storage.logs import DIRECTORY, SMALL, batch, file_names, mounted, open_log, path_of, publish
from tests.storage.verification.checks import (
    BIG,
    DATA,
    JOURNAL,
    bases,
    checked,
    closed_journal,
    closed_log,
    flip_byte,
    kinds,
    only_finding,
    overwrite,
    places,
    span,
    whole,
)

# Sound


async def test_a_sound_log_is_counted_and_nothing_is_found(volume: Volume, disk: SimulatedDisk) -> None:
    await closed_log(volume)
    report = await checked(disk)
    assert report.findings() == ()
    [partition] = report.partitions
    assert (partition.path, partition.log_start, partition.end_offset) == (DIRECTORY, 0, 60)
    assert [segment.base_offset for segment in partition.segments] == bases(disk)
    assert [segment.size for segment in partition.segments] == [disk.size(path_of(base)) for base in bases(disk)]
    assert sum(segment.records for segment in partition.segments) == 60
    assert sum(segment.batches for segment in partition.segments) == 30
    states = [segment.state for segment in partition.segments]
    assert states == [SegmentState.SEALED] * (len(states) - 1) + [SegmentState.GROWING]
    assert partition.segments[-1].end_offset == 60


async def test_a_data_directory_is_verified_with_all_its_partitions_and_journals(
    volume: Volume, disk: SimulatedDisk
) -> None:
    directory = await DataDirectory.open(volume, DATA, node="one", random=Random(0))
    await closed_log(volume)
    await (await Log.open(volume, directory.log_directory("payments", 3), SMALL)).close()
    await closed_journal(volume)
    report = await checked(disk, DATA)  # the directory is held all the while
    assert report.findings() == ()
    assert [partition.path for partition in report.partitions] == [DIRECTORY, f"{DATA}/logs/payments/3"]
    assert [(journal.path, journal.entries) for journal in report.journals] == [(JOURNAL, 5)]
    directory.release()


async def test_a_running_log_is_sound_at_every_step(volume: Volume, disk: SimulatedDisk) -> None:
    """Only a finished segment that still waits for its seal is mentioned."""
    log = await open_log(volume)
    for number in range(30):
        await publish(log, batch(b"value %d" % number, b"x" * 300))
        assert set(await kinds(disk)) <= {FindingKind.SEAL_MISSING}
        if number % 7 == 0:
            await log.checkpoint()
            assert await kinds(disk) == []
    await log.close()


async def test_a_compacted_log_is_sound(volume: Volume, disk: SimulatedDisk) -> None:
    """Gaps between the offsets that stay are no damage, nor are batches that lost everything."""
    log = await open_log(volume)
    for number in range(30):
        await publish(log, batch(*[b"value %d" % number] * 4, priority=number % 5, zstd=number % 2 == 0))
    for segment in log.finished_segments():
        await log.compact(
            segment, lambda envelope, place, _: envelope.base_offset % 16 > 0 and place.relative_offset % 3 > 0
        )
    await log.close()
    report = await checked(disk)
    assert report.findings() == ()
    assert sum(segment.records for segment in report.partitions[0].segments) < 120


async def test_a_log_without_a_beginning_is_sound(volume: Volume, disk: SimulatedDisk) -> None:
    log = await open_log(volume)
    for number in range(30):
        await publish(log, batch(b"value %d" % number, b"x" * 300))
    await log.delete_before(31)
    await log.close()
    report = await checked(disk)
    assert report.findings() == ()
    assert report.partitions[0].log_start == 31


async def test_a_log_cut_back_behind_its_start_is_sound(volume: Volume, disk: SimulatedDisk) -> None:
    """It was cut at a batch that had lost its first records already; what is deleted is not missing."""
    log = await open_log(volume)
    await publish(log, batch(b"deleted", b"deleted", b"cut off", b"cut off"))
    await log.delete_before(2)
    await log.truncate(3)
    await log.close()
    assert await kinds(disk) == []


async def test_an_empty_log_is_sound(volume: Volume, disk: SimulatedDisk) -> None:
    await closed_log(volume, count=0)
    assert (await checked(disk)).findings() == ()


# Damage in batches


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("inside", [0, 3, 20, ENVELOPE_SIZE - 1, ENVELOPE_SIZE, ENVELOPE_SIZE + 40])
async def test_a_flipped_bit_is_named_by_bytes_and_offsets(
    volume: Volume, disk: SimulatedDisk, number: int, inside: int
) -> None:
    """In envelopes, in bodies and in packed bodies (each third is packed)."""
    await closed_log(volume)
    position, envelope = places(disk, 0)[number]
    disk.flip_bit(path_of(0), position + inside, 4)
    finding = await only_finding(disk)
    assert (finding.kind, finding.path) == (FindingKind.DAMAGED_BATCHES, path_of(0))
    assert span(finding) == (position, position + envelope.size, envelope.base_offset, envelope.end_offset)
    assert finding.is_damage


async def test_damage_up_to_the_end_of_a_segment_reaches_to_the_next(volume: Volume, disk: SimulatedDisk) -> None:
    await closed_log(volume)
    position, envelope = places(disk, 0)[-1]
    disk.flip_bit(path_of(0), position + 5, 0)
    finding = await only_finding(disk)
    assert span(finding) == (position, disk.size(path_of(0)), envelope.base_offset, bases(disk)[1])


async def test_damage_at_the_end_of_a_closed_log_is_no_torn_tail(volume: Volume, disk: SimulatedDisk) -> None:
    await closed_log(volume)
    last = bases(disk)[-1]
    position, envelope = places(disk, last)[-1]
    disk.flip_bit(path_of(last), position + 5, 0)
    finding = await only_finding(disk)
    assert finding.kind is FindingKind.DAMAGED_BATCHES
    assert span(finding) == (position, disk.size(path_of(last)), envelope.base_offset, 60)


async def test_each_damaged_range_is_named(volume: Volume, disk: SimulatedDisk) -> None:
    await closed_log(volume)
    first, second = bases(disk)[:2]
    begins = {base: [position for position, _ in places(disk, base)] for base in (first, second)}
    for base, number in ((first, 0), (first, 2), (second, 1)):
        disk.flip_bit(path_of(base), begins[base][number] + 30, 0)
    found = (await checked(disk)).damage()
    assert [finding.path for finding in found] == [path_of(first), path_of(first), path_of(second)]


async def test_records_that_are_not_what_the_envelope_says_are_named(volume: Volume, disk: SimulatedDisk) -> None:
    """All checksums hold: only reading the records shows it."""
    await closed_log(volume, count=3, config=BIG)
    position, envelope = places(disk, 0)[1]
    wrong = seal_envelope(envelope._replace(priority_mask=1))
    disk.open(path_of(0)).write(position, [wrong])
    [finding] = (await checked(disk)).damage()
    assert finding.kind is FindingKind.BAD_RECORDS
    assert span(finding) == (position, position + envelope.size, 2, 4)
    assert "priority mask" in finding.text


@given(st.data(), st.integers(1, 255))
async def test_whatever_byte_is_flipped_damage_covers_it(
    autojump_clock: MockClock, data: st.DataObject, mask: int
) -> None:
    async with mounted(SimulatedDisk(Random(0))) as volume:
        disk = volume.disk
        assert isinstance(disk, SimulatedDisk)
        await closed_log(volume, count=8)
        base = data.draw(st.sampled_from(bases(disk)))
        position = data.draw(st.integers(0, disk.size(path_of(base)) - 1))
        flip_byte(disk, path_of(base), position, mask)
        [finding] = (await checked(disk)).damage()
    assert finding.path == path_of(base)
    assert finding.position is not None
    assert finding.end_position is not None
    assert finding.position <= position < finding.end_position


# Files cut, removed, overlapping


@pytest.mark.parametrize("kept", ["half a batch", "two batches", "nothing"])
@pytest.mark.parametrize("which", [0, -1])
async def test_a_file_that_is_cut_short_is_named(
    volume: Volume, disk: SimulatedDisk, which: int, kept: str
) -> None:
    """Sealed or growing: the seal and the recovery point remember how long it was."""
    await closed_log(volume, count=34)
    base, end = bases(disk)[which], [*bases(disk), 68][1:][which]
    third, envelope = places(disk, base)[2]
    size = {"half a batch": third + 50, "two batches": third, "nothing": 0}[kept]
    full_size = disk.size(path_of(base))
    disk.cut(path_of(base), size)
    [finding] = (await checked(disk)).damage()
    assert (finding.kind, finding.path) == (FindingKind.CUT_SHORT, path_of(base))
    assert span(finding) == (min(third, size), size, envelope.base_offset if size else base, end)
    assert f"{size} of its {full_size} bytes" in finding.text


@pytest.mark.parametrize("leftovers", [True, False])
@pytest.mark.parametrize("which", [1, -1])
async def test_a_removed_segment_is_named(volume: Volume, disk: SimulatedDisk, which: int, leftovers: bool) -> None:
    await closed_log(volume)
    base, end = bases(disk)[which], [*bases(disk), 60][1:][which]
    for suffix in (".log",) if leftovers else (".log", ".index", ".timeindex", ".seal"):
        if disk.exists(path_of(base, suffix)):
            disk.remove(path_of(base, suffix))
    is_left = any(disk.exists(path_of(base, suffix)) for suffix in (".index", ".timeindex", ".seal"))
    assert is_left == (leftovers and which == 1), "the last one has no finished stretch, and no index files"
    report = await checked(disk)
    [finding] = report.damage()
    assert (finding.kind, finding.path, *span(finding)) == (
        *(FindingKind.MISSING_OFFSETS, path_of(base)),
        *(None, None, base, end),
    )
    assert {finding.kind for finding in report.warnings()} == ({FindingKind.LEFTOVER} if is_left else set())


async def test_a_hole_is_named_again_after_a_start_has_sealed_it(volume: Volume, disk: SimulatedDisk) -> None:
    await closed_log(volume)
    _, second, third, *_ = bases(disk)
    disk.remove(path_of(second))
    await (await open_log(volume)).close()
    finding = await only_finding(disk)
    assert (finding.kind, *span(finding)) == (FindingKind.MISSING_OFFSETS, None, None, second, third)


async def test_a_removed_first_segment_is_named(volume: Volume, disk: SimulatedDisk) -> None:
    await closed_log(volume)
    second = bases(disk)[1]
    for suffix in (".log", ".index", ".timeindex", ".seal"):
        disk.remove(path_of(0, suffix))
    finding = await only_finding(disk)
    assert (finding.kind, finding.path, finding.offset, finding.end_offset) == (
        *(FindingKind.MISSING_OFFSETS, DIRECTORY),
        *(0, second),
    )


async def test_a_log_that_lost_all_its_segments_is_named(volume: Volume, disk: SimulatedDisk) -> None:
    await closed_log(volume)
    for name in file_names(disk):
        if name != "recovery-point":
            disk.remove(f"{DIRECTORY}/{name}")
    finding = await only_finding(disk)
    assert (finding.kind, finding.offset, finding.end_offset) == (FindingKind.MISSING_OFFSETS, 0, 60)


async def test_segments_that_overlap_are_named(volume: Volume, disk: SimulatedDisk) -> None:
    await closed_log(volume)
    second = bases(disk)[1]
    longer = whole(disk, path_of(0)) + whole(disk, path_of(second))
    overwrite(disk, path_of(0), longer)
    [finding] = (await checked(disk)).damage()
    assert (finding.kind, finding.path) == (FindingKind.OVERLAPPING_SEGMENTS, path_of(0))
    assert (finding.offset, finding.end_offset) == (second, bases(disk)[2])
