"""A group: members, what they are told and when, and what the partitions hear before."""

from random import Random

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from goqueue.actors.delivery.requests import AttachGroup, ReleaseMember
from goqueue.actors.groups.requests import AwaitMembership, Leave, MemberLost
from goqueue.actors.runtime.ref import ActorRef
from goqueue.core.groups.views import MemberState
from goqueue.errors import GroupConflict, InvalidConfig, StaleGeneration, UnknownMember
from goqueue.testing.disk import SimulatedDisk
from tests.actors.groups.groupstage import heartbeat, join, on_stage, parts
from tests.actors.runtime.troupe import start_call


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(Random(0))


async def settled(group: ActorRef, held: MemberState, connection: int = 1) -> MemberState:
    """What the member has once it has heard all there is."""
    while True:
        newer = await group.call(heartbeat(held, 0.01, connection))
        if newer == held:
            return held
        held = newer


async def test_the_first_member_has_everything_and_the_partitions_know_it_before(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with on_stage(disk) as stage:
        await stage.create("orders", 3)
        held = await (await stage.group()).call(join("ann", "orders"))
        assert parts(held) == [("orders", 0), ("orders", 1), ("orders", 2)]
        assert {each.uuid for each in held.assignment} == {stage.topics["orders"].uuid.bytes}
        heard = stage.script.of(AttachGroup)
        assert sorted(place for place, _ in heard) == parts(held)
        assert {(each.group, each.member, each.generation) for _, each in heard} == {
            ("billing", "ann", held.generation)
        }
        assert trio.current_time() < 1, "the first delivery comes within a second of joining"


async def test_a_first_member_waits_for_one_sync_of_the_metadata_however_many_topics_it_reads(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with on_stage(disk) as stage:
        for name in ("invoices", "orders", "returns"):
            await stage.create(name, 2)
        group, before = await stage.group(), disk.counts.syncs
        held = await group.call(join("ann", "invoices", "orders", "returns"))
        assert (len(parts(held)), disk.counts.syncs - before) == (6, 1)


async def test_a_joiner_gets_its_share_and_the_others_hear_of_it_in_their_heartbeat(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """Not 3 and 0; and at most one owner for each partition (G10)."""
    async with on_stage(disk) as stage, trio.open_nursery() as nursery:
        await stage.create("orders", 4)
        group = await stage.group()
        ann = await group.call(join("ann", "orders"))
        waiting = start_call(nursery, group, heartbeat(ann))
        await wait_all_tasks_blocked()
        assert not waiting.done
        bob = await group.call(join("bob", "orders", connection=2))
        await wait_all_tasks_blocked()
        ann = waiting.answer
        assert (len(ann.assignment), len(bob.assignment), len(ann.revoked)) == (2, 2, 2)
        assert sorted(parts(ann) + parts(bob)) == [("orders", number) for number in range(4)]
        for held in (ann, bob):
            assert all(stage.script.owner(*place) == held.member for place in parts(held))


async def test_a_heartbeat_without_news_is_answered_at_its_deadline(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with on_stage(disk) as stage:
        await stage.create("orders")
        group = await stage.group()
        held = await group.call(join("ann", "orders"))
        begin = trio.current_time()
        assert await group.call(heartbeat(held, 3.0)) == held
        assert trio.current_time() == pytest.approx(begin + 3.0)


async def test_heartbeats_come_often_enough_for_a_short_session(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with on_stage(disk) as stage:
        await stage.create("orders")
        group = await stage.group()
        held = await group.call(join("ann", "orders", session=1.5))
        for _ in range(10):
            assert await group.call(heartbeat(held, 30.0)) == held


async def test_a_newer_heartbeat_lets_the_older_go(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with on_stage(disk) as stage, trio.open_nursery() as nursery:
        await stage.create("orders")
        group = await stage.group()
        held = await group.call(join("ann", "orders"))
        older = start_call(nursery, group, heartbeat(held))
        await wait_all_tasks_blocked()
        begin = trio.current_time()
        newer = start_call(nursery, group, heartbeat(held))
        await wait_all_tasks_blocked()
        assert older.answer == held
        assert (newer.done, trio.current_time()) == (False, begin)


async def test_all_topics_of_a_group_are_shared_out(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    """Multi-topic groups that used the first topic only."""
    async with on_stage(disk) as stage:
        await stage.create("orders", 2)
        await stage.create("returns", 2)
        held = await (await stage.group()).call(join("ann", "orders", "returns"))
        assert parts(held) == [("orders", 0), ("orders", 1), ("returns", 0), ("returns", 1)]


async def test_everybody_has_everything_in_a_shared_group(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with on_stage(disk) as stage:
        await stage.create("orders", 3)
        group = await stage.group()
        ann = await group.call(join("ann", "orders", shared=True))
        bob = await group.call(join("bob", "orders", shared=True, connection=2))
        assert parts(ann) == parts(bob) == [("orders", number) for number in range(3)]
        heard = stage.script.of(AttachGroup)
        assert len(heard) == 3
        assert all(each.is_shared for _, each in heard)


async def test_who_leaves_gives_back_and_the_others_take_over_at_once(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with on_stage(disk) as stage, trio.open_nursery() as nursery:
        await stage.create("orders", 4)
        group = await stage.group()
        ann = await group.call(join("ann", "orders"))
        bob = await group.call(join("bob", "orders", connection=2))
        waiting = start_call(nursery, group, heartbeat(bob, connection=2))
        begin = trio.current_time()
        await group.call(Leave("ann"))
        await wait_all_tasks_blocked()
        released = [place for place, each in stage.script.of(ReleaseMember) if each.member == "ann"]
        assert sorted(released) == parts(ann), "it may hold messages of all that it ever had"
        assert len(waiting.answer.assignment) == 4
        assert trio.current_time() == begin
        with pytest.raises(UnknownMember):
            await group.call(heartbeat(ann))


async def test_a_lost_connection_leaves_after_five_seconds(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with on_stage(disk) as stage, trio.open_nursery() as nursery:
        await stage.create("orders", 2)
        group = await stage.group()
        ann = await group.call(join("ann", "orders"))
        bob = await settled(group, await group.call(join("bob", "orders", connection=2)), 2)
        await group.call(MemberLost("ann", 1))
        begin = trio.current_time()
        waiting = start_call(nursery, group, heartbeat(bob, 20, connection=2))
        await trio.sleep(4.9)
        assert not waiting.done
        await trio.sleep(0.2)
        assert len(waiting.answer.assignment) == 2
        assert trio.current_time() < begin + 6
        with pytest.raises(UnknownMember):
            await group.call(heartbeat(ann))


async def test_the_end_of_a_connection_that_its_member_has_left_is_no_news(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with on_stage(disk) as stage:
        await stage.create("orders")
        group = await stage.group()
        held = await group.call(join("ann", "orders", connection=1))
        assert await group.call(join("ann", "orders", connection=2)) == held, "it resumes"
        await group.call(MemberLost("ann", 1))
        await trio.sleep(8)
        assert await group.call(heartbeat(held, 1, connection=2)) == held


async def test_who_is_not_heard_of_is_expelled_and_its_partitions_go_on(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with on_stage(disk) as stage:
        await stage.create("orders", 2)
        group = await stage.group()
        ann = await group.call(join("ann", "orders"))
        bob = await settled(group, await group.call(join("bob", "orders", connection=2)), 2)
        begin = trio.current_time()
        while len(bob.assignment) < 2:
            bob = await group.call(heartbeat(bob, 3, connection=2))
        assert 25 < trio.current_time() - begin < 35
        with pytest.raises(UnknownMember, match="join again"):
            await group.call(heartbeat(ann))


async def test_settings_are_those_of_the_first_member(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with on_stage(disk) as stage:
        await stage.create("orders")
        group = await stage.group()
        held = await group.call(join("ann", "orders", max_deliveries=7))
        assert held.settings["max_deliveries"] == 7
        with pytest.raises(GroupConflict) as refused:
            await group.call(join("bob", "orders", max_deliveries=3))
        assert refused.value.details["settings"] == ["max_deliveries"]
        assert await group.call(heartbeat(held, 0.1)) == held


async def test_defaults_hold_for_the_first_member_alone_and_conflict_with_nothing(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with on_stage(disk) as stage:
        await stage.create("orders")
        first, second = await stage.group("first"), await stage.group("second")
        defaults = {"shared": True, "max_deliveries": 40, "retry_jitter": 0.2}
        made = await first.call(join("ann", "orders", defaults=defaults, max_deliveries=7))
        assert [made.settings[name] for name in ("shared", "max_deliveries", "retry_jitter")] == [True, 7, 0.2]
        assert (await first.call(join("bob", "orders"))).settings == made.settings
        there = await second.call(join("ann", "orders", max_deliveries=9))
        assert (await second.call(join("bob", "orders", defaults=defaults))).settings == there.settings
        assert (await second.call(join("bob", "orders", defaults=defaults))).settings == there.settings
        with pytest.raises(GroupConflict, match="shared"):
            await second.call(join("eve", "orders", shared=True, defaults=defaults))


async def test_a_first_member_that_is_refused_fixes_nothing(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with on_stage(disk) as stage:
        await stage.create("orders")
        group = await stage.group()
        for bad in (
            join("ann", "orders", max_deliveries=-1),
            join("ann", "orders", mode="stream", shared=True),
            join("ann", "orders", key_order="yes"),
            join("ann", "orders", max_deliveries=9, start="yesterday"),
            join("ann", "orders", max_deliveries=9, session=0.1),
        ):
            with pytest.raises(InvalidConfig):
                await group.call(bad)
        held = await group.call(join("bob", "orders", max_deliveries=2))
        assert held.settings["max_deliveries"] == 2


async def test_a_generation_that_was_never_told_is_refused(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    """Stale generation accepted on poll or commit."""
    async with on_stage(disk) as stage:
        await stage.create("orders")
        group = await stage.group()
        held = await group.call(join("ann", "orders"))
        with pytest.raises(StaleGeneration):
            await group.call(AwaitMembership("ann", held.generation + 1, trio.current_time() + 1, 1))


async def test_in_an_eager_group_naming_the_newest_generation_lets_go(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """Rebalances that never reached "complete"."""
    async with on_stage(disk) as stage:
        await stage.create("orders", 4)
        group = await stage.group()
        ann = await group.call(join("ann", "orders", rebalance="eager"))
        bob = await group.call(join("bob", "orders", rebalance="eager", connection=2))
        assert bob.assignment == ()
        ann = await group.call(heartbeat(ann))
        assert (len(ann.assignment), len(ann.revoked)) == (0, 4)
        ann = await settled(group, ann)
        bob = await settled(group, bob, 2)
        assert sorted(parts(ann) + parts(bob)) == [("orders", number) for number in range(4)]
        assert len(ann.assignment) == 2
