"""The journal as its owners use it: entries, commits, snapshots, closing."""

import pytest
import trio
from trio.testing import MockClock

from goqueue.errors import Closed, TooLarge
from goqueue.storage.journals.file import HEAD_SIZE
from goqueue.storage.journals.journal import JOURNAL_SIZE_MAX, PAYLOAD_SIZE_MAX, Journal
from goqueue.storage.log.volume import Volume
from goqueue.testing.disk import SimulatedDisk
from tests.storage.journals.crashes import (
    DIRECTORY,
    NAME,
    PATH,
    crashes_of,
    files,
    filled,
    found_on,
    frame_size,
    leave_room,
    open_journal,
)

# Appending and committing.


async def test_a_new_journal_holds_nothing_and_misses_nothing(volume: Volume, autojump_clock: MockClock) -> None:
    _, found = await Journal.open(volume, DIRECTORY, NAME)
    assert (found.snapshot, found.entries, found.lost, found.torn_size) == (None, [], [], 0)


async def test_entries_come_back_in_order(volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    journal = await open_journal(volume)
    journal.append([b"a", b"", b"b"])
    journal.append([b"c" * 10_000])
    await journal.close()
    assert (await found_on(disk)).entries == [b"a", b"", b"b", b"c" * 10_000]


async def test_an_append_is_one_write_and_an_append_of_nothing_is_none(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    journal = await open_journal(volume)
    before, size = disk.counts.writes, journal.size
    journal.append([])
    assert (disk.counts.writes, journal.size) == (before, size)
    journal.append([b"entry"] * 100)
    assert (disk.counts.writes, journal.size) == (before + 1, size + frame_size(*[b"entry"] * 100))


async def test_what_was_appended_survives_the_death_of_the_process(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G1: as acks=leader promises, without a commit."""
    journal = await open_journal(volume)
    journal.append([b"a", b"b"])
    assert (await found_on(disk.kill())).entries == [b"a", b"b"]


async def test_what_was_committed_survives_a_power_loss(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G1"""
    await filled(volume, b"a", b"b")
    for crashed in crashes_of(disk):
        assert (await found_on(crashed)).entries == [b"a", b"b"]


async def test_what_a_commit_found_written_is_durable_and_what_came_later_may_be(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    journal = await open_journal(volume)
    journal.append([b"before"])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(journal.commit)
        await trio.testing.wait_all_tasks_blocked()
        journal.append([b"meanwhile"])
    outcomes = {tuple((await found_on(crashed)).entries) for crashed in crashes_of(disk)}
    assert outcomes == {(b"before",), (b"before", b"meanwhile")}


async def test_of_one_append_a_power_loss_leaves_all_or_nothing(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    journal = await filled(volume, b"a")
    journal.append([b"b" * 700, b"c" * 700, b"d" * 700])
    outcomes = {len((await found_on(crashed)).entries) for crashed in crashes_of(disk)}
    assert outcomes == {1, 4}


# Snapshots.


async def test_a_snapshot_takes_the_place_of_all_entries(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    journal = await filled(volume, *[b"entry"] * 100)
    await journal.compact(b"a hundred entries")
    assert journal.size == disk.size(PATH) == HEAD_SIZE + len(b"a hundred entries")
    journal.append([b"later"])
    await journal.close()
    found = await found_on(disk)
    assert (found.snapshot, found.entries) == (b"a hundred entries", [b"later"])
    assert files(disk) == [NAME]


async def test_a_snapshot_is_durable_and_so_is_what_it_stands_for(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    journal = await open_journal(volume)
    journal.append([b"never committed"])
    await journal.compact(b"one entry")
    for crashed in crashes_of(disk):
        assert (await found_on(crashed)).snapshot == b"one entry"


async def test_a_snapshot_may_be_taken_of_a_snapshot_or_of_nothing(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    journal = await open_journal(volume)
    for snapshot in (b"", b"first", b"second"):
        await journal.compact(snapshot)
        assert (await found_on(disk.kill())).snapshot == snapshot


async def test_entries_that_come_during_a_compaction_are_kept(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    journal = await filled(volume, b"a")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(journal.compact, b"a")
        for number in range(40):
            await trio.sleep(0.000_1)
            journal.append([b"%d" % number])
    expected = [b"%d" % number for number in range(40)]
    assert (await found_on(disk.kill())).entries == expected
    await journal.commit()
    for crashed in crashes_of(disk):
        found = await found_on(crashed)
        assert (found.snapshot, found.entries) == (b"a", expected)


async def test_entries_that_come_while_a_compaction_waits_for_its_turn_are_kept(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """The snapshot stands for what was there when it was given, not for what came until it was written."""
    journal = await filled(volume, b"a")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(journal.commit)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(journal.compact, b"a")
        await trio.testing.wait_all_tasks_blocked()
        journal.append([b"b"])
        nursery.start_soon(journal.compact, b"ab")
        await trio.testing.wait_all_tasks_blocked()
        journal.append([b"c"])
    found = await found_on(disk.kill())
    assert (found.snapshot, found.entries) == (b"ab", [b"c"])


async def test_a_power_loss_during_a_compaction_leaves_everything(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    journal = await filled(volume, b"a", b"b")
    images = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(journal.compact, b"ab")
        for _ in range(60):
            await trio.sleep(0.000_1)
            images.append(disk.crash())
    outcomes = set()
    for image in images:
        found = await found_on(image)
        outcomes.add((found.snapshot, *found.entries))
        assert files(image) == [NAME]
    assert outcomes == {(None, b"a", b"b"), (b"ab",)}


@pytest.mark.parametrize("moment", [number / 5_000 for number in range(1, 20)])
async def test_a_cancelled_compaction_leaves_the_journal_as_useful_as_before(
    volume: Volume, disk: SimulatedDisk, moment: float, autojump_clock: MockClock
) -> None:
    journal = await filled(volume, b"a")
    with trio.move_on_after(moment):
        await journal.compact(b"a")
    assert files(disk) == [NAME]
    journal.append([b"b"])
    await journal.commit()
    for crashed in crashes_of(disk):
        found = await found_on(crashed)
        assert (found.snapshot or b"") + b"".join(found.entries) == b"ab"
    await journal.compact(b"ab")
    assert (await found_on(disk.crash())).snapshot == b"ab"


async def test_what_an_interrupted_compaction_left_is_removed(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    await filled(volume, b"a")
    disk.open(PATH + ".tmp", create=True).write(0, [b"half a snapshot"])
    assert (await found_on(disk)).entries == [b"a"]
    assert files(disk) == [NAME]


# Limits.


async def test_an_entry_beyond_the_limit_is_refused_and_nothing_is_written(
    volume: Volume, autojump_clock: MockClock
) -> None:
    """G14"""
    journal = await open_journal(volume)
    size = journal.size
    with pytest.raises(TooLarge, match="67108865 bytes"):
        journal.append([b"small", bytes(PAYLOAD_SIZE_MAX + 1)])
    assert journal.size == size
    journal.append([b"small"])


async def test_a_snapshot_that_could_not_be_read_back_is_refused(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G14: a journal beyond its limit would refuse to open."""
    journal = await filled(volume, b"a")
    with pytest.raises(TooLarge):
        await journal.compact(bytes(JOURNAL_SIZE_MAX))
    journal.append([b"b"])
    assert (await found_on(disk.kill())).entries == [b"a", b"b"]


async def test_a_journal_that_would_grow_beyond_its_limit_asks_to_be_compacted(
    volume: Volume, disk: SimulatedDisk, monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    journal = await filled(volume, b"a")
    monkeypatch.setattr("goqueue.storage.journals.journal.JOURNAL_SIZE_MAX", journal.size + frame_size(b"b"))
    with pytest.raises(TooLarge, match="compact it"):
        journal.append([b"bb"])
    journal.append([b"b"])
    with pytest.raises(TooLarge):
        journal.append([b""])
    await journal.compact(b"ab")
    journal.append([b"c"])
    assert (await found_on(disk.kill())).entries == [b"c"]
    monkeypatch.setattr("goqueue.storage.journals.journal.JOURNAL_SIZE_MAX", journal.size - 1)
    with pytest.raises(TooLarge):
        await open_journal(volume)


# Closing.


async def test_closing_makes_everything_durable(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G15"""
    journal = await open_journal(volume)
    journal.append([b"a"])
    await journal.close()
    for crashed in crashes_of(disk):
        assert (await found_on(crashed)).entries == [b"a"]


async def test_a_journal_closes_in_order_on_a_full_disk(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G15: only the mark is missing."""
    journal = await open_journal(volume)
    journal.append([b"a"])
    leave_room(disk, 0)
    await journal.close()
    assert (await found_on(disk.crash())).entries == [b"a"]


async def test_after_close_nothing_can_be_done_and_closing_again_does_nothing(
    volume: Volume, autojump_clock: MockClock
) -> None:
    """G15"""
    journal = await filled(volume, b"a")
    await journal.close()
    await journal.close()
    with pytest.raises(Closed):
        journal.append([b"b"])
    with pytest.raises(Closed):
        await journal.commit()
    with pytest.raises(Closed):
        await journal.compact(b"a")


async def test_two_that_close_at_once_both_return_when_it_is_closed(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    journal = await open_journal(volume)
    journal.append([b"a"])

    async def close() -> None:
        await journal.close()
        assert (await found_on(disk.crash())).entries == [b"a"]

    async with trio.open_nursery() as nursery:
        nursery.start_soon(close)
        nursery.start_soon(close)


@pytest.mark.parametrize("moment", [number / 5_000 for number in range(1, 20)])
async def test_what_is_accepted_while_it_closes_is_durable_when_it_is_closed(
    volume: Volume, disk: SimulatedDisk, moment: float, autojump_clock: MockClock
) -> None:
    """G15: or it is refused."""
    journal = await filled(volume, b"a")
    expected = [b"a"]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(journal.close)
        await trio.sleep(moment)
        try:
            journal.append([b"b"])
            expected.append(b"b")
        except Closed:
            pass
    for crashed in crashes_of(disk):
        assert (await found_on(crashed)).entries == expected


async def test_a_commit_or_compaction_that_waits_behind_a_close_is_told_so(
    volume: Volume, autojump_clock: MockClock
) -> None:
    journal = await filled(volume, b"a")

    async def expect_closed(snapshot: bytes | None) -> None:
        with pytest.raises(Closed):
            await (journal.commit() if snapshot is None else journal.compact(snapshot))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(journal.commit)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(journal.close)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(expect_closed, None)
        nursery.start_soon(expect_closed, b"a")
