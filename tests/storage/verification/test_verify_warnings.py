"""What the next start repairs by itself is mentioned, and is no damage."""

import pytest

from goqueue.config import LogConfig
from goqueue.storage.log import summary as seals
from goqueue.storage.log.volume import Volume
from goqueue.storage.verification.findings import FindingKind, SegmentState
from goqueue.testing.disk import SimulatedDisk
from tests.storage.logs import DIRECTORY, NOW, batch, open_log, path_of
from tests.storage.verification.checks import (
    BIG,
    POINT,
    bases,
    checked,
    closed_log,
    contents,
    only_finding,
    overwrite,
    places,
    span,
    whole,
)

# What the next start repairs by itself


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
async def test_a_removed_index_will_be_rebuilt(volume: Volume, disk: SimulatedDisk, suffix: str) -> None:
    await closed_log(volume)
    disk.remove(path_of(0, suffix))
    finding = await only_finding(disk)
    assert (finding.kind, finding.path) == (FindingKind.INDEX_MISSING, path_of(0, suffix))
    assert "will be rebuilt" in finding.text
    assert not finding.is_damage


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("which", [0, -1])
async def test_a_damaged_index_will_be_rebuilt(
    volume: Volume, disk: SimulatedDisk, suffix: str, which: int
) -> None:
    """That of a sealed segment by its seal, that of the growing one by the recovery point."""
    await closed_log(volume, count=50, config=LogConfig(segment_bytes=15_000))
    base = bases(disk)[which]
    disk.flip_bit(path_of(base, suffix), 7, 0)
    finding = await only_finding(disk)
    assert (finding.kind, finding.path) == (FindingKind.INDEX_DAMAGED, path_of(base, suffix))
    assert "will be rebuilt" in finding.text


async def test_a_removed_seal_is_a_warning(volume: Volume, disk: SimulatedDisk) -> None:
    await closed_log(volume)
    disk.remove(path_of(0, ".seal"))
    report = await checked(disk)
    [finding] = report.warnings()
    assert report.damage() == ()
    assert (finding.kind, finding.path) == (FindingKind.SEAL_MISSING, path_of(0, ".seal"))
    assert report.partitions[0].segments[0].state is SegmentState.UNSEALED


@pytest.mark.parametrize("position", [0, 5, 30, seals.HEAD_SIZE - 1, seals.HEAD_SIZE + 3, -1])
async def test_a_damaged_seal_is_a_warning(volume: Volume, disk: SimulatedDisk, position: int) -> None:
    await closed_log(volume)
    disk.flip_bit(path_of(0, ".seal"), position % disk.size(path_of(0, ".seal")), 1)
    finding = await only_finding(disk)
    assert (finding.kind, finding.path) == (FindingKind.SEAL_DAMAGED, path_of(0, ".seal"))
    assert not finding.is_damage


async def test_the_seal_of_another_file_is_void(volume: Volume, disk: SimulatedDisk) -> None:
    await closed_log(volume)
    overwrite(disk, path_of(0, ".seal"), whole(disk, path_of(bases(disk)[1], ".seal")))
    finding = await only_finding(disk)
    assert (finding.kind, finding.path) == (FindingKind.SEAL_VOID, path_of(0, ".seal"))


async def test_a_seal_that_does_not_say_what_the_log_says_is_void(volume: Volume, disk: SimulatedDisk) -> None:
    """A sound seal that lies about the highest timestamp would hide records from a look-up by time."""
    await closed_log(volume)
    data = whole(disk, path_of(0, ".seal"))
    head = seals.decode_head(data)
    assert head is not None
    history = seals.decode_history(head, data[seals.HEAD_SIZE :])
    assert history is not None
    head.summary.highest_timestamp -= 1
    overwrite(disk, path_of(0, ".seal"), seals.encode_summary(head.summary, head.mark, history))
    finding = await only_finding(disk)
    assert (finding.kind, finding.path) == (FindingKind.SEAL_VOID, path_of(0, ".seal"))


async def test_a_missing_recovery_point_is_a_warning(volume: Volume, disk: SimulatedDisk) -> None:
    await closed_log(volume)
    disk.remove(POINT)
    finding = await only_finding(disk)
    assert (finding.kind, finding.path, finding.is_damage) == (FindingKind.RECOVERY_POINT_MISSING, POINT, False)


@pytest.mark.parametrize("position", [1, 4, 8, 60])
async def test_a_damaged_recovery_point_is_a_warning(volume: Volume, disk: SimulatedDisk, position: int) -> None:
    await closed_log(volume)
    disk.flip_bit(POINT, position, 3)
    finding = await only_finding(disk)
    assert (finding.kind, finding.path, finding.is_damage) == (FindingKind.RECOVERY_POINT_DAMAGED, POINT, False)


async def test_segments_before_the_logs_start_are_leftovers(volume: Volume, disk: SimulatedDisk) -> None:
    """A crash came between "the log begins here" and the removal of what lies before."""
    await closed_log(volume)
    old = {path: data for path, data in contents(disk).items() if path.startswith(path_of(0)[:-4])}
    log = await open_log(volume)
    await log.delete_before(bases(disk)[1])
    await log.close()
    for path, data in old.items():
        overwrite(disk, path, data)
    disk.flip_bit(path_of(0), 100, 0)  # nobody misses it
    finding = await only_finding(disk)
    assert (finding.kind, finding.path) == (FindingKind.LEFTOVER, path_of(0))


# Torn tails


@pytest.mark.parametrize("garbage", [b"\0" * 500, b"GQB\1" + b"\7" * 200, b"x"])
async def test_what_lies_behind_the_last_promise_is_a_torn_tail(
    volume: Volume, disk: SimulatedDisk, garbage: bytes
) -> None:
    await closed_log(volume, count=3, config=BIG)
    size = disk.size(path_of(0))
    disk.open(path_of(0)).write(size, [garbage])
    report = await checked(disk)
    [finding] = report.findings()
    assert (finding.kind, finding.path, *span(finding)) == (
        *(FindingKind.TORN_TAIL, path_of(0)),
        *(size, size + len(garbage), 6, None),
    )
    assert report.damage() == ()


async def test_a_sound_batch_behind_it_that_claims_it_makes_it_rot(volume: Volume, disk: SimulatedDisk) -> None:
    """Without a recovery point, the durable offsets in the batches are what there is to go by."""
    await closed_log(volume, count=3, config=BIG)
    disk.remove(POINT)
    position, envelope = places(disk, 0)[1]
    disk.flip_bit(path_of(0), position + 100, 0)
    [finding] = (await checked(disk)).damage()
    assert finding.kind is FindingKind.DAMAGED_BATCHES
    assert span(finding) == (position, position + envelope.size, 2, 4)


async def test_a_torn_tail_takes_later_segments_along(volume: Volume, disk: SimulatedDisk) -> None:
    log = await open_log(volume)
    for number in range(12):
        log.append([batch(b"value %d" % number, b"x" * 300)], NOW)
    disk.flip_bit(path_of(0), 100, 0)
    report = await checked(disk.kill())
    found = [
        (finding.path, finding.position) for finding in report.findings() if finding.kind is FindingKind.TORN_TAIL
    ]
    assert found == [(path_of(base), 0) for base in bases(disk)]
    assert report.damage() == ()


async def test_a_log_whose_beginning_never_came_to_be_is_torn_as_a_whole(
    volume: Volume, disk: SimulatedDisk
) -> None:
    log = await open_log(volume)
    for number in range(12):
        log.append([batch(b"value %d" % number, b"x" * 300)], NOW)
    disk.remove(path_of(0))
    report = await checked(disk.kill())
    found = [
        (finding.path, finding.offset) for finding in report.findings() if finding.kind is FindingKind.TORN_TAIL
    ]
    assert found == [(DIRECTORY, 0), *((path_of(base), base) for base in bases(disk))]
    assert report.damage() == ()
    assert report.partitions[0].end_offset == 0


async def test_a_seal_promises_its_segment(volume: Volume, disk: SimulatedDisk) -> None:
    """No batch claims anything, as all were made durable at once, and the recovery point is gone."""
    log = await open_log(volume)
    for number in range(12):
        log.append([batch(b"value %d" % number, b"x" * 300)], NOW)
    await log.close()
    disk.remove(POINT)
    disk.flip_bit(path_of(0), 100, 0)
    [finding] = (await checked(disk)).damage()
    assert (finding.kind, finding.path) == (FindingKind.DAMAGED_BATCHES, path_of(0))
