"""What a journal claims as durable, in its file and beside it: its last entries never look like a torn tail."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from goqueue.storage.journals.claim import SUFFIX, decode_claim, encode_claim
from goqueue.storage.journals.file import HEAD_SIZE, LostEntries
from goqueue.storage.journals.journal import Journal
from goqueue.storage.log.volume import Volume
from goqueue.testing.determinism import run_deterministically
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
)
from tests.storage.logs import mounted


async def claimed(volume: Volume, *entries: bytes) -> Journal:
    """As `filled`, and the owner has had time."""
    journal = await filled(volume, *entries)
    journal.claim()
    return journal


# The mark.


async def test_a_flipped_bit_in_the_last_entry_is_rot(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G13: it was durable, and a start says so instead of cutting it."""
    await claimed(volume, b"a", b"b")
    begin = HEAD_SIZE + frame_size(b"a")
    disk.flip_bit(PATH, begin + HEAD_SIZE, 0)
    found = await found_on(disk)
    assert (found.entries, found.torn_size) == ([b"a"], 0)
    assert found.lost == [LostEntries(begin, begin + frame_size(b"b"), first=2, next=3)]
    [report] = found.reports
    assert PATH in report
    assert "lost entries 2 to 2" in report
    assert files(disk, ".damaged")[0] in report


async def test_a_torn_tail_is_reported_with_its_copy(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    journal = await claimed(volume, b"a")
    journal.append([b"b"])
    disk.cut(PATH, journal.size - 1)
    [report] = (await found_on(disk)).reports
    assert f"{PATH} had a torn tail of {frame_size(b'b') - 1} bytes" in report
    assert files(disk, ".torn")[0] in report


async def test_a_claim_costs_no_sync_and_is_written_once(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    journal = await filled(volume, b"a")
    syncs = disk.counts.syncs, disk.counts.directory_syncs
    journal.claim()
    writes = disk.counts.writes
    for _ in range(10):
        journal.claim()
        await journal.commit()
        journal.claim()
    assert disk.counts.writes == writes
    assert (disk.counts.syncs - 10, disk.counts.directory_syncs) == syncs, "but for the commits"


async def test_what_is_not_durable_is_not_claimed(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    journal = await claimed(volume, b"a")
    journal.append([b"b"])
    size = journal.size
    journal.claim()
    assert journal.size == size
    for crashed in crashes_of(disk):
        found = await found_on(crashed)
        assert (found.entries[0], found.lost) == (b"a", [])


async def test_a_journal_that_a_kill_left_is_claimed_when_it_is_opened(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """Its owner may have nothing to write for a long time."""
    await filled(volume, b"a")
    killed = disk.kill()
    await found_on(killed)
    killed.cut(PATH, HEAD_SIZE)
    assert (await found_on(killed)).lost == [LostEntries(HEAD_SIZE, HEAD_SIZE, first=1, next=2)]


async def test_on_a_full_disk_nothing_is_claimed_and_nothing_fails(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    journal = await filled(volume, b"a")
    leave_room(disk, 0)
    journal.claim()
    leave_room(disk, 1_000)
    journal.append([b"b"])
    await journal.commit()
    assert (await found_on(disk.crash())).entries == [b"a", b"b"]


# The claim beside it.


@pytest.mark.parametrize("keeps", [0, 1])
async def test_a_file_cut_between_two_entries_lost_what_followed(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock, keeps: int
) -> None:
    """G13: such a file looks as if it had never been longer."""
    await claimed(volume, b"a", b"b")
    end = HEAD_SIZE + keeps * frame_size(b"a")
    disk.cut(PATH, end)
    found = await found_on(disk)
    assert found.lost == [LostEntries(end, end, first=1 + keeps, next=3)]
    assert "are not there" in found.reports[0]


async def test_a_journal_that_is_gone_lost_everything_and_its_numbers_go_on(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    journal = await claimed(volume, b"a", b"b")
    await journal.close()
    disk.remove(PATH)
    assert Journal.is_there(volume, DIRECTORY, NAME)
    journal, found = await Journal.open(volume, DIRECTORY, NAME)
    assert [(lost.first, lost.next) for lost in found.lost] == [(1, 3)]
    assert f"{PATH} is gone" in found.reports
    journal.append([b"c"])
    await journal.commit()
    again = await found_on(disk.crash())
    assert again.entries == [b"c"]
    assert again.lost, "it is said until a snapshot takes its place"
    await journal.compact(b"c")
    assert (await found_on(disk.crash())).lost == []


async def test_a_snapshot_in_the_place_of_entries_keeps_the_claim(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    journal = await claimed(volume, *[b"entry"] * 20)
    await journal.compact(b"twenty")
    journal.claim()
    journal.append([b"later"])
    await journal.close()
    found = await found_on(disk)
    assert (found.snapshot, found.entries, found.lost) == (b"twenty", [b"later"], [])


@pytest.mark.parametrize("contents", [None, b"", b"GQD", encode_claim(99)[:-1], b"\0" * 16])
async def test_a_journal_without_a_sound_claim_opens_as_it_did_before_there_were_any(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock, contents: bytes | None
) -> None:
    await filled(volume, b"a", b"b")
    if disk.exists(PATH + SUFFIX):
        disk.remove(PATH + SUFFIX)
    if contents is not None:
        disk.open(PATH + SUFFIX, create=True).write(0, [contents])
    found = await found_on(disk)
    assert (found.entries, found.lost, found.reports) == ([b"a", b"b"], [], [])


@given(st.integers(0, 2**63), st.integers(0, 127))
def test_a_claim_with_a_flipped_bit_claims_nothing(number: int, bit: int) -> None:
    data = bytearray(encode_claim(number))
    assert decode_claim(bytes(data)) == number
    data[bit // 8] ^= 1 << bit % 8
    assert decode_claim(bytes(data)) is None


# Whatever happens to the file.


async def damage_and_open(cut_at: int, flips: list[tuple[int, int]], zeros: int, orderly: bool) -> None:
    disk = SimulatedDisk(Random(0))
    entries = [b"%d" % number * 9 for number in range(8)]
    async with mounted(disk) as volume:
        journal = await claimed(volume, *entries[:4])
        await journal.compact(b"|".join(entries[:4]))
        for entry in entries[4:]:
            journal.append([entry])
            await journal.commit()
        if orderly:
            await journal.close()
        else:
            journal.claim()
        disk = disk.kill()
    size = disk.size(PATH)
    for place, bit in flips:
        disk.flip_bit(PATH, place % size, bit)
    disk.cut(PATH, cut_at % (size + 1))
    if zeros:
        disk.open(PATH).write(disk.size(PATH), [bytes(zeros)])
    found = await found_on(disk)
    held = (found.snapshot or b"").split(b"|") if found.snapshot else []
    held += found.entries
    assert [entry for entry in entries if entry in held] == held, "nothing is invented"
    assert held == entries or found.lost, "what was durable is not lost without a word"
    assert bool(found.lost or found.torn_size) == bool(found.reports)


@given(
    st.integers(0, 2**16),
    st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 7)), max_size=3),
    st.sampled_from((0, 0, 1, 32, 100)),
    st.booleans(),
)
def test_whatever_is_cut_or_flipped_after_a_claim_no_entry_is_lost_without_a_word(
    cut_at: int, flips: list[tuple[int, int]], zeros: int, orderly: bool
) -> None:
    """G13"""
    run_deterministically(damage_and_open, cut_at, flips, zeros, orderly, seed=0)
