"""One group, told by example: who is alive, what its words are worth, and what may be altered (G10)."""

from dataclasses import replace

import pytest

from goqueue.core.groups.assignors import TopicPartition
from goqueue.core.groups.effects import Assign, Expelled, Replaced, Tell
from goqueue.core.groups.member import HeartbeatMeaning, MemberProfile
from goqueue.core.groups.rebalance import TRANSITIONS, GroupState, Turn
from goqueue.core.groups.settings import GroupSettings
from goqueue.core.groups.subscription import Subscription
from goqueue.errors import Fenced, GroupConflict, StaleGeneration, UnknownMember
from tests.core.groups.test_rebalance import EAGER, QUEUE, SHARED, STREAM, Scene, moved, of

# Alive or not


def test_a_slow_handler_is_not_thrown_out_while_its_heartbeats_come() -> None:
    """Pitfall. Nothing but heartbeats for an hour: they decide, never the time that handling takes."""
    scene = Scene(QUEUE, t=1)
    scene.join(0, "a")
    for second in range(3, 3600, 3):
        assert scene.heartbeat(second, "a") == scene.tick(second) == []
    assert scene.owned_by("a") == of("t0")


def test_who_is_not_heard_of_for_a_session_is_expelled() -> None:
    scene = Scene(QUEUE, t=2)
    scene.join(0, "a")
    scene.join(0, "b")
    scene.heartbeat(10, "b")
    assert scene.group.next_deadline() == 30
    assert scene.tick(29.9) == []
    effects = scene.tick(30)
    assert effects[0] == Expelled("a", "nothing was heard of it for 30 s")
    assert scene.owned_by("b") == of("t0", "t1")
    with pytest.raises(UnknownMember, match="join again"):
        scene.heartbeat(31, "a")


def test_a_closed_connection_leaves_after_five_seconds() -> None:
    scene = Scene(QUEUE, t=1)
    scene.join(0, "a")
    scene.group.connection_lost(10, "a")
    scene.group.connection_lost(13, "a")
    assert scene.group.next_deadline() == 15
    assert scene.tick(14.9) == []
    assert scene.tick(15)[0] == Expelled("a", "its connection closed and did not come back within 5 s")


def test_a_closed_connection_does_not_prolong_a_session() -> None:
    scene = Scene(QUEUE, t=1)
    scene.join(0, "a")
    scene.group.connection_lost(28, "a")
    assert scene.group.next_deadline() == 30


@pytest.mark.parametrize("way", ["join", "heartbeat"])
def test_who_comes_back_within_five_seconds_resumes(way: str) -> None:
    scene = Scene(STREAM, t=2)
    scene.join(0, "a")
    scene.join(1, "b")
    told, generation = scene.told["a"], scene.group.generation
    scene.group.connection_lost(10, "a")
    if way == "join":
        assert scene.join(14, "a") == [told], "what it is to let go of included"
    else:
        assert scene.beat(14, "a", 1) == [told], "it has yet to let go"
    assert scene.tick(15) == []
    assert scene.group.generation == generation
    assert scene.group.view(20).members[0].since == 0


def test_a_static_member_keeps_its_session_when_its_connection_closes() -> None:
    scene = Scene(QUEUE, t=1)
    scene.join(0, "a", is_static=True)
    scene.group.connection_lost(1, "a")
    assert scene.tick(29) == []
    assert scene.join(29, "a", is_static=True) == [scene.told["a"]]
    scene.group.connection_lost(30, "a")
    assert scene.tick(59)[0] == Expelled("a", "nothing was heard of it for 30 s")


def test_another_consumer_in_the_place_of_a_member_has_all_of_it_and_nobody_else_hears_of_it() -> None:
    scene = Scene(QUEUE, t=4)
    scene.join(0, "b")
    scene.join(1, "a", is_static=True, instance=1)
    told, generation = scene.told["a"], scene.group.generation
    assert scene.join(2, "a", is_static=True, instance=2) == [Replaced("a", 2, 1), told]
    assert scene.group.generation == generation
    with pytest.raises(Fenced, match=r"another consumer joined as 'a'.*member_id of its own"):
        scene.beat(3, "a", told.generation, 1)
    assert scene.beat(3, "a", told.generation, 2) == []
    assert scene.join(4, "a", is_static=True, instance=2) == [told], "to come back is nothing new"


def test_who_is_refused_replaces_nobody() -> None:
    scene = Scene(QUEUE, t=1)
    scene.join(0, "a", instance=1)
    with pytest.raises(GroupConflict):
        scene.join(1, "a", instance=2, settings=STREAM)
    assert scene.beat(2, "a", 1, 1) == []


def test_a_static_member_that_closes_keeps_its_place_for_five_seconds() -> None:
    scene = Scene(QUEUE, t=2)
    scene.join(0, "a", is_static=True, instance=1)
    scene.join(0, "b")
    generation = scene.group.generation
    assert scene.close(10, "a", 1)
    assert scene.close(12, "a", 1), "said again, it prolongs nothing"
    assert not scene.group.view(12).members[0].is_connected
    with pytest.raises(UnknownMember, match="has closed"):
        scene.beat(13, "a", scene.told["a"].generation, 1)
    assert scene.join(14, "a", is_static=True, instance=2) == [Replaced("a", 2, 1), scene.told["a"]]
    assert scene.group.generation == generation
    scene.close(15, "a", 2)
    assert scene.tick(19.9) == []
    assert scene.tick(20)[0] == Expelled("a", "it closed and did not come back within 5 s", was_absent=True)
    assert scene.owned_by("b") == of("t0", "t1")


def test_who_is_away_keeps_no_place_from_somebody_who_joins() -> None:
    """First delivery within 1 s of joining a group without members."""
    scene = Scene(QUEUE, t=2)
    scene.join(0, "a", is_static=True)
    scene.close(1, "a")
    effects = scene.join(2, "b")
    assert effects[0] == Expelled("a", "another member came while it was away", was_absent=True)
    assert scene.owned_by("b") == of("t0", "t1")
    assert scene.told["b"].assignment == of("t0", "t1")


def test_a_closed_member_comes_back_as_itself_too() -> None:
    """As a client does that draws no instances; partitions are told, as they gave nothing to it meanwhile."""
    scene = Scene(QUEUE, t=1)
    scene.join(0, "a", is_static=True)
    scene.close(1, "a")
    assert scene.join(2, "a", is_static=True) == [Replaced("a", 0, 0), scene.told["a"]]
    assert scene.heartbeat(3, "a") == []


def test_whoever_has_no_place_of_its_own_does_not_keep_it() -> None:
    scene = Scene(QUEUE, t=1)
    scene.join(0, "a")
    assert not scene.close(1, "a")
    assert scene.heartbeat(2, "a") == []


def test_a_group_whose_members_are_all_away_is_altered_without_force_and_they_join_anew() -> None:
    scene = Scene(QUEUE, t=1)
    scene.join(0, "a", is_static=True)
    assert scene.group.present == 1
    scene.close(1, "a")
    assert scene.group.present == 0
    effects = scene.alter(2, replace(QUEUE, max_deliveries=7))
    assert effects[0] == Expelled("a", "the group was altered while it was away", was_absent=True)
    assert scene.group.view(2).members == ()


def test_a_connection_that_closes_after_its_member_left_is_no_news() -> None:
    scene = Scene(QUEUE, t=1)
    scene.group.connection_lost(0, "a")
    with pytest.raises(UnknownMember):
        scene.leave(0, "a")


def test_a_member_may_hold_deliveries_of_all_that_it_had_since_it_joined() -> None:
    scene = Scene(QUEUE, t=2)
    scene.join(0, "a", instance=1)
    scene.join(1, "b")
    scene.join(2, "a", instance=2)
    assert scene.group.had_by("a") == of("t0", "t1")
    assert scene.group.had_by("b") == of("t1")


def test_a_heartbeat_is_answered_three_times_in_a_session() -> None:
    scene = Scene(QUEUE, t=1)
    scene.join(0, "a", session_timeout=12)
    assert scene.group.answer_by("a", 100) == 104


# Generations


def test_only_a_heartbeat_with_the_newest_generation_confirms_and_only_once() -> None:
    scene = Scene(STREAM, t=2)
    scene.join(0, "a")
    scene.join(1, "b")
    assert scene.group.heartbeat("a", 1).meaning is HeartbeatMeaning.BEHIND
    assert scene.group.heartbeat("a", 2).meaning is HeartbeatMeaning.CONFIRMS
    assert scene.group.told("a") == Tell("a", 2, of("t0"), of("t1"))
    scene.confirm(2, "a")
    assert scene.group.heartbeat("a", 2).meaning is HeartbeatMeaning.CURRENT
    assert scene.group.told("a") == Tell("a", 2, of("t0"))


def test_a_member_of_a_queue_has_nothing_to_confirm() -> None:
    scene = Scene(QUEUE, t=2)
    scene.join(0, "a")
    scene.join(1, "b")
    assert scene.told["a"].revoked == of("t1")
    assert scene.group.heartbeat("a", 2).meaning is HeartbeatMeaning.CURRENT


def test_a_stale_confirmation_does_not_count_and_brings_the_newest_news() -> None:
    """Pitfall: stale generation accepted."""
    scene = Scene(STREAM, t=2)
    scene.join(0, "a")
    scene.join(1, "b")
    assert scene.beat(2, "a", 1) == [scene.told["a"]]
    assert scene.owned_by("a") == of("t0", "t1")
    assert scene.is_in(GroupState.REBALANCING)


def test_a_heartbeat_with_a_stale_generation_brings_the_newest_news() -> None:
    scene = Scene(QUEUE, t=2)
    scene.join(0, "a")
    scene.join(1, "b")
    [tell] = scene.beat(2, "a", 1)
    assert tell == Tell("a", 2, of("t0"))
    assert scene.beat(3, "a", 2) == []


def test_a_generation_that_was_never_told_is_refused_and_changes_nothing() -> None:
    scene = Scene(STREAM, t=2)
    scene.join(0, "a")
    scene.join(1, "b")
    with pytest.raises(StaleGeneration, match="join again"):
        scene.beat(20, "a", 3)
    assert scene.group.view(20).members[0].heartbeat_age == 20
    assert scene.is_in(GroupState.REBALANCING)


def test_only_the_owner_may_commit_and_what_it_kept_it_may_commit_under_its_older_generation() -> None:
    """Pitfall: stale generation accepted on poll or commit."""
    scene = Scene(STREAM, t=2)
    scene.join(0, "a")
    scene.join(1, "b")
    kept, leaving = TopicPartition("t", 0), TopicPartition("t", 1)

    def check(member: str, generation: int, partition: TopicPartition) -> None:
        scene.tenures[partition].check(member, generation, 0, "t")

    check("a", 1, kept)
    check("a", 2, leaving)
    with pytest.raises(StaleGeneration):
        check("b", 2, leaving)
    scene.confirm(2, "a")
    check("b", 3, leaving)
    check("a", 1, kept)
    for member, generation, partition in [("a", 2, leaving), ("b", 2, leaving), ("b", 3, kept), ("c", 3, kept)]:
        with pytest.raises(StaleGeneration):
            check(member, generation, partition)


# Settings


def test_a_member_that_asks_for_other_settings_is_refused_by_name_and_nothing_changes() -> None:
    scene = Scene(QUEUE, t=1)
    scene.join(0, "a")
    with pytest.raises(GroupConflict, match="mode is 'queue', not 'stream'") as caught:
        scene.join(1, "b", settings=replace(STREAM, assignor="range"))
    assert caught.value.details["settings"] == ["mode", "assignor"]
    assert [member.id for member in scene.group.view(1).members] == ["a"]
    with pytest.raises(GroupConflict):
        scene.join(20, "a", settings=STREAM)
    assert scene.group.view(20).members[0].heartbeat_age == 20


def test_an_empty_group_keeps_its_settings_until_it_is_altered() -> None:
    scene = Scene(QUEUE, t=1)
    scene.join(0, "a")
    scene.leave(1, "a")
    with pytest.raises(GroupConflict):
        scene.join(2, "a", settings=STREAM)
    assert scene.alter(3, STREAM) == []
    scene.join(4, "a", settings=STREAM)
    assert scene.group.settings == STREAM


def test_a_group_with_members_is_altered_only_by_force() -> None:
    scene = Scene(QUEUE, t=3)
    scene.join(0, "a")
    changed = QUEUE.altered({"max_deliveries": 9})
    with pytest.raises(GroupConflict, match="1 member;"):
        scene.alter(1, changed)
    assert scene.group.settings == QUEUE
    assert scene.alter(1, QUEUE) == []
    assert scene.alter(2, changed, force=True) == []
    assert scene.group.settings == changed
    assert scene.join(3, "a") == [scene.told["a"]], "it asks for what it always asked for, and resumes"
    with pytest.raises(GroupConflict):
        scene.join(3, "b")


def test_what_is_decided_and_not_applied_leaves_no_trace() -> None:
    """As when the write of the settings fails."""
    scene = Scene(QUEUE, t=2)
    scene.group.join(MemberProfile("a", "c", Subscription.to("t"), STREAM))
    assert scene.group.settings is None
    assert scene.group.view(0).members == ()
    scene.join(1, "a", settings=QUEUE)
    view = scene.group.view(2)
    scene.group.alter(STREAM, force=True)
    scene.group.leave("a")
    assert scene.group.view(2) == view


def test_another_assignor_by_force_shares_out_anew() -> None:
    scene = Scene(QUEUE, s=2, t=2)
    scene.join(0, "a", ["s", "t"])
    scene.join(0, "b", ["s", "t"])
    scene.alter(1, GroupSettings(assignor="range"), force=True)
    assert scene.owned_by("a") == of("s0", "t0")


@pytest.mark.parametrize("settings", [STREAM, SHARED])
def test_members_cannot_go_on_when_the_manner_of_reading_is_altered(settings: GroupSettings) -> None:
    scene = Scene(QUEUE, t=1)
    scene.join(0, "b")
    scene.join(0, "a")
    effects = scene.alter(1, settings, force=True)
    reason = "the group was altered; join it anew"
    assert effects == [Expelled("a", reason), Expelled("b", reason), Assign("t", 0, None, 3)]
    assert scene.is_in(GroupState.EMPTY)


def test_a_group_that_becomes_cooperative_stops_letting_go_of_what_stays() -> None:
    scene = Scene(GroupSettings(mode="stream", rebalance="eager"), t=4)
    scene.join(0, "a")
    scene.join(1, "b")
    assert len(scene.told["a"].revoked) == 4
    scene.alter(2, STREAM, force=True)
    assert len(scene.told["a"].assignment) == len(scene.told["a"].revoked) == 2


# Topics


def test_new_partitions_and_new_topics_are_given_out_and_nothing_else_moves() -> None:
    scene = Scene(STREAM, t=2)
    scene.join(0, "a", "t*")
    scene.join(0, "b", "t*")
    scene.confirm(0, "a")
    before = dict(scene.owners)
    effects = scene.seen(scene.group.topics_changed(1, {"t": 4, "tt": 1, "x": 1}))
    assert scene.owners.items() >= before.items()
    assert scene.is_in(GroupState.STABLE)
    assert moved(effects) == {*of("t2", "t3"), TopicPartition("tt", 0)}
    assert scene.sizes() == [2, 3]


def test_a_topic_that_nobody_reads_is_no_news() -> None:
    scene = Scene(EAGER, t=2)
    scene.join(0, "a")
    assert scene.group.topics_changed(1, {"t": 2, "x": 9}) == []
    assert scene.group.generation == 1


def test_a_deleted_topic_is_waited_for_by_nobody_and_when_made_again_has_an_owner_again() -> None:
    scene = Scene(STREAM, s=1, t=1)
    scene.join(0, "a", ["s", "t"])
    assert scene.seen(scene.group.topics_changed(1, {"s": 1})) == [Tell("a", 2, of("s0"), of("t0"))]
    assert scene.is_in(GroupState.STABLE)
    assert scene.seen(scene.group.topics_changed(2, {"s": 1, "t": 1})) == [
        Assign("t", 0, "a", 3),
        Tell("a", 3, of("s0", "t0")),
    ]


def test_a_member_that_comes_back_with_another_subscription_gets_what_it_reads_now() -> None:
    scene = Scene(QUEUE, s=1, t=1)
    scene.join(0, "a", "s")
    scene.join(1, "a", ["t"])
    assert scene.owners == {TopicPartition("s", 0): None, TopicPartition("t", 0): "a"}
    assert scene.told["a"] == Tell("a", 2, of("t0"), of("s0"))


# For people


def test_the_view_shows_who_is_there_and_how_things_stand() -> None:
    scene = Scene(STREAM, t=2)
    scene.join(5, "b", "t*", client="billing")
    scene.join(6, "a")
    scene.group.connection_lost(7, "a")
    view = scene.group.view(8)
    assert (view.state, view.generation, view.settings) == (GroupState.REBALANCING, 2, STREAM)
    first, second = view.members
    assert (first.id, first.is_connected, first.assignment) == ("a", False, frozenset())
    assert (second.id, second.client, second.since, second.heartbeat_age) == ("b", "billing", 5, 3)
    assert second.subscription.to_plain() == "t*"
    assert (second.assignment, second.letting_go) == (of("t0"), of("t1"))
    assert second.is_connected
    assert not second.is_static


def test_the_table_has_every_state_and_an_empty_group_never_waits() -> None:
    assert TRANSITIONS.keys() == set(GroupState)
    assert Turn.WAITING not in TRANSITIONS[GroupState.EMPTY]
    reached = {state for turns in TRANSITIONS.values() for state in turns.values()}
    assert reached == set(GroupState)
