"""The moment that a backup copies: what there is, where every partition begins and ends, and how far groups are.

Topics answers it without asking the partitions: while it asked one after the other, messages would be confirmed in
between, and the copy could have a message without the one that came before it. Why groups are of the same moment is
said in storage/backup/groups.py. The schema registry is, since messages carry its ids.
"""

from dataclasses import dataclass

from goqueue.actors.topics.requests import SnapshotView, TopicStanding
from goqueue.core.schemas.registry import SchemaRegistry
from goqueue.core.topics.metadata import KnownTopic, Metadata
from goqueue.storage.backup.groups import GroupsThen
from goqueue.storage.directory.folders import TopicFolders
from goqueue.storage.journals.groups import GROUPS
from goqueue.storage.log.volume import Volume
from goqueue.storage.snapshotlog.ledgers import LedgerLog
from goqueue.types import Microseconds


@dataclass(frozen=True, slots=True)
class Absent:
    """A partition whose log, or the ledgers beside it, nobody has open just now."""

    topic: KnownTopic
    number: int


def snapshot_of(
    metadata: Metadata, folders: TopicFolders, volume: Volume, now: Microseconds, registry: SchemaRegistry
) -> SnapshotView | Absent:
    """All of it, without waiting; or the first partition that is not there."""
    topics, groups = [], GroupsThen(volume.journals.snapshot(GROUPS), {})
    for topic in metadata:
        standings = []
        for number in topic.numbers:
            folder = folders.partition(topic, number)
            standing, ledgers = volume.logs.standing(folder), volume.journals.snapshot(folder)
            if standing is None or (ledgers is None and LedgerLog.is_there(volume, folder)):
                return Absent(topic, number)
            standings.append(standing)
            if ledgers is not None:
                groups.ledgers[topic.name, number] = ledgers
        topics.append(TopicStanding(topic.name, topic.uuid, tuple(standings)))
    return SnapshotView(now, metadata.snapshot(), tuple(topics), groups, registry.moment())
