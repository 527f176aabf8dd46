"""What a client is told of topics."""

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
    """So many of them wait for a repair."""


@dataclass(frozen=True, slots=True)
class Partition:
    number: int
    start: Offset
    """The first offset still there."""
    end: Offset
    """The offset that the next message will get."""
    error: GoQueueError | None = None
    """Why it cannot be used, and nothing is known of it."""
    damage: list[DamagedRange] = field(default_factory=list)
    """What the broker has found so far."""


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    uuid: UUID
    config: Mapping[str, Any]
    partitions: list[Partition]


@dataclass(frozen=True, slots=True)
class RestoredPartition:
    """What is lost of a partition, and what became of it."""

    topic: str
    partition: int
    was_lost: bool
    """False: it is there, and was left alone."""
    is_restored: bool
    """False after a dry run."""
    missing: str
    """What the disk lacks."""
    highest: Offset | None
    """The highest offset that is named outside of the partition's folder."""
    named_by: str
    start: Offset
    """Where it restarts, or would."""


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
        )
        for each in description.partitions
    ]
    return Topic(description.name, UUID(bytes=description.uuid), description.config, partitions)
