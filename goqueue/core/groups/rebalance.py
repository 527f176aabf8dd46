"""The members of a group and their assignments: the state machine of one group (G10).

A request is decided first: it is refused with a typed error, or a decision is returned, and nothing has changed.
The shell writes what must be durable, and then applies the decision. Events that nobody can refuse (time, topics, a
lost connection) take effect at once. Both are given the monotonic time and return what is to be done, in order.
`next_deadline` says when `tick` is wanted. The rules:

    The first member fixes the settings. They stay when the last one leaves; `alter` changes them.
    A member is alive while it is heard of. It is expelled after its session, or 5 s after its connection closed.
    A member that comes back under its own id resumes: nothing has changed, and it is told again what it has.
    So does another consumer that comes under that id, but it replaces the one before, which is fenced from then on.
    Members that the group had before the broker started are expected back: for 5 s they own what they owned, and
    whoever of them joins has it at once. Whoever else joins gets what is left, as if they were there.
    A static member that closes keeps its place for 5 s, so that a program may be started again without others
    noticing, but not for longer than until somebody else joins. Whoever else closes leaves.
    Members, their subscriptions and the topics decide who is to have what. When one of these changes, a new aim is
    worked out from what everyone has now, and a rebalance under way goes on towards the new aim instead.
    The generation rises with every change of members or owners. A partition that changes hands does so between two
    generations, so in each it has one owner at most. Who is not concerned hears nothing.
    A heartbeat with the generation that the member was told last confirms that it has let go of what that revoked.
    One with an older generation confirms nothing, as it may be of something else, and the member is told again. A
    member that speaks of a newer one knows it from elsewhere and must join again.

How partitions pass from one owner to the next is in ownership.py; whom a partition obeys meanwhile, in tenure.py.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from reprlib import repr as shortened
from typing import NamedTuple

from goqueue.core.groups.assignors import Assignment, TopicPartition, assign
from goqueue.core.groups.decisions import Decision, MemberHeard, MemberJoined, MemberLeft, SettingsAltered
from goqueue.core.groups.effects import Assign, Effect, Expelled, Replaced, Tell
from goqueue.core.groups.member import (
    HEARTBEATS_PER_SESSION,
    HeartbeatMeaning,
    Member,
    MemberProfile,
    MemberView,
    fenced,
)
from goqueue.core.groups.memory import RememberedMember, worth_remembering
from goqueue.core.groups.ownership import LETTING_GO_SECONDS_MAX, Handover, Ownership
from goqueue.core.groups.settings import GroupSettings
from goqueue.core.why.words import counted
from goqueue.errors import GroupConflict, UnknownMember


class GroupState(Enum):
    EMPTY = auto()
    """It has no members; the settings are kept."""
    STABLE = auto()
    """Every partition that is read has its owner."""
    REBALANCING = auto()
    """Some member has yet to let go."""


class Turn(Enum):
    """How things stand after an event."""

    EMPTIED = auto()
    SETTLED = auto()
    WAITING = auto()


TRANSITIONS: dict[GroupState, dict[Turn, GroupState]] = {
    GroupState.EMPTY: {Turn.EMPTIED: GroupState.EMPTY, Turn.SETTLED: GroupState.STABLE},
    GroupState.STABLE: {
        Turn.EMPTIED: GroupState.EMPTY,
        Turn.SETTLED: GroupState.STABLE,
        Turn.WAITING: GroupState.REBALANCING,
    },
    GroupState.REBALANCING: {
        Turn.EMPTIED: GroupState.EMPTY,
        Turn.SETTLED: GroupState.STABLE,
        Turn.WAITING: GroupState.REBALANCING,
    },
}
"""The first member of a group waits for no other, so there is no way from EMPTY to REBALANCING."""


class _Demand(NamedTuple):
    """All that an aim depends on, beside the current owners."""

    readers: dict[str, frozenset[str]]
    partitions: dict[str, int]


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group as people are shown it."""

    state: GroupState
    generation: int
    settings: GroupSettings | None
    members: tuple[MemberView, ...]


class Group:
    def __init__(
        self,
        topics: Mapping[str, int],
        *,
        settings: GroupSettings | None = None,
        generation: int = 0,
    ) -> None:
        """`topics` are all topics with their numbers of partitions. A group that existed before brings its
        settings, and a generation not below its last."""
        self._topics = dict(topics)
        self._settings = settings
        self._generation = generation
        self._state = GroupState.EMPTY
        self._members: dict[str, Member] = {}
        self._ownership = Ownership()
        self._demand = _Demand({}, {})
        self._assigned: dict[TopicPartition, str] = {}
        """The owners as the partitions know them."""

    @property
    def state(self) -> GroupState:
        return self._state

    @property
    def generation(self) -> int:
        return self._generation

    @property
    def settings(self) -> GroupSettings | None:
        """None before the first member."""
        return self._settings

    # Requests: decided, then applied

    def join(self, profile: MemberProfile) -> MemberJoined:
        """A new member, or one that comes back, perhaps with another subscription."""
        profile.check()
        known = self._members.get(profile.id)
        if known is None or known.profile.settings != profile.settings:
            self._check_settings(profile.settings)
        return MemberJoined(profile)

    def leave(self, member_id: str, instance: int = 0) -> MemberLeft:
        """Also for a member that is expected back, whatever the instance: that is not remembered."""
        member = self._members.get(member_id)
        if member is None or not member.is_expected:
            self._member(member_id, instance)
        return MemberLeft(member_id)

    def close(self, member_id: str, instance: int = 0) -> MemberLeft:
        """The member goes and means to come back. Only a static one keeps its place."""
        return MemberLeft(member_id, keeps_place=self._member(member_id, instance).profile.is_static)

    def heartbeat(self, member_id: str, generation: int, instance: int = 0) -> MemberHeard:
        return MemberHeard(member_id, self._present(member_id, instance).meaning_of(generation))

    def alter(self, settings: GroupSettings, *, force: bool = False) -> SettingsAltered:
        """Other settings, for a group without members or by force. Members that read in another manner then (mode,
        shared) are expelled: they have to be started anew. So are members that are away."""
        if self.present and not force and settings != self._settings:
            raise self._not_empty("stop them first, or use force (force=True, --force)")
        return SettingsAltered(settings)

    def check_empty(self) -> None:
        """Members that are away hold nothing, and do not count."""
        if self.present:
            raise self._not_empty("stop them first")

    def _not_empty(self, cure: str) -> GroupConflict:
        return GroupConflict(f"the group has {counted(self.present, 'member')}; {cure}", members=self.present)

    def apply(self, now: float, decision: Decision) -> list[Effect]:
        match decision:
            case MemberJoined(profile):
                return self._joined(now, profile)
            case MemberLeft(member_id, keeps_place=True):
                self._members[member_id].close(now)
                return []
            case MemberLeft(member_id):
                self._remove(self._members[member_id])
                return self._proceed(now, members_changed=True)
            case MemberHeard():
                return self._heard(now, decision)
            case SettingsAltered(settings):
                return self._altered(now, settings)

    def _joined(self, now: float, profile: MemberProfile) -> list[Effect]:
        known, joined = self._members.get(profile.id), Member(profile, now, now)
        self._settings = self._settings or profile.settings
        self._members[profile.id] = joined
        if known is None:
            away = [member for member in self._members.values() if member.is_away]
            return self._expel(now, away, lambda _: "another member came while it was away", again=profile.id)
        joined.resume(known)
        effects, before = self._proceed(now, again=profile.id), known.profile.instance
        if known.is_expected or (before == profile.instance and not known.is_away):
            return effects
        return [Replaced(profile.id, profile.instance, before), *effects]

    def _heard(self, now: float, entry: MemberHeard) -> list[Effect]:
        member = self._members[entry.member]
        member.heard(now)
        if entry.meaning is HeartbeatMeaning.BEHIND:
            return [member.tell_again()]
        if entry.meaning is HeartbeatMeaning.CURRENT:
            return []
        self._ownership.let_go(entry.member)
        return self._proceed(now)

    def _altered(self, now: float, settings: GroupSettings) -> list[Effect]:
        if settings == self._settings:
            return []
        before, self._settings = self._settings or settings, settings
        if {"mode", "shared"} & set(settings.conflicts_with(before)):
            return self.expel_all(now, "the group was altered; join it anew")
        self._aim(now, self._demand)
        away = [member for member in self._members.values() if member.is_absent]
        return self._expel(now, away, lambda _: "the group was altered while it was away")

    # Events that nobody can refuse

    def restore(self, now: float, members: Collection[RememberedMember]) -> list[Effect]:
        """At the start, before any member joins: these were members when the broker ended."""
        assert not self._members, "nobody has joined yet"
        if self._settings is None or self._is_shared:
            return []
        self._members = {each.id: Member.expected(each, self._settings, now) for each in members}
        if not self._members:
            return []
        held = {each.id: frozenset(filter(self._exists, each.assignment)) for each in members}
        self._ownership.restore(held)
        self._state = GroupState.STABLE
        return self._proceed(now)

    def connection_lost(self, now: float, member_id: str) -> None:
        """A connection may close after its member left: then it is no news."""
        if member_id in self._members:
            self._members[member_id].connection_lost(now)

    def topics_changed(self, now: float, topics: Mapping[str, int]) -> list[Effect]:
        """All topics there are now. For one that was deleted and made again, a call without it comes first."""
        self._topics = dict(topics)
        self._ownership.keep_only(self._exists)
        self._assigned = {key: member for key, member in self._assigned.items() if self._exists(key)}
        return self._proceed(now)

    def expel_all(self, now: float, reason: str) -> list[Effect]:
        """What the members know does not hold any more; they have to join anew."""
        return self._expel(now, list(self._members.values()), lambda _: reason)

    def tick(self, now: float) -> list[Effect]:
        silent = [member for member in self._members.values() if member.deadline <= now]
        self._ownership.time_passed(now)
        return self._expel(now, silent, lambda member: member.why_expelled)

    def next_deadline(self) -> float | None:
        deadlines = [member.deadline for member in self._members.values()]
        letting_go = self._ownership.next_deadline()
        return min(deadlines if letting_go is None else [*deadlines, letting_go], default=None)

    # Questions

    @property
    def present(self) -> int:
        """The number of members for which a consumer acts."""
        return sum(not member.is_absent for member in self._members.values())

    def told(self, member_id: str) -> Tell:
        """The newest assignment of a member, and what it has yet to let go of."""
        return self._members[member_id].tell_again()

    def had_by(self, member_id: str) -> Assignment:
        """All partitions of which the member may hold deliveries."""
        return self._members[member_id].had

    def answer_by(self, member_id: str, now: float) -> float:
        """The time at which a heartbeat is answered even if nothing changes."""
        return now + self._members[member_id].profile.session_timeout / HEARTBEATS_PER_SESSION

    def topics_read(self) -> frozenset[str]:
        """By the members that have joined since the start."""
        joined = [key for key, member in self._members.items() if not member.is_expected]
        return frozenset[str]().union(*(self._demand.readers[key] for key in joined))

    @property
    def waits_since(self) -> float | None:
        """Since when some member has yet to let go."""
        until = self._ownership.next_deadline()
        return None if until is None else until - LETTING_GO_SECONDS_MAX

    def remembered(self) -> tuple[RememberedMember, ...]:
        """The members as a broker is to remember them across a restart."""
        if self._is_shared:
            return ()
        held = self._ownership.held()
        return worth_remembering(
            RememberedMember(each.id, each.client, each.subscription, held.get(each.id, frozenset()))
            for each in (member.profile for member in self._members.values())
        )

    def view(self, now: float) -> GroupView:
        return GroupView(
            state=self._state,
            generation=self._generation,
            settings=self._settings,
            members=tuple(self._members[key].view(now) for key in sorted(self._members)),
        )

    # What every event ends with

    def _proceed(self, now: float, *, members_changed: bool = False, again: str | None = None) -> list[Effect]:
        """Go on towards the aim, a new one if need be. The member `again` is told even if nothing changed for
        it."""
        demand = self._new_demand()
        if demand != self._demand:
            self._aim(now, demand)
        following = self._generation + 1
        self._ownership.follow(self._handover)
        assigns = self._changed_hands(following)
        tells = self._news(following)
        if assigns or tells or members_changed:
            self._generation = following
        self._state = TRANSITIONS[self._state][self._turn]
        if again is not None and all(tell.member != again for tell in tells):
            tells.append(self._members[again].tell_again())
        return [*assigns, *tells]

    def _new_demand(self) -> _Demand:
        readers = {key: member.profile.subscription.resolve(self._topics) for key, member in self._members.items()}
        topics = frozenset[str]().union(*readers.values())
        return _Demand(readers, {topic: self._topics[topic] for topic in topics})

    def _aim(self, now: float, demand: _Demand) -> None:
        self._demand = demand
        shares = {} if self._settings is None or self._is_shared else self._shares(self._settings, demand)
        aim = {partition: member for member, share in shares.items() for partition in share}
        self._ownership.aim(aim, self._handover, now)

    def _shares(self, settings: GroupSettings, demand: _Demand) -> dict[str, Assignment]:
        """In an eager group the members may have nothing just now; then what they were to have counts."""
        current = self._ownership.aimed_at() if settings.rebalance == "eager" else self._ownership.held()
        return assign(settings.assignor, demand.readers, demand.partitions, current)

    def _changed_hands(self, generation: int) -> list[Effect]:
        before = self._assigned
        self._assigned = self._ownership.owners()
        both = {**before, **self._assigned}
        changed = [key for key in both if before.get(key) != self._assigned.get(key)]
        return [Assign(*key, self._assigned.get(key), generation) for key in sorted(changed)]

    def _news(self, generation: int) -> list[Tell]:
        """Members that lose something are told first."""
        held, letting_go = self._ownership.held(), self._ownership.let_go_by()
        tells = []
        for member in self._members.values():
            to_let_go = letting_go.get(member.id, frozenset())
            assignment = self._all_of(member) if self._is_shared else held.get(member.id, frozenset()) - to_let_go
            tells.append(member.take(generation, assignment, to_let_go))
        return sorted(filter(None, tells), key=lambda tell: (not tell.revoked, tell.member))

    def _all_of(self, member: Member) -> Assignment:
        topics = self._demand.readers[member.id]
        return frozenset(TopicPartition(topic, number) for topic in topics for number in range(self._topics[topic]))

    @property
    def _turn(self) -> Turn:
        if not self._members:
            return Turn.EMPTIED
        return Turn.SETTLED if self._ownership.is_settled else Turn.WAITING

    @property
    def _is_shared(self) -> bool:
        return self._settings is not None and self._settings.shared

    @property
    def _handover(self) -> Handover:
        if self._settings is not None and self._settings.rebalance == "eager":
            return Handover.ALL_TOGETHER
        if self._settings is not None and self._settings.mode == "stream":
            return Handover.ONE_BY_ONE
        return Handover.AT_ONCE

    # Members

    def _member(self, member_id: str, instance: int) -> Member:
        """`Fenced` if another consumer is the member now."""
        member = self._members.get(member_id)
        if member is None:
            raise UnknownMember(f"{shortened(member_id)} is not in the group, or no longer; join again")
        if member.is_expected:
            raise UnknownMember(f"{shortened(member_id)} was a member before the broker started; join again")
        if member.profile.instance != instance:
            raise fenced(member_id)
        return member

    def _present(self, member_id: str, instance: int) -> Member:
        member = self._member(member_id, instance)
        if member.is_away:
            raise UnknownMember(f"{shortened(member_id)} has closed; join again")
        return member

    def _remove(self, member: Member) -> None:
        del self._members[member.id]
        self._ownership.member_gone(member.id)

    def _expel(
        self, now: float, members: list[Member], reason: Callable[[Member], str], again: str | None = None
    ) -> list[Effect]:
        expelled = [
            Expelled(member.id, reason(member), member.is_absent)
            for member in sorted(members, key=lambda each: each.id)
        ]
        for member in members:
            self._remove(member)
        return [*expelled, *self._proceed(now, members_changed=bool(members), again=again)]

    def _exists(self, partition: TopicPartition) -> bool:
        return partition.partition < self._topics.get(partition.topic, 0)

    def _check_settings(self, asked: GroupSettings) -> None:
        if self._settings is None or not (names := asked.conflicts_with(self._settings)):
            return
        there, wanted = self._settings.to_plain(), asked.to_plain()
        differences = ", ".join(f"{name} is {there[name]!r}, not {wanted[name]!r}" for name in names)
        raise GroupConflict(
            f"the group has other settings: {differences}; ask for the same, or alter the group", settings=names
        )
