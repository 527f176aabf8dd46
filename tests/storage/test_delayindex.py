"""The delay index: what it says is true of the log, whatever happens to its file (G8)."""

from array import array
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

import pytest
import trio
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from goqueue.core.delays import FINISHED_MAX, Change, DelayState
from goqueue.errors import Closed, DiskFailed, DiskFull, UnknownFormat
from goqueue.storage.delayentries import ENTRY_SIZE, HEADER_SIZE, PIECE_SIZE, encode_entries
from goqueue.storage.delayindex import GROWN_BYTES, NAME, DelayIndex, Loaded
from goqueue.storage.volume import Volume
from goqueue.testing.determinism import run_deterministically
from goqueue.testing.disk import CAPACITY, SimulatedDisk
from goqueue.testing.faults import Faults
from tests.storage.logs import mounted

DIRECTORY = "/data/logs/orders/0"
PATH = f"{DIRECTORY}/{NAME}"
END = 1_000
ENDINGS = (DelayState.DELIVERED, DelayState.CANCELLED, DelayState.EXPIRED)
CRASHES = 30


def pending(offset: int, due: int, at: int | None = None) -> Change:
    return Change(DelayState.PENDING, offset, due, offset if at is None else at)


def ended(state: DelayState, offset: int, at: int) -> Change:
    return Change(state, offset, 7_000 + at, at)


async def opened(volume: Volume, log_start: int = 0, log_end: int = END) -> tuple[DelayIndex, Loaded]:
    await volume.make_directories(DIRECTORY)
    return await DelayIndex.open(volume, DIRECTORY, log_start, log_end)


async def found_on(disk: SimulatedDisk, log_end: int = END, log_start: int = 0) -> Loaded:
    """What the next process finds."""
    async with mounted(disk) as volume:
        return (await opened(volume, log_start, log_end))[1]


def dues_of(loaded: Loaded) -> dict[int, int]:
    return dict(zip(loaded.offsets, loaded.dues, strict=True))


def leave_room(disk: SimulatedDisk, size: int) -> None:
    disk.capacity = CAPACITY
    disk.capacity -= disk.space("/").free - min(size, disk.space("/").free)


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
        await index.compact([], [], [], END)


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


async def found_with(entries: Sequence[Change]) -> Loaded:
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
    await index.compact([3, 8], [9_000, 8_000], [FEW[3], FEW[5]], 20)
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
        await index.compact([3, 8], [9_000, 8_000], [FEW[3], FEW[5]], 20)
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
    await index.compact(array("Q", [5, 3]), array("Q", [50, 30]), [FEW[3]], 2 * count)
    assert index.size == disk.size(PATH) == HEADER_SIZE + 4 * ENTRY_SIZE < GROWN_BYTES
    assert not index.has_grown(0)
    for _ in range(CRASHES):
        loaded = await found_on(disk.crash(), 2 * count)
        assert (dues_of(loaded), loaded.finished, loaded.applied_to) == ({5: 50, 3: 30}, [FEW[3]], 2 * count)
    assert (await found_on(disk.kill(), 2 * count - 1)).is_rebuilt


async def test_a_compacted_file_that_lost_its_midst_claims_nothing(
    disk: SimulatedDisk, index: DelayIndex, autojump_clock: MockClock
) -> None:
    await index.compact([3, 5, 8], [1, 2, 3], [FEW[3]], 20)
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
        nursery.start_soon(index.compact, [3, 8], [9_000, 8_000], [], 20)
        for number in range(40):
            await trio.sleep(0.000_1)
            index.append([pending(20 + number, number)])
            loaded = await found_on(disk.kill())
            assert dues_of(loaded) == {3: 9_000, 8: 8_000} | {20 + offset: offset for offset in range(number + 1)}
    await index.sync()
    for _ in range(CRASHES):
        assert len((await found_on(disk.crash())).offsets) == 42


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


# Against a model: a log of records, and an index that follows it through crashes.


@dataclass
class World:
    """A log, and what it says; of each record at most one entry."""

    random: Random
    log: list[Change | None] = field(default_factory=list)
    durable_claim: int = 0
    is_alive: bool = True

    def state(self, end: int) -> tuple[dict[int, int], dict[int, Change]]:
        return replayed({}, {}, self.log[:end])

    def grow(self) -> list[Change]:
        grown = []
        for _ in range(self.random.randrange(1, 5)):
            entry = self.record()
            self.log.append(entry)
            grown += [] if entry is None else [entry]
        return grown

    def record(self) -> Change | None:
        at, (waiting, _) = len(self.log), self.state(len(self.log))
        kind, time = self.random.randrange(5), self.random.randrange(10_000)
        if kind == 0:
            return None
        if kind < 3 or not waiting:
            return pending(at, time)
        offset = self.random.choice(sorted(waiting))
        return pending(offset, time, at) if kind == 3 else Change(self.random.choice(ENDINGS), offset, time, at)

    def confirm(self, claim: int) -> None:
        """The last words of a dead process reach nobody."""
        if self.is_alive:
            self.durable_claim = max(self.durable_claim, claim)

    def lose_the_end(self) -> None:
        """Now and then the log's end is gone too, and other records will be there."""
        if self.random.random() < 0.3:
            del self.log[self.random.randrange(len(self.log) + 1) :]
            self.durable_claim = 0

    def check(self, loaded: Loaded) -> None:
        """What is loaded, with the rest of the log applied, is what the log says. Nothing durable is forgotten."""
        assert loaded.applied_to <= len(self.log)
        assert loaded.applied_to >= self.durable_claim or loaded.is_rebuilt
        assert not loaded.is_rebuilt or (loaded.applied_to, len(loaded.offsets), loaded.finished) == (0, 0, [])
        past = {entry.offset: entry for entry in loaded.finished}
        assert replayed(dues_of(loaded), past, self.log[loaded.applied_to :]) == self.state(len(self.log))


def replayed(
    waiting: dict[int, int], past: dict[int, Change], records: Sequence[Change | None]
) -> tuple[dict[int, int], dict[int, Change]]:
    for entry in records:
        if entry is not None and entry.state is DelayState.PENDING and entry.offset not in past:
            waiting[entry.offset] = entry.time
        elif entry is not None and entry.state is not DelayState.PENDING:
            waiting.pop(entry.offset, None)
            past[entry.offset] = entry
    return waiting, past


async def live_through_crashes(seed: int, lives: int) -> None:
    random = Random(seed)
    disk, world = SimulatedDisk(random, faults=Faults(garbage_odds=0.3)), World(random)
    for _ in range(lives):
        async with mounted(disk) as volume:
            world.is_alive = True
            index, loaded = await opened(volume, 0, len(world.log))
            world.check(loaded)
            index.append([entry for entry in world.log[loaded.applied_to :] if entry is not None])
            index.mark(len(world.log))
            async with trio.open_nursery() as nursery:
                for _ in range(random.randrange(12)):
                    await one_step(random, disk, world, index, nursery)
                disk, world.is_alive = disk.crash() if random.random() < 0.7 else disk.kill(), False
                nursery.cancel_scope.cancel()
        leave_room(disk, CAPACITY)
        world.lose_the_end()


async def one_step(
    random: Random, disk: SimulatedDisk, world: World, index: DelayIndex, nursery: trio.Nursery
) -> None:
    match random.randrange(8):
        case 0 | 1 | 2:
            index.append(world.grow())
        case 3:
            index.mark(len(world.log))
        case 4:
            nursery.start_soon(sync, world, index)
        case 5:
            nursery.start_soon(compact, world, index)
        case 6:
            leave_room(disk, random.choice((0, 50, 200, CAPACITY)))
        case _:
            await trio.sleep(random.random() / 300)


async def sync(world: World, index: DelayIndex) -> None:
    claim = 0 if index.is_incomplete else max((entry.at for entry in world.log if entry is not None), default=0)
    await index.sync()
    if not index.is_incomplete:
        world.confirm(claim)


async def compact(world: World, index: DelayIndex) -> None:
    claim, (waiting, past) = len(world.log), world.state(len(world.log))
    with suppress(DiskFull):
        await index.compact(list(waiting), list(waiting.values()), list(past.values()), claim)
        world.confirm(claim)


@given(st.integers(0, 2**32))
def test_whatever_crashes_leave_it_says_what_the_log_said(seed: int) -> None:
    """G8"""
    run_deterministically(live_through_crashes, seed, 6, seed=seed)
