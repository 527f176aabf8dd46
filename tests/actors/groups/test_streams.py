"""Streams in a group: what its partitions are told, who commits from outside, and what a reset does to members."""

from random import Random
from uuid import UUID

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from goqueue.actors.delivery.requests import AttachGroup, CommitOffset, ResetLedger
from goqueue.actors.groups.requests import Alter, CommitFromOutside, OutsideCommit, ResetOffsets
from goqueue.errors import GroupConflict, PartitionUnavailable, Unavailable, UnknownMember, UnknownTopic
from goqueue.testing.disk import SimulatedDisk
from tests.actors.groups.groupstage import Stage, description, heartbeat, join, on_stage, parts


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(Random(0))


def outside(stage: Stage, **offsets: int) -> CommitFromOutside:
    """`p1=5`: offset 5 of partition 1 of orders."""
    uuid = stage.topics["orders"].uuid
    return CommitFromOutside(
        tuple(OutsideCommit(uuid, int(name.removeprefix("p")), offset) for name, offset in offsets.items())
    )


async def test_partitions_are_told_that_they_are_read_as_a_stream(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with on_stage(disk) as stage:
        await stage.create("orders", 1)
        group = await stage.group()
        await group.call(join("ann", "orders", mode="stream"))
        [(_, told)] = stage.script.of(AttachGroup)
        assert (told.is_stream, told.member) == (True, "ann")
        await group.call(Alter({"mode": "queue"}, force=True))
        assert [told.is_stream for _, told in stage.script.of(AttachGroup)] == [True, False]


async def test_a_partition_is_another_members_only_when_its_owner_let_go(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """An owner that is asked to let go is the owner until it confirms, by the generation that asked it."""
    async with on_stage(disk) as stage:
        await stage.create("orders", 2)
        group = await stage.group()
        ann = await group.call(join("ann", "orders", mode="stream"))
        bob = await group.call(join("bob", "orders", mode="stream"))
        assert (len(ann.assignment), bob.assignment) == (2, ())
        asked = await group.call(heartbeat(ann))
        [moving] = [(each.topic, each.partition) for each in asked.revoked]
        assert (await group.call(heartbeat(ann))) == asked  # it stays alive, and is told again
        assert stage.script.owner(*moving) == "ann"
        await group.call(heartbeat(asked, 0.1))
        assert stage.script.owner(*moving) == "bob"
        assert parts(await group.call(heartbeat(bob))) == [moving]


async def test_readers_outside_make_a_stream_and_commit_to_it(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with on_stage(disk) as stage:
        await stage.create("orders", 3)
        group = await stage.group()
        assert await group.call(outside(stage, p0=4, p2=9)) == (None, None)
        assert dict(stage.script.of(CommitOffset)) == {
            ("orders", 0): CommitOffset("billing", None, 0, 4),
            ("orders", 2): CommitOffset("billing", None, 0, 9),
        }
        assert all(told.is_stream for _, told in stage.script.of(AttachGroup))
        assert (await description(group)).settings["mode"] == "stream"
        killed = disk.kill()
    async with on_stage(killed, stage) as again:
        group = await again.group()
        assert (await description(group)).settings["mode"] == "stream"


async def test_what_readers_outside_cannot_commit_is_said_for_each(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with on_stage(disk) as stage:
        await stage.create("orders", 2)
        group = await stage.group()
        with pytest.raises(UnknownTopic):
            await group.call(CommitFromOutside((OutsideCommit(UUID(int=1), 0, 0),)))
        stage.script.refusing["orders", 1] = PartitionUnavailable("its disk is gone")
        good, bad, unknown = await group.call(outside(stage, p0=1, p1=1, p7=1))
        assert (good, type(bad), unknown and unknown.code) == (None, Unavailable, "unknown_partition")
        del stage.script.refusing["orders", 1]
        assert await group.call(outside(stage, p1=1)) == (None,)


async def test_members_and_queues_stand_against_commits_from_outside(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with on_stage(disk) as stage:
        await stage.create("orders", 1)
        streaming, queueing = await stage.group(), await stage.group("queue")
        await streaming.call(join("ann", "orders", mode="stream"))
        with pytest.raises(GroupConflict, match="1 members"):
            await streaming.call(outside(stage, p0=1))
        await queueing.call(Alter({"mode": "queue", "max_deliveries": 5}, force=False))
        with pytest.raises(GroupConflict, match="queue"):
            await queueing.call(outside(stage, p0=1))
        assert stage.script.of(CommitOffset) == []


async def test_a_reset_by_force_expels_the_members_of_a_stream_first(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """None of them commits behind the reset; a queue's members go on."""
    async with on_stage(disk) as stage, trio.open_nursery() as nursery:
        await stage.create("orders", 1)
        group = await stage.group()
        held = await group.call(join("ann", "orders", mode="stream"))
        refused: list[UnknownMember] = []

        async def beat() -> None:
            try:
                await group.call(heartbeat(held, 30.0))
            except UnknownMember as error:
                refused.append(error)

        nursery.start_soon(beat)
        await wait_all_tasks_blocked()
        await group.call(ResetOffsets(None, None, "earliest", dry_run=True, force=False))
        assert refused == []
        await group.call(ResetOffsets(None, None, "earliest", dry_run=False, force=True))
        await wait_all_tasks_blocked()
        assert len(refused) == 1
        kinds = [type(message).__name__ for _, message in stage.script.heard]
        assert kinds.index("AssignPartition") < len(kinds) - 1 - kinds[::-1].index(ResetLedger.__name__)
        assert stage.script.owner("orders", 0) is None
        again = await group.call(join("ann", "orders", mode="stream"))
        assert again.generation > held.generation
