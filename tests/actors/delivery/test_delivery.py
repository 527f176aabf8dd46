"""Members at a partition: what they are handed, what their receipts do, where a group begins (G4 to G7)."""

from random import Random

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from goqueue.actors.delivery.requests import AssignPartition, ForgetGroup, ReleaseMember, ResetLedger
from goqueue.actors.partition.requests import Produce
from goqueue.core.ledger.settings import LedgerSettings
from goqueue.core.ledger.settlements import Action
from goqueue.core.records.record import encode_record
from goqueue.errors import InvalidConfig, StaleGeneration, StaleReceipt, UnknownGroup
from goqueue.testing.clock import SimulatedClock
from goqueue.testing.disk import SimulatedDisk
from goqueue.types import Acks
from tests.actors.delivery.delivering import COMPANION, GROUP, OTHER, desk, held, offsets, run, values

SYNC_SECONDS = 1 / 128


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk(Random(0))
    disk.faults.sync_seconds = (SYNC_SECONDS, SYNC_SECONDS)
    return disk


# Handing out.


async def test_messages_are_handed_out_in_order_and_once(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    """G4, G7, O4"""
    async with desk(disk) as there:
        await there.publish(b"a", b"b")
        await there.publish(b"c")
        taken = await there.take()
        assert (taken.runs, values(taken)) == ((run(0, 2),), [b"a", b"b", b"c"])
        nothing = await there.take()
        assert (nothing.runs, nothing.data, nothing.nonce) == ((), b"", 0)


async def test_the_next_owner_goes_on_in_order(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    """O4: what the one before gave back unopened comes first."""
    async with desk(disk) as there:
        await there.publish(*[b"%d" % number for number in range(9)])
        taken = await there.take(5)
        await there.ref.call(AssignPartition(GROUP, "bob", 2))
        await there.settle(taken, Action.RELEASE, [run(3, 4)])
        found = await there.take(member="bob", generation=2)
        assert (offsets(found), [each.attempt for each in found.runs]) == ([3, 4, 5, 6, 7, 8], [1, 1])


async def test_what_failed_comes_later_than_what_was_handed_out_meanwhile(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """O5: be it nacked, or its lease over."""
    async with desk(disk) as there:
        await there.publish(*[b"%d" % number for number in range(9)])
        first = await there.take(2, visibility=5.0)
        await there.settle(first, Action.NACK, [run(1)], delay=6.0)
        assert offsets(await there.take(3)) == [2, 3, 4]
        await trio.sleep(7)
        assert offsets(await there.take(3)) == [0, 1, 5]


async def test_a_partition_without_groups_has_no_companion(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with desk(disk, attached=False) as there:
        await there.publish(b"a")
        assert not disk.exists(COMPANION)
        await there.attach()
        await trio.sleep(2)
        assert disk.exists(COMPANION)


async def test_the_number_of_messages_may_end_inside_a_batch(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk) as there:
        await there.publish(*[b"%d" % number for number in range(5)])
        taken = [await there.take(count) for count in (2, 2, 2)]
        assert [offsets(each) for each in taken] == [[0, 1], [2, 3], [4]]
        assert [values(each) for each in taken] == [[b"0", b"1"], [b"2", b"3"], [b"4"]]


async def test_batches_that_are_not_needed_are_not_sent(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with desk(disk) as there:
        for number in range(4):
            await there.publish(b"%d" % number)
        assert held(await there.take(2)) == [0, 1]


async def test_bytes_end_a_delivery_between_batches_but_one_batch_always_goes(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk) as there:
        for _ in range(3):
            await there.publish(b"x" * 1_000)
        assert offsets(await there.take(bytes_max=2_500)) == [0, 1]
        assert offsets(await there.take(bytes_max=1)) == [2]
        await there.publish(b"y")
        assert offsets(await there.take(bytes_max=0)) == []


async def test_only_what_is_durable_is_handed_out(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with desk(disk) as there:
        await there.publish(b"a", acks=Acks.LEADER)
        assert (await there.take()).runs == ()
        await trio.sleep(1.1)
        assert offsets(await there.take()) == [0]


async def test_groups_do_not_touch_each_other(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with desk(disk) as there:
        await there.attach(OTHER)
        await there.publish(b"a", b"b")
        first, second = await there.take(), await there.take(group=OTHER)
        assert values(first) == values(second) == [b"a", b"b"]
        assert await there.settle(first) == ()
        assert (await there.committed(), await there.committed(OTHER)) == (2, 0)
        assert await there.settle(first, group=OTHER) == first.runs


async def test_a_thousand_groups_have_each_their_own_progress(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk, attached=False) as there:
        names = [f"group-{number}" for number in range(1_000)]
        async with trio.open_nursery() as nursery:
            for name in names:
                nursery.start_soon(there.attach, name)
        await there.publish(b"a", b"b", b"c")
        for number, name in enumerate(names):
            taken = await there.take(1 + number % 3, group=name)
            assert await there.settle(taken, group=name) == ()
        assert [await there.committed(name) for name in names] == [1 + number % 3 for number in range(1_000)]


async def test_only_the_member_that_has_the_partition_takes_from_it(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G10: in the generation of its assignment, or in a later one in which it kept it."""
    async with desk(disk) as there:
        await there.publish(b"a")
        await there.ref.call(AssignPartition(GROUP, "ann", 5))
        for member, generation in (("bob", 5), ("ann", 4)):
            with pytest.raises(StaleGeneration):
                await there.take(member=member, generation=generation)
        assert offsets(await there.take(generation=6)) == [0]
        await there.ref.call(AssignPartition(GROUP, None, 7))
        with pytest.raises(StaleGeneration):
            await there.take(generation=7)


async def test_in_a_shared_group_everybody_takes_and_nobody_gets_the_same(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G7, O7"""
    async with desk(disk, attached=False) as there:
        await there.attach(is_shared=True, member=None)
        await there.publish(*[b"x"] * 6)
        taken = [await there.take(2, member=member, generation=0) for member in ("ann", "bob", "cid")]
        assert [offsets(each) for each in taken] == [[0, 1], [2, 3], [4, 5]]


async def test_a_group_that_does_not_read_here_is_told(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with desk(disk) as there:
        with pytest.raises(UnknownGroup):
            await there.take(group="nobody")
        with pytest.raises(UnknownGroup):
            await there.wait(group="nobody")
        with pytest.raises(UnknownGroup):
            await there.ref.call(AssignPartition("nobody", "ann", 1))


async def test_a_repeated_attachment_changes_nothing_but_the_settings(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk) as there:
        await there.publish(b"a", b"b")
        taken = await there.take(1)
        await there.attach(start="latest", settings=LedgerSettings(max_deliveries=1))
        assert await there.settle(taken, Action.NACK) == ()
        assert (await there.view()).progress.leaving == 1
        assert offsets(await there.take()) == [1]


# Settling.


async def test_acks_move_the_groups_progress_and_a_repeated_one_succeeds(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G5, G6"""
    async with desk(disk) as there:
        await there.publish(*[b"x"] * 4)
        taken = await there.take()
        assert await there.settle(taken, runs=[run(1, 3)]) == ()
        assert await there.committed() == 0
        assert await there.settle(taken, runs=[run(0)]) == ()
        assert await there.committed() == 4
        assert await there.settle(taken) == ()


async def test_stale_receipts_are_named_and_change_nothing(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    """G6: the good ones of the same call are settled."""
    async with desk(disk) as there:
        await there.publish(b"a", b"b", b"c")
        taken = await there.take(2)
        assert await there.settle(taken, runs=[run(1, 2), run(0, attempt=2)]) == (run(2), run(0, attempt=2))
        assert (await there.view()).progress.in_flight == 1
        assert await there.settle(taken, Action.NACK, runs=[run(1)]) == (run(1),)


async def test_a_nacked_message_comes_again_after_its_delay(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with desk(disk) as there:
        await there.publish(b"a")
        await there.settle(await there.take(), Action.NACK, delay=7.0)
        assert (await there.take()).runs == ()
        assert await there.wait() == pytest.approx(7.0)
        assert (await there.take()).runs == (run(0, attempt=2),)


async def test_a_nack_without_delay_waits_for_the_backoff(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with desk(disk) as there:
        await there.publish(b"a")
        await there.settle(await there.take(), Action.NACK)
        assert await there.wait() == pytest.approx(1.0)
        await there.settle(await there.take(), Action.NACK)
        assert await there.wait() == pytest.approx(2.0)


async def test_a_released_message_comes_again_at_once_and_uncounted(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk) as there:
        await there.publish(b"a")
        await there.settle(await there.take(), Action.RELEASE)
        assert (await there.take()).runs == (run(0),)


async def test_a_lease_that_ends_hands_the_message_to_another(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G6, G7: and the receipt is stale from that moment on."""
    async with desk(disk) as there:
        await there.publish(b"a")
        taken = await there.take(visibility=10.0)
        assert await there.wait(member="ann") == pytest.approx(10.0)
        assert await there.settle(taken) == (run(0),)
        assert (await there.take()).runs == (run(0, attempt=2),)


async def test_an_extended_lease_ends_later(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with desk(disk) as there:
        await there.publish(b"a", b"b")
        taken = await there.take(visibility=10.0)
        await trio.sleep(9)
        assert await there.settle(taken, Action.EXTEND, runs=(), delay=20.0) == ()
        await trio.sleep(19)
        assert await there.settle(taken) == ()


async def test_the_extension_of_a_delivery_that_has_ended_is_refused(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk) as there:
        await there.publish(b"a")
        taken = await there.take(visibility=1.0)
        await trio.sleep(1)
        with pytest.raises(StaleReceipt):
            await there.settle(taken, Action.EXTEND, runs=(), delay=20.0)


async def test_a_member_that_leaves_gives_everything_back_uncounted(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk, attached=False) as there:
        await there.attach(is_shared=True)
        await there.publish(*[b"x"] * 4)
        await there.take(1)
        await there.take(1, member="bob")
        await there.take(1)
        await there.ref.call(ReleaseMember(GROUP, "ann"))
        assert (await there.take(member="bob")).runs == (run(0), run(2), run(3))


async def test_a_member_that_has_left_is_given_nothing_more(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    """What it had asked for before would be under a lease that nobody knows of."""
    async with desk(disk) as there:
        await there.publish(*[b"x"] * 4)
        await there.take(1)
        await there.ref.call(ReleaseMember(GROUP, "ann", has_left=True))
        with pytest.raises(StaleGeneration):
            await there.take(1)
        await there.ref.call(AssignPartition(GROUP, "bob", 2))
        assert (await there.take(member="bob", generation=2)).runs == (run(0), run(1, 3))


async def test_the_last_delivery_after_lost_ones_is_made_alone(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk) as there:
        await there.publish(b"poison", b"good")
        for _ in range(2):
            await there.take(visibility=1.0)
            await trio.sleep(1)
        busy = await there.take(is_busy=True)
        assert (busy.runs, busy.alone_waits) == ((), True)
        alone = await there.take()
        assert (alone.runs, alone.is_alone) == ((run(0, attempt=3),), True)
        assert (await there.take()).runs == ()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(there.wait)
            await wait_all_tasks_blocked()
            assert await there.settle(alone) == ()
        assert (await there.take()).runs == (run(1, attempt=3),)


# Where a group begins.


@pytest.mark.parametrize(
    ("start", "first"),
    [
        ("earliest", 0),
        ("latest", 6),
        ("offset:4", 4),
        ("offset:99", 6),
        ("time:20", 2),
        ("time:99", 6),
        ("time:0", 0),
    ],
)
async def test_a_group_begins_where_it_wants_to(
    start: str, first: int, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk, attached=False) as there:
        for time in (10, 20, 30):
            body = encode_record(0, time, b"a") + encode_record(1, time, b"b")
            await there.ref.call(Produce(body, 2))
        await there.attach(start=start)
        await there.publish(b"later")
        assert offsets(await there.take()) == list(range(first, 7))


async def test_a_start_that_means_nothing_is_refused(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    """G14"""
    async with desk(disk, attached=False) as there:
        for start in ("soon", "offset:-1", "offset:x", "time:", "offset:" + "9" * 30):
            with pytest.raises(InvalidConfig):
                await there.attach(start=start)


async def test_a_reset_begins_again_elsewhere_and_a_dry_run_only_says_where(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk) as there:
        await there.publish(*[b"x"] * 6)
        taken = await there.take(4)
        await there.settle(taken, runs=[run(0, 1)])
        assert await there.ref.call(ResetLedger(GROUP, "latest", dry_run=True)) == (2, 6)
        assert offsets(await there.take(1)) == [4]
        assert await there.ref.call(ResetLedger(GROUP, "offset:1")) == (2, 1)
        assert await there.settle(taken) == (run(0, 3),)
        assert offsets(await there.take()) == [1, 2, 3, 4, 5]


async def test_a_group_that_was_deleted_and_made_again_begins_anew(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk) as there:
        await there.publish(b"a")
        await there.settle(await there.take())
        await there.attach(group_id=8)
        assert offsets(await there.take()) == [0]
        await there.ref.call(ForgetGroup(GROUP, 7))  # the one before: it is gone already
        assert await there.committed() == 0
        await there.ref.call(ForgetGroup(GROUP, 8))
        await there.ref.call(ForgetGroup(GROUP, 8))
        with pytest.raises(UnknownGroup):
            await there.take()


# What operators see.


async def test_a_view_counts_what_is_not_done(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    clock = SimulatedClock()
    async with desk(disk, clock=clock) as there:
        await there.publish(*[b"x"] * 10)
        await trio.sleep(2)
        taken = await there.take(6)
        await there.settle(taken, runs=[run(0, 1)])
        await there.settle(taken, Action.NACK, runs=[run(2)])
        await there.settle(taken, Action.REJECT, runs=[run(3)])
        view = await there.view()
        progress = view.progress
        assert (progress.committed, view.end, view.lag) == (2, 10, 8)
        assert (progress.in_flight, progress.waiting, progress.leaving) == (2, 1, 1)
        assert view.oldest_unacked_ms == pytest.approx(2_000, abs=20)
        await there.ref.call(ResetLedger(GROUP, "latest"))
        view = await there.view()
        assert (view.lag, view.oldest_unacked_ms) == (0, None)
