"""The folders of topics: which topic owns each, and where folders without an owner go.

    {data}/logs/{topic}/{partition}/topic.json   names the topic's UUID, with a checksum
    {data}/deleted/{uuid}                        of deleted topics; emptied file by file
    {data}/stray/{topic}-{uuid}                  of topics that nobody knows; never touched again (G13)

A folder that belongs to another topic of the same name is moved away, never taken over.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

from goqueue.core.names import INTERNAL_LOGS
from goqueue.core.topics.loss import Remains, loss_of
from goqueue.core.topics.metadata import KnownTopic, Metadata
from goqueue.errors import UnknownFormat
from goqueue.storage.checkedjson import is_sound, pack
from goqueue.storage.delays.index import NAME as DELAYS
from goqueue.storage.directory.namedoffsets import CommittedOffsets, NamedOffset
from goqueue.storage.log.recovery import SEGMENT_NAME
from goqueue.storage.log.recoverypoint import NAME as POINT
from goqueue.storage.log.recoverypoint import empty_at, read_recovery_point, write_recovery_point
from goqueue.storage.log.volume import Volume
from goqueue.storage.snapshotlog.ledgers import FOLDER, JOURNAL
from goqueue.types import Offset

IDENTITY = "topic.json"
IDENTITY_SIZE_MAX = 4_096
LOGS, DELETED, STRAY = "logs", "deleted", "stray"


class TopicFolders:
    def __init__(self, volume: Volume, data: str, report: Callable[[str], None]) -> None:
        self._volume = volume
        self._data = data
        self._report = report

    def topic(self, name: str) -> str:
        return f"{self._data}/{LOGS}/{name}"

    def partition(self, topic: KnownTopic, number: int) -> str:
        return f"{self.topic(topic.name)}/{number}"

    async def sign(self, topic: KnownTopic, number: int) -> None:
        """Write the owner into the folder before anything else is in it. Another topic's folder is refused."""
        folder = self.partition(topic, number)
        await self._volume.make_directories(folder)
        if not self._volume.disk.exists(f"{folder}/{IDENTITY}"):
            identity = {"topic": topic.name, "uuid": str(topic.uuid), "partition": number}
            await self._volume.replace(folder, IDENTITY, [pack(identity)])
        elif await self._owner(folder) not in (None, topic.uuid):
            raise UnknownFormat(f"{folder}/{IDENTITY} names another topic than {topic.uuid}; move the folder away")

    async def loss_of(self, topic: KnownTopic, number: int, committed: CommittedOffsets) -> str | None:
        """What a lost partition lacks; None if it is not lost, or was never created."""
        folder = self.partition(topic, number)
        if self._volume.disk.exists(folder) and not self._volume.disk.is_directory(folder):
            return None  # something else has its path: opening it raises an error that says so
        remains = await self._remains(folder)
        if not remains.has_segments and not remains.is_point_sound:
            named = await committed.highest(topic, number)
            remains = replace(remains, named=named.offset if named is not None else 0)
        return loss_of(remains, is_signed=number < topic.signed)

    async def _remains(self, folder: str) -> Remains:
        if not self._volume.disk.is_directory(folder):
            return Remains()
        names = self._volume.disk.list(folder)
        point = await read_recovery_point(self._volume, folder)
        return Remains(
            has_folder=True,
            has_identity=IDENTITY in names,
            has_segments=any(map(SEGMENT_NAME.fullmatch, names)),
            has_companions=not {FOLDER, JOURNAL, DELAYS}.isdisjoint(names),
            has_point=POINT in names,
            is_point_sound=point is not None,
            log_start=point.log_start if point is not None else 0,
            recovery_point=point.offset if point is not None else 0,
        )

    async def point_of(self, topic: KnownTopic, number: int) -> NamedOffset | None:
        """The offset below which the log was durable, by its recovery point; None without one."""
        folder = self.partition(topic, number)
        point = await read_recovery_point(self._volume, folder)
        return NamedOffset(point.offset, f"{folder}/{POINT}") if point is not None else None

    async def begin_again(self, topic: KnownTopic, number: int, start: Offset) -> str | None:
        """Let a lost partition go on, empty, at this offset. Returns where its remains were set aside.

        The recovery point is written first: a folder with nothing but a signature would begin at 0. Without a
        recovery point the partition is still lost, so a crash at any step leaves it lost or restored.
        """
        folder = self.partition(topic, number)
        aside = await self._set_remains_aside(topic, number)
        self._volume.forget_folders(folder)
        await self._volume.make_directories(folder)
        await write_recovery_point(self._volume, folder, empty_at(start))
        await self.sign(topic, number)
        return aside

    async def _set_remains_aside(self, topic: KnownTopic, number: int) -> str | None:
        folder = self.partition(topic, number)
        if not self._volume.disk.exists(folder) or not self._volume.disk.list(folder):
            return None
        place = self._unused(f"{STRAY}/{topic.name}-{topic.uuid}-{number}")
        await self._move_folder(folder, place)
        return place

    async def clear(self, metadata: Metadata) -> None:
        """Finish deletions that a crash cut short; set aside folders that belong to no topic.

        A folder with the name of an existing topic stays, whatever its signature: a partition whose signature
        names another topic is refused by itself. To begin it anew would give its offsets out again (G3).
        """
        for name in self._volume.disk.list(f"{self._data}/{LOGS}"):
            owner = await self._signature(name) if name not in INTERNAL_LOGS else None
            if owner is not None and (metadata.find(name) is None or metadata.is_deleted(owner)):
                await self._put_away(name, owner, metadata)

    async def make_way(self, name: str, metadata: Metadata) -> None:
        """A topic is about to be created: a folder that already has its name is not its own."""
        if self._volume.disk.exists(self.topic(name)):
            await self._put_away(name, await self._signature(name), metadata)

    async def discard(self, topic: KnownTopic) -> None:
        """The topic is deleted."""
        if self._volume.disk.exists(self.topic(topic.name)):
            await self._move(topic.name, f"{DELETED}/{topic.uuid}")

    async def _put_away(self, name: str, owner: UUID | None, metadata: Metadata) -> None:
        if owner is not None and metadata.is_deleted(owner):
            await self._move(name, f"{DELETED}/{owner}")
            return
        place = self._unused(f"{STRAY}/{name}-{owner or 'unsigned'}")
        await self._move(name, place)
        self._report(f"{LOGS}/{name} belongs to no topic that is known; it was set aside as {place}")

    def _unused(self, place: str) -> str:
        number, chosen = 1, place
        while self._volume.disk.exists(f"{self._data}/{chosen}"):
            number += 1
            chosen = f"{place}-{number}"
        return chosen

    async def _signature(self, name: str) -> UUID | None:
        """The owner of the folder, by the first partition with a sound signature."""
        folder = self.topic(name)
        for partition in self._volume.disk.list(folder) if self._volume.disk.is_directory(folder) else []:
            if self._volume.disk.exists(f"{folder}/{partition}/{IDENTITY}"):
                owner = await self._owner(f"{folder}/{partition}")
                if owner is not None:
                    return owner
        return None

    async def _owner(self, folder: str) -> UUID | None:
        path = f"{folder}/{IDENTITY}"
        try:
            fields = json.loads(await self._volume.read_whole(path, IDENTITY_SIZE_MAX))
            if is_sound(fields):
                return UUID(fields["uuid"])
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            pass
        self._report(f"{path} is damaged; the folder is taken to be its topic's")
        return None

    async def _move(self, name: str, place: str) -> None:
        await self._move_folder(self.topic(name), place)

    async def _move_folder(self, folder: str, place: str) -> None:
        target = f"{self._data}/{place}"
        above = target.rpartition("/")[0]
        await self._volume.make_directories(above)
        self._volume.disk.rename(folder, target)
        self._volume.forget_folders(folder)
        await self._volume.sync(directories=[folder.rpartition("/")[0], above])
