"""A group that meets what its log cannot read goes on behind it, and gets it after the repair (G5)."""

import logging
from random import Random

import pytest
import trio
from trio.testing import MockClock

from goqueue.actors.delivery.requests import SkipDamaged
from goqueue.actors.partition.requests import DeleteBefore
from goqueue.core.ledger.damage import DamagedRun
from goqueue.core.ledger.settings import LedgerSettings
from goqueue.core.ledger.settlements import Action
from goqueue.core.records.record import encode_record
from goqueue.errors import NotDamaged
from goqueue.testing.disk import SimulatedDisk
from tests.actors.delivery.delivering import GROUP, OTHER, Desk, desk, handed_out, offsets, run
from tests.actors.delivery.test_deadletters import confirm, leaving, some_leaving
from tests.actors.delivery.test_log import publish_mixed, settle_all
from tests.storage.logs import SMALL, path_of

PLACE = (1_200, 3)
"""A bit in the batch of offset 6, where each message of fifty bytes is a batch of its own."""


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(Random(0))


async def publish_forty(there: Desk) -> None:
    for number in range(40):
        await there.publish(b"%02d" % number * 25)


async def test_the_committed_offset_stays_before_damage_and_the_rest_is_delivered(
    disk: SimulatedDisk, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """G5: it is not passed silently."""
    caplog.set_level(logging.WARNING)
    async with desk(disk, SMALL) as there:
        await publish_forty(there)
        disk.flip_bit(path_of(0), *PLACE)
        assert await settle_all(there) == [*range(6), *range(7, 40)]
        view = await there.view()
        assert (view.progress.committed, view.lag, view.progress.damaged) == (6, 0, 1)
        assert view.progress.damages == (DamagedRun(6, 6, path_of(0), 1),)
        warnings = [each.message for each in caplog.records if "damaged" in each.message]
        assert len(warnings) == 1
        assert "goqueue group skip billing orders/0 6-6" in warnings[0]


async def test_what_is_repaired_while_the_broker_runs_comes_within_a_minute(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk, SMALL) as there:
        await publish_forty(there)
        disk.flip_bit(path_of(0), *PLACE)
        await settle_all(there)
        disk.flip_bit(path_of(0), *PLACE)
        assert await there.wait(90) <= 60
        taken = await there.take()
        assert taken.runs == (run(6),)
        assert await there.settle(taken) == ()
        view = await there.view()
        assert (view.progress.committed, view.progress.damaged, view.progress.damages) == (40, 0, ())


@pytest.mark.parametrize("ends_by", ["a stop", "a crash"])
async def test_what_is_repaired_while_the_broker_is_down_comes_at_once(
    disk: SimulatedDisk, autojump_clock: MockClock, ends_by: str
) -> None:
    """Each exactly once, whatever becomes of the broker."""
    async with desk(disk, SMALL) as there:
        await publish_forty(there)
        disk.flip_bit(path_of(0), *PLACE)
        await settle_all(there)
        killed = disk.kill() if ends_by == "a crash" else None
    disk = killed or disk
    async with desk(disk, SMALL) as there:
        assert (await there.view()).progress.damages == (DamagedRun(6, 6, path_of(0), 1),)
        assert (await there.take()).runs == ()
    disk.flip_bit(path_of(0), *PLACE)
    async with desk(disk, SMALL) as there:
        assert await there.wait(5) < 1
        assert await settle_all(there) == [6]
        assert await there.committed() == 40
    async with desk(disk, SMALL) as there:
        assert await settle_all(there) == []


async def test_a_message_that_was_to_come_again_keeps_its_attempt(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk, SMALL) as there:
        await publish_forty(there)
        taken = await there.take(10)
        await there.settle(taken, Action.NACK, runs=[run(6)], delay=0.0)
        await there.settle(taken, runs=[run(0, 5), run(7, 9)])
        disk.flip_bit(path_of(0), *PLACE)
        assert await settle_all(there) == [*range(10, 40)]
        assert await there.committed() == 6
        disk.flip_bit(path_of(0), *PLACE)
        await there.wait(90)
        assert (await there.take()).runs == (run(6, attempt=2),)


async def test_hidden_messages_of_a_repaired_range_are_passed_over(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk) as there:
        delayed, plain = encode_record(0, 1, b"x" * 50, due=5), encode_record(1, 1, b"y" * 50)
        await publish_mixed(there, delayed, plain, encode_record(2, 1, b"z" * 50, due=5))
        await there.publish(b"behind")
        disk.flip_bit(path_of(0), 200, 3)
        assert await settle_all(there) == [3]
        assert (await there.view()).progress.damaged == 3
        disk.flip_bit(path_of(0), 200, 3)
        await there.wait(90)
        assert await settle_all(there) == [1]
        assert await there.committed() == 4


async def test_a_damaged_range_is_damaged_in_all_lanes_and_each_message_comes_once(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G7, G9: a lane that comes to the range after the repair does not hand it out again."""
    async with desk(disk, SMALL) as there:
        for number in range(60):
            await there.publish(b"%02d" % number * 20, b"%02d" % number * 20, lanes=(number % 3, 2))
        disk.flip_bit(path_of(0), 700, 3)
        first = await there.take(30)
        seen = handed_out(first)
        damaged = (await there.view()).progress.damages
        assert len(damaged) == 1
        await there.settle(first)
        disk.flip_bit(path_of(0), 700, 3)
        await trio.sleep(61)
        while (taken := await there.take(50)).all_runs:
            seen += handed_out(taken)
            assert await there.settle(taken) == ()
        assert sorted(seen) == list(range(120))
        assert await there.committed() == 120


async def test_damage_that_is_known_from_the_start_is_seen_by_all_lanes(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """The lane index knows nothing of it, so a lane would pass it without a look."""
    async with desk(disk, SMALL) as there:
        for number in range(60):
            await there.publish(b"%02d" % number * 20, lanes=(number % 5,))
    disk.flip_bit(path_of(0), 700, 3)
    disk.remove(path_of(0, ".seal"))
    async with desk(disk, SMALL) as there:
        seen = list[int]()
        while (taken := await there.take(7)).all_runs:
            seen += offsets(taken)
            await there.settle(taken)
        progress = (await there.view()).progress
        assert (len(seen) + progress.damaged, progress.committed) == (60, progress.damages[0].first)
        disk.flip_bit(path_of(0), 700, 3)
        await there.wait(90)
        assert sorted([*seen, *(await settle_all(there))]) == list(range(60))


async def test_a_dead_letter_that_cannot_be_read_leaves_after_the_repair(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk, SMALL) as there:
        await publish_forty(there)
        taken = await there.take(10)
        await there.settle(taken, Action.REJECT, runs=[run(6)])
        disk.flip_bit(path_of(0), *PLACE)
        assert await leaving(there) is None
        assert (await there.view()).progress.damaged == 1
        disk.flip_bit(path_of(0), *PLACE)
        there.heard.clear()
        await trio.sleep(61)
        assert there.heard
        letters = await some_leaving(there)
        assert [each.offset for each in letters.messages] == [6]
        assert "06" * 25 in bytes(letters.messages[0].record).decode(errors="replace")


async def test_damaged_messages_are_given_up_by_a_skip_which_may_be_tried_first(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk, SMALL) as there:
        await publish_forty(there)
        disk.flip_bit(path_of(0), *PLACE)
        await settle_all(there)
        with pytest.raises(
            NotDamaged, match="none of the offsets 7 to 12 of orders/0 is damaged for group billing"
        ):
            await there.ref.call(SkipDamaged(GROUP, 7, 12))
        assert await there.ref.call(SkipDamaged(GROUP, 0, 12, dry_run=True)) == (1, 6, 40)
        assert await there.committed() == 6
        assert await there.ref.call(SkipDamaged(GROUP, 0, 12)) == (1, 6, 40)
        assert (await there.view()).progress.removed_unacked == 1
    async with desk(disk, SMALL) as there:
        assert await there.committed() == 40
    disk.flip_bit(path_of(0), *PLACE)
    async with desk(disk, SMALL) as there:
        assert await settle_all(there) == []


async def test_what_retention_removes_of_a_damaged_range_counts_as_not_acked(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk, SMALL) as there:
        await publish_forty(there)
        disk.flip_bit(path_of(0), *PLACE)
        await settle_all(there)
        await there.ref.call(DeleteBefore(20))
        progress = (await there.view()).progress
        assert (progress.committed, progress.removed_unacked, progress.damaged) == (40, 1, 0)
        await trio.sleep(61)


async def test_each_group_has_its_own_damage(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with desk(disk, SMALL) as there:
        await there.attach(OTHER)
        await publish_forty(there)
        await settle_all(there)
        disk.flip_bit(path_of(0), *PLACE)
        assert await settle_all(there, OTHER) == [*range(6), *range(7, 40)]
        assert (await there.committed(), await there.committed(OTHER)) == (40, 6)


async def test_the_order_of_keys_is_kept_on_both_sides_of_the_damage(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk, SMALL) as there:
        await there.attach(settings=LedgerSettings(key_order=True))
        for number in range(40):
            await there.publish(b"%02d" % number * 25, keys=[b"k"])
        disk.flip_bit(path_of(0), 1_230, 3)
        seen = await settle_all(there)
        progress = (await there.view()).progress
        assert (seen, progress.damaged) == ([each for each in range(40) if each != progress.committed], 1)
        disk.flip_bit(path_of(0), 1_230, 3)
        await there.wait(90)
        assert await settle_all(there) == [progress.committed]


async def test_repaired_messages_of_one_key_come_one_after_the_other(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk, SMALL) as there:
        await there.attach(settings=LedgerSettings(key_order=True))
        for number in range(20):
            await there.publish(*[b"%02d" % number * 25] * 2, keys=[b"k"] * 2)
        disk.flip_bit(path_of(0), *PLACE)
        await settle_all(there)
        progress = (await there.view()).progress
        assert progress.damaged == 2
        disk.flip_bit(path_of(0), *PLACE)
        await there.wait(90)
        for offset in (progress.committed, progress.committed + 1):
            taken = await there.take()
            assert offsets(taken) == [offset]
            assert await there.settle(taken) == ()


async def test_letters_under_way_that_cannot_be_read_wait_for_a_repair(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G5: they are not sent without their content."""
    async with desk(disk, SMALL) as there:
        await publish_forty(there)
        await there.settle(await there.take(10), Action.REJECT, runs=[run(6)])
        letters = await some_leaving(there)
        disk.flip_bit(path_of(0), *PLACE)
        assert await leaving(there) is None
        disk.flip_bit(path_of(0), *PLACE)
        there.heard.clear()
        await trio.sleep(61)
        assert there.heard
        assert await some_leaving(there) == letters
        await confirm(there, letters)


async def test_a_lost_segment_is_damage_also_where_no_lane_index_knows_what_was_in_it(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G5: with several lanes each goes where its index leads, and no index leads into a segment that is gone."""
    async with desk(disk, SMALL) as there:
        for number in range(60):
            await there.publish(b"%02d" % number * 20, lanes=[4 if number < 5 else 3 if number < 40 else 0])
    folder = path_of(0).rpartition("/")[0]
    bases = sorted(int(name[:20]) for name in disk.list(folder) if name.endswith(".log"))
    lost, behind = bases[1], bases[2]
    for name in disk.list(folder):
        if name.startswith(f"{lost:020}"):
            disk.remove(f"{folder}/{name}")
    async with desk(disk, SMALL) as there:
        seen = list[int]()
        while (taken := await there.take(7)).all_runs:
            seen += offsets(taken)
            await there.settle(taken)
        assert sorted(seen) == [*range(lost), *range(behind, 60)]
        view = await there.view()
        assert (view.progress.committed, view.progress.damaged) == (lost, behind - lost)
