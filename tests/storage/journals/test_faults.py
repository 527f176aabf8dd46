"""What a journal makes of a full disk, a failed sync, a torn tail and rot."""

import pytest
import trio
from crc32c import crc32c
from trio.testing import MockClock

from goqueue.errors import DiskFailed, DiskFull, LogStopped, UnknownFormat
from goqueue.storage.journals.file import HEAD, HEAD_SIZE, MAGIC, LostEntries
from goqueue.storage.journals.journal import Journal
from goqueue.storage.log.volume import Volume
from goqueue.testing.disk import CAPACITY, SimulatedDisk
from tests.storage.journals.crashes import (
    DIRECTORY,
    NAME,
    PATH,
    contents,
    crashes_of,
    files,
    filled,
    found_on,
    frame_size,
    leave_room,
    open_journal,
)
from tests.storage.logs import mounted

# A full disk.


async def test_on_a_full_disk_an_append_fails_and_works_again_when_there_is_room(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    journal = await filled(volume, b"a")
    size = journal.size
    leave_room(disk, 100)
    with pytest.raises(DiskFull):
        journal.append([b"x" * 40, b"y" * 40])
    assert journal.size == disk.size(PATH) == size
    journal.append([b"b"])
    await journal.commit()
    leave_room(disk, 200)
    journal.append([b"x" * 40, b"y" * 40])
    await journal.commit()
    assert (await found_on(disk.crash())).entries == [b"a", b"b", b"x" * 40, b"y" * 40]


async def test_a_refused_append_never_comes_back(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """Not even a part of it, when a power loss keeps what was written and forgets that it was cut off."""
    journal = await filled(volume, b"a")
    leave_room(disk, 200)
    with pytest.raises(DiskFull):
        journal.append([b"x", b"y", b"z" * 200])
    journal.append([b"b"])
    outcomes = set[tuple[bytes, ...]]()
    for crashed in crashes_of(disk):
        crashed.capacity = CAPACITY  # what was torn is copied aside, and that takes room
        outcomes.add(tuple((await found_on(crashed)).entries))
    assert outcomes == {(b"a",), (b"a", b"b")}


async def test_a_compaction_without_room_leaves_the_old_file(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    journal = await filled(volume, b"a")
    for room in (0, 1, 50):
        leave_room(disk, room)
        with pytest.raises(DiskFull):
            await journal.compact(b"x" * 100)
        assert files(disk) == [NAME]
    leave_room(disk, 1_000)
    journal.append([b"b"])
    await journal.close()
    found = await found_on(disk)
    assert (found.snapshot, found.entries, found.lost) == (None, [b"a", b"b"], [])


async def test_a_compaction_gives_up_when_there_is_room_for_new_entries_in_one_file_only(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    journal = await filled(volume, b"a")

    async def compact() -> None:
        with pytest.raises(DiskFull):
            await journal.compact(b"a")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(compact)
        await trio.testing.wait_all_tasks_blocked()
        leave_room(disk, 1_000)
        journal.append([b"x" * 600])
    await journal.commit()
    assert files(disk) == [NAME]
    assert (await found_on(disk.crash())).entries == [b"a", b"x" * 600]


async def test_after_a_compaction_that_failed_a_torn_tail_is_still_just_that(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    journal = await filled(volume, b"a")
    disk.fail_next_sync(PATH + ".tmp")
    with pytest.raises(DiskFailed):
        await journal.compact(b"a")
    await journal.commit()
    for entry in (b"b", b"c", b"d"):
        journal.append([entry * 600])
    for crashed in crashes_of(disk):
        found = await found_on(crashed)
        assert found.lost == []
        assert b"".join(entry[:1] for entry in found.entries) in (b"a", b"ab", b"abc", b"abcd")


# A failed sync.


async def test_a_failed_sync_stops_the_journal_until_it_is_reopened(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """What the failed sync was to write is unknown for ever; to try again proves nothing."""
    journal = await filled(volume, b"a")
    journal.append([b"b"])
    disk.fail_next_sync(PATH)
    with pytest.raises(LogStopped, match=f"{PATH}.*reopen the journal"):
        await journal.commit()
    with pytest.raises(LogStopped):
        journal.append([b"c"])
    with pytest.raises(LogStopped):
        await journal.commit()
    with pytest.raises(LogStopped):
        await journal.compact(b"abc")
    await journal.close()
    crashed = disk.crash()
    async with mounted(crashed) as later:
        journal, found = await Journal.open(later, DIRECTORY, NAME)
        assert found.entries == [b"a"]
        journal.append([b"c"])
        await journal.commit()
    assert (await found_on(crashed.crash())).entries == [b"a", b"c"]


async def test_a_sync_that_failed_while_its_commit_was_cancelled_stops_the_journal_too(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """The system would tell the next commit that all is well."""
    journal = await filled(volume, b"a")
    journal.append([b"b"])
    disk.faults.sync_seconds = (1.0, 1.0)
    disk.fail_next_sync(PATH)
    with pytest.raises(LogStopped), trio.move_on_after(0.5):
        await journal.commit()
    with pytest.raises(LogStopped):
        await journal.commit()


async def test_a_compaction_whose_new_file_can_not_be_synced_changes_nothing(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    journal = await filled(volume, b"a")
    disk.fail_next_sync(PATH + ".tmp")
    with pytest.raises(DiskFailed):
        await journal.compact(b"a")
    assert files(disk) == [NAME]
    journal.append([b"b"])
    await journal.commit()
    assert (await found_on(disk.crash())).entries == [b"a", b"b"]


async def test_a_compaction_whose_new_name_can_not_be_synced_stops_the_journal(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    journal = await filled(volume, b"a")
    disk.fail_next_sync(DIRECTORY)
    with pytest.raises(LogStopped):
        await journal.compact(b"a")
    with pytest.raises(LogStopped):
        journal.append([b"b"])
    found = await found_on(disk.crash())
    assert (found.snapshot, found.entries) == (None, [b"a"])


async def test_a_journal_that_could_not_be_opened_holds_no_file(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    await (await filled(volume, b"a" * 1_000)).close()
    disk.fail_next_sync(PATH)
    with pytest.raises(DiskFailed):
        await open_journal(volume)
    free = disk.space("/").free
    disk.remove(PATH)
    assert disk.space("/").free > free + 1_000


# A torn tail.


async def test_a_torn_tail_is_cut_and_kept_aside(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    journal = await filled(volume, b"a")
    size = journal.size
    journal.append([b"b"])
    disk.cut(PATH, journal.size - 1)
    tail = (await contents(disk, NAME))[size:]
    found = await found_on(disk)
    assert (found.entries, found.lost, found.torn_size) == ([b"a"], [], len(tail))
    assert disk.size(PATH) == size + HEAD_SIZE, "a mark says that what is left was found whole"
    [name] = files(disk, ".torn")
    assert await contents(disk, name) == tail
    assert (await found_on(disk.crash())).torn_size == 0


async def test_a_later_torn_tail_does_not_replace_an_earlier_one(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G13"""
    for entry in (b"a", b"b"):
        journal = await open_journal(volume)
        await journal.commit()
        journal.append([entry])
        disk.cut(PATH, journal.size - 1)
    await found_on(disk)
    assert len(files(disk, ".torn")) == 2


async def test_a_power_loss_that_keeps_late_writes_and_loses_early_ones_leaves_a_torn_tail(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    journal = await filled(volume, b"a")
    for entry in (b"b", b"c", b"d"):
        journal.append([entry * 600])
    lengths = set()
    for crashed in crashes_of(disk):
        found = await found_on(crashed)
        assert found.lost == []
        assert [entry[:1] for entry in found.entries] == [b"a", b"b", b"c", b"d"][: len(found.entries)]
        lengths.add(len(found.entries))
    assert lengths >= {1, 2, 4}


async def test_what_came_during_a_commit_is_not_taken_for_durable(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """Its loss is a torn tail, although something later survived."""
    journal = await filled(volume, b"a")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(journal.commit)
        await trio.testing.wait_all_tasks_blocked()
        journal.append([b"b" * 600])
    journal.append([b"c" * 600])
    for crashed in crashes_of(disk):
        found = await found_on(crashed)
        assert found.lost == []
        assert b"".join(entry[:1] for entry in found.entries) in (b"a", b"ab", b"abc")


# Rot.


async def test_rot_is_named_and_everything_else_is_given_back(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G13"""
    journal = await filled(volume, b"a")
    journal.append([b"b", b"c"])
    await filled(volume, b"d")
    begin, end = HEAD_SIZE + frame_size(b"a"), HEAD_SIZE + frame_size(b"a") + frame_size(b"b", b"c")
    disk.flip_bit(PATH, begin + HEAD_SIZE, 0)
    image = await contents(disk)
    found = await found_on(disk)
    assert found.entries == [b"a", b"d"]
    assert found.lost == [LostEntries(begin, end, first=2, next=4)]
    assert found.torn_size == 0
    assert (await contents(disk))[:-HEAD_SIZE] == image, "but for a mark"
    [copy] = files(disk, ".damaged")
    assert await contents(disk, copy) == image


async def test_a_journal_goes_on_behind_rot(volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    await filled(volume, b"a", b"b")
    disk.flip_bit(PATH, HEAD_SIZE, 0)
    for entry in (b"c", b"d"):
        await filled(volume, entry)
    found = await found_on(disk.crash())
    assert found.entries == [b"b", b"c", b"d"]
    assert [(lost.first, lost.next) for lost in found.lost] == [(1, 2)]


async def test_each_damage_is_copied_once_and_no_copy_replaces_another(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G13: also when a snapshot has long since taken the damaged entries' place."""
    await filled(volume, b"a", b"b")
    disk.flip_bit(PATH, HEAD_SIZE, 0)
    image = await contents(disk)
    for _ in range(3):
        await filled(volume, b"more")
    [first] = files(disk, ".damaged")
    journal = await open_journal(volume)
    await journal.compact(b"what is left")
    await journal.close()
    disk.flip_bit(PATH, HEAD_SIZE, 0)
    await found_on(disk)
    assert len(files(disk, ".damaged")) == 2
    assert await contents(disk, first) == image


async def test_what_a_file_begins_with_was_durable_so_its_damage_is_rot(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """It was synced before the file got its name."""
    journal = await filled(volume, b"a", b"b")
    await journal.compact(b"ab")
    size = journal.size
    journal.append([b"c"])
    disk.flip_bit(PATH, HEAD_SIZE, 0)
    found = await found_on(disk)
    assert (found.snapshot, found.entries) == (None, [b"c"])
    assert found.lost == [LostEntries(0, size, first=0, next=3)]


@pytest.mark.parametrize("size", [0, 1, HEAD_SIZE])
async def test_a_file_without_anything_sound_is_lost_and_usable(
    volume: Volume, disk: SimulatedDisk, size: int, autojump_clock: MockClock
) -> None:
    """G13"""
    journal = await filled(volume, b"a")
    await journal.compact(b"a")
    await journal.close()
    disk.cut(PATH, size)
    found = await found_on(disk)
    assert found.lost == [LostEntries(0, size, first=0, next=2)]
    journal = await filled(volume, b"b")
    assert (await found_on(disk.crash())).entries == [b"b"]
    await journal.compact(b"b")
    found = await found_on(disk.crash())
    assert (found.snapshot, found.lost) == (b"b", [])


async def test_the_mark_of_an_orderly_close_tells_rot_of_the_last_entry_from_a_torn_tail(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G13"""
    journal = await filled(volume, b"a", b"b")
    last = journal.size - 1
    killed = disk.kill()
    killed.flip_bit(PATH, last, 0)
    found = await found_on(killed)
    assert (found.entries, found.lost, found.torn_size) == ([b"a"], [], frame_size(b"b"))
    assert len(files(killed, ".torn")) == 1
    await journal.close()
    disk.flip_bit(PATH, last, 0)
    found = await found_on(disk)
    assert (found.entries, found.torn_size) == ([b"a"], 0)
    assert [(lost.first, lost.next) for lost in found.lost] == [(2, 3)]


async def test_a_damaged_mark_costs_no_entry(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    journal = await filled(volume, b"a")
    mark = journal.size
    await journal.close()
    disk.flip_bit(PATH, mark + 5, 0)
    found = await found_on(disk.kill())
    assert (found.entries, found.lost) == ([b"a"], [])
    disk.flip_bit(PATH, mark + 5, 0)
    await filled(volume, b"b")
    disk.flip_bit(PATH, mark + 5, 0)
    found = await found_on(disk)
    assert found.entries == [b"a", b"b"]
    assert [(lost.first, lost.next) for lost in found.lost] == [(2, 3)]


async def test_bytes_missing_from_the_middle_are_named_too(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    await filled(volume, b"a", b"b", b"c")
    image = await contents(disk)
    begin, size = HEAD_SIZE + frame_size(b"a"), frame_size(b"b")
    disk.open(PATH).write(begin, [image[begin + size :]])
    disk.cut(PATH, len(image) - size)
    found = await found_on(disk)
    assert found.entries == [b"a", b"c"]
    assert found.lost == [LostEntries(begin, begin, first=2, next=3)]


async def test_a_frame_from_an_earlier_time_is_not_taken_for_the_next_one(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """As a file system leaves one behind that does not clear its blocks."""
    journal = await filled(volume, b"a", b"b", b"c")
    image = await contents(disk)
    disk.open(PATH).write(journal.size, [image[HEAD_SIZE : HEAD_SIZE + frame_size(b"a")]])
    found = await found_on(disk)
    assert (found.entries, found.lost, found.torn_size) == ([b"a", b"b", b"c"], [], frame_size(b"a"))


@pytest.mark.parametrize(("version", "kind"), [(2, 0), (1, 7)])
async def test_a_journal_of_a_newer_goqueue_is_refused_and_left_alone(
    volume: Volume, disk: SimulatedDisk, version: int, kind: int, autojump_clock: MockClock
) -> None:
    """G13"""
    journal = await filled(volume, b"a")
    head = HEAD.pack(MAGIC, version, 0, 0, kind, 2, 2)
    crc = crc32c(head[8:], crc32c(head[3:4]))
    disk.open(PATH).write(journal.size, [head[:4], crc.to_bytes(4, "big"), head[8:]])
    image = await contents(disk)
    with pytest.raises(UnknownFormat, match=f"version {version}, kind {kind}"):
        await open_journal(volume)
    assert (files(disk), await contents(disk)) == ([NAME], image)
