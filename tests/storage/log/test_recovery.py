"""What a start makes of what a crash left: torn tails are cut, rot is named, promises hold (G1, G3, G13)."""

import pytest
from crc32c import crc32c

from goqueue.config import LogConfig
from goqueue.core.records.batch import ENVELOPE_SIZE, envelope_for, seal_envelope
from goqueue.errors import DamagedData, UnknownFormat
from goqueue.storage.log.log import Log
from goqueue.storage.log.volume import Volume
from goqueue.testing.disk import SimulatedDisk
from tests.storage.logs import (
    DIRECTORY,
    NOW,
    batch,
    file_names,
    mounted,
    open_log,
    path_of,
    publish,
    read_all,
    values_in,
)

BIG = LogConfig()
VALUES = [b"value %d" % number for number in range(10)]
SIZE = batch(VALUES[0]).size


async def filled(volume: Volume, config: LogConfig = BIG, count: int = 10) -> Log:
    """A log of one record a batch, each durable, none of it in the recovery point."""
    log = await open_log(volume, config)
    for value in VALUES[:count]:
        await publish(log, batch(value))
    return log


async def test_a_killed_process_loses_nothing_that_it_wrote(volume: Volume, disk: SimulatedDisk) -> None:
    """G1: acks=leader promises just this."""
    log = await filled(volume)
    log.append([batch(b"in the file")], NOW)
    async with mounted(disk.kill()) as killed:
        assert await values_in(await open_log(killed)) == [*VALUES, b"in the file"]


@pytest.mark.parametrize("cut", [1, ENVELOPE_SIZE - 1, ENVELOPE_SIZE, SIZE - 1])
async def test_a_torn_tail_is_copied_aside_and_cut_at_a_batch(
    volume: Volume, disk: SimulatedDisk, cut: int
) -> None:
    log = await filled(volume)
    log.append([batch(b"torn off")], NOW)
    disk.cut(path_of(0), 10 * SIZE + cut)
    async with mounted(disk.kill()) as killed:
        log = await open_log(killed)
        assert await values_in(log) == VALUES
        [torn] = log.statistics().torn
        assert (torn.offset, torn.size) == (10, cut)
        assert killed.disk.size(torn.kept_as) == cut
        assert killed.disk.size(path_of(0)) == 10 * SIZE
        assert await publish(log, batch(b"again")) == [10]
        assert log.statistics().damage == ()


async def test_garbage_behind_the_end_is_a_torn_tail(volume: Volume, disk: SimulatedDisk) -> None:
    await filled(volume)
    disk.open(path_of(0)).write(10 * SIZE, [bytes(5_000)])
    async with mounted(disk.kill()) as killed:
        log = await open_log(killed)
        assert await values_in(log) == VALUES
        assert log.statistics().torn[0].size == 5_000


async def test_a_torn_tail_takes_the_sound_batches_behind_it_along(volume: Volume, disk: SimulatedDisk) -> None:
    """Writes may reach the disk in any order; nobody was promised what lies behind a hole."""
    log = await filled(volume)
    log.append([batch(b"hole")], NOW)
    log.append([batch(b"sound")], NOW)
    disk.flip_bit(path_of(0), 10 * SIZE + 50, 0)
    async with mounted(disk.kill()) as killed:
        log = await open_log(killed)
        assert (await values_in(log), log.end_offset) == (VALUES, 10)
        assert log.statistics().torn[0].offset == 10


async def test_cutting_twice_at_one_place_keeps_both_tails(volume: Volume, disk: SimulatedDisk) -> None:
    await filled(volume)
    disk.open(path_of(0)).write(10 * SIZE, [b"first"])
    async with mounted(disk.kill()) as killed:
        await open_log(killed)
        assert isinstance(killed.disk, SimulatedDisk)
        killed.disk.open(path_of(0)).write(10 * SIZE, [b"second"])
        async with mounted(killed.disk.kill()) as again:
            await open_log(again)
            assert isinstance(again.disk, SimulatedDisk)
            assert len(file_names(again.disk, ".torn")) == 2


async def test_damage_that_a_later_batch_claims_as_durable_is_rot(volume: Volume, disk: SimulatedDisk) -> None:
    """G1: a flipped bit costs the batch it hits and no other."""
    await filled(volume)
    disk.flip_bit(path_of(0), 4 * SIZE + 100, 3)
    async with mounted(disk.kill()) as killed:
        log = await open_log(killed)
        assert await values_in(log) == VALUES[:4] + VALUES[5:]
        [damage] = log.statistics().damage
        assert (damage.offset, damage.end_offset) == (4, 5)
        assert (damage.position, damage.end_position) == (4 * SIZE, 5 * SIZE)
        assert log.statistics().torn == ()
        with pytest.raises(DamagedData) as error:
            await log.read(4, 1_000)
        assert (error.value.offset, error.value.end_offset) == (4, 5)


async def test_appends_go_on_in_a_new_segment_behind_rot(volume: Volume, disk: SimulatedDisk) -> None:
    await filled(volume)
    disk.flip_bit(path_of(0), 4 * SIZE, 0)
    async with mounted(disk.kill()) as killed:
        log = await open_log(killed)
        assert await publish(log, batch(b"new")) == [10]
        assert killed.disk.exists(path_of(10))
        assert killed.disk.size(path_of(0)) == 10 * SIZE
        assert await values_in(log) == [*VALUES[:4], *VALUES[5:], b"new"]


async def test_rot_is_named_again_at_every_start(volume: Volume, disk: SimulatedDisk) -> None:
    log = await filled(volume)
    await log.close()
    disk.flip_bit(path_of(0), 9 * SIZE + 100, 0)
    for _ in range(3):
        log = await open_log(volume, BIG)
        [damage] = log.statistics().damage
        assert (damage.offset, damage.end_offset) == (9, 10)
        assert log.end_offset == 10
        await log.close()


async def test_offsets_below_the_recovery_point_are_never_given_out_again(
    volume: Volume, disk: SimulatedDisk
) -> None:
    """G3: the end of the file is gone, but somebody has seen what was there."""
    log = await filled(volume)
    await log.close()
    disk.cut(path_of(0), 6 * SIZE)
    log = await open_log(volume, BIG)
    [damage] = log.statistics().damage
    assert (damage.offset, damage.end_offset) == (6, 10)
    assert await publish(log, batch(b"new")) == [10]
    assert await values_in(log) == [*VALUES[:6], b"new"]


async def test_a_segment_that_is_gone_is_named_and_the_rest_is_served(volume: Volume, disk: SimulatedDisk) -> None:
    """G13"""
    log = await filled(volume, LogConfig(segment_bytes=2 * SIZE))
    await log.close()
    disk.remove(path_of(4))
    log = await open_log(volume, BIG)
    [damage] = log.statistics().damage
    assert (damage.offset, damage.end_offset) == (4, 6)
    assert await values_in(log) == VALUES[:4] + VALUES[6:]
    with pytest.raises(DamagedData) as error:
        await log.read(5, 100)
    assert (error.value.offset, error.value.end_offset) == (4, 6)


async def test_the_first_segment_gone_is_named_too(volume: Volume, disk: SimulatedDisk) -> None:
    log = await filled(volume, LogConfig(segment_bytes=2 * SIZE))
    await log.close()
    disk.remove(path_of(0))
    log = await open_log(volume, BIG)
    [damage] = log.statistics().damage
    assert (damage.offset, damage.end_offset) == (0, 2)
    assert await values_in(log) == VALUES[2:]


async def test_all_segments_gone_are_named_and_offsets_go_on(volume: Volume, disk: SimulatedDisk) -> None:
    log = await filled(volume)
    await log.close()
    disk.remove(path_of(0))
    log = await open_log(volume, BIG)
    [damage] = log.statistics().damage
    assert (damage.offset, damage.end_offset) == (0, 10)
    assert await publish(log, batch(b"new")) == [10]
    assert await values_in(log) == [b"new"]


@pytest.mark.parametrize("harm", ["remove", "flip", "empty"])
async def test_without_a_sound_recovery_point_nothing_is_lost(
    volume: Volume, disk: SimulatedDisk, harm: str
) -> None:
    """G13"""
    log = await filled(volume, LogConfig(segment_bytes=3 * SIZE))
    await log.close()
    path = f"{DIRECTORY}/recovery-point"
    if harm == "remove":
        disk.remove(path)
    elif harm == "flip":
        disk.flip_bit(path, 20, 1)
    else:
        disk.cut(path, 0)
    log = await open_log(volume, BIG)
    assert (await values_in(log), log.statistics().damage) == (VALUES, ())
    assert log.leader_epoch == 2


@pytest.mark.parametrize("suffix", [".seal", ".index", ".timeindex"])
@pytest.mark.parametrize("harm", ["remove", "flip", "empty"])
async def test_without_seals_or_indexes_reads_stay_identical(
    volume: Volume, disk: SimulatedDisk, suffix: str, harm: str
) -> None:
    log = await filled(volume, LogConfig(segment_bytes=3 * SIZE))
    before = await read_all(log)
    await log.close()
    for name in file_names(disk, suffix):
        path = f"{DIRECTORY}/{name}"
        if harm == "remove":
            disk.remove(path)
        elif harm == "empty":
            disk.cut(path, 0)
        elif disk.size(path):
            disk.damage(path)
    log = await open_log(volume, BIG)
    assert log.statistics().damage == ()
    assert await read_all(log) == before
    assert [await log.offset_at_time(NOW), await log.offset_at_time(NOW + 1)] == [0, None]
    await log.close()
    assert await read_all(await open_log(volume, BIG)) == before


async def test_a_lost_seal_is_written_again(volume: Volume, disk: SimulatedDisk) -> None:
    log = await filled(volume, LogConfig(segment_bytes=3 * SIZE))
    await log.close()
    seals = file_names(disk, ".seal")
    disk.remove(f"{DIRECTORY}/{seals[1]}")
    await open_log(volume, BIG)
    assert file_names(disk, ".seal") == seals


async def test_a_damaged_index_is_mended_on_disk(volume: Volume, disk: SimulatedDisk) -> None:
    log = await filled(volume, LogConfig(segment_bytes=3 * SIZE))
    await log.close()
    before = bytes(await disk.open(path_of(0, ".index")).read(0, 100))
    disk.damage(path_of(0, ".index"))
    await values_in(await open_log(volume, BIG))
    assert bytes(await disk.open(path_of(0, ".index")).read(0, 100)) == before


async def test_leftovers_of_a_crash_are_cleared_away(volume: Volume, disk: SimulatedDisk) -> None:
    log = await filled(volume)
    await log.close()
    for name in ("recovery-point.tmp", f"{7:020d}.seal", f"{7:020d}.index"):
        disk.open(f"{DIRECTORY}/{name}", create=True)
    for name in ("notes.txt", "copy.log", "old.seal"):
        disk.open(f"{DIRECTORY}/{name}", create=True)
    assert await values_in(await open_log(volume, BIG)) == VALUES
    names = disk.list(DIRECTORY)
    assert {"notes.txt", "copy.log", "old.seal"} <= set(names), "what is not ours is left alone"
    assert not [name for name in names if name.endswith(".tmp") or name.startswith(f"{7:020d}")]


async def test_a_batch_of_a_newer_version_stops_the_start_and_is_not_cut(
    volume: Volume, disk: SimulatedDisk
) -> None:
    """G13: what this version cannot read is not damage."""
    await filled(volume)
    envelope = envelope_for(batch(b"new"), 10, leader_epoch=1, append_time=NOW, durable_offset=10)
    newer = bytearray(seal_envelope(envelope))
    newer[3] = 2
    newer[4:8] = crc32c(newer[8:], crc32c(newer[:4])).to_bytes(4, "big")
    disk.open(path_of(0)).write(10 * SIZE, [newer, batch(b"new").body])
    async with mounted(disk.kill()) as killed:
        with pytest.raises(UnknownFormat):
            await open_log(killed)
        assert killed.disk.size(path_of(0)) > 10 * SIZE


async def test_what_a_message_carries_is_never_taken_for_a_batch(volume: Volume, disk: SimulatedDisk) -> None:
    """A damaged body is stepped over as a whole, even if it holds the bytes of a batch."""
    inner = batch(b"forged")
    forged = seal_envelope(envelope_for(inner, 1, leader_epoch=9, append_time=NOW, durable_offset=1)) + bytes(
        inner.body
    )
    log = await open_log(volume, BIG)
    await publish(log, batch(b"first"))
    await publish(log, batch(forged, b"second record"))
    await publish(log, batch(b"last"))
    disk.flip_bit(path_of(0), batch(b"first").size + ENVELOPE_SIZE + 20, 0)
    async with mounted(disk.kill()) as killed:
        log = await open_log(killed)
        assert await values_in(log) == [b"first", b"last"]
        assert [(each.offset, each.end_offset) for each in log.statistics().damage] == [(1, 3)]


async def test_a_rolled_but_unsealed_segment_is_sealed_at_the_next_start(
    volume: Volume, disk: SimulatedDisk
) -> None:
    await filled(volume, LogConfig(segment_bytes=3 * SIZE))
    assert file_names(disk, ".seal") == []
    async with mounted(disk.kill()) as killed:
        log = await open_log(killed)
        assert await values_in(log) == VALUES
        assert isinstance(killed.disk, SimulatedDisk)
        assert len(file_names(killed.disk, ".seal")) == 3


async def test_a_tail_torn_in_an_earlier_segment_sets_the_later_ones_aside(
    volume: Volume, disk: SimulatedDisk
) -> None:
    log = await open_log(volume, LogConfig(segment_bytes=3 * SIZE))
    for value in VALUES:
        log.append([batch(value)], NOW)
    disk.flip_bit(path_of(3), SIZE + 10, 0)
    async with mounted(disk.kill()) as killed:
        log = await open_log(killed)
        assert await values_in(log) == VALUES[:4]
        assert [torn.offset for torn in log.statistics().torn] == [9, 6, 4]
        assert await publish(log, batch(b"again")) == [4]
        assert await values_in(log) == [*VALUES[:4], b"again"]


async def test_a_failed_start_leaves_no_file_open(volume: Volume, disk: SimulatedDisk) -> None:
    log = await filled(volume)
    await log.close()
    disk.fail_next_sync()
    with pytest.raises(Exception, match="sync"):
        await open_log(volume, BIG)
    assert volume.open_files == 0
    assert await values_in(await open_log(volume, BIG)) == VALUES


async def test_a_first_segment_whose_name_was_never_durable_takes_the_later_ones_along(
    volume: Volume, disk: SimulatedDisk
) -> None:
    """Two segments were begun and neither was promised; the power cut kept only the second one's name."""
    log = await open_log(volume, LogConfig(segment_bytes=3 * SIZE))
    for value in VALUES[:5]:
        log.append([batch(value)], NOW)
    disk.remove(path_of(0))
    async with mounted(disk.kill()) as killed:
        log = await open_log(killed)
        assert (log.end_offset, log.statistics().damage) == (0, ())
        assert [torn.offset for torn in log.statistics().torn] == [3]
        assert await publish(log, batch(b"again")) == [0]


async def test_rot_below_the_recovery_point_costs_only_the_batch_it_hits(
    volume: Volume, disk: SimulatedDisk
) -> None:
    """G1: the stretch that a start scans again begins before the recovery point."""
    log = await filled(volume)
    await log.close()
    disk.flip_bit(path_of(0), 4 * SIZE + 100, 0)
    log = await open_log(volume, BIG)
    assert [(each.offset, each.end_offset) for each in log.statistics().damage] == [(4, 5)]
    assert await values_in(log) == VALUES[:4] + VALUES[5:]
    await publish(log, batch(b"new"))
    await log.close()
    assert await values_in(await open_log(volume, BIG)) == [*VALUES[:4], *VALUES[5:], b"new"]


async def test_bytes_cut_out_of_the_middle_cost_only_the_batches_that_lay_there(
    volume: Volume, disk: SimulatedDisk
) -> None:
    await filled(volume)
    whole = bytes(await disk.open(path_of(0)).read(0, 10 * SIZE))
    disk.cut(path_of(0), 0)
    disk.open(path_of(0)).write(0, [whole[: 4 * SIZE], whole[6 * SIZE :]])
    async with mounted(disk.kill()) as killed:
        log = await open_log(killed)
        assert [(each.offset, each.end_offset) for each in log.statistics().damage] == [(4, 6)]
        assert await values_in(log) == VALUES[:4] + VALUES[6:]
