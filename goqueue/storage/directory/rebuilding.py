"""Rebuilds the list of topics and groups from the signatures in the partitions' folders.

Each partition's `topic.json` names its topic and the topic's UUID. Settings are only in the list, so they are taken
from the records that can still be read. A topic whose records are gone gets the default settings, but keeps its
messages for ever until its retention is set: nothing is deleted because the list is damaged (G13).

Groups whose records can be read are kept. The others have ledgers in the partitions, so the new list is marked as
doubtful, and the next start adopts them from there (actors/groups/adoption.py). A register of an earlier version
that was not imported yet is imported by the next start.
"""

import json
from collections import Counter
from dataclasses import dataclass, field, replace
from random import Random
from uuid import UUID

from goqueue.core.names import INTERNAL_LOGS, METADATA_LOG, check_topic_name
from goqueue.core.settingstable import UNLIMITED
from goqueue.core.topics.config import TopicConfig
from goqueue.core.topics.metadata import KnownTopic, MetadataRecord
from goqueue.errors import InvalidName
from goqueue.storage.checkedjson import is_sound
from goqueue.storage.directory.datadirectory import RECOVERED_TOPICS
from goqueue.storage.directory.folders import IDENTITY, IDENTITY_SIZE_MAX, LOGS
from goqueue.storage.directory.recordlog import write_new
from goqueue.storage.directory.replacing import replace_log
from goqueue.storage.directory.topiclist import LIST, TopicList, read_topic_list
from goqueue.storage.journals.groups import has_old_register
from goqueue.storage.log.volume import Volume
from goqueue.types import Microseconds

KEPT_FOR_EVER = {"retention_hours": UNLIMITED}


@dataclass(frozen=True, slots=True)
class RebuiltTopic:
    topic: KnownTopic
    has_settings: bool
    """False: its settings were lost, and it keeps its messages until its retention is set."""
    missing: tuple[int, ...]
    """Partitions without a folder; they are lost."""


@dataclass(slots=True)
class RebuiltList:
    record: MetadataRecord
    topics: list[RebuiltTopic]
    groups: tuple[str, ...] = ()
    """The groups that could be read."""
    faults: list[str] = field(default_factory=list)
    """What is wrong with the current list."""
    is_same: bool = False
    """The current list says the same and has no faults."""


async def rebuild(volume: Volume, data: str, random: Random) -> RebuiltList:
    """Computes the list of topics from the folders. Changes nothing on disk."""
    there = await read_topic_list(volume, f"{data}/{LIST}/0")
    if not volume.disk.is_directory(f"{data}/{LIST}"):
        there = await read_topic_list(volume, f"{data}/{RECOVERED_TOPICS}/0")
    rebuilt = {each.topic.name: each for each in await _Folders(volume, data, there, random).topics()}
    metadata = there.metadata
    for topic in metadata.topics:
        rebuilt.setdefault(topic.name, RebuiltTopic(topic, True, tuple(topic.numbers)))
    topics = [rebuilt[name] for name in sorted(rebuilt)]
    is_cut_short = volume.disk.exists(f"{data}/{RECOVERED_TOPICS}") and not volume.disk.exists(f"{data}/{LIST}")
    is_same = not (there.faults or is_cut_short) and [each.topic for each in topics] == list(metadata.topics)
    if not is_same and (metadata.has_groups or not has_old_register(volume, data)):
        metadata.doubt_groups()
    record = metadata.snapshot(each.topic for each in topics)
    return RebuiltList(record, topics, tuple(group.name for group in metadata.groups), there.faults, is_same)


class _Folders:
    """The topics that the folders in `logs` belong to."""

    def __init__(self, volume: Volume, data: str, there: TopicList, random: Random) -> None:
        self._volume = volume
        self._logs = f"{data}/{LOGS}"
        self._there = there
        self._random = random

    async def topics(self) -> list[RebuiltTopic]:
        names = [name for name in self._list(self._logs) if name not in INTERNAL_LOGS]
        found = [await self._topic(name) for name in names]
        return [each for each in found if each is not None]

    def _list(self, path: str) -> list[str]:
        names = self._volume.disk.list(path) if self._volume.disk.is_directory(path) else []
        return [name for name in names if self._volume.disk.is_directory(f"{path}/{name}")]

    async def _topic(self, name: str) -> RebuiltTopic | None:
        """None if the folder belongs to no topic, or its topic was deleted."""
        numbers = sorted(int(each) for each in self._list(f"{self._logs}/{name}") if each.isdecimal())
        uuid = await self._uuid(name, numbers)
        known = self._there.metadata.topics.find(name)
        if not numbers or not _is_name(name) or (uuid is not None and self._there.metadata.topics.is_deleted(uuid)):
            return None
        if known is not None and uuid in (None, known.uuid):
            return self._widened(known, numbers)
        return self._anew(name, uuid or UUID(int=self._random.getrandbits(128), version=4), numbers)

    def _widened(self, known: KnownTopic, numbers: list[int]) -> RebuiltTopic:
        total = max(known.partitions, numbers[-1] + 1)
        topic = replace(known, partitions=total, signed=max(known.signed, numbers[-1] + 1))
        return RebuiltTopic(topic, True, _missing(topic, numbers))

    def _anew(self, name: str, uuid: UUID, numbers: list[int]) -> RebuiltTopic:
        total = numbers[-1] + 1
        topic = KnownTopic(name, uuid, total, TopicConfig.from_plain(KEPT_FOR_EVER), signed=total)
        return RebuiltTopic(topic, False, _missing(topic, numbers))

    async def _uuid(self, name: str, numbers: list[int]) -> UUID | None:
        """The UUID that most partitions' signatures name; None when no signature can be read."""
        found = [await self._signature(f"{self._logs}/{name}/{number}/{IDENTITY}") for number in numbers]
        counted = Counter(each for each in found if each is not None)
        return counted.most_common(1)[0][0] if counted else None

    async def _signature(self, path: str) -> UUID | None:
        try:
            fields = json.loads(await self._volume.read_whole(path, IDENTITY_SIZE_MAX))
            return UUID(fields["uuid"]) if is_sound(fields) else None
        except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None


def _is_name(name: str) -> bool:
    try:
        return bool(check_topic_name(name, by_broker=True))
    except InvalidName:
        return False


def _missing(topic: KnownTopic, numbers: list[int]) -> tuple[int, ...]:
    return tuple(number for number in topic.numbers if number not in numbers)


async def put_in_place(volume: Volume, data: str, record: MetadataRecord, now: Microseconds) -> str | None:
    """Replace the list of topics; returns where the old one was moved. The caller holds the directory's lock."""
    return await replace_log(
        volume, data, METADATA_LOG, RECOVERED_TOPICS, lambda new: write_new(volume, new, record, now)
    )
