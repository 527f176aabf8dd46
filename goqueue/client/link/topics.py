"""Topics and partitions for a client."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from goqueue.errors import GoQueueError
from goqueue.net.wire import messages as wire
from goqueue.net.wire.failures import error_of
from goqueue.types import Offset


@dataclass(frozen=True, slots=True)
class DamagedRange:
    """Offsets, the last one included, that cannot be read."""

    first: Offset
    last: Offset
    path: str
    """The file, or the folder that lacks one, on the broker."""
    messages: int
    """The number of messages that wait for a repair."""


@dataclass(frozen=True, slots=True)
class HeldSegments:
    """Why `retention=acked` keeps finished segments of a partition."""

    group: str | None
    """The group that is furthest behind; None: no group reads the topic, so nothing is removed."""
    committed: Offset | None
    """The first offset that the group is not done with; None: it has not begun on this partition."""
    messages: int
    """The number of messages of the oldest segment that the group is not done with."""
    first: Offset
    last: Offset
    """The offsets of the oldest segment, the last one included."""
    segments: int
    size: int
    """The number of segments that the group is not done with, and their bytes."""


@dataclass(frozen=True, slots=True)
class Partition:
    number: int
    start: Offset
    """The first offset of the log."""
    end: Offset
    """The offset that the next message will get."""
    error: GoQueueError | None = None
    """Why the partition cannot be used; then nothing else is known of it."""
    damage: list[DamagedRange] = field(default_factory=list)
    """The damage that the broker has found so far."""
    held: HeldSegments | None = None
    """Why its oldest segments stay, if the topic has `retention=acked`; None: nothing holds a finished one."""
    size: int | None = None
    """The bytes of its segments on disk; None if the broker does not say."""
    messages: int | None = None
    """The records in them: hidden ones count, those that compaction removed do not."""


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    uuid: UUID
    config: Mapping[str, Any]
    partitions: list[Partition]


@dataclass(frozen=True, slots=True)
class RestoredPartition:
    """What is lost of a partition, and whether it was restored."""

    topic: str
    partition: int
    was_lost: bool
    """False: it is not lost, and nothing was done."""
    is_restored: bool
    """False after a dry run."""
    missing: str
    """What the disk lacks."""
    highest: Offset | None
    """The highest offset that is named outside of the partition's folder."""
    named_by: str
    start: Offset
    """The offset at which it restarts, or would."""


def only_topic(answer: wire.Topics) -> Topic:
    [description] = answer.topics
    return topic_of(description)


def topic_of(description: wire.TopicDescription) -> Topic:
    partitions = [
        Partition(
            each.partition,
            each.start,
            each.end,
            each.error and error_of(each.error),
            [DamagedRange(*some, some.last - some.first + 1) for some in each.damage],
            each.hold and HeldSegments(*each.hold),
            each.size,
            each.messages,
        )
        for each in description.partitions
    ]
    return Topic(description.name, UUID(bytes=description.uuid), description.config, partitions)
