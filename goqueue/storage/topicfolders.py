"""The folders of topics: whose each is, and where those go that are nobody's any more.

    {data}/logs/{topic}/{partition}/topic.json   names the topic's UUID, with a checksum
    {data}/deleted/{uuid}                        of deleted topics; emptied file by file
    {data}/stray/{topic}-{uuid}                  of topics that nobody knows; never touched again (G13)

A folder that belongs to another topic of the same name is moved away, never taken over.
"""

import json
from collections.abc import Callable
from uuid import UUID

from goqueue.core.metadata import Metadata, Topic
from goqueue.core.names import METADATA_LOG
from goqueue.errors import UnknownFormat
from goqueue.storage.checkedjson import is_sound, pack
from goqueue.storage.volume import Volume

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

    def partition(self, topic: Topic, number: int) -> str:
        return f"{self.topic(topic.name)}/{number}"

    async def sign(self, topic: Topic, number: int) -> None:
        """The folder says whose it is, before anything else is in it. One that is another topic's is refused."""
        folder = self.partition(topic, number)
        await self._volume.make_directories(folder)
        if not self._volume.disk.exists(f"{folder}/{IDENTITY}"):
            identity = {"topic": topic.name, "uuid": str(topic.uuid), "partition": number}
            await self._volume.replace(folder, IDENTITY, [pack(identity)])
        elif await self._owner(folder) not in (None, topic.uuid):
            raise UnknownFormat(f"{folder}/{IDENTITY} names another topic than {topic.uuid}; move the folder away")

    async def clear(self, metadata: Metadata) -> None:
        """Finish deletions that a crash cut short; set aside what belongs to no topic.

        A folder under the name of a topic that is there stays, whatever it says: a partition whose signature names
        another topic is refused by itself. To begin it anew would give its offsets out a second time (G3).
        """
        for name in self._volume.disk.list(f"{self._data}/{LOGS}"):
            owner = await self._signature(name) if name != METADATA_LOG else None
            if owner is not None and (metadata.find(name) is None or metadata.is_deleted(owner)):
                await self._put_away(name, owner, metadata)

    async def make_way(self, name: str, metadata: Metadata) -> None:
        """A topic is about to be made: whatever lies under its name is not its own."""
        if self._volume.disk.exists(self.topic(name)):
            await self._put_away(name, await self._signature(name), metadata)

    async def discard(self, topic: Topic) -> None:
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
        """Whose folder it is, by the first partition that says so."""
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
        target = f"{self._data}/{place}"
        above = target.rpartition("/")[0]
        await self._volume.make_directories(above)
        self._volume.disk.rename(self.topic(name), target)
        self._volume.forget_folders(self.topic(name))
        await self._volume.sync(directories=[f"{self._data}/{LOGS}", above])
