"""The moment that a backup copies: what there is, and where every partition begins and ends, taken at once.

Topics answers it without asking the partitions: while it asked one after the other, messages would be confirmed in
between, and the copy could have a message without the one that came before it.
"""

from dataclasses import dataclass
from uuid import UUID

from goqueue.actors.messages import Request
from goqueue.core.metadata import Metadata, MetadataRecord, Topic
from goqueue.storage.openlogs import OpenLogs, Standing
from goqueue.storage.topicfolders import TopicFolders
from goqueue.types import Microseconds


@dataclass(frozen=True, slots=True)
class TopicStanding:
    name: str
    uuid: UUID
    partitions: tuple[Standing, ...]


@dataclass(frozen=True, slots=True)
class SnapshotView:
    time: Microseconds
    metadata: MetadataRecord
    topics: tuple[TopicStanding, ...]


@dataclass(frozen=True, slots=True)
class TakeSnapshot(Request[SnapshotView]):
    pass


@dataclass(frozen=True, slots=True)
class Absent:
    """A partition whose log nobody has open just now."""

    topic: Topic
    number: int


def snapshot_of(
    metadata: Metadata, folders: TopicFolders, logs: OpenLogs, now: Microseconds
) -> SnapshotView | Absent:
    """All of it, without waiting; or the first partition that is not there."""
    topics = []
    for topic in metadata:
        standings = []
        for number in topic.numbers:
            standing = logs.standing(folders.partition(topic, number))
            if standing is None:
                return Absent(topic, number)
            standings.append(standing)
        topics.append(TopicStanding(topic.name, topic.uuid, tuple(standings)))
    return SnapshotView(now, metadata.snapshot(), tuple(topics))
