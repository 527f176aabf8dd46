"""What the members of one group did and saw, and the guarantees that follow from it (G4 to G7, G10).

Values are published once in a whole run, so a place names a message; what became of each is its `Story`.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

import trio

import goqueue
from goqueue.client.consuming.delivery import DeliveredMessage
from goqueue.client.consuming.stock import leased_seconds, spare_seconds
from tests.sim.clients.history import Place
from tests.sim.disk.history import Violation
from tests.sim.groups.book import GroupBook
from tests.sim.groups.letters import DeadLetter
from tests.sim.groups.stories import SLACK_SECONDS, Held, Story

WIRE_SECONDS_MAX = 0.2
"""What is said is heard within this time, on lines that are not slow."""


def place_of(message: goqueue.Message) -> Place:
    return Place(message.topic, message.partition, message.offset)


@dataclass(slots=True)
class GroupHistory(GroupBook):
    stories: dict[Place, Story] = field(default_factory=lambda: defaultdict(Story))
    doubtful: set[Place] = field(default_factory=set)
    """What the group's progress has passed though nobody acked it: dead letters, then."""
    _highest_firsts: dict[tuple[str, str, int, int], int] = field(default_factory=dict)
    _by_key: dict[tuple[str, int, int, bytes], list[Held]] = field(default_factory=lambda: defaultdict(list))
    _awaited: dict[str, list[Held]] = field(default_factory=dict)
    """What consumers are to be handed first, as the one before them held it when it died."""
    _has_given_back: bool = False
    _meets_damage: bool = False

    # Consumers that come and go

    def enter(self, member: str | None, holder: str) -> None:
        """Whatever others hold under this id may come again from now on."""
        GroupBook.enter(self, member, holder)
        for held in self._held_by_others(member, holder):
            held.replaceable_from = min(held.replaceable_from, trio.current_time())

    def entered(self, member: str | None, holder: str, begun_at: float, *, is_sound: bool) -> None:
        """§5: what they held before is stale from now on, and comes again at once."""
        GroupBook.entered(self, member, holder, begun_at, is_sound=is_sound)
        if is_sound and begun_at > self.ended_at:
            replaced = [each for each in self._held_by_others(member, holder) if self.ended_at < each.at < begun_at]
            for held in replaced:
                held.until_most = min(held.until_most, trio.current_time())
            if not self.has_others(member, holder):
                self._awaited[holder] = [each for each in replaced if self._comes_beside_others(each)]

    def lose_members(self) -> None:
        """The broker may have handed anything to those who have just come, and they never heard of it: that was an
        attempt."""
        GroupBook.lose_members(self)
        self._awaited.clear()

    def _comes_beside_others(self, held: Held) -> bool:
        """When it comes again: not as a dead letter, nor alone."""
        return not self.setup.max_deliveries or held.attempt + 1 < self.setup.max_deliveries

    def _held_by_others(self, member: str | None, holder: str) -> list[Held]:
        """By consumers of the same member; and nobody has said what becomes of it."""
        helds = [held for story in self.stories.values() for held in story.deliveries if member is not None]
        return [held for held in helds if held.member == member and held.holder != holder and held.is_open]

    def note_received(
        self, holder: str, messages: Sequence[DeliveredMessage], assignment: Collection[tuple[str, int]]
    ) -> None:
        """§5: the first that somebody gets of a lane is what the one before it held; it does not wait for that."""
        came = {place_of(message): message.attempt for message in messages}
        fresh = {(each.topic, each.partition, each.priority) for each in messages if each.attempt == 1}
        for held in self._awaited.pop(holder, ()):
            key, story = (held.place.topic, held.place.partition), self.stories[held.place]
            is_due = (*key, held.lane) in fresh or (not came and key in assignment)
            if is_due and held.place not in came and story.deliveries[-1:] == [held]:
                raise Violation(f"§5: {holder} came in its place, and was not handed {held} at once")

    # What members are handed

    def hand(
        self,
        holder: str,
        member: str | None,
        messages: Sequence[DeliveredMessage],
        visibility: float,
        *,
        is_extended: bool,
        is_prompt: bool,
    ) -> list[Held]:
        """`is_extended`: the client renews the lease by itself while the message is worked on.

        `is_prompt`: what the member and the broker say to each other is heard soon.
        """
        now = trio.current_time()
        until_least = now + visibility - WIRE_SECONDS_MAX if is_prompt else now
        until_most = self.latest_end(visibility) if is_prompt and not is_extended else math.inf
        return self.hand_leased(holder, member, messages, (until_least, until_most), is_prompt=is_prompt)

    def hand_leased(
        self,
        holder: str,
        member: str | None,
        messages: Sequence[DeliveredMessage],
        until: tuple[float, float],
        *,
        is_prompt: bool,
    ) -> list[Held]:
        """`until`: when their leases end, at least and at most."""
        now, row = trio.current_time(), list[Held]()
        until_least, until_most = until
        for message in messages:
            self.clients.see(message)
            held = Held(
                place_of(message), holder, message.attempt, str(message.receipt), now, until_least, until_most
            )
            held.member, held.lane = member, message.priority
            if self.has_others(member, holder):
                held.replaceable_from = now
            self._take_up(held, is_prompt)
            if self.setup.keeps_key_order and message.key:
                self._check_key_order(held, message.key)
            row.append(held)
        self._check_last_is_alone(row)
        self._check_lanes(messages)
        return row

    def _check_lanes(self, messages: Sequence[DeliveredMessage]) -> None:
        """§8: of one delivery the higher lanes come first, and each in order of offset. Repaired messages go first,
        though they may lie behind what their lane has not come to."""
        deliveries: dict[tuple[str, int, int], list[tuple[int, int]]] = defaultdict(list)
        for message in messages:
            origin = message.delivery.origin
            deliveries[origin.topic, origin.partition, origin.nonce].append((message.priority, message.offset))
        for name, order in deliveries.items():
            if order != sorted(order) and not self._meets_damage:
                raise Violation(f"§8: {name} was handed out in the order {order}")

    def latest_end(self, seconds: float) -> float:
        """When a lease ends that was asked for just now: the client's own renewals may be under way."""
        return trio.current_time() + leased_seconds(seconds) + WIRE_SECONDS_MAX

    def _take_up(self, held: Held, is_prompt: bool) -> None:
        story = self.stories[held.place]
        if self._may_be_from_before_the_cut or (not is_prompt and held.attempt < story.attempt_least):
            held.is_open, held.until_most = False, math.inf
            story.note_receipt(held)
            return
        story.hand(held, self.setup.max_deliveries)
        if held.attempt == 1 and not self.setup.keeps_key_order:
            self._check_order(held)

    @property
    def _may_be_from_before_the_cut(self) -> bool:
        """What a client had received before the power failed is handed out while its lease is young."""
        window = spare_seconds(self.setup.visibility_most) + WIRE_SECONDS_MAX
        return trio.current_time() <= self._power_cut_at + window

    def _check_order(self, held: Held) -> None:
        """G4: to one member, within a lane, unless somebody gave messages back: these come again with number 1.
        Whoever has lost a partition does so of itself with what it has not opened, when the next one may have
        begun."""
        partition = (held.place.topic, held.place.partition)
        row = (held.holder, *partition, held.lane)
        before, self._highest_firsts[row] = self._highest_firsts.get(row, -1), held.place.offset
        if held.place.offset <= before and not self._has_given_back and not self.has_just_moved(partition):
            raise Violation(f"G4: {held} came for the first time, after offset {before}")

    def _check_key_order(self, held: Held, key: bytes) -> None:
        """§5: nobody has an earlier one of its key and lane, and none waits for its retry."""
        row = self._by_key[held.place.topic, held.place.partition, held.lane, key]
        for other in row if held.is_open else ():
            if other.place.offset < held.place.offset and self._is_at_work(other, held.at):
                raise Violation(f"§5: {held} came before {other}, of the same key {key!r}, was done")
        row.append(held)

    def _is_at_work(self, held: Held, now: float) -> bool:
        story = self.stories[held.place]
        waits = now < story.not_before - SLACK_SECONDS and story.done is None and story.gone is None
        return waits or (held.is_open and now < held.stands_until)

    def _check_last_is_alone(self, row: Sequence[Held]) -> None:
        """§6: behind a delivery that ended without a word, the last one is made alone."""
        for held in row if len(row) > 1 else ():
            before = self.stories[held.place].deliveries[-2:-1]
            is_counted = before and before[0].attempt < held.attempt
            if held.attempt == self.setup.max_deliveries and is_counted and before[0].is_open:
                raise Violation(f"§6: {held}, its last delivery, came with {len(row) - 1} others after {before[0]}")

    # What members say

    def begin_word(self, row: Iterable[Held], *, acks: bool = False, reason: str | None = None) -> None:
        for held in row:
            story = self.stories[held.place]
            if acks:
                story.begin_ack(held)
            story.begin_word(held)
            if reason is not None:
                story.reasons.add(reason)

    def meet_damage(self) -> None:
        """Some messages come late, after a repair."""
        self._has_given_back = self._meets_damage = True

    def give_back(self, row: Iterable[Held]) -> None:
        """A release begins, or the consumer closes."""
        self._has_given_back = True
        for held in row:
            self.stories[held.place].may_be_given_back(held)

    # What happens to the broker

    def lose_power(self) -> None:
        GroupBook.lose_power(self)
        self._has_given_back = True
        self._awaited.clear()
        for story in self.stories.values():
            story.forget_promises()

    def lose_time(self) -> None:
        for story in self.stories.values():
            story.forget_times()

    # What the group says of itself

    def _note_progress(self, topic: str, partition: int, committed: int, since: float) -> None:
        """G5: what is done was acked, or is a dead letter. What may yet be lost with its offset says nothing."""
        for offset in range(committed):
            place = Place(topic, partition, offset)
            if place in self.clients.kept and not self._is_perhaps_acked(place):
                self.doubtful.add(place)

    def _is_perhaps_acked(self, place: Place) -> bool:
        return place in self.stories and bool(self.stories[place].possible_acks)

    # In the end

    def check_end(self, letters: Collection[DeadLetter]) -> None:
        """G5: each message was acked, or is a dead letter, and not both."""
        dead = {letter.origin for letter in letters}
        for place, value in self.clients.kept.items():
            if self.is_ours(place, value):
                self._check_outcome(place, is_dead=place in dead)
        for place in sorted(self.doubtful - dead):
            if self.is_ours(place, self.clients.kept[place]):
                raise Violation(f"G5: {self.setup.name} has passed {place}, which was never acked nor given up")
        for letter in letters:
            self._check_was_given_up(letter)

    def _check_was_given_up(self, letter: DeadLetter) -> None:
        """§6: by a reject, or since there were as many deliveries as there may be."""
        was_rejected = letter.headers.reason in self.stories[letter.origin].reasons
        if not was_rejected and letter.headers.attempts != self.setup.max_deliveries:
            raise Violation(f"§6: {letter.headers} is a dead letter, and nobody gave it up")

    def _check_outcome(self, place: Place, *, is_dead: bool) -> None:
        story = self.stories[place]
        if not is_dead and not story.possible_acks:
            raise Violation(f"G5: {self.setup.name} has neither acked {place} nor given it up: {story}")
        if not is_dead and story.gone is not None:
            raise Violation(f"§6: {story.gone} was given up and is no dead letter")
        if is_dead and story.done is not None:
            raise Violation(f"G5: {story.done} was acked and is a dead letter too")
