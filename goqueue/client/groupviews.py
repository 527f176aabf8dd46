"""What a client is told of groups: their members, and how far they are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from goqueue.client.reading.topics import DamagedRange
from goqueue.errors import GoQueueError
from goqueue.net.wire.failures import error_of
from goqueue.net.wire.groups import GroupDescription, LaneDescription, MemberDescription
from goqueue.net.wire.groups import GroupPartition as PartitionDescription
from goqueue.types import Offset, Priority


@dataclass(frozen=True, slots=True)
class GroupMember:
    member_id: str
    client: str
    topics: list[str]
    """Names, or one pattern."""
    assignment: list[tuple[str, int]]
    """Topic and partition."""
    member_seconds: float
    silent_seconds: float
    """Since its last sign of life."""
    is_away: bool = False
    """Its connection ended, or it closed: its place is kept for it."""


@dataclass(frozen=True, slots=True)
class GroupLane:
    """One priority of a partition, as a group has it."""

    priority: Priority
    ready: int | None
    """To be handed out; None: some, and too many to be counted for who asks."""
    in_flight: int
    served: int
    """Handed out since the partition was opened."""
    share: float
    """Of all that were served, from 0 to 1."""
    oldest_seconds: float | None
    """How old the first message is that is not done; None when there is none."""


@dataclass(frozen=True, slots=True)
class GroupPartition:
    """How far a group is with a partition."""

    topic: str
    partition: int
    member_id: str | None
    """Who takes from it."""
    committed: Offset
    """Everything below it is done."""
    end: Offset
    lag: int
    """Messages that can be delivered and are not done."""
    in_flight: int
    waiting: int
    """For their retry."""
    leaving: int
    """On their way to the dead-letter topic."""
    removed_unacked: int
    """By retention, or given up as damaged, before they were done."""
    oldest_unacked_seconds: float | None
    error: GoQueueError | None = None
    """Why nothing is known of it."""
    lanes: list[GroupLane] = field(default_factory=list)
    """The highest first."""
    damaged: int = 0
    """Messages that wait until the log can be read again; the lag does not count them."""
    damages: list[DamagedRange] = field(default_factory=list)
    """Where they lie."""
    progress_lost_at: float | None = None
    """When the broker found that progress here was lost, in seconds: messages come again. A reset clears it."""
    shown_before: Offset | None = None
    """Where all progress was lost: the committed offset that `offsets.json` showed last, if it did."""


@dataclass(frozen=True, slots=True)
class Group:
    name: str
    state: str
    generation: int
    settings: Mapping[str, Any]
    members: list[GroupMember]
    partitions: list[GroupPartition]

    @property
    def lag(self) -> int:
        return sum(partition.lag for partition in self.partitions)

    @property
    def damaged(self) -> int:
        return sum(partition.damaged for partition in self.partitions)


@dataclass(frozen=True, slots=True)
class ResetPartition:
    """Where a group stood on a partition, and where it begins again."""

    topic: str
    partition: int
    before: Offset
    after: Offset


@dataclass(frozen=True, slots=True)
class DamagedSkipped:
    """So many damaged messages were given up, or would be; the committed offset before and after."""

    messages: int
    before: Offset
    after: Offset


@dataclass(frozen=True, slots=True)
class Redriven:
    """So many dead letters were sent back, or would be; so many remain."""

    redriven: int
    remaining: int


def group_of(description: GroupDescription) -> Group:
    return Group(
        description.name,
        description.state,
        description.generation,
        description.settings,
        [_member_of(each) for each in description.members],
        [_partition_of(each) for each in description.partitions],
    )


def _member_of(described: MemberDescription) -> GroupMember:
    return GroupMember(
        described.member,
        described.client,
        list(described.subscription),
        [(each.topic, each.partition) for each in described.assignment],
        described.member_for_ms / 1000,
        described.silent_for_ms / 1000,
        described.is_away,
    )


def _partition_of(described: PartitionDescription) -> GroupPartition:
    oldest, lost_at = described.oldest_unacked_ms, described.progress_lost_at
    return GroupPartition(
        described.topic,
        described.partition,
        described.member,
        described.committed,
        described.end,
        described.lag,
        described.in_flight,
        described.waiting,
        described.leaving,
        described.removed_unacked,
        None if oldest is None else oldest / 1000,
        described.error and error_of(described.error),
        _lanes_of(described.lanes),
        described.damaged,
        [DamagedRange(*each) for each in described.damages],
        None if lost_at is None else lost_at / 1_000_000,
        described.shown_before,
    )


def _lanes_of(described: Sequence[LaneDescription]) -> list[GroupLane]:
    total = sum(each.served for each in described)
    return [
        GroupLane(
            priority,
            each.ready,
            each.in_flight,
            each.served,
            each.served / total if total else 0.0,
            None if each.oldest_ms is None else each.oldest_ms / 1000,
        )
        for priority, each in zip(Priority, described, strict=False)
    ]
