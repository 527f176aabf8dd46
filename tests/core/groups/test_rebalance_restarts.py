"""A group whose broker starts again, told by example: for whom partitions are kept, and until when (G10)."""

import pytest

from goqueue.core.groups.effects import Assign, Effect, Expelled, Tell
from goqueue.core.groups.memory import MEMBERS_REMEMBERED_MAX, RememberedMember, worth_remembering
from goqueue.core.groups.rebalance import Group, GroupState
from goqueue.core.groups.settings import GroupSettings
from goqueue.core.groups.subscription import Subscription
from goqueue.errors import UnknownMember
from tests.core.groups.test_rebalance import EAGER, QUEUE, SHARED, STREAM, Scene, moved, of


def started_again(before: Scene, now: float, **topics: int) -> Scene:
    """After a kill: what is remembered, and a generation not below the last."""
    scene = Scene(before.settings, **topics)
    scene.group = Group(topics, settings=before.settings, generation=1_000)
    plain = [each.to_plain() for each in before.group.remembered()]
    scene.seen(scene.group.restore(now, [RememberedMember.from_plain(each) for each in plain]))
    return scene


def shared_by_two(settings: GroupSettings) -> Scene:
    scene = Scene(settings, t=4)
    scene.join(0, "a")
    scene.join(1, "b")
    for member in ("a", "b"):
        scene.confirm(2, member)
    assert scene.sizes() == [2, 2]
    return scene


@pytest.mark.parametrize("settings", [QUEUE, STREAM, EAGER])
def test_members_that_come_back_keep_their_partitions_and_have_them_at_once(settings: GroupSettings) -> None:
    before = shared_by_two(settings)
    scene = started_again(before, 100.0, t=4)
    for at, member in ((101.0, "b"), (104.9, "a")):
        [told] = [each for each in scene.join(at, member) if isinstance(each, Tell)]
        assert (told.assignment, told.revoked) == (before.owned_by(member), frozenset())
        assert told.generation > 1_000
        assert scene.heartbeat(at, member) == []
    assert scene.tick(110) == []
    assert scene.is_in(GroupState.STABLE)


def test_whoever_does_not_come_back_within_five_seconds_loses_its_partitions_to_the_others() -> None:
    before = shared_by_two(STREAM)
    scene = started_again(before, 100.0, t=4)
    scene.join(101, "a")
    assert scene.group.next_deadline() == 105
    assert scene.owned_by("a") == before.owned_by("a")
    assert Expelled("b", "it did not come back within 5 s of the start", was_absent=True) in scene.tick(105)
    assert scene.owned_by("a") == of("t0", "t1", "t2", "t3")
    assert scene.group.remembered() == (
        RememberedMember("a", "test", Subscription.to("t"), of("t0", "t1", "t2", "t3")),
    )


def test_who_is_new_does_not_get_what_is_kept_for_others() -> None:
    before = Scene(QUEUE, t=1)
    before.join(0, "a")
    scene = started_again(before, 100.0, t=1)
    effects = scene.join(101, "new")
    assert moved(effects) == frozenset()
    scene.tick(105)
    assert scene.owned_by("new") == of("t0")


def test_who_has_not_come_back_yet_must_join_again_before_anything_else() -> None:
    scene = started_again(shared_by_two(STREAM), 100.0, t=4)
    with pytest.raises(UnknownMember, match="join again"):
        scene.beat(101, "a", 3)
    with pytest.raises(UnknownMember, match="join again"):
        scene.close(101, "a")


def test_who_leaves_before_it_has_come_back_is_not_waited_for() -> None:
    before = shared_by_two(STREAM)
    scene = started_again(before, 100.0, t=4)
    scene.join(101, "a")
    scene.leave(102, "b", 77)
    assert scene.owned_by("a") == of("t0", "t1", "t2", "t3")


def test_another_consumer_of_a_member_that_is_expected_has_its_place() -> None:
    """Which one it was is not remembered."""
    before = shared_by_two(STREAM)
    scene = started_again(before, 100.0, t=4)
    effects = scene.join(101, "a", instance=5)
    assert effects == [Tell("a", 1_001, before.owned_by("a"))]


def test_who_is_expected_reads_nothing_yet_and_may_hold_what_it_had() -> None:
    """A topic that only it reads is begun when it is back, where it asks to start."""
    before = shared_by_two(STREAM)
    scene = started_again(before, 100.0, t=4)
    assert (scene.group.topics_read(), scene.group.present) == (frozenset(), 0)
    assert scene.group.had_by("a") == before.owned_by("a")
    scene.join(101, "a")
    assert (scene.group.topics_read(), scene.group.present) == (frozenset({"t"}), 1)


def test_those_who_are_expected_do_not_stand_against_an_alteration() -> None:
    scene = started_again(shared_by_two(QUEUE), 100.0, t=4)
    altered = GroupSettings(max_deliveries=9)
    effects: list[Effect] = scene.alter(101, altered)
    assert sorted(each.member for each in effects if isinstance(each, Expelled)) == ["a", "b"]
    assert scene.is_in(GroupState.EMPTY)


def test_partitions_that_are_gone_are_not_kept_and_new_ones_are_shared_out() -> None:
    scene = started_again(shared_by_two(QUEUE), 100.0, t=6)
    assert scene.sizes() == [3, 3]
    smaller = started_again(shared_by_two(QUEUE), 100.0)
    assert smaller.owners == {}


def test_a_group_without_members_waits_for_nobody() -> None:
    before = shared_by_two(STREAM)
    before.leave(5, "a")
    before.leave(5, "b")
    scene = started_again(before, 100.0, t=4)
    assert scene.is_in(GroupState.EMPTY)
    effects = scene.join(100, "new")
    assert Assign("t", 0, "new", 1_001) in effects
    assert scene.owned_by("new") == of("t0", "t1", "t2", "t3")


def test_a_shared_group_has_nothing_to_keep_and_a_huge_one_is_not_remembered() -> None:
    scene = Scene(SHARED, t=2)
    scene.join(0, "a")
    assert scene.group.remembered() == ()
    one = RememberedMember("a", "c", Subscription.to("t*"), of("t1"))
    assert worth_remembering([one]) == (one,)
    assert worth_remembering([one] * (MEMBERS_REMEMBERED_MAX + 1)) == ()


def test_a_rebalance_that_the_end_interrupted_goes_on() -> None:
    before = Scene(STREAM, t=4)
    before.join(0, "a")
    before.join(1, "b")  # a has yet to let go
    scene = started_again(before, 100.0, t=4)
    told = [each for each in scene.join(101, "a") if isinstance(each, Tell)][-1]
    assert len(told.assignment) == len(told.revoked) == 2
    scene.join(101, "b")
    scene.confirm(102, "a")
    assert scene.sizes() == [2, 2]
