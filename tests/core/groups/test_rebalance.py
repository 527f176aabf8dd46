"""One group, told by example: who joins, who leaves, and how partitions change hands (G10)."""

from collections import defaultdict
from dataclasses import replace
from typing import Any

import pytest

from goqueue.core.groups.assignors import Assignment, TopicPartition
from goqueue.core.groups.decisions import Decision
from goqueue.core.groups.effects import Assign, Effect, Expelled, Tell
from goqueue.core.groups.member import HeartbeatMeaning, MemberProfile
from goqueue.core.groups.rebalance import Group, GroupState
from goqueue.core.groups.settings import GroupSettings
from goqueue.core.groups.subscription import Subscription
from goqueue.core.groups.tenure import Tenure
from goqueue.errors import GroupConflict, InvalidConfig, InvalidName

QUEUE = GroupSettings()
STREAM = GroupSettings(mode="stream")
EAGER = GroupSettings(rebalance="eager")
SHARED = GroupSettings(shared=True)


def of(*texts: str) -> Assignment:
    """`t0` is partition 0 of topic t."""
    return frozenset(TopicPartition(text[0], int(text[1:])) for text in texts)


class Scene:
    """A group with its settings, and what the partitions and the members know after all effects so far."""

    def __init__(self, settings: GroupSettings, **topics: int) -> None:
        self.settings = settings
        self.group = Group(topics)
        self.owners: dict[TopicPartition, str | None] = {}
        self.tenures = defaultdict[TopicPartition, Tenure](Tenure)
        self.told: dict[str, Tell] = {}

    def join(self, now: float, member: str, topics: object = "t", **options: Any) -> list[Effect]:
        options = {"settings": self.settings, "client": "test", **options}
        profile = MemberProfile(member, subscription=Subscription.to(topics), **options)
        return self.apply(now, self.group.join(profile))

    def leave(self, now: float, member: str, instance: int = 0) -> list[Effect]:
        return self.apply(now, self.group.leave(member, instance))

    def close(self, now: float, member: str, instance: int = 0) -> bool:
        """Whether it keeps its place; else it would have to leave."""
        decision = self.group.close(member, instance)
        if decision.keeps_place:
            assert self.apply(now, decision) == []
        return decision.keeps_place

    def alter(self, now: float, settings: GroupSettings, *, force: bool = False) -> list[Effect]:
        return self.apply(now, self.group.alter(settings, force=force))

    def apply(self, now: float, decision: Decision) -> list[Effect]:
        return self.seen(self.group.apply(now, decision))

    def beat(self, now: float, member: str, generation: int, instance: int = 0) -> list[Effect]:
        return self.apply(now, self.group.heartbeat(member, generation, instance))

    def confirm(self, now: float, member: str) -> list[Effect]:
        """The member has let go of what it was told to: the newest generation says so."""
        return self.beat(now, member, self.told[member].generation)

    def heartbeat(self, now: float, *members: str) -> list[Effect]:
        """Of members that have nothing to let go of."""
        beats = [self.group.heartbeat(member, self.told[member].generation) for member in members]
        assert all(each.meaning is HeartbeatMeaning.CURRENT for each in beats)
        return [effect for each in beats for effect in self.apply(now, each)]

    def tick(self, now: float) -> list[Effect]:
        return self.seen(self.group.tick(now))

    def seen(self, effects: list[Effect]) -> list[Effect]:
        for effect in effects:
            if isinstance(effect, Assign):
                partition = TopicPartition(effect.topic, effect.partition)
                self.owners[partition] = effect.member
                self.tenures[partition].assign(effect.member, effect.generation)
            elif isinstance(effect, Tell):
                self.told[effect.member] = effect
        return effects

    def owned_by(self, member: str) -> Assignment:
        return frozenset(partition for partition, owner in self.owners.items() if owner == member)

    def is_in(self, state: GroupState) -> bool:
        return self.group.state is state

    def sizes(self) -> list[int]:
        members = [member.id for member in self.group.view(0).members]
        return sorted(len(self.owned_by(member)) for member in members)


def members_told(effects: list[Effect]) -> list[str]:
    return [effect.member for effect in effects if isinstance(effect, Tell)]


def moved(effects: list[Effect]) -> Assignment:
    return frozenset(TopicPartition(each.topic, each.partition) for each in effects if isinstance(each, Assign))


# Joining and leaving


def test_the_first_member_gets_everything_at_once_and_the_partitions_know_it_first() -> None:
    scene = Scene(STREAM, t=2, other=1)
    assert scene.join(0, "a") == [Assign("t", 0, "a", 1), Assign("t", 1, "a", 1), Tell("a", 1, of("t0", "t1"))]
    assert (scene.group.state, scene.group.generation) == (GroupState.STABLE, 1)


def test_a_joiner_is_not_left_with_nothing() -> None:
    """Pitfall: three and none."""
    scene = Scene(QUEUE, t=3)
    scene.join(0, "a")
    scene.join(1, "b")
    assert scene.sizes() == [1, 2]
    scene.join(2, "c")
    assert scene.sizes() == [1, 1, 1]


def test_a_joiner_of_a_stream_is_not_left_with_nothing_either() -> None:
    scene = Scene(STREAM, t=3)
    scene.join(0, "a")
    scene.join(1, "b")
    scene.confirm(2, "a")
    assert scene.sizes() == [1, 2]
    assert len(scene.told["b"].assignment) == 1


def test_who_finds_no_partition_left_is_told_so_and_gets_one_when_there_is() -> None:
    scene = Scene(QUEUE, t=1)
    scene.join(0, "a")
    assert scene.join(1, "b") == [Tell("b", 2, frozenset())]
    scene.leave(2, "a")
    assert scene.owned_by("b") == of("t0")


def test_every_topic_of_the_group_is_shared_out_not_the_first_only() -> None:
    """Pitfall."""
    scene = Scene(QUEUE, s=2, t=2, u=3)
    scene.join(0, "a", ["s", "t", "u"])
    scene.join(0, "b", ["t", "u"])
    assert {partition.topic for partition in scene.owners} == {"s", "t", "u"}
    assert None not in scene.owners.values()
    assert scene.sizes() == [3, 4]
    assert {partition.topic for partition in scene.owned_by("b")} <= {"t", "u"}


def test_who_leaves_is_followed_by_the_others_and_nothing_else_moves() -> None:
    """G10."""
    scene = Scene(QUEUE, t=6)
    for member in "abc":
        scene.join(0, member)
    gone = scene.owned_by("c")
    assert moved(scene.leave(1, "c")) == gone
    assert scene.sizes() == [3, 3]


def test_when_the_last_one_leaves_the_partitions_belong_to_nobody() -> None:
    scene = Scene(QUEUE, t=2)
    scene.join(0, "a")
    assert scene.leave(1, "a") == [Assign("t", 0, None, 2), Assign("t", 1, None, 2)]
    assert scene.is_in(GroupState.EMPTY)
    assert scene.group.next_deadline() is None


def test_a_member_that_held_nothing_still_makes_a_generation_by_leaving() -> None:
    scene = Scene(QUEUE, t=1)
    scene.join(0, "a")
    scene.join(0, "b")
    assert scene.leave(1, "b") == []
    assert scene.group.generation == 3


def test_a_restarted_group_goes_on_with_its_settings_and_above_its_generation() -> None:
    scene = Scene(STREAM)
    scene.group = Group({"t": 1}, settings=STREAM, generation=41)
    with pytest.raises(GroupConflict):
        scene.join(0, "a", settings=QUEUE)
    assert scene.join(0, "a")[-1] == Tell("a", 42, of("t0"))


@pytest.mark.parametrize("seconds", [0, -1, 0.5, 1801, float("nan"), float("inf")])
def test_a_session_that_cannot_be_is_refused(seconds: float) -> None:
    scene = Scene(QUEUE, t=1)
    with pytest.raises(InvalidConfig, match="session"):
        scene.join(0, "a", session_timeout=seconds)
    assert scene.group.settings is None


@pytest.mark.parametrize("member", ["", "m" * 257])
def test_a_member_id_that_cannot_be_is_refused(member: str) -> None:
    with pytest.raises(InvalidName):
        Scene(QUEUE, t=1).join(0, member)


# Handing over


def test_a_queue_hands_over_at_once_and_what_stays_is_not_touched() -> None:
    """G10."""
    scene = Scene(QUEUE, t=4)
    scene.join(0, "a")
    effects = scene.join(1, "b")
    assert scene.is_in(GroupState.STABLE)
    assert len(moved(effects)) == 2
    assert scene.told["a"].revoked == scene.told["b"].assignment == moved(effects)
    assert members_told(effects) == ["a", "b"], "who loses hears of it first"


def test_who_is_not_concerned_hears_nothing() -> None:
    scene = Scene(QUEUE, s=1, t=2)
    scene.join(0, "a", "s")
    scene.join(0, "b", "t")
    assert members_told(scene.join(1, "c", "t")) == ["b", "c"]
    assert scene.beat(2, "a", scene.told["a"].generation) == [], "its generation is still good"


def test_a_stream_waits_until_the_old_owner_has_let_go() -> None:
    """G10."""
    scene = Scene(STREAM, t=2)
    scene.join(0, "a")
    effects = scene.join(1, "b")
    assert moved(effects) == frozenset()
    assert scene.told["a"] == Tell("a", 2, of("t0"), of("t1"))
    assert scene.told["b"] == Tell("b", 2, frozenset())
    assert scene.is_in(GroupState.REBALANCING)
    assert scene.confirm(2, "a") == [Assign("t", 1, "b", 3), Tell("b", 3, of("t1"))]
    assert scene.is_in(GroupState.STABLE)


def test_a_stream_waits_sixty_seconds_at_most_and_expels_nobody_for_it() -> None:
    """Pitfall: rebalances that never reached their end."""
    scene = Scene(STREAM, t=2)
    scene.join(0, "a")
    scene.join(1, "b")
    for second in range(4, 61, 3):
        assert scene.beat(second, "a", 1) == [scene.told["a"]], "it has yet to let go"
        assert scene.heartbeat(second, "b") == []
    assert scene.tick(60.9) == []
    assert scene.group.next_deadline() == 61
    assert scene.tick(61) == [Assign("t", 1, "b", 3), Tell("b", 3, of("t1"))]
    assert scene.confirm(62, "a") == [], "late, and no harm"
    assert scene.is_in(GroupState.STABLE)


def test_a_cooperative_member_is_never_driven_out_by_a_rebalance() -> None:
    """Pitfall: eviction of a cooperative member by the eager path."""
    scene = Scene(STREAM, t=6)
    scene.join(0, "a")
    scene.join(0, "b")
    scene.confirm(0, "a")
    kept = scene.owned_by("b")
    effects = scene.join(1, "c")
    assert all(tell.assignment for tell in effects if isinstance(tell, Tell) and tell.member != "c")
    for second in range(2, 70, 2):
        effects += scene.beat(second, "a", 2) + scene.beat(second, "b", 2) + scene.tick(second)
        effects += scene.heartbeat(second, "c")
    assert not [effect for effect in effects if isinstance(effect, Expelled)]
    assert len(scene.owned_by("b") & kept) == 2
    assert scene.sizes() == [2, 2, 2]


@pytest.mark.parametrize("way", ["leaves", "falls silent"])
def test_who_is_gone_need_not_let_go(way: str) -> None:
    scene = Scene(STREAM, t=2)
    scene.join(0, "a")
    scene.join(20, "b")
    scene.seen(scene.leave(21, "a") if way == "leaves" else scene.group.tick(30))
    assert scene.owned_by("b") == of("t0", "t1")
    assert scene.is_in(GroupState.STABLE)


def test_an_overtaken_rebalance_settles_on_the_newest() -> None:
    scene = Scene(STREAM, t=6)
    scene.join(0, "a")
    scene.join(1, "b")
    old = scene.told["a"].generation
    scene.join(2, "c")
    assert scene.beat(3, "a", old) == [scene.told["a"]], "it has more to let go of now"
    assert scene.is_in(GroupState.REBALANCING)
    scene.confirm(4, "a")
    assert scene.is_in(GroupState.STABLE)
    assert scene.sizes() == [2, 2, 2]


def test_a_partition_that_comes_back_while_it_is_let_go_of_just_stays() -> None:
    scene = Scene(STREAM, t=2)
    scene.join(0, "a")
    scene.join(1, "b")
    asked = scene.told["a"].generation
    assert scene.leave(2, "b") == [Tell("a", 3, of("t0", "t1"))]
    assert scene.is_in(GroupState.STABLE)
    assert scene.beat(3, "a", asked) == [scene.told["a"]]
    assert scene.owned_by("a") == of("t0", "t1")


def test_being_overtaken_does_not_begin_the_sixty_seconds_anew() -> None:
    scene = Scene(STREAM, t=8)
    scene.join(0, "a", session_timeout=600)
    scene.join(1, "b", session_timeout=600)
    first = scene.told["a"].revoked
    scene.join(50, "c", session_timeout=600)
    assert scene.group.next_deadline() == 61
    assert moved(scene.tick(61)) == first
    assert scene.group.next_deadline() == 110
    scene.tick(110)
    assert scene.is_in(GroupState.STABLE)
    assert scene.sizes() == [2, 3, 3]


@pytest.mark.parametrize("mode", ["queue", "stream"])
def test_in_an_eager_group_all_let_go_of_all_before_anything_is_given_out(mode: str) -> None:
    scene = Scene(replace(EAGER, mode=mode), t=4)
    scene.join(0, "a")
    scene.join(0, "b")
    scene.confirm(0, "a")
    scene.join(1, "c")
    assert [tell.assignment for tell in scene.told.values()] == [frozenset()] * 3
    assert scene.told["a"].revoked | scene.told["b"].revoked == of("t0", "t1", "t2", "t3")
    scene.confirm(2, "a")
    assert scene.is_in(GroupState.REBALANCING)
    assert scene.owned_by("a") == scene.owned_by("c") == frozenset()
    scene.confirm(3, "b")
    assert scene.is_in(GroupState.STABLE)
    assert scene.sizes() == [1, 1, 2]


def test_an_eager_group_waits_sixty_seconds_at_most() -> None:
    scene = Scene(EAGER, t=2)
    scene.join(0, "a", session_timeout=600)
    scene.join(0, "b", session_timeout=600)
    scene.tick(59)
    assert scene.owned_by("a") == of("t0", "t1")
    scene.tick(60)
    assert scene.sizes() == [1, 1]
    assert scene.is_in(GroupState.STABLE)


def test_an_eager_group_is_as_sticky_as_any() -> None:
    scene = Scene(EAGER, t=6)
    scene.join(0, "a")
    before = scene.owned_by("a")
    scene.join(1, "b")
    scene.confirm(2, "a")
    scene.leave(3, "b")
    scene.confirm(4, "a")
    assert scene.owned_by("a") == before
    scene.join(5, "b")
    scene.confirm(6, "a")
    half = scene.owned_by("a")
    scene.join(7, "c")
    scene.confirm(8, "a")
    scene.confirm(9, "b")
    assert scene.owned_by("a") <= half


def test_an_eager_group_remembers_who_had_what_while_nobody_has_anything() -> None:
    scene = Scene(EAGER, t=6, u=1, v=1)
    for member in "abc":
        scene.join(0, member)
        for other in list(scene.told):
            scene.confirm(0, other)
    before = {member: scene.owned_by(member) for member in "abc"}
    scene.join(1, "d", "u")
    scene.confirm(2, "a")
    scene.confirm(2, "b")
    scene.join(3, "e", "v")
    scene.confirm(4, "c")
    assert {member: scene.owned_by(member) for member in "abc"} == before
    assert scene.sizes() == [1, 1, 2, 2, 2]


def test_an_eager_group_does_not_stir_when_everyone_keeps_their_share() -> None:
    scene = Scene(EAGER, t=2)
    scene.join(0, "a")
    assert scene.join(1, "b", "absent") == [Tell("b", 2, frozenset())]


def test_a_shared_group_has_no_owners_and_everyone_has_everything() -> None:
    scene = Scene(SHARED, s=1, t=2)
    scene.join(0, "a", ["s", "t"])
    effects = scene.join(1, "b")
    assert effects == [Tell("b", 2, of("t0", "t1"))]
    assert scene.told["a"].assignment == of("s0", "t0", "t1")
    scene.seen(scene.group.topics_changed(2, {"t": 3}))
    assert scene.told["a"].assignment == scene.told["b"].assignment == of("t0", "t1", "t2")
