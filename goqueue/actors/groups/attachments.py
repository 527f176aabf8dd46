"""Attachments of a group: what each of its partitions knows of the group, and what it has to know.

A partition is told everything once (`AttachGroup`), later only its owner. It forgets the owner when it is started
again: the count of its restarts says so, and it is told everything anew. A partition that does not answer (it is
down, or hangs) is told later, and the group goes on without it: it is not waited for twice in succession.

Messages to a partition arrive in the order in which they were sent, so a late one never undoes a newer one.

A partition answers that a group reads there before that is durable. So its board is looked at some time later, and
the register notes which ledgers are durable: then a loss is noticed. That happens once for each topic, and costs no
sync of a ledger.
"""

from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from typing import NamedTuple

import trio

from goqueue.actors.delivery.board import LedgerBoard
from goqueue.actors.delivery.requests import AssignPartition, AttachGroup
from goqueue.actors.partition.board import PartitionBoard
from goqueue.actors.runtime.concurrently import call_within, with_each
from goqueue.actors.runtime.ref import ActorRef
from goqueue.actors.topics.requests import FindPartitions
from goqueue.core.groups.assignors import TopicPartition
from goqueue.core.groups.effects import Assign
from goqueue.core.groups.registry import KnownGroup, SeenTopic
from goqueue.core.groups.settings import GroupSettings, ledger_settings
from goqueue.core.groups.start import EARLIEST, may_miss
from goqueue.errors import GoQueueError, PartitionLost

ANSWER_SECONDS_MAX = 0.5
"""Limit of the wait of a group for a partition, once; then others are served first."""
BEGIN_SECONDS_MAX = 20.0
"""Limit of the time for which joins are refused until the group has begun at the end of a partition."""


class PartitionOwner(NamedTuple):
    member: str | None
    generation: int


NOBODY = PartitionOwner(None, 0)


@dataclass(eq=False, slots=True)
class Attachment:
    topic: SeenTopic
    number: int
    ref: ActorRef | None = None
    wanted: PartitionOwner = NOBODY
    known: PartitionOwner | None = None
    """None: the partition has to be told everything."""
    lives: int = 0
    """The number of restarts of the partition when it was told."""
    trouble: str | None = None
    is_reported: bool = False
    """The trouble was reported."""
    since: float = field(default_factory=trio.current_time)
    has_begun: bool = False
    """The partition has said that the group reads there."""
    key: TopicPartition = field(init=False)

    def __post_init__(self) -> None:
        self.key = TopicPartition(self.topic.name, self.number)

    was_lost: bool = False
    """Once the partition is restored, all its messages were published after the group began."""

    @property
    def board(self) -> LedgerBoard | None:
        """What the partition shows of its groups; None while it is down."""
        board = None if self.ref is None else self.ref.board
        return board.ledgers if isinstance(board, PartitionBoard) else None

    @property
    def is_beginning(self) -> bool:
        """The partition is being told of the group."""
        return not self.has_begun and self.trouble is None and trio.current_time() < self.since + ANSWER_SECONDS_MAX

    @property
    def begins_late(self) -> bool:
        """The group has not begun there yet, and would miss messages that are published meanwhile."""
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


def introduction(
    known: KnownGroup, settings: GroupSettings, listener: ActorRef, attachment: Attachment
) -> AttachGroup:
    """Everything that a partition has to know of a group."""
    seen = known.topics.get(attachment.topic.name)
    return AttachGroup(
        known.name,
        known.id,
        ledger_settings(known.name, attachment.topic.name, settings),
        attachment.start,
        listener,
        attachment.wanted.member,
        attachment.wanted.generation,
        settings.shared,
        settings.mode == "stream",
        settings.to_plain(),
        is_expected=seen is not None and seen.uuid == attachment.topic.uuid and attachment.number < seen.attached,
    )


class Attachments:
    def __init__(
        self,
        group: str,
        topics: ActorRef,
        introduction: Callable[[Attachment], AttachGroup],
        report: Callable[[str], None],
    ) -> None:
        """`introduction` is everything that a partition has to know."""
        self._group = group
        self._topics = topics
        self._introduction = introduction
        self._report = report
        self._attached: dict[TopicPartition, Attachment] = {}
        self._owners: dict[TopicPartition, PartitionOwner] = {}
        """Also for partitions that are yet to be added."""
        self._settled_at: int | None = None
        """The starts of all partitions when each attachment was last found up to date; None after a change."""

    def __iter__(self) -> Iterator[Attachment]:
        return iter(list(self._attached.values()))

    def __len__(self) -> int:
        return len(self._attached)

    def __contains__(self, attachment: object) -> bool:
        return isinstance(attachment, Attachment) and self._attached.get(attachment.key) is attachment

    def find(self, key: TopicPartition) -> Attachment | None:
        return self._attached.get(key)

    def at(self, keys: Set[TopicPartition]) -> list[Attachment]:
        return [attachment for attachment in self if attachment.key in keys]

    def of_topic(self, name: str) -> list[Attachment]:
        return [attachment for attachment in self if attachment.topic.name == name]

    def count_durable(self, seen: SeenTopic) -> int:
        """How many partitions of a topic, from the first on, have the group's ledger durably."""
        count = seen.attached
        while (attachment := self.find(TopicPartition(seen.name, count))) is not None:
            board = attachment.board if attachment.topic.uuid == seen.uuid else None
            if not attachment.has_begun or board is None or not board.is_durable(self._group):
                break
            count += 1
        return count

    def add(self, topic: SeenTopic, partitions: int) -> None:
        """The group reads this topic, now with `partitions`. One that was created again replaces the old one."""
        for number in range(partitions):
            key = TopicPartition(topic.name, number)
            attachment = self._attached.get(key)
            if attachment is None or attachment.topic.uuid != topic.uuid:
                self._attached[key] = Attachment(topic, number, wanted=self._owners.get(key, NOBODY))
                self._settled_at = None

    def drop(self, topic: str) -> None:
        for attachment in self.of_topic(topic):
            del self._attached[attachment.key]
            self._owners.pop(attachment.key, None)

    def want(self, assign: Assign) -> None:
        key = TopicPartition(assign.topic, assign.partition)
        self._owners[key] = PartitionOwner(assign.member, assign.generation)
        self._settled_at = None
        if key in self._attached:
            self._attached[key].wanted = self._owners[key]

    def introduce_again(self) -> None:
        """The settings have changed: tell all partitions everything anew."""
        self._settled_at = None
        for attachment in self:
            attachment.known = None

    async def settle(self) -> None:
        """Update the partitions that are not up to date; those in trouble wait for `mend`."""
        await self._tell(
            [attachment for attachment in self if attachment.trouble is None and not attachment.is_settled]
        )

    async def mend(self) -> None:
        """Called every second for each group with members; it costs nothing until something changes."""
        if self._are_all_settled:
            return
        starts = self._starts
        unsettled = [attachment for attachment in self._attached.values() if not attachment.is_settled]
        await self._tell(unsettled)
        if not unsettled and not self.has_trouble:
            self._settled_at = starts

    @property
    def has_trouble(self) -> bool:
        return not self._are_all_settled and any(
            attachment.trouble is not None for attachment in self._attached.values()
        )

    @property
    def _are_all_settled(self) -> bool:
        """Nothing has changed, and no partition was started, since each attachment was found up to date."""
        return self._settled_at is not None and self._settled_at == self._starts

    @property
    def _starts(self) -> int | None:
        """The starts of all partitions: they share a supervisor, so any of them knows it."""
        first = next(iter(self._attached.values()), None)
        return None if first is None or first.ref is None else first.ref.starts_of_siblings

    async def _tell(self, attachments: Sequence[Attachment]) -> None:
        if not attachments:
            return
        await self._find([attachment for attachment in attachments if attachment.ref is None])
        await with_each(self._tell_one, [attachment for attachment in attachments if attachment.ref is not None])
        self._report_trouble(
            [attachment for attachment in self if attachment.trouble is not None and not attachment.is_reported]
        )

    async def _tell_one(self, attachment: Attachment) -> None:
        assert attachment.ref is not None, "those that were found are spoken to"
        try:
            await self._speak(attachment, attachment.ref)
        except GoQueueError as error:
            attachment.trouble = error.message
            attachment.was_lost |= isinstance(error, PartitionLost)
        else:
            attachment.trouble, attachment.is_reported = None, False

    async def _find(self, attachments: Sequence[Attachment]) -> None:
        question = FindPartitions([(attachment.topic.uuid, attachment.number) for attachment in attachments])
        try:
            found = await call_within(ANSWER_SECONDS_MAX, self._topics, question) if attachments else ()
        except GoQueueError as error:
            found = (error,) * len(attachments)
        for attachment, each in zip(attachments, found, strict=True):
            if isinstance(each, GoQueueError):
                attachment.trouble = each.message
            else:
                attachment.ref = each

    async def _speak(self, attachment: Attachment, ref: ActorRef) -> None:
        """`known` becomes what was sent: `wanted` may have changed by the time of the answer."""
        wanted, lives = attachment.wanted, ref.restarts
        if attachment.known is None or lives != attachment.lives:
            attachment.known = None
            await call_within(ANSWER_SECONDS_MAX, ref, self._introduction(attachment))
            attachment.has_begun = True
        else:
            await call_within(ANSWER_SECONDS_MAX, ref, AssignPartition(self._group, *wanted))
        attachment.known, attachment.lives = wanted, lives

    def _report_trouble(self, attachments: Sequence[Attachment]) -> None:
        """Once for each, and all in one line: the first group creates a journal in each of many partitions."""
        for attachment in attachments:
            attachment.is_reported = True
        if attachments:
            first, rest = attachments[0], len(attachments) - 1
            others = f" and {rest} more" if rest else ""
            self._report(
                f"group {self._group} cannot reach partition {first.number} of {first.topic.name}{others}: "
                f"{first.trouble}; {'they are' if rest else 'it is'} tried again"
            )
