"""The delay index: what it says is true of the log, whatever happens to its file (G8)."""

from array import array
from collections.abc import Sequence
from random import Random

import pytest
import trio
from crc32c import crc32c
from trio.testing import MockClock

from goqueue.core.delays.pending import FINISHED_MAX, DelayChange, DelayState
from goqueue.core.offsetset import OffsetSet
from goqueue.errors import Closed, DiskFailed, DiskFull, UnknownFormat
from goqueue.storage.delays.entries import ENTRY_SIZE, HEADER_SIZE, PIECE_SIZE, encode_entries
from goqueue.storage.delays.index import GROWN_BYTES, NAME, DelayIndex, LoadedIndex
from goqueue.storage.log.volume import Volume
from goqueue.testing.disk import CAPACITY, SimulatedDisk
from tests.storage.delays.indexes import (
    CRASHES,
    DIRECTORY,
    END,
    ENDINGS,
    PATH,
    compact,
    dues_of,
    ended,
    found_on,
    leave_room,
    opened,
    pending,
)
from tests.storage.logs import mounted

FEW = [
    pending(1, 5_000),
    pending(2, 4_000),
    pending(3, 3_000),
    ended(DelayState.CANCELLED, 2, 4),
    pending(3, 9_000, at=5),
    ended(DelayState.DELIVERED, 1, 6),
    pending(8, 8_000),
]


@pytest.fixture
async def index(volume: Volume) -> DelayIndex:
    return (await opened(volume))[0]


async def test_a_partition_without_delays_has_no_file(
    volume: Volume, disk: SimulatedDisk, index: DelayIndex, autojump_clock: MockClock
) -> None:
    await index.close()
    assert not DelayIndex.exists(volume, DIRECTORY)
    loaded = await found_on(disk, log_start=17)
    assert (loaded.applied_to, loaded.is_rebuilt, len(loaded.offsets), loaded.finished) == (17, True, 0, [])


async def test_what_is_pending_comes_back_with_its_last_due_time_and_what_ended_does_not(
    volume: Volume, disk: SimulatedDisk, index: DelayIndex, autojump_clock: MockClock
) -> None:
    index.append(FEW[:4])
    index.append([])
    index.append(FEW[4:])
    await index.close()
    assert DelayIndex.exists(volume, DIRECTORY)
    loaded = await found_on(disk.crash())
    assert dues_of(loaded) == {3: 9_000, 8: 8_000}
    assert loaded.finished == [FEW[3], FEW[5]]
    assert (loaded.applied_to, loaded.is_rebuilt) == (8, False)


HIDDEN = OffsetSet([(1, 5), (8, 8)])
"""All originals, and what moved or cancelled one; what was delivered lies at 6."""


async def test_what_nobody_is_ever_handed_is_known_from_the_entries(
    disk: SimulatedDisk, index: DelayIndex, autojump_clock: MockClock
) -> None:
    """G3: it is no lag, also after a start."""
    index.append(FEW)
    assert (await found_on(disk.kill())).hidden == HIDDEN


async def test_a_compaction_carries_over_what_nobody_is_ever_handed(
    disk: SimulatedDisk, index: DelayIndex, autojump_clock: MockClock
) -> None:
    """Also of delays that have ended so long ago that nothing else is known of them."""
    hidden = OffsetSet.of(range(0, 300_000, 3))
    await compact(index, [3], [9_000], [], 300_000, hidden)
    assert index.size < 32 * 300_000 // 64 + 1_000
    index.append([ended(DelayState.CANCELLED, 3, 300_001)])
    loaded = await found_on(disk.kill(), log_end=400_000)
    hidden.add(300_001, 300_001)
    assert loaded.hidden == hidden
    assert (len(loaded.pending), len(loaded.finished), loaded.applied_to) == (0, 1, 300_001)


async def test_an_append_is_one_write_and_a_mark_is_written_when_it_says_something(
    disk: SimulatedDisk, index: DelayIndex, autojump_clock: MockClock
) -> None:
    before = disk.counts.writes
    index.append(FEW)
    index.mark(8)
    assert disk.counts.writes == before + 1
    index.mark(9)
    index.mark(9)
    assert disk.counts.writes == before + 2
    assert (await found_on(disk.kill(), log_end=9)).applied_to == 9


async def test_the_newest_of_the_ended_are_told_and_all_of_them_are_gone(
    disk: SimulatedDisk, index: DelayIndex, autojump_clock: MockClock
) -> None:
    count = FINISHED_MAX + 5_000
    index.append([pending(offset, 1_000_000 - offset) for offset in range(count)])
    index.append([ended(ENDINGS[offset % 3], offset, count + offset) for offset in range(count - 10)])
    loaded = await found_on(disk.kill(), log_end=3 * count)
    assert list(loaded.offsets) == list(range(count - 10, count))
    assert [entry.offset for entry in loaded.finished] == list(range(count - 10 - FINISHED_MAX, count - 10))
    assert loaded.finished[-1] == ended(ENDINGS[(count - 11) % 3], count - 11, 2 * count - 11)


async def test_a_log_that_begins_later_is_applied_from_there(
    disk: SimulatedDisk, index: DelayIndex, autojump_clock: MockClock
) -> None:
    index.append(FEW)
    assert (await found_on(disk.kill(), log_start=500)).applied_to == 500


@pytest.mark.parametrize(("log_end", "is_rebuilt"), [(8, True), (9, False), (0, True)])
async def test_an_index_that_claims_more_than_the_log_holds_is_begun_anew(
    disk: SimulatedDisk, index: DelayIndex, log_end: int, is_rebuilt: bool, autojump_clock: MockClock
) -> None:
    """A power loss took the log's end, and what comes there next is something else."""
    index.append(FEW)
    await index.close()
    async with mounted(disk) as volume:
        again, loaded = await opened(volume, 0, log_end)
        assert loaded.is_rebuilt == is_rebuilt
        assert loaded.applied_to == (0 if is_rebuilt else 8)
        again.append([pending(8, 1)])
    for _ in range(CRASHES):
        loaded = await found_on(disk.crash())
        assert 8 not in loaded.offsets or dues_of(loaded) in ({8: 1}, {3: 9_000, 8: 1}, {3: 9_000, 8: 8_000})
        assert not is_rebuilt or dues_of(loaded) in ({}, {8: 1})


@pytest.mark.parametrize(("thinned_to", "is_rebuilt"), [(0, False), (8, False), (9, True), (END, True)])
async def test_an_index_that_has_not_seen_what_is_gone_from_the_log_is_begun_anew(
    disk: SimulatedDisk, autojump_clock: MockClock, thinned_to: int, is_rebuilt: bool
) -> None:
    async with mounted(disk) as volume:
        index, _ = await opened(volume)
        index.append(FEW)
        await index.close()
        _, loaded = await DelayIndex.open(volume, DIRECTORY, 0, END, thinned_to=thinned_to)
        assert loaded.is_rebuilt is is_rebuilt
        assert loaded.applied_to == (0 if is_rebuilt else 8)
        assert volume.disk.exists(PATH) is not is_rebuilt


async def test_entries_out_of_the_order_of_the_log_are_a_bug(index: DelayIndex, autojump_clock: MockClock) -> None:
    index.append(FEW)
    with pytest.raises(AssertionError):
        index.append([pending(7, 1)])


async def test_a_closed_index_is_closed_twice_and_refuses_the_rest(
    index: DelayIndex, autojump_clock: MockClock
) -> None:
    index.append(FEW)
    await index.close()
    await index.close()
    index.abandon()
    with pytest.raises(Closed):
        index.append(FEW)
    with pytest.raises(Closed):
        index.mark(END)
    with pytest.raises(Closed):
        await index.sync()
    with pytest.raises(Closed):
        await compact(index, [], [], [], END)


# Damage.


async def test_whatever_byte_is_flipped_what_stays_is_a_true_beginning(
    disk: SimulatedDisk, index: DelayIndex, autojump_clock: MockClock
) -> None:
    index.append(FEW)
    await index.close()
    for position in range(disk.size(PATH)):
        broken = disk.kill()
        broken.flip_bit(PATH, position, position % 8)
        loaded = await found_on(broken)
        sound = max(0, (position - HEADER_SIZE) // ENTRY_SIZE)
        assert loaded == await found_with(FEW[:sound])
        if sound:
            assert broken.size(PATH) == HEADER_SIZE + sound * ENTRY_SIZE


async def found_with(entries: Sequence[DelayChange]) -> LoadedIndex:
    disk = SimulatedDisk(Random(0))
    async with mounted(disk) as volume:
        index, _ = await opened(volume)
        index.append(entries)
    return await found_on(disk)


async def test_of_two_bad_pieces_the_first_bad_entry_ends_the_index(
    disk: SimulatedDisk, index: DelayIndex, autojump_clock: MockClock
) -> None:
    per_piece = PIECE_SIZE // ENTRY_SIZE
    index.append([pending(offset, offset) for offset in range(3 * per_piece)])
    await index.close()
    for entry in (per_piece + 77, 2 * per_piece + 5):
        disk.flip_bit(PATH, HEADER_SIZE + entry * ENTRY_SIZE + 9, 3)
    assert list((await found_on(disk, 3 * per_piece)).offsets) == list(range(per_piece + 77))


async def test_sound_entries_that_do_not_follow_are_cut_off(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    """Left by an earlier life of the file, where a crash kept some writes and lost others."""
    async with mounted(disk) as volume:
        index, _ = await opened(volume)
        index.append(FEW)
        await index.close()
    file = disk.open(PATH)
    file.write(file.size(), [encode_entries([ended(DelayState.CANCELLED, 8, 2), pending(9, 9)])])
    assert await found_on(disk) == await found_with(FEW)
    assert disk.size(PATH) == HEADER_SIZE + len(FEW) * ENTRY_SIZE


async def test_entries_that_do_not_follow_a_compaction_are_cut_off(
    disk: SimulatedDisk, index: DelayIndex, autojump_clock: MockClock
) -> None:
    """Those that it carried over may lie in any order."""
    await compact(index, [8, 3], [80, 30], [FEW[3]], 20)
    index.append([pending(20, 1)])
    await index.close()
    file = disk.open(PATH)
    file.write(file.size(), [encode_entries([pending(19, 9)])])
    loaded = await found_on(disk)
    assert (dues_of(loaded), loaded.applied_to) == ({8: 80, 3: 30, 20: 1}, 20)


async def test_what_was_cut_off_never_follows_what_is_written_in_its_place(
    disk: SimulatedDisk, index: DelayIndex, autojump_clock: MockClock
) -> None:
    """A power loss took the log's end; the entries behind the damage tell of records that are no more."""
    index.append(FEW)
    await index.close()
    disk.flip_bit(PATH, HEADER_SIZE + 3 * ENTRY_SIZE, 0)
    for _ in range(CRASHES):
        started = disk.kill()
        async with mounted(started) as volume:
            again, _ = await opened(volume, 0, 4)
            again.append([pending(4, 44)])
        loaded = await found_on(started.crash())
        assert dues_of(loaded) in ({1: 5_000, 2: 4_000, 3: 3_000}, {1: 5_000, 2: 4_000, 3: 3_000, 4: 44})


async def test_an_unknown_version_or_state_is_an_error_and_nothing_is_lost(
    disk: SimulatedDisk, index: DelayIndex, autojump_clock: MockClock
) -> None:
    index.append(FEW)
    await index.close()
    newer, odd = disk.kill(), disk.kill()
    newer.open(PATH).write(3, [b"\2" + crc32c(bytes(8), crc32c(b"\2")).to_bytes(4, "big")])
    body = encode_entries(FEW[-1:])[:24] + b"\x09\0\0\0"
    odd.open(PATH).write(odd.size(PATH) - ENTRY_SIZE, [body + crc32c(body).to_bytes(4, "little")])
    for unknown in (newer, odd):
        size = unknown.size(PATH)
        assert await refusal(unknown) is not None
        assert unknown.size(PATH) == size


async def refusal(disk: SimulatedDisk) -> UnknownFormat | None:
    found = None
    async with mounted(disk) as volume:
        try:
            await opened(volume)
        except UnknownFormat as error:
            found = error
    return found


# A full disk, a failed sync.


@pytest.mark.parametrize("room", [0, 20, 40, 90])
async def test_on_a_full_disk_the_index_falls_silent_and_a_compaction_makes_it_whole(
    disk: SimulatedDisk, index: DelayIndex, room: int, autojump_clock: MockClock
) -> None:
    """What came after the gap must not be claimed without what is missing in it."""
    index.append(FEW[:2])
    leave_room(disk, room)
    index.append(FEW[2:5])
    assert index.is_incomplete
    leave_room(disk, CAPACITY)
    index.append(FEW[5:])
    index.mark(20)
    loaded = await found_on(disk.kill())
    assert loaded in [await found_with(FEW[:count]) for count in range(2, 5)]
    await compact(index, [3, 8], [9_000, 8_000], [FEW[3], FEW[5]], 20)
    index.append([ended(DelayState.EXPIRED, 3, 21)])
    loaded = await found_on(disk.kill())
    assert (dues_of(loaded), loaded.applied_to) == ({8: 8_000}, 21)
    assert loaded.finished == [FEW[3], FEW[5], ended(DelayState.EXPIRED, 3, 21)]


async def test_a_compaction_without_room_leaves_the_index_as_it_was(
    disk: SimulatedDisk, index: DelayIndex, autojump_clock: MockClock
) -> None:
    index.append(FEW)
    leave_room(disk, 60)
    with pytest.raises(DiskFull):
        await compact(index, [3, 8], [9_000, 8_000], [FEW[3], FEW[5]], 20)
    leave_room(disk, CAPACITY)
    assert disk.list(DIRECTORY) == [NAME]
    index.append([ended(DelayState.DELIVERED, 8, 20)])
    assert dues_of(await found_on(disk.kill())) == {3: 9_000}


async def test_after_a_failed_sync_nothing_more_is_claimed(
    disk: SimulatedDisk, index: DelayIndex, autojump_clock: MockClock
) -> None:
    index.append(FEW[:3])
    disk.fail_next_sync(PATH)
    with pytest.raises(DiskFailed):
        await index.sync()
    index.append(FEW[3:])
    assert index.is_incomplete
    for _ in range(CRASHES):
        loaded = await found_on(disk.crash())
        assert loaded.is_rebuilt or loaded in [await found_with(FEW[:count]) for count in range(1, 4)]


# Compaction.


async def test_a_compaction_drops_what_has_ended_and_keeps_what_is_given(
    disk: SimulatedDisk, index: DelayIndex, autojump_clock: MockClock
) -> None:
    count = 20_000
    index.append([pending(offset, offset) for offset in range(count)])
    index.append([ended(DelayState.DELIVERED, offset, count + offset) for offset in range(count)])
    assert index.has_grown(0)
    assert not index.has_grown(count)
    await compact(index, array("Q", [5, 3]), array("Q", [50, 30]), [FEW[3]], 2 * count)
    assert index.size == disk.size(PATH) == HEADER_SIZE + 4 * ENTRY_SIZE < GROWN_BYTES
    assert not index.has_grown(0)
    for _ in range(CRASHES):
        loaded = await found_on(disk.crash(), 2 * count)
        assert (dues_of(loaded), loaded.finished, loaded.applied_to) == ({5: 50, 3: 30}, [FEW[3]], 2 * count)
    assert (await found_on(disk.kill(), 2 * count - 1)).is_rebuilt


async def test_a_compacted_file_that_lost_its_midst_claims_nothing(
    disk: SimulatedDisk, index: DelayIndex, autojump_clock: MockClock
) -> None:
    await compact(index, [3, 5, 8], [1, 2, 3], [FEW[3]], 20)
    for entry in range(5):
        broken = disk.kill()
        broken.flip_bit(PATH, HEADER_SIZE + entry * ENTRY_SIZE + 20, 1)
        loaded = await found_on(broken)
        assert (loaded.is_rebuilt, loaded.applied_to, len(loaded.offsets)) == (True, 0, 0)


async def test_a_leftover_of_a_compaction_is_removed(
    disk: SimulatedDisk, index: DelayIndex, autojump_clock: MockClock
) -> None:
    index.append(FEW)
    disk.open(f"{PATH}.tmp", create=True).close()
    dead = disk.kill()
    assert dues_of(await found_on(dead)) == {3: 9_000, 8: 8_000}
    assert dead.list(DIRECTORY) == [NAME]


async def test_entries_that_come_during_a_compaction_are_in_both_files(
    disk: SimulatedDisk, index: DelayIndex, autojump_clock: MockClock
) -> None:
    index.append(FEW)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(compact, index, [3, 8], [9_000, 8_000], [], 20)
        for number in range(40):
            await trio.sleep(0.000_1)
            index.append([pending(20 + number, number)])
            loaded = await found_on(disk.kill())
            assert dues_of(loaded) == {3: 9_000, 8: 8_000} | {20 + offset: offset for offset in range(number + 1)}
    await index.sync()
    for _ in range(CRASHES):
        assert len((await found_on(disk.crash())).offsets) == 42


async def test_a_power_loss_at_any_time_of_a_compaction_leaves_the_old_or_the_new_file_whole(
    disk: SimulatedDisk, index: DelayIndex, autojump_clock: MockClock
) -> None:
    index.append(FEW)
    await index.sync()
    crashed = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(compact, index, [3, 8], [9_000, 8_000], [FEW[3], FEW[5]], 20)
        for _ in range(80):
            await trio.sleep(0.000_1)
            crashed.append(disk.crash())
    found = [await found_on(left) for left in crashed]
    assert {loaded.applied_to for loaded in found} == {8, 20}
    assert all(dues_of(loaded) == {3: 9_000, 8: 8_000} for loaded in found)


async def test_resting_files_are_given_back_and_opened_again(
    disk: SimulatedDisk, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    volume = Volume(disk, growing_files_max=0)
    await nursery.start(volume.run)
    index, _ = await opened(volume)
    for entry in FEW:
        index.append([entry])
        await index.sync()
    assert await found_on(disk.crash()) == await found_with(FEW)
