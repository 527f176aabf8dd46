"""A journal that was made a moment ago: it has its name from its first commit on."""

import pytest
from trio.testing import MockClock

from goqueue.errors import DiskFull, LogStopped
from goqueue.storage.journals.file import HEAD_SIZE, NEW
from goqueue.storage.journals.journal import Journal
from goqueue.storage.log.volume import Volume
from goqueue.testing.disk import SimulatedDisk
from tests.storage.journals.crashes import (
    DIRECTORY,
    NAME,
    PATH,
    crashes_of,
    files,
    found_on,
    frame_size,
    leave_room,
    open_journal,
)


async def test_a_new_journal_waits_for_no_sync_and_is_named_by_its_first_commit(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    await volume.make_directories(DIRECTORY)
    syncs = disk.counts.syncs, disk.counts.directory_syncs
    journal = await open_journal(volume)
    journal.append([b"a"])
    assert (disk.counts.syncs, disk.counts.directory_syncs) == syncs
    assert files(disk) == [NAME + NEW]
    await journal.commit()
    assert files(disk) == [NAME]
    assert (await found_on(disk.crash())).entries == [b"a"]


async def test_what_a_power_loss_leaves_of_a_new_journal_is_a_prefix_and_no_damage(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """Nothing of it was promised: a group that is not in it was never there (G5)."""
    journal = await open_journal(volume)
    for entry in (b"a", b"b", b"c"):
        journal.append([entry * 600])
    lengths = set()
    for crashed in crashes_of(disk):
        found = await found_on(crashed)
        assert (found.snapshot, found.lost) == (None, [])
        assert [entry[:1] for entry in found.entries] == [b"a", b"b", b"c"][: len(found.entries)]
        assert (await found_on(crashed.crash())).entries == found.entries
        lengths.add(len(found.entries))
    assert len(lengths) > 1


async def test_what_was_taken_up_is_durable_before_it_is_told(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    journal = await open_journal(volume)
    journal.append([b"a", b"b"])
    killed = disk.kill()
    assert (await found_on(killed)).entries == [b"a", b"b"]
    for crashed in crashes_of(killed):
        assert files(crashed) == [NAME]
        assert (await found_on(crashed)).entries == [b"a", b"b"]


@pytest.mark.parametrize("size", [0, 1, HEAD_SIZE - 1])
async def test_a_new_journal_of_which_nothing_is_sound_begins_anew(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock, size: int
) -> None:
    await open_journal(volume)
    disk.cut(PATH + NEW, size)
    journal, found = await Journal.open(volume, DIRECTORY, NAME)
    assert (found.entries, found.lost, found.next_number) == ([], [], 1)
    journal.append([b"a"])
    await journal.commit()
    assert [name for name in files(disk) if not name.endswith(".torn")] == [NAME]
    assert (await found_on(disk.crash())).entries == [b"a"]


async def test_what_was_not_taken_up_does_not_come_back_among_what_was_written_since(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """Its own beginning was lost, not what followed; and whoever opened it was told of nothing."""
    journal = await open_journal(volume)
    journal.append([b"old"])
    await disk.open(PATH + NEW).sync()
    await disk.sync_directory(DIRECTORY)
    disk.flip_bit(PATH + NEW, 0, 0)
    journal, found = await Journal.open(volume, DIRECTORY, NAME)
    assert found.entries == []
    outcomes = {tuple((await found_on(crashed)).entries) for crashed in crashes_of(disk)}
    journal.append([b"new"])
    outcomes |= {tuple((await found_on(crashed)).entries) for crashed in crashes_of(disk)}
    assert outcomes == {(), (b"new",)}


async def test_what_follows_damage_in_a_new_journal_is_kept_aside(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G13"""
    journal = await open_journal(volume)
    for entry in (b"a", b"b", b"c"):
        journal.append([entry])
    disk.flip_bit(PATH + NEW, journal.size - frame_size(b"b") - 1, 0)
    found = await found_on(disk)
    assert (found.entries, found.torn_size) == ([b"a"], 2 * frame_size(b"b"))
    assert len(files(disk, ".torn")) == 1


async def test_a_compaction_names_a_new_journal_first(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    journal = await open_journal(volume)
    journal.append([b"a"])
    await journal.compact(b"all")
    assert files(disk) == [NAME]
    found = await found_on(disk.crash())
    assert (found.snapshot, found.entries) == (b"all", [])


async def test_without_room_no_new_journal_is_left(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    await volume.make_directories(DIRECTORY)
    leave_room(disk, HEAD_SIZE - 1)
    with pytest.raises(DiskFull):
        await open_journal(volume)
    assert files(disk) == []


async def test_a_name_that_could_not_be_made_durable_stops_the_journal(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    journal = await open_journal(volume)
    journal.append([b"a"])
    disk.fail_next_sync(DIRECTORY)
    with pytest.raises(LogStopped):
        await journal.commit()
    with pytest.raises(LogStopped):
        journal.append([b"b"])
