"""A group: its members and their assignments. Partitions keep messages and progress.

The core decides; this actor performs its effects in order: partitions learn their owner, then members their
assignments. Everything that a member is told was made durable before: the group, its settings, its start on each
topic, and generations, of which a block is reserved at a time.

A member waits for changes in its heartbeat, a long poll.
"""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf
from uuid import UUID

import trio

from goqueue.actors.delivery.requests import AttachGroup, ReleaseMember, ReplaceMember
from goqueue.actors.groups.attachments import ANSWER_SECONDS_MAX, Attachment, Attachments, introduction
from goqueue.actors.groups.board import GroupBoard
from goqueue.actors.groups.description import assigned, check_may_reset, reset_group
from goqueue.actors.groups.entrance import check_begun, expect_back, profile_of
from goqueue.actors.groups.offsetsfile import OffsetsFile
from goqueue.actors.groups.partitions import check_open_to_outsiders, commit_each, keys_of, tell_each
from goqueue.actors.groups.rebalances import RebalanceTimes
from goqueue.actors.groups.requests import (
    Alter,
    AwaitMembership,
    AwaitRest,
    CheckEmpty,
    CommitFromOutside,
    Join,
    Leave,
    MemberLost,
    ResetOffsets,
)
from goqueue.actors.groups.seats import Seats
from goqueue.actors.metadata.requests import (
    NoteAttached,
    NoteBegun,
    NoteCeased,
    NoteGeneration,
    NoteMembers,
    NoteSettings,
    ReadGroup,
)
from goqueue.actors.runtime.actor import Actor
from goqueue.actors.runtime.concurrently import call_within
from goqueue.actors.runtime.handlers import answers, defers, hears
from goqueue.actors.runtime.messages import News, Reply, Request
from goqueue.actors.runtime.ref import ActorRef
from goqueue.actors.topics.requests import OutlineTopics, TopicOutline, TopicsChanged, WatchTopics
from goqueue.core.groups import rebalance
from goqueue.core.groups.effects import Assign, Effect, Expelled, Replaced, Tell, tells
from goqueue.core.groups.member import HeartbeatMeaning, fenced
from goqueue.core.groups.registry import KnownGroup, SeenTopic
from goqueue.core.groups.settings import GroupSettings
from goqueue.core.groups.start import EARLIEST, check_start
from goqueue.core.groups.views import MemberState, MovedOffset
from goqueue.errors import GoQueueError, GroupConflict, UnknownMember
from goqueue.storage.log.volume import Volume

logger = logging.getLogger("goqueue.group")

MEMBERS_MAX = 10_000
GENERATIONS_RESERVED = 1_000
GENERATIONS_LEFT_MIN = 4
"""Minimum of reserved generations that must be left: no event needs more."""
REMEMBER_SECONDS = 1.0
"""The delay before a change of members or owners is written, so that many changes are one write."""
LOOK_SECONDS, IDLE_SECONDS = 1.0, 30.0
"""The time between two checks for partitions that were down or have been restarted."""


@dataclass(frozen=True, slots=True)
class LedgersDurable(News):
    """From a group to itself: this number of partitions, from the first on, have its ledger durably."""

    topic: str
    uuid: UUID
    partitions: int


class Group(Actor):
    def __init__(
        self, name: str, volume: Volume, data: str, topics: ActorRef, register: ActorRef, *, times: RebalanceTimes
    ) -> None:
        self._name = name
        self._rebalance_times = times
        self._topics = topics
        self._register = register
        self._known = KnownGroup(name, 0)
        self._there: dict[str, TopicOutline] = {}
        self._core = rebalance.Group({})
        self._seats = Seats(self._as_membership)
        self._postponed_until = 0.0
        self._remember_at: float | None = None
        self._looks_again, self._roused = False, trio.Event()
        self._starts: dict[str, str] = {}
        """The starts on topics that the group sees and that the register has not taken yet."""
        self._attachments = Attachments(name, topics, self._introduction, self._report)
        self._offsets = OffsetsFile(volume, data, name, self._report, lambda: list(self._attachments))
        self.reports: list[str] = []

    async def start(self) -> None:
        self._known = await self._register.call(ReadGroup(self._name))
        self._there = _by_name(await self._topics.call(WatchTopics(self.ref)))
        self._core = rebalance.Group(
            self._partition_counts(), settings=self._known.settings, generation=self._known.generation
        )
        for seen in self._known.topics.values():
            self._attach(seen)
        expect_back(self._core, self._known, self._attachments)
        self.show(GroupBoard(self._name, self._core, self._attachments, lambda: self._there))
        self.background(self._look_after_partitions, endless=True)
        self.background(self._offsets.keep, self.await_hint, endless=True)

    async def stop(self) -> None:
        await self._remember_members()
        await self._offsets.end(self.ref.hint)

    def close(self) -> None:
        self.show(None)

    def _is_idle(self) -> bool:
        return not len(self._seats)

    def stop_asked(self) -> None:
        self._answer_heartbeats(inf)  # a stop does not wait for heartbeats

    def _report(self, text: str) -> None:
        self.reports.append(text)
        del self.reports[:-100]
        logger.warning("%s", text)

    @property
    def _settings(self) -> GroupSettings:
        """The group's settings, which its first member fixes; before that the defaults."""
        return self._core.settings or GroupSettings()

    # Members

    @answers(Join)
    async def join(self, message: Join) -> MemberState:
        settings = GroupSettings.asked_for(self._core.settings, message.settings, message.defaults)
        check_start(message.start)
        if message.member not in self._seats and len(self._seats) >= MEMBERS_MAX:
            raise GroupConflict(f"the group has {MEMBERS_MAX:,} members, as many as may be", members=MEMBERS_MAX)
        joined, topics = self._core.join(profile_of(message, settings)), message.subscription.resolve(self._there)
        await self._note_join(settings, topics, message.start)
        effects = self._core.apply(trio.current_time(), joined)
        await self._replace(effects)
        self._seats.take(message.member, message.connection)
        self._roused.set()
        await self._begin(topics, message.start)
        await self._perform(effects)
        check_begun(self._name, topics, self._starts, self._attachments)
        return next(self._as_membership(each) for each in tells(effects) if each.member == message.member)

    async def _note_join(self, settings: GroupSettings, topics: Iterable[str], start: str) -> None:
        """One write for all that a first member needs. Without need of settings or generations nothing is written:
        a full disk keeps no consumer from its messages."""
        asked = settings if self._core.settings is None else None
        if asked is not None or self._is_short_of_generations:
            begun, reserved = self._unseen(topics, start), self._core.generation + GENERATIONS_RESERVED
            self._known = await self._register.call(NoteBegun(self._name, begun, asked, reserved))
            for seen in begun:
                self._starts.pop(seen.name, None)

    async def _replace(self, effects: Sequence[Effect]) -> None:
        """End the leases of the consumer before, durably, before the new one is answered."""
        for effect in effects:
            if isinstance(effect, Replaced):
                had = self._core.had_by(effect.member)
                message = ReplaceMember(self._name, effect.member, effect.instance, effect.before)
                await tell_each(self._attachments.at(had), message, self._report)
                self._seats.refuse(effect.member, fenced(effect.member))

    async def _write_settings(self, settings: GroupSettings) -> None:
        self._known = await self._register.call(NoteSettings(self._name, settings))

    @defers(AwaitMembership)
    async def await_membership(self, message: AwaitMembership, reply: Reply[MemberState]) -> None:
        heard = self._core.heartbeat(message.member, message.generation, message.instance)
        if heard.meaning is HeartbeatMeaning.CONFIRMS:
            await self._reserve_generations()
        await self._perform(self._core.apply(trio.current_time(), heard))
        told, soon = self._core.told(message.member), self._core.answer_by(message.member, trio.current_time())
        self._seats.answer(told)
        self._seats.wait(message, reply, min(message.deadline, soon))
        if told.generation != message.generation:
            self._seats.answer(told)

    def _answer_heartbeats(self, until: float) -> None:
        for member in self._seats.waiting(until):
            self._seats.answer(self._core.told(member))

    @answers(Leave)
    async def leave(self, message: Leave) -> None:
        decide = self._core.close if message.keeps_place else self._core.leave
        gone, had = decide(message.member, message.instance), self._core.had_by(message.member)
        if gone.keeps_place:
            self._seats.refuse(message.member, UnknownMember(f"{message.member} has closed; join again"))
        else:
            await self._reserve_generations()
            self._seats.leave(message.member, "it has left")
        effects = self._core.apply(trio.current_time(), gone)
        released = ReleaseMember(self._name, message.member, True, message.instance, gone.keeps_place)
        await tell_each(self._attachments.at(had), released, self._report)
        await self._perform(effects)

    @answers(MemberLost)
    async def member_lost(self, message: MemberLost) -> None:
        """Ignored if the member has moved to another connection."""
        if self._seats.is_on(message.member, message.connection):
            self._core.connection_lost(trio.current_time(), message.member)

    # Topics

    @hears(TopicsChanged)
    async def topics_changed(self, _sender: str, _news: TopicsChanged) -> None:
        try:
            there = _by_name(await call_within(ANSWER_SECONDS_MAX, self._topics, OutlineTopics()))
            await self._reserve_generations()
        except GoQueueError as error:
            self._look_again(error)
        else:
            await self._take_topics(there)

    def _look_again(self, error: GoQueueError) -> None:
        self._report(f"group {self._name} is not up to date with its topics: {error.message}; it is tried again")
        self._looks_again = True
        self._roused.set()

    async def _take_topics(self, there: dict[str, TopicOutline]) -> None:
        """A topic that was created again is another one: the old one is removed first."""
        self.ref.hint()  # other partitions belong to the group now
        before, now = self._there, trio.current_time()
        again = {name for name, each in there.items() if name in before and before[name].uuid != each.uuid}
        effects = list[Effect]()
        if again:
            self._there = {name: each for name, each in there.items() if name not in again}
            effects += self._core.topics_changed(now, self._partition_counts())
        self._there = there
        effects += self._core.topics_changed(now, self._partition_counts())
        await self._let_go_of_topics()
        for seen in self._known.topics.values():
            self._attach(seen)
        # All messages of a later topic were published after the group began (G5).
        await self._begin(self._core.topics_read(), EARLIEST)
        await self._perform(effects)

    async def _let_go_of_topics(self) -> None:
        for seen in list(self._known.topics.values()):
            there = self._there.get(seen.name)
            if there is None or there.uuid != seen.uuid:
                self._attachments.drop(seen.name)
                await self._note(NoteCeased(self._name, seen.name, seen.uuid))

    async def _begin(self, names: Iterable[str], start: str) -> None:
        """The group sees these topics, perhaps for the first time: its start is durable before it reads."""
        names = sorted(names)
        unseen = self._unseen(names, start)
        for seen in unseen:
            self._starts[seen.name] = seen.start
        if unseen and await self._note(NoteBegun(self._name, unseen)):
            for seen in unseen:
                del self._starts[seen.name]
        for name in names:
            if name in self._known.topics:
                self._attach(self._known.topics[name])

    def _unseen(self, names: Iterable[str], start: str) -> tuple[SeenTopic, ...]:
        """Those of these topics that the register does not have; with the start of the first member that asked."""
        there = [self._there[name] for name in names]
        known = {(seen.name, seen.uuid) for seen in self._known.topics.values()}
        return tuple(
            SeenTopic(each.name, each.uuid, each.partitions, self._starts.get(each.name, start))
            for each in there
            if (each.name, each.uuid) not in known
        )

    async def _note(self, note: Request[KnownGroup]) -> bool:
        try:
            self._known = await self._register.call(note)
        except GoQueueError as error:
            self._look_again(error)
            return False
        return True

    def _partition_counts(self) -> dict[str, int]:
        return {name: each.partitions for name, each in self._there.items()}

    def _attach(self, seen: SeenTopic) -> None:
        there = self._there.get(seen.name)
        if there is not None and there.uuid == seen.uuid:
            self._attachments.add(seen, there.partitions)

    # Operators

    @answers(AwaitRest)
    async def await_rest(self, _: AwaitRest) -> None:
        """Its turn has come: there is nothing else to do."""

    @answers(CheckEmpty)
    async def check_empty(self, _: CheckEmpty) -> None:
        self._core.check_empty()

    @answers(Alter)
    async def alter(self, message: Alter) -> None:
        altered = self._core.alter(self._settings.altered(message.settings), force=message.force)
        await self._reserve_generations()
        await self._write_settings(altered.settings)
        effects = self._core.apply(trio.current_time(), altered)
        self._attachments.introduce_again()
        await self._perform(effects)
        await self._attachments.settle()

    @defers(ResetOffsets)
    async def reset(self, message: ResetOffsets, reply: Reply[tuple[MovedOffset, ...]]) -> None:
        check_start(message.start)
        check_may_reset(self._name, self._core.present, message)
        attachments = list(self._attachments)
        if not len(self._seats) or message.dry_run or self._settings.mode != "stream":
            self.background(reset_group, self._name, message, attachments, reply)
            return
        # The positions of a stream's members are void, and none of them may commit after the reset.
        await self._reserve_generations()
        await self._perform(self._core.expel_all(trio.current_time(), "the group was reset; join it anew"))
        await reset_group(self._name, message, attachments, reply)

    @answers(CommitFromOutside)
    async def commit_from_outside(self, message: CommitFromOutside) -> tuple[GoQueueError | None, ...]:
        """The group is created if need be, as a stream. A new topic is read from its beginning."""
        check_open_to_outsiders(self._name, self._core.present, self._core.settings)
        keys = keys_of(message.commits, self._there.values())
        if self._core.settings is None:
            altered = self._core.alter(GroupSettings(mode="stream"))
            await self._write_settings(altered.settings)
            await self._perform(self._core.apply(trio.current_time(), altered))
        await self._begin({key.topic for key in keys}, EARLIEST)
        await self._attachments.mend()
        return await commit_each(self._name, message.commits, [self._attachments.find(key) for key in keys])

    # Effects of the core

    async def _perform(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Expelled):
                self._expel(effect)
            elif isinstance(effect, Assign):
                self._attachments.want(effect)
        if effects:
            await self._attachments.settle()
        self._rebalance_times.note(effects, self._core.waits_since)
        for tell in tells(effects):
            self._seats.answer(tell)
        if effects and self._is_idle():
            await self._remember_members()
        elif effects and self._remember_at is None:
            self._remember_at = trio.current_time() + REMEMBER_SECONDS

    async def _remember_members(self) -> None:
        """For the next start. A kill may lose the newest change; but an empty group is noted at once, so that its
        next member does not wait for those that left."""
        self._remember_at, members = None, self._core.remembered()
        if members != self._known.members:
            try:
                self._known = await self._register.call(NoteMembers(self._name, members))
            except GoQueueError:
                self._remember_at = trio.current_time() + REMEMBER_SECONDS

    def _expel(self, effect: Expelled) -> None:
        level = logging.INFO if effect.was_absent else logging.WARNING
        logger.log(level, "group %s: %s is no member any more: %s", self._name, effect.member, effect.reason)
        self._seats.leave(effect.member, effect.reason)

    def _as_membership(self, told: Tell) -> MemberState:
        assignment, revoked = assigned(told.assignment, self._there), assigned(told.revoked, self._there)
        return MemberState(told.member, told.generation, self._settings.to_plain(), assignment, revoked)

    # Time

    def next_deadline(self) -> float | None:
        core = self._core.next_deadline()
        due = None if core is None else max(core, self._postponed_until)
        times = [self._seats.next_deadline(), self._remember_at, due]
        return min((time for time in times if time is not None), default=None)

    async def tick(self, now: float) -> None:
        self._answer_heartbeats(now)
        if self._remember_at is not None and self._remember_at <= now:
            await self._remember_members()
        due = self._core.next_deadline()
        if due is not None and due <= now and now >= self._postponed_until:
            await self._let_time_pass(now)

    async def _let_time_pass(self, now: float) -> None:
        try:
            await self._reserve_generations()
        except GoQueueError as error:
            self._report(f"group {self._name} cannot go on: {error.message}; it is tried again")
            self._postponed_until = now + LOOK_SECONDS
        else:
            await self._perform(self._core.tick(now))

    @property
    def _is_short_of_generations(self) -> bool:
        return self._core.generation + GENERATIONS_LEFT_MIN > self._known.generation

    async def _reserve_generations(self) -> None:
        """A generation is never given out twice, whatever crashes."""
        if self._is_short_of_generations:
            reserved = self._core.generation + GENERATIONS_RESERVED
            self._known = await self._register.call(NoteGeneration(self._name, reserved))

    # Partitions

    def _introduction(self, attachment: Attachment) -> AttachGroup:
        return introduction(self._known, self._settings, self.ref, attachment)

    @hears(LedgersDurable)
    async def ledgers_durable(self, _sender: str, news: LedgersDurable) -> None:
        await self._note(NoteAttached(self._name, news.topic, news.uuid, news.partitions))

    async def _look_after_partitions(self) -> None:
        while True:
            await self._attachments.mend()
            for seen in list(self._known.topics.values()):
                if (count := self._attachments.count_durable(seen)) > seen.attached:
                    self.ref.news(self._name, LedgersDurable(seen.name, seen.uuid, count))
            if self._looks_again:
                self._looks_again = False
                self.ref.news(self._name, TopicsChanged())
            await self._rest()

    async def _rest(self) -> None:
        """Longer without members and without trouble: a thousand unused groups cost nothing."""
        if self._is_idle() and not self._attachments.has_trouble:
            self._roused = trio.Event()
            with trio.move_on_after(IDLE_SECONDS):
                await self._roused.wait()
        await trio.sleep(LOOK_SECONDS)


def _by_name(outline: Iterable[TopicOutline]) -> dict[str, TopicOutline]:
    return {each.name: each for each in outline}
