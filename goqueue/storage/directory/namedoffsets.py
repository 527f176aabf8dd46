"""The offsets of partitions that are named outside of their own folders.

They say how long a partition's log was when its folder is gone. The committed offsets of groups are in
`{data}/offsets/{group}/offsets.json`, which the groups rewrite every 5 s:

    {"group": "billing", "offsets": {"orders": {"0": 4711}}, "topics": {"orders": UUID}, "crc32c": "…"}

A file of an earlier goqueue has no `topics`: its names are taken for the topics that exist now.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from goqueue.core.topics.metadata import KnownTopic
from goqueue.errors import StorageError
from goqueue.storage.checkedjson import is_sound
from goqueue.storage.log.volume import Volume
from goqueue.types import Offset

OFFSETS, NAME = "offsets", "offsets.json"
SIZE_MAX = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class NamedOffset:
    offset: Offset
    by: str
    """The file or message that names it."""


class CommittedOffsets:
    """The committed offsets of all groups of a data directory. Read once, at the first question."""

    def __init__(self, volume: Volume, data: str) -> None:
        self._volume = volume
        self._folder = f"{data}/{OFFSETS}"
        self._found: list[tuple[str, dict[str, Any]]] | None = None

    async def highest(self, topic: KnownTopic, number: int) -> NamedOffset | None:
        if self._found is None:
            self._found = await self._read_all()
        named = [
            NamedOffset(offset, path)
            for path, fields in self._found
            if (offset := offset_in(fields, topic.name, topic.uuid, number)) is not None
        ]
        return max(named, key=lambda each: each.offset, default=None)

    async def _read_all(self) -> list[tuple[str, dict[str, Any]]]:
        disk = self._volume.disk
        groups = disk.list(self._folder) if disk.is_directory(self._folder) else []
        paths = [f"{self._folder}/{group}/{NAME}" for group in groups]
        return [(path, await read_offsets(self._volume, path)) for path in paths]


async def read_offsets(volume: Volume, path: str) -> dict[str, Any]:
    """The fields of an offsets file; empty if it is missing or damaged."""
    try:
        fields = json.loads(await volume.read_whole(path, SIZE_MAX))
        return fields if isinstance(fields, dict) and is_sound(fields) else {}
    except (FileNotFoundError, StorageError, ValueError, RecursionError):
        return {}


def offset_in(fields: Mapping[str, Any], topic: str, uuid: UUID | None, number: int) -> Offset | None:
    """The committed offset of one partition in such a file. With a UUID, only if the topic has that UUID."""
    try:
        offset = fields["offsets"][topic][str(number)]
        uuids = fields.get("topics")
        is_this = uuid is None or uuids is None or UUID(uuids[topic]) == uuid
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
    return offset if is_this and type(offset) is int and offset >= 0 else None


async def shown_offset(volume: Volume, data: str, group: str, topic: str, partition: int) -> int | None:
    """The committed offset that the file shows; None when there is none, or the file is not sound."""
    fields = await read_offsets(volume, f"{data}/{OFFSETS}/{group}/{NAME}")
    return offset_in(fields, topic, None, partition)
