"""What the partitions know of a group, and what they are to know.

A partition is told everything once (`AttachGroup`), later only who owns it. It forgets the owner when it is started
again: the count of its lives says so, and it is told everything anew. What a partition did not take (it is down, or
hangs) is left for later, and the group goes on without it: nobody waits for it twice in a row.

Messages to a partition arrive in the order in which they were sent, so a late one never undoes a newer one.
"""

from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from typing import NamedTuple

import trio

from goqueue.actors.delivery.requests import AssignPartition, AttachGroup
from goqueue.actors.runtime.concurrently import call_within, with_each
from goqueue.actors.runtime.ref import ActorRef
from goqueue.actors.topics.requests import FindPartitions
from goqueue.core.groups.assignors import TopicPartition
from goqueue.core.groups.effects import Assign
from goqueue.core.groups.registry import KnownGroup, SeenTopic
from goqueue.core.groups.settings import GroupSettings
from goqueue.core.groups.start import EARLIEST, may_miss
from goqueue.core.ledger.settings import LedgerSettings
from goqueue.core.names import DEAD_LETTER_SUFFIX
from goqueue.errors import GoQueueError, PartitionLost

ANSWER_SECONDS_MAX = 0.5
"""So long a group waits for a partition, once; then others are served first."""
BEGIN_SECONDS_MAX = 20.0
"""So long nobody becomes a member of a group that is to begin at the end of a partition, and has not."""


class Owner(NamedTuple):
    member: str | None
    generation: int


NOBODY = Owner(None, 0)


@dataclass(eq=False, slots=True)
class Attachment:
    topic: SeenTopic
    number: int
    ref: ActorRef | None = None
    wanted: Owner = NOBODY
    known: Owner | None = None
    """None: it is to be told everything."""
    lives: int = 0
    """How often the partition had been started again when it was told."""
    trouble: str | None = None
    is_reported: bool = False
    """That it is in trouble."""
    since: float = field(default_factory=trio.current_time)
    has_begun: bool = False
    """The partition has said that the group reads there."""
    key: TopicPartition = field(init=False)

    def __post_init__(self) -> None:
        self.key = TopicPartition(self.topic.name, self.number)

    was_lost: bool = False
    """Once it is restored, all that it holds was published after the group began."""

    @property
    def begins_late(self) -> bool:
        """It is not known yet where the group begins, and what is published meanwhile would not be the group's."""
        return not self.has_begun and may_miss(self.start) and trio.current_time() < self.since + BEGIN_SECONDS_MAX

    @property
    def start(self) -> str:
        return EARLIEST if self.was_lost else self.topic.start_of(self.number)

    @property
    def is_settled(self) -> bool:
        return self.known == self.wanted and not self.was_restarted

    @property
    def was_restarted(self) -> bool:
        return self.ref is not None and self.ref.restarts != self.lives


def introduction(known: KnownGroup, settings: GroupSettings, listener: ActorRef, place: Attachment) -> AttachGroup:
    """All that a partition is to know of a group."""
    seen = known.topics.get(place.topic.name)
    buries = not place.topic.name.endswith(DEAD_LETTER_SUFFIX)  # dead letters have none themselves
    return AttachGroup(
        known.name,
        known.id,
        LedgerSettings(
            max_deliveries=settings.max_deliveries if buries else 0,
            key_order=settings.key_order,
            strict_lanes=settings.lanes == "strict",
        ),
        place.start,
        listener,
        place.wanted.member,
        place.wanted.generation,
        settings.shared,
        settings.mode == "stream",
        settings.to_plain(),
        is_expected=seen is not None and seen.uuid == place.topic.uuid and place.number < seen.attached,
    )


class Attachments:
    def __init__(
        self,
        group: str,
        topics: ActorRef,
        introduction: Callable[[Attachment], AttachGroup],
        report: Callable[[str], None],
    ) -> None:
        """`introduction` is all that a partition is to know."""
        self._group = group
        self._topics = topics
        self._introduction = introduction
        self._report = report
        self._places: dict[TopicPartition, Attachment] = {}
        self._owners: dict[TopicPartition, Owner] = {}
        """Also of those that are yet to be added."""

    def __iter__(self) -> Iterator[Attachment]:
        return iter(list(self._places.values()))

    def __contains__(self, place: object) -> bool:
        return isinstance(place, Attachment) and self._places.get(place.key) is place

    def find(self, key: TopicPartition) -> Attachment | None:
        return self._places.get(key)

    def at(self, keys: Set[TopicPartition]) -> list[Attachment]:
        return [place for place in self if place.key in keys]

    def of_topic(self, name: str) -> list[Attachment]:
        return [place for place in self if place.topic.name == name]

    def newly_begun(self, seen: SeenTopic) -> list[Attachment]:
        """Partitions behind those of which the register knows that they have the group's ledger, without a gap."""
        begun = list[Attachment]()
        while (place := self.find(TopicPartition(seen.name, seen.attached + len(begun)))) is not None:
            if not place.has_begun or place.topic.uuid != seen.uuid:
                break
            begun.append(place)
        return begun

    def add(self, topic: SeenTopic, partitions: int) -> None:
        """The group reads this topic, which has so many partitions now. One made again replaces the old one."""
        for number in range(partitions):
            key = TopicPartition(topic.name, number)
            place = self._places.get(key)
            if place is None or place.topic.uuid != topic.uuid:
                self._places[key] = Attachment(topic, number, wanted=self._owners.get(key, NOBODY))

    def drop(self, topic: str) -> None:
        for place in self.of_topic(topic):
            del self._places[place.key]
            self._owners.pop(place.key, None)

    def want(self, assign: Assign) -> None:
        key = TopicPartition(assign.topic, assign.partition)
        self._owners[key] = Owner(assign.member, assign.generation)
        if key in self._places:
            self._places[key].wanted = self._owners[key]

    def introduce_again(self) -> None:
        """The settings are others now."""
        for place in self:
            place.known = None

    async def settle(self) -> None:
        """Tell those that do not know what they are to know; who was in trouble waits for `mend`."""
        await self._tell([place for place in self if place.trouble is None and not place.is_settled])

    async def mend(self) -> None:
        """Done each second for each group with members: where nothing is to be told it only looks."""
        await self._tell([place for place in self._places.values() if not place.is_settled])

    @property
    def has_trouble(self) -> bool:
        return any(place.trouble is not None for place in self._places.values())

    async def _tell(self, places: Sequence[Attachment]) -> None:
        if not places:
            return
        await self._find([place for place in places if place.ref is None])
        await with_each(self._tell_one, [place for place in places if place.ref is not None])
        self._report_trouble([place for place in self if place.trouble is not None and not place.is_reported])

    async def _tell_one(self, place: Attachment) -> None:
        assert place.ref is not None, "those that were found are spoken to"
        try:
            await self._speak(place, place.ref)
        except GoQueueError as error:
            place.trouble = error.message
            place.was_lost |= isinstance(error, PartitionLost)
        else:
            place.trouble, place.is_reported = None, False

    async def _find(self, places: Sequence[Attachment]) -> None:
        question = FindPartitions([(place.topic.uuid, place.number) for place in places])
        try:
            found = await call_within(ANSWER_SECONDS_MAX, self._topics, question) if places else ()
        except GoQueueError as error:
            found = (error,) * len(places)
        for place, each in zip(places, found, strict=True):
            if isinstance(each, GoQueueError):
                place.trouble = each.message
            else:
                place.ref = each

    async def _speak(self, place: Attachment, ref: ActorRef) -> None:
        """`known` is what was said when it was said: the wish may be another one by the time of the answer."""
        wanted, lives = place.wanted, ref.restarts
        if place.known is None or lives != place.lives:
            place.known = None
            await call_within(ANSWER_SECONDS_MAX, ref, self._introduction(place))
            place.has_begun = True
        else:
            await call_within(ANSWER_SECONDS_MAX, ref, AssignPartition(self._group, *wanted))
        place.known, place.lives = wanted, lives

    def _report_trouble(self, places: Sequence[Attachment]) -> None:
        """Once of each, and of all together: a first group has a journal made in each of many partitions."""
        for place in places:
            place.is_reported = True
        if places:
            first, rest = places[0], len(places) - 1
            others = f" and {rest} more" if rest else ""
            self._report(
                f"group {self._group} cannot reach partition {first.number} of {first.topic.name}{others}: "
                f"{first.trouble}; {'they are' if rest else 'it is'} tried again"
            )
