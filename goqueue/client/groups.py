"""The requests of operators about groups, checked before they are sent, and the answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from goqueue.client.consuming.options import start_text
from goqueue.client.link.arguments import (
    check_any_partition,
    check_flag,
    check_offset,
    check_text,
    refusal,
)
from goqueue.client.link.topics import DamagedRange
from goqueue.core.groups.settings import RETRY_SECONDS, SETTINGS
from goqueue.core.names import check_group_name, check_publishable
from goqueue.errors import GoQueueError
from goqueue.net.wire import groups as wire
from goqueue.net.wire.failures import error_of
from goqueue.net.wire.fields import NAME_SIZE_MAX
from goqueue.net.wire.groups import GroupDescription, LaneDescription, MemberDescription, Why
from goqueue.net.wire.groups import GroupPartition as PartitionDescription
from goqueue.types import Offset, Priority, seconds_of

LENGTHS_OF_TIME = frozenset(row.name for row in SETTINGS if row.kind is RETRY_SECONDS)
"""Settings in seconds, for which a timedelta may be given."""


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
    """Seconds since its last sign of life."""
    is_away: bool = False
    """Its connection ended, or it closed: its assignment is kept for it."""
    address: str | None = None
    """Host and port of the client, where it joined; None if the broker does not say, or restarted since."""


@dataclass(frozen=True, slots=True)
class GroupLane:
    """One lane of a partition, for a group."""

    priority: Priority
    ready: int | None
    """Messages that can be delivered; None: too many to be counted."""
    in_flight: int
    served: int
    """Messages delivered since the partition was opened."""
    share: float
    """The lane's share of all served messages, from 0 to 1."""
    oldest_seconds: float | None
    """The age of the first message that is not done; None when there is none."""


@dataclass(frozen=True, slots=True)
class GroupPartition:
    """The progress of a group on a partition."""

    topic: str
    partition: int
    member_id: str | None
    """The owner."""
    committed: Offset
    """Everything below it is done."""
    end: Offset
    lag: int
    """Messages that can be delivered and are not done."""
    in_flight: int
    waiting: int
    """Messages that wait for their retry."""
    leaving: int
    """Dead letters that are not in the dead-letter topic yet."""
    removed_unacked: int
    """Messages removed by retention, or given up as damaged, before they were done."""
    oldest_unacked_seconds: float | None
    error: GoQueueError | None = None
    """Why the partition does not answer."""
    lanes: list[GroupLane] = field(default_factory=list)
    """The highest lane first."""
    damaged: int = 0
    """Messages that wait until the log can be read again; the lag does not count them."""
    damages: list[DamagedRange] = field(default_factory=list)
    """The ranges of the damaged messages."""
    progress_lost_at: float | None = None
    """When the broker found that progress was lost here, in seconds: messages come again. A reset clears it."""
    shown_before: Offset | None = None
    """If all progress was lost: the last committed offset in `offsets.json`, if there is one."""


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
    """The committed offset of a group on a partition, before and after a reset."""

    topic: str
    partition: int
    before: Offset
    after: Offset


@dataclass(frozen=True, slots=True)
class DamagedSkipped:
    """The number of damaged messages that were given up, or would be, and the committed offset before and after."""

    messages: int
    before: Offset
    after: Offset


def group_of(description: GroupDescription) -> Group:
    return Group(
        description.name,
        description.state,
        description.generation,
        description.settings,
        [member_of(each) for each in description.members],
        [partition_of(each) for each in description.partitions],
    )


def member_of(described: MemberDescription) -> GroupMember:
    return GroupMember(
        described.member,
        described.client,
        list(described.subscription),
        [(each.topic, each.partition) for each in described.assignment],
        described.member_for_ms / 1000,
        described.silent_for_ms / 1000,
        described.is_away,
        described.address,
    )


def partition_of(described: PartitionDescription) -> GroupPartition:
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


def altering(group: object, settings: object, force: object) -> wire.AlterGroup:
    """Only types are checked here: the broker knows the settings and their values."""
    name = check_group_name(group)
    if not isinstance(settings, Mapping):
        raise refusal(
            f"a group's settings are a map of names to values, like {{'max_deliveries': 5}}, "
            f"not {type(settings).__name__}"
        )
    plain = {key: _plain_setting(key, value) for key, value in settings.items()}
    return wire.AlterGroup(name, plain, check_flag("force", force))


def _plain_setting(name: object, value: object) -> Any:
    if not isinstance(name, str):
        raise refusal(f"a setting's name is text, not {type(name).__name__}")
    plain = seconds_of(value) if name in LENGTHS_OF_TIME else value
    if not isinstance(plain, str | int | float | bool | None):
        raise refusal(f"setting {name!r} is text, a number, True, False or None, not {type(value).__name__}")
    return plain


def resetting(
    group: object, start: Any, *, topic: object, partition: object, dry_run: object, force: object
) -> wire.ResetGroup:
    if partition is not None and topic is None:
        raise refusal("a partition is of one topic; give topic too, or neither")
    return wire.ResetGroup(
        check_group_name(group),
        None if topic is None else check_publishable(topic),
        None if partition is None else check_any_partition(partition),
        start_text(start),
        check_flag("dry_run", dry_run),
        check_flag("force", force),
    )


def skipping(
    group: object,
    topic: object,
    partition: object,
    first: object,
    last: object,
    *,
    dry_run: object,
) -> wire.SkipDamaged:
    span = check_offset("first", first), check_offset("last", last)
    if span[0] > span[1]:
        raise refusal(f"first={first} lies behind last={last}; give the first and the last damaged offset")
    return wire.SkipDamaged(
        check_group_name(group),
        check_publishable(topic),
        check_any_partition(partition),
        *span,
        check_flag("dry_run", dry_run),
    )


def asking_why(group: object, member: object) -> Why:
    return Why(check_group_name(group), None if member is None else check_text("member", member, NAME_SIZE_MAX))
