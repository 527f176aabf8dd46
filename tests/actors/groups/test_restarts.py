"""A group after a restart of its broker: its members keep what they had, and nobody else waits for them."""

from random import Random

import pytest
import trio
from trio.testing import MockClock

from goqueue.actors.groups.requests import Leave, RemoveGroup
from goqueue.testing.disk import SimulatedDisk
from tests.actors.groups.groupstage import Stage, description, heartbeat, join, on_stage, parts


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(Random(0))


async def owners(stage: Stage, count: int) -> list[str | None]:
    await trio.sleep(0.1)
    return [stage.script.owner("orders", number) for number in range(count)]


@pytest.mark.parametrize("mode", ["queue", "stream"])
@pytest.mark.parametrize("ending", ["kill", "crash", "stop"])
async def test_members_that_come_back_keep_their_partitions(
    disk: SimulatedDisk, autojump_clock: MockClock, mode: str, ending: str
) -> None:
    """G10, §5"""
    async with on_stage(disk) as stage:
        await stage.create("orders", 4)
        group = await stage.group()
        ann = await group.call(join("ann", "orders", mode=mode))
        bob = await group.call(join("bob", "orders", mode=mode))
        if mode == "stream":
            ann = await group.call(heartbeat(ann))
            await group.call(heartbeat(ann, 0))
            bob = await group.call(heartbeat(bob))
        else:
            ann = await group.call(heartbeat(ann, 0))
        assert [len(parts(each)) for each in (ann, bob)] == [2, 2]
        await trio.sleep(2)
        image = disk.kill() if ending == "kill" else disk.crash() if ending == "crash" else None
    stage.script.heard.clear()
    async with on_stage(image or disk.kill(), stage) as after:
        group = await after.group()
        back = await group.call(join("bob", "orders", mode=mode))
        assert (parts(back), back.revoked) == (parts(bob), ())
        await trio.sleep(4)
        assert sorted(filter(None, await owners(after, 4))) == ["ann", "ann", "bob", "bob"]
        again = await group.call(join("ann", "orders", mode=mode))
        assert (parts(again), again.revoked) == (parts(ann), ())
        assert (await group.call(heartbeat(back, 0))).generation == back.generation  # nothing happened to bob


async def test_who_does_not_come_back_is_waited_for_five_seconds(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with on_stage(disk) as stage:
        await stage.create("orders", 1)
        await (await stage.group()).call(join("ann", "orders"))
        await trio.sleep(2)
        image = disk.kill()
    async with on_stage(image, stage) as after:
        group = await after.group()
        bob = await group.call(join("bob", "orders"))
        assert parts(bob) == []
        assert [each.member for each in (await description(group)).members] == ["ann", "bob"]
        before = trio.current_time()
        got = await group.call(heartbeat(bob, 10))
        assert parts(got) == [("orders", 0)]
        assert 4 < trio.current_time() - before < 5.5


async def test_nobody_is_waited_for_who_had_left(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    """§5: the first delivery comes within a second. Also when the broker is killed in the moment after."""
    async with on_stage(disk) as stage:
        await stage.create("orders", 2)
        group = await stage.group()
        await group.call(join("ann", "orders"))
        await trio.sleep(2)
        await group.call(Leave("ann"))
        image = disk.crash()
    async with on_stage(image, stage) as after:
        assert len(parts(await (await after.group()).call(join("bob", "orders")))) == 2


async def test_a_group_whose_members_have_not_come_back_is_deleted_as_one_without_members(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with on_stage(disk) as stage:
        await stage.create("orders", 2)
        await (await stage.group()).call(join("ann", "orders"))
        await trio.sleep(2)
        image = disk.kill()
    async with on_stage(image, stage) as after:
        await after.groups.call(RemoveGroup("billing"))
        assert len(parts(await (await after.group()).call(join("bob", "orders")))) == 2


async def test_what_is_remembered_is_written_when_it_changes_and_not_with_every_heartbeat(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with on_stage(disk) as stage:
        await stage.create("orders", 2)
        group = await stage.group()
        ann = await group.call(join("ann", "orders"))
        await trio.sleep(20)  # the metadata also claims what is durable, a moment later
        writes = disk.counts.writes
        for _ in range(20):
            await group.call(heartbeat(ann))
        assert disk.counts.writes == writes
