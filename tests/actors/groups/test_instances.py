"""A consumer that comes in the place of another, as the same member: what groups and partitions make of it."""

from random import Random

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from goqueue.actors.delivery.requests import AssignPartition, ReleaseMember, ReplaceMember
from goqueue.actors.groups.requests import Alter, CheckEmpty, Leave
from goqueue.errors import Fenced, GroupConflict, StaleGeneration, Unavailable, UnknownMember
from goqueue.testing.disk import SimulatedDisk
from tests.actors.delivery.delivering import GROUP, desk, run
from tests.actors.groups.groupstage import description, heartbeat, join, on_stage, parts
from tests.actors.runtime.troupe import start_call


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(Random(0))


# The group


async def test_the_newest_consumer_has_the_place_and_the_one_before_hears_so(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with on_stage(disk) as stage, trio.open_nursery() as nursery:
        await stage.create("orders", 4)
        group = await stage.group()
        bob = await group.call(join("bob", "orders", connection=2))
        ann = await group.call(join("ann", "orders", static=True, instance=1))
        bob = await group.call(heartbeat(bob, 0.01, 2))
        bob = await group.call(heartbeat(bob, 0.01, 2))
        waiting = start_call(nursery, group, heartbeat(ann, instance=1))
        quiet = start_call(nursery, group, heartbeat(bob, connection=2))
        await wait_all_tasks_blocked()
        owners = len(stage.script.of(AssignPartition))
        again = await group.call(join("ann", "orders", static=True, connection=3, instance=2))
        assert (again.generation, parts(again)) == (ann.generation, parts(ann))
        await wait_all_tasks_blocked()
        assert isinstance(waiting.error, Fenced)
        assert not quiet.done, "nobody else hears anything"
        assert len(stage.script.of(AssignPartition)) == owners
        replaced = stage.script.of(ReplaceMember)
        assert sorted(place for place, _ in replaced) == parts(ann)
        assert {each for _, each in replaced} == {ReplaceMember("billing", "ann", 2, 1)}
        for late in (heartbeat(ann, instance=1), Leave("ann", 1)):
            with pytest.raises(Fenced, match="member_id of its own"):
                await group.call(late)
        assert await group.call(heartbeat(again, 0.01, 3, 2)) == again


async def test_a_partition_that_cannot_be_reached_does_not_keep_a_consumer_from_its_place(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with on_stage(disk) as stage:
        await stage.create("orders", 2)
        group = await stage.group()
        ann = await group.call(join("ann", "orders", static=True, instance=1))
        stage.script.refusing["orders", 0] = Unavailable("not now")
        again = await group.call(join("ann", "orders", static=True, instance=2))
        assert parts(again) == parts(ann)
        assert [place for place, _ in stage.script.of(ReplaceMember)] == [("orders", 1)]


async def test_who_closes_and_keeps_its_place_is_away_and_nobody_else_hears_of_it(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with on_stage(disk) as stage, trio.open_nursery() as nursery:
        await stage.create("orders", 4)
        group = await stage.group()
        bob = await group.call(join("bob", "orders", connection=2, session=600))
        ann = await group.call(join("ann", "orders", static=True, instance=1))
        bob = await group.call(heartbeat(bob, 0.01, 2))
        bob = await group.call(heartbeat(bob, 0.01, 2))
        quiet = start_call(nursery, group, heartbeat(bob, 20, 2))
        begin = trio.current_time()
        await group.call(Leave("ann", 1, keeps_place=True))
        released = stage.script.of(ReleaseMember)
        assert {each for _, each in released} == {ReleaseMember("billing", "ann", True, 1, True)}
        assert sorted(place for place, _ in released) == parts(ann)
        with pytest.raises(UnknownMember, match="has closed"):
            await group.call(heartbeat(ann, instance=1))
        members = {each.member: each for each in (await description(group)).members}
        assert (members["ann"].is_away, members["bob"].is_away) == (True, False)
        assert len(members["ann"].assignment) == 2
        await trio.sleep_until(begin + 4.5)
        assert not quiet.done
        again = await group.call(join("ann", "orders", static=True, instance=2))
        assert (again.generation, parts(again)) == (ann.generation, parts(ann))
        await group.call(Leave("ann", 2, keeps_place=True))
        await trio.sleep(4.8)
        assert len((await group.call(heartbeat(bob, 0.01, 2))).assignment) == 2
        await trio.sleep(0.2)
        assert len((await group.call(heartbeat(bob, 0.01, 2))).assignment) == 4


async def test_a_group_whose_members_are_away_counts_as_one_without_members(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with on_stage(disk) as stage:
        await stage.create("orders", 1)
        group = await stage.group()
        await group.call(join("ann", "orders", static=True, instance=1))
        for refused in (CheckEmpty(), Alter({"max_deliveries": 9}, force=False)):
            with pytest.raises(GroupConflict):
                await group.call(refused)
        await group.call(Leave("ann", 1, keeps_place=True))
        await group.call(CheckEmpty())
        await group.call(Alter({"max_deliveries": 9}, force=False))
        altered = await description(group)
        assert (altered.members, altered.settings["max_deliveries"]) == ((), 9)


async def test_who_has_no_place_of_its_own_leaves_though_it_would_keep_it(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with on_stage(disk) as stage:
        await stage.create("orders", 1)
        group = await stage.group()
        await group.call(join("ann", "orders", instance=1))
        await group.call(Leave("ann", 1, keeps_place=True))
        assert (await description(group)).members == ()


# A partition


async def test_what_a_replaced_consumer_held_is_there_at_once_and_it_is_given_nothing_more(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G6, G7: what was acked stays so, what was not comes again, counted, and its receipts are stale."""
    async with desk(disk) as there, trio.open_nursery() as nursery:
        await there.publish(*[b"x"] * 3)
        held = await there.take(3, instance=1)
        assert await there.settle(held, runs=[run(1)]) == ()
        late: list[float] = []

        async def wait_as_before() -> None:
            late.append(await there.wait(instance=1))

        nursery.start_soon(wait_as_before)
        await wait_all_tasks_blocked()
        await there.ref.call(ReplaceMember(GROUP, "ann", 2, 1))
        await wait_all_tasks_blocked()
        assert late == [0], "it is not kept waiting for what it does not get"
        with pytest.raises(Fenced, match="member_id of its own"):
            await there.take(instance=1)
        assert (await there.take(instance=2)).runs == (run(0, attempt=2), run(2, attempt=2))
        assert await there.settle(held, runs=[run(0), run(2)]) == (run(0), run(2))
    assert trio.current_time() < 1


async def test_what_a_closed_consumer_gave_back_is_uncounted_and_it_takes_nothing_until_it_is_back(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk) as there:
        await there.publish(b"a", b"b")
        await there.take(1, instance=1)
        await there.ref.call(ReleaseMember(GROUP, "ann", True, 1, keeps_place=True))
        with pytest.raises(StaleGeneration):
            await there.take(instance=1)
        await there.ref.call(ReplaceMember(GROUP, "ann", 2, 1))
        assert (await there.take(instance=2)).runs == (run(0), run(1))


async def test_what_a_consumer_held_that_died_before_a_restart_is_not_given_back_by_the_one_after_it(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """§5: a message that kills its consumer is given up in the end, also when the broker is restarted between."""
    async with desk(disk) as there:
        await there.publish(b"a", b"b")
        await there.take(1, instance=1)
        async with desk(disk.kill()) as after:
            assert (await after.take(instance=2)).runs == (run(1),)
            await after.ref.call(ReleaseMember(GROUP, "ann", True, 2, keeps_place=True))
            assert (await after.take(instance=3)).runs == (run(1),), "its own it gives back"
            await trio.sleep(60)
            [again] = (await after.take(instance=3)).runs
            assert (again.first, again.attempt) == (0, 2)


async def test_what_a_consumer_took_after_a_restart_and_died_with_is_not_given_back_by_the_one_after_it(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """It went on where it was and died before the group heard of it: nothing says that another replaced it."""
    async with desk(disk) as there:
        await there.publish(b"a", b"b", b"c")
        await there.take(1, instance=1)
        async with desk(disk.kill()) as after:
            assert (await after.take(1, instance=1)).runs == (run(1),)
            assert (await after.take(1, instance=2)).runs == (run(2),)
            await after.ref.call(ReleaseMember(GROUP, "ann", True, 2, keeps_place=True))
            assert (await after.take(instance=3)).runs == (run(2),), "its own it gives back"
            await after.ref.call(ReleaseMember(GROUP, "ann", True, 4, keeps_place=True))
            assert (await after.take(instance=5)).runs == (), "the fourth took nothing, and gives nothing back"
            await trio.sleep(60)
            assert {(each.first, each.last, each.attempt) for each in (await after.take(instance=5)).runs} == {
                (0, 2, 2)
            }


async def test_a_client_without_instances_comes_back_as_it_was(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk) as there:
        await there.publish(b"a")
        await there.ref.call(ReplaceMember(GROUP, "ann", 7, 0))
        with pytest.raises(Fenced):
            await there.take()
        await there.ref.call(ReplaceMember(GROUP, "ann", 0, 7))
        assert (await there.take()).runs == (run(0),)


async def test_a_member_of_a_shared_group_that_has_left_is_given_nothing_more(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """What it had asked for would be under a lease that nobody knows of."""
    async with desk(disk, attached=False) as there:
        await there.attach(is_shared=True)
        await there.publish(b"a")
        await there.ref.call(ReleaseMember(GROUP, "bob", True, 5))
        with pytest.raises(StaleGeneration):
            await there.take(member="bob", instance=5)
        assert (await there.take(member="bob", instance=6)).runs == (run(0),)


@pytest.mark.parametrize("is_shared", [True, False], ids=["shared", "with owners"])
async def test_members_that_come_and_go_are_not_known_for_ever(
    disk: SimulatedDisk, autojump_clock: MockClock, is_shared: bool
) -> None:
    """Who asked when is shown of the members there are."""
    async with desk(disk, attached=False) as there:
        await there.attach(is_shared=is_shared)
        for number in range(1, 6):
            member = f"member-{number}"
            if not is_shared:
                await there.ref.call(AssignPartition(GROUP, member, number))
            await there.take(member=member, generation=number, instance=number)
            facts = await there.facts()
            assert list(facts.asked_ago) == [member]
            await there.ref.call(ReleaseMember(GROUP, member, True, number))
        facts = await there.facts()
        assert facts.asked_ago == {}
