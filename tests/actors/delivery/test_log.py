"""What lies in the log and is not for a group, or no longer: passed over, counted, never in the way (G3, G5)."""

from random import Random

import pytest
import trio
from trio.testing import MockClock

from goqueue.actors.delivery.requests import Taken
from goqueue.actors.partition.requests import DeleteBefore, Maintain, Produce
from goqueue.config import HOUR, LogConfig
from goqueue.core.ledger.settlements import Action
from goqueue.core.records.batch import Attribute, compress
from goqueue.core.records.record import EXPIRES_AT, EXPIRES_AT_HEADER, Flag, encode_record
from goqueue.errors import DiskFull
from goqueue.testing.clock import SimulatedClock
from goqueue.testing.disk import SimulatedDisk
from tests.actors.delivery.delivering import GROUP, OTHER, Desk, desk, held, offsets, run, values
from tests.storage.journals.crashes import leave_room
from tests.storage.logs import SMALL, path_of


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(Random(0))


async def publish_mixed(there: Desk, *records: bytes, attributes: int = 0) -> None:
    body = b"".join(records)
    body = compress(body) if attributes & Attribute.ZSTD else body
    await there.ref.call(Produce(body, len(records), attributes, by_broker=True))


def expiring(relative: int, expires_at: int) -> bytes:
    return encode_record(relative, 1, b"x", headers={EXPIRES_AT_HEADER: EXPIRES_AT.pack(expires_at)})


def meant_for(relative: int, group: str) -> bytes:
    return encode_record(relative, 1, b"x", headers={"goqueue-for-group": group.encode()}, flags=Flag.FOR_ONE_GROUP)


async def settle_all(there: Desk, group: str = GROUP) -> list[int]:
    """Take and ack until nothing is left."""
    seen: list[int] = []
    while (taken := await there.take(group=group)).all_runs:
        seen += offsets(taken)
        assert await there.settle(taken, group=group) == ()
    return seen


async def test_delayed_originals_and_control_records_are_passed_over(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G3: they hold no progress."""
    async with desk(disk) as there:
        delayed, plain = encode_record(0, 1, b"x", due=5), encode_record(1, 1, b"y")
        await publish_mixed(there, delayed, plain, encode_record(2, 1, b"z", due=5))
        await publish_mixed(there, encode_record(0, 1, b"c", flags=Flag.CONTROL), attributes=Attribute.CONTROL)
        assert await settle_all(there) == [1]
        assert await there.committed() == 4


async def test_what_has_expired_is_passed_over(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    clock = SimulatedClock()
    async with desk(disk, clock=clock) as there:
        now = clock.now()
        await publish_mixed(there, expiring(0, now - 1), expiring(1, now + 10_000_000), encode_record(2, 1, b"z"))
        assert await settle_all(there) == [1, 2]


async def test_what_expires_before_it_comes_again_is_passed_over(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    clock = SimulatedClock()
    async with desk(disk, clock=clock) as there:
        await publish_mixed(there, expiring(0, clock.now() + 5_000_000), encode_record(1, 1, b"z"))
        await there.settle(await there.take(), Action.NACK, delay=6.0)
        await trio.sleep(6)
        assert (await there.take()).runs == (run(1, attempt=2),)
        assert await there.committed() == 1


async def test_a_message_for_one_group_is_passed_over_by_the_others(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk) as there:
        await there.attach(OTHER)
        await publish_mixed(there, meant_for(0, "billing"), meant_for(1, OTHER), encode_record(2, 1, b"z"))
        assert offsets(await there.take()) == [0, 2]
        assert offsets(await there.take(group=OTHER)) == [1, 2]


async def test_a_long_stretch_without_anything_to_hand_out_does_not_end_the_search(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk, SMALL) as there:
        for _ in range(100):
            await publish_mixed(there, *[encode_record(number, 1, b"x", due=5) for number in range(4)])
        await there.publish(b"at last")
        while not (taken := await there.take(bytes_max=500)).runs:
            assert await there.wait(30) == 0
        assert values(taken) == [b"at last"]


async def test_compacted_records_are_passed_over(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with desk(disk, SMALL) as there:
        for _ in range(50):
            body = encode_record(0, 1, b"v" * 50, key=b"k") + encode_record(1, 1, b"v", key=None)
            await there.ref.call(Produce(body, 2))
        first = await there.take(4)
        await there.settle(first, Action.NACK, delay=0.0)
        await there.ref.call(Maintain(compact=True))
        seen = await settle_all(there)
        assert {offset for offset in seen if offset < 40} == set(range(1, 40, 2))
        assert await there.committed() == 100


async def test_a_damaged_range_among_returned_messages_is_gone_round(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G5: a range that nobody can read holds up nothing but the committed offset."""
    async with desk(disk, SMALL) as there:
        for number in range(40):
            await there.publish(b"%02d" % number * 25)
        taken = await there.take(12)
        await there.settle(taken, Action.RELEASE, runs=[run(3), run(6), run(8)])
        disk.flip_bit(path_of(0), 1_200, 3)  # in the batch of offset 6
        again = await there.take(2)
        assert (offsets(again), (await there.view()).progress.ready_again) == ([3, 8], 0)
        assert await there.settle(taken, runs=[run(0, 2), run(4, 5), run(7)]) == ()
        assert await there.settle(again) == ()
        assert await there.committed() == 6


async def test_scattered_messages_come_again_in_batches_that_hold_no_others(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk) as there:
        for zstd in (0, int(Attribute.ZSTD)):
            await publish_mixed(there, *[encode_record(n, n, b"%d" % n) for n in range(10)], attributes=zstd)
        taken = await there.take()
        wanted = [run(1), run(4, 5), run(9, 10), run(17)]
        await there.settle(taken, Action.RELEASE, runs=wanted)
        again = await there.take()
        assert again.runs == tuple(wanted)
        assert held(again) == [1, 4, 5, 9, 10, 17]
        assert values(again) == [b"1", b"4", b"5", b"9", b"0", b"7"]


async def test_a_batch_that_holds_fresh_and_returned_messages_shows_each_once(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk) as there:
        await there.publish(*[b"%d" % number for number in range(6)])
        taken = await there.take(3)
        await there.settle(taken, Action.NACK, runs=[run(1)], delay=0.0)
        both = await there.take()
        assert both.runs == (run(1, attempt=2), run(3, 5))
        assert held(both) == [0, 1, 2, 3, 4, 5]  # the whole batch, once: the runs say what of it is delivered
        assert values(both) == [b"1", b"3", b"4", b"5"]


async def test_what_comes_again_of_a_batch_that_is_used_up_comes_before_what_is_fresh(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """O5"""
    async with desk(disk) as there:
        await there.publish(b"0", b"1", b"2")
        taken = await there.take(3)
        await there.publish(b"3", b"4")
        await there.settle(taken, Action.NACK, runs=[run(1)], delay=0.0)
        both = await there.take()
        assert both.runs == (run(1, attempt=2), run(3, 4))
        assert values(both) == [b"1", b"3", b"4"]


async def test_very_scattered_messages_come_again_over_some_deliveries(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk, LogConfig(segment_bytes=100_000)) as there:
        for _ in range(60):
            await there.publish(*[b"x" * 700] * 100)
        everything: list[Taken] = []
        while (taken := await there.take(1_000, bytes_max=10_000_000)).runs:
            everything.append(taken)
        for taken in everything:
            odd = [run(offset) for offset in offsets(taken) if offset % 100 == 50]
            await there.settle(taken, Action.RELEASE, runs=odd)
        await there.publish(b"fresh")
        seen: list[int] = []
        while (taken := await there.take(1_000)).runs:
            assert held(taken) == offsets(taken)
            seen += offsets(taken)
        assert seen == [*range(50, 6_000, 100), 6_000]  # O5: what is fresh waits for them all


# Retention.


async def test_what_is_deleted_before_a_group_was_done_with_it_is_counted_and_told(
    disk: SimulatedDisk, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """G5"""
    async with desk(disk) as there:
        await there.publish(*[b"x"] * 10)
        taken = await there.take(4)
        await there.settle(taken, runs=[run(0, 1)])
        await there.ref.call(DeleteBefore(6))
        progress = (await there.view()).progress
        assert (progress.committed, progress.removed_unacked, progress.in_flight) == (6, 4, 0)
        assert await there.settle(taken, runs=[run(2)]) == (run(2),)
        assert offsets(await there.take()) == [6, 7, 8, 9]
        assert "4 messages below offset 6" in caplog.text


async def test_a_deletion_that_a_full_disk_refuses_takes_nothing_from_a_group(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk) as there:
        await there.publish(*[b"x"] * 10)
        await there.take(4)
        leave_room(disk, 0)
        with pytest.raises(DiskFull):
            await there.ref.call(DeleteBefore(6))
        leave_room(disk, 1_000_000)
        assert offsets(await there.take(1)) == [4]
        assert (await there.view()).progress.removed_unacked == 0
        await there.ref.call(DeleteBefore(6))
        assert offsets(await there.take()) == [6, 7, 8, 9]
        assert (await there.view()).progress.removed_unacked == 6


async def test_retention_takes_what_is_ready_waiting_or_leaving_along(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    clock = SimulatedClock()
    async with desk(disk, LogConfig(segment_age=HOUR, retention_age=HOUR), clock) as there:
        await there.publish(*[b"x"] * 4)
        taken = await there.take(3)
        for action, offset in ((Action.NACK, 0), (Action.RELEASE, 1), (Action.REJECT, 2)):
            await there.settle(taken, action, runs=[run(offset)])
        clock.step(2 * HOUR)
        await there.publish(b"new")
        await there.ref.call(Maintain(compact=False))
        progress = (await there.view()).progress
        assert (progress.committed, progress.waiting, progress.ready_again, progress.leaving) == (4, 0, 0, 0)
        assert offsets(await there.take()) == [4]


async def test_a_group_is_told_of_removals_at_the_next_start_too(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk, SMALL) as there:
        for _ in range(60):
            await there.publish(b"x" * 50)
        await there.take(3)
    async with desk(disk, SMALL, attached=False) as there:
        await there.ref.call(DeleteBefore(40))
        await there.attach()
        assert (await there.view()).progress.removed_unacked == 40
        assert offsets(await there.take(1)) == [40]
