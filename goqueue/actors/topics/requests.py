"""What topics are asked, and how they are shown."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from goqueue.actors.delivery.requests import SegmentHold
from goqueue.actors.runtime.messages import News, Request
from goqueue.actors.runtime.ref import ActorRef
from goqueue.core.schemas.moment import RegistryMoment
from goqueue.core.topics.metadata import MetadataRecord
from goqueue.errors import GoQueueError, StorageError
from goqueue.storage.backup.groups import GroupsThen
from goqueue.storage.log.openlogs import LogStanding
from goqueue.storage.log.scan import Damage
from goqueue.types import Microseconds, Offset


@dataclass(frozen=True, slots=True)
class PartitionView:
    partition: int
    leader_epoch: int
    start: Offset
    end: Offset
    error: StorageError | None = None
    """Why nothing is known of it."""
    damage: tuple[Damage, ...] = ()
    hold: SegmentHold | None = None
    """What keeps its oldest segment, where acks decide."""
    size: int = 0
    """The bytes of all segments."""
    messages: int = 0
    """The records on disk: hidden ones count, what compaction removed does not."""


@dataclass(frozen=True, slots=True)
class TopicView:
    name: str
    uuid: UUID
    config: dict[str, Any]
    partitions: tuple[PartitionView, ...]


@dataclass(frozen=True, slots=True)
class CreateTopic(Request[TopicView]):
    name: str
    partitions: int
    config: dict[str, Any]
    token: UUID | None = None
    """A repeat with the same one is answered with the topic that the first made."""
    by_broker: bool = False
    """A dead-letter topic, whose name may be longer."""


@dataclass(frozen=True, slots=True)
class AlterTopic(Request[TopicView]):
    name: str
    changes: dict[str, Any]


@dataclass(frozen=True, slots=True)
class AddPartitions(Request[TopicView]):
    name: str
    total: int


@dataclass(frozen=True, slots=True)
class DeleteTopic(Request[None]):
    """With a UUID, only that very topic; then a repeat is no error."""

    name: str
    uuid: UUID | None = None


@dataclass(frozen=True, slots=True)
class RestorationView:
    """What is known of a lost partition, and what became, or would become, of it."""

    name: str
    partition: int
    was_lost: bool
    is_restored: bool
    missing: str
    highest: Offset | None
    """The highest offset that is named outside of its folder."""
    named_by: str
    start: Offset
    """Where it restarts, or would."""


@dataclass(frozen=True, slots=True)
class RestorePartition(Request[RestorationView]):
    """Restart a lost partition, empty. Without `accept_loss` nothing is done. Any other is left alone."""

    name: str
    partition: int
    accept_loss: bool = False
    at_least: Offset = 0
    """An offset that the asker knows of."""
    known_by: str = ""


@dataclass(frozen=True, slots=True)
class FindPartition(Request[ActorRef]):
    """Who holds this partition; the ref stays good until the topic is deleted."""

    topic: UUID
    partition: int


@dataclass(frozen=True, slots=True)
class FindPartitions(Request[tuple[ActorRef | GoQueueError, ...]]):
    """The same of many at once: each one's ref, or why there is none."""

    places: Sequence[tuple[UUID, int]]


@dataclass(frozen=True, slots=True)
class TopicOutline:
    name: str
    uuid: UUID
    partitions: int


@dataclass(frozen=True, slots=True)
class OutlineTopics(Request[Sequence[TopicOutline]]):
    """Every topic, in order of name. No partition is asked."""


@dataclass(frozen=True, slots=True)
class WatchTopics(Request[Sequence[TopicOutline]]):
    """As `OutlineTopics`; from now on `listener` is told `TopicsChanged` as news. Twice is once."""

    listener: ActorRef


@dataclass(frozen=True, slots=True)
class TopicsChanged(News):
    """From topics to whoever watches: some came, went or grew."""


@dataclass(frozen=True, slots=True)
class TopicStanding:
    name: str
    uuid: UUID
    partitions: tuple[LogStanding, ...]


@dataclass(frozen=True, slots=True)
class SnapshotView:
    time: Microseconds
    metadata: MetadataRecord
    topics: tuple[TopicStanding, ...]
    groups: GroupsThen
    registry: RegistryMoment


@dataclass(frozen=True, slots=True)
class TakeSnapshot(Request[SnapshotView]):
    pass
