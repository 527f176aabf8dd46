"""Streams at a partition: who may commit, which offsets, and what stays of it after a kill or a power loss."""

from random import Random

import pytest
import trio
from trio.testing import MockClock

from goqueue.actors.delivery.requests import (
    AssignPartition,
    AttachGroup,
    AwaitDeliverable,
    CommitOffset,
    CommittedOffset,
    ReleaseMember,
    ResetLedger,
)
from goqueue.actors.partition.requests import DeleteBefore
from goqueue.core.ledger.settings import LedgerSettings
from goqueue.errors import GroupConflict, OffsetOutOfRange, StaleGeneration, UnknownGroup
from goqueue.testing.disk import SimulatedDisk
from tests.actors.delivery.delivering import GROUP, OTHER, Desk, desk


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(Random(0))


async def attach(there: Desk, member: str | None = "ann", generation: int = 1, start: str = "earliest") -> None:
    await there.ref.call(
        AttachGroup(
            GROUP, 7, LedgerSettings(), start, there.listener, member, generation, is_shared=False, is_stream=True
        )
    )


async def commit(there: Desk, offset: int, member: str | None = "ann", generation: int = 1) -> None:
    await there.ref.call(CommitOffset(GROUP, member, generation, offset))


async def committed(there: Desk) -> int:
    return (await there.ref.call(CommittedOffset(GROUP))).offset


async def test_a_stream_begins_where_it_was_told_and_goes_on_where_it_committed(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk, attached=False) as there:
        await there.publish(*[b"x"] * 10)
        await attach(there, start="offset:4")
        assert await committed(there) == 4
        for offset in (9, 2, 10, 0):
            await commit(there, offset)
            assert await committed(there) == offset
        view = await there.view()
        assert (view.lag, view.progress.in_flight) == (10, 0)
        await commit(there, 7)
        assert (await there.view()).lag == 3


async def test_only_the_owner_commits_also_one_that_is_to_let_go(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """Stale generation accepted on poll or commit."""
    async with desk(disk, attached=False) as there:
        await there.publish(*[b"x"] * 10)
        await attach(there, "ann", generation=3)
        await commit(there, 2, "ann", generation=5)  # it kept the partition, and knows a later one
        for member, generation in (("bob", 5), ("ann", 2)):
            with pytest.raises(StaleGeneration):
                await commit(there, 9, member, generation)
        await there.ref.call(AssignPartition(GROUP, "bob", 6))
        with pytest.raises(StaleGeneration):
            await commit(there, 9, "ann", generation=5)
        await commit(there, 4, "bob", generation=6)
        await there.ref.call(AssignPartition(GROUP, "ann", 8))  # and back: what it says late is of before
        with pytest.raises(StaleGeneration):
            await commit(there, 9, "ann", generation=5)
        await there.ref.call(ReleaseMember(GROUP, "ann", has_left=True))
        with pytest.raises(StaleGeneration):
            await commit(there, 9, "ann", generation=8)
        assert await committed(there) == 4


async def test_offsets_behind_the_end_are_refused_and_those_that_are_gone_are_the_start(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk, attached=False) as there:
        await there.publish(*[b"x"] * 10)
        await attach(there)
        with pytest.raises(OffsetOutOfRange) as refused:
            await commit(there, 11)
        assert refused.value.details == {"start": 0, "end": 10}
        await there.ref.call(DeleteBefore(6))
        assert await committed(there) == 6
        await commit(there, 3)
        assert await committed(there) == 6
        await commit(there, 10)
        assert await committed(there) == 10


async def test_a_stream_is_not_taken_from_and_a_queue_not_committed_to(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk, attached=False) as there:
        await there.publish(b"x")
        await attach(there)
        await there.attach(OTHER)
        before = trio.current_time()
        await there.ref.call(AwaitDeliverable(GROUP, "ann", before + 30))
        assert trio.current_time() == before  # it hears at once what is wrong
        with pytest.raises(GroupConflict, match="commit"):
            await there.take()
        with pytest.raises(GroupConflict, match="ack"):
            await there.ref.call(CommitOffset(OTHER, "ann", 1, 1))
        with pytest.raises(GroupConflict, match="ack"):
            await there.ref.call(CommitOffset(OTHER, None, 0, 1))
        for message in (CommitOffset("none", "ann", 1, 1), CommittedOffset("none")):
            with pytest.raises(UnknownGroup):
                await there.ref.call(message)
        assert await there.committed(OTHER) == 0


async def test_commits_outlive_a_kill_and_owners_do_not(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with desk(disk, attached=False) as there:
        await there.publish(*[b"x"] * 10)
        await attach(there)
        await commit(there, 6)
        await commit(there, 4)
        killed = disk.kill()
    async with desk(killed, attached=False) as there:
        assert await committed(there) == 4
        with pytest.raises(StaleGeneration):
            await commit(there, 9)
        await attach(there, generation=1_001)
        assert await committed(there) == 4
        with pytest.raises(StaleGeneration):
            await commit(there, 9, generation=1)
        await commit(there, 9, generation=1_001)


@pytest.mark.parametrize("seed", range(10))
async def test_after_a_power_loss_the_group_stands_where_it_once_did(seed: int, autojump_clock: MockClock) -> None:
    """What was synced is there, a second later at most; of what came behind, perhaps a part."""
    disk = SimulatedDisk(Random(seed))
    async with desk(disk, attached=False) as there:
        await there.publish(*[b"x"] * 100)
        await attach(there)
        await commit(there, 20)
        await trio.sleep(2)
        for offset in (30, 25, 40):
            await commit(there, offset)
        crashed = disk.crash()
    async with desk(crashed, attached=False) as there:
        assert await committed(there) in (20, 30, 25, 40)


async def test_a_reset_moves_a_stream_too(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with desk(disk, attached=False) as there:
        await there.publish(*[b"x"] * 10)
        await attach(there)
        await commit(there, 6)
        assert await there.ref.call(ResetLedger(GROUP, "offset:2")) == (6, 2)
        assert await there.ref.call(CommittedOffset(GROUP)) == (2, 1)
        assert await there.ref.call(ResetLedger(GROUP, "offset:9", dry_run=True)) == (2, 9)
        assert await there.ref.call(ResetLedger(GROUP, "offset:2")) == (2, 2)
        assert await there.ref.call(CommittedOffset(GROUP)) == (2, 2)
