"""The owner of the metadata: topics and groups. What it was told is durable when it answers, with one sync a turn.

Metadata that is damaged stops the start: a topic may hide behind the damage (G13). A register of groups of an
earlier version that cannot be read is no reason to refuse the topics: every request about groups hears what is
wrong, and the file is left as it is (storage/directory/storedmetadata.py).
"""

import logging

import trio

from goqueue.actors.metadata.groups import GroupRegister
from goqueue.actors.metadata.requests import ReadTopics, WriteTopics
from goqueue.actors.runtime.actor import Actor
from goqueue.actors.runtime.handlers import answers
from goqueue.core.log.durability import UNSYNCED_SECONDS_MAX
from goqueue.core.topics.metadata import MetadataRecord
from goqueue.environment import WallClock
from goqueue.storage.directory.storedmetadata import StoredMetadata
from goqueue.storage.log.volume import Volume

logger = logging.getLogger("goqueue.metadata")


class MetadataOwner(Actor):
    def __init__(self, volume: Volume, data: str, clock: WallClock) -> None:
        self._volume = volume
        self._data = data
        self._clock = clock
        self._opened: StoredMetadata | None = None
        self._committed = trio.Event()

    async def start(self) -> None:
        self._opened = await StoredMetadata.open(self._volume, self._data, self._clock.now())
        for report in self._opened.reports:
            logger.warning("%s", report)
        if self._opened.why_no_groups:
            logger.error("no group can be used: %s", self._opened.why_no_groups)
        self.add_parts(GroupRegister(self._opened, self._clock))
        self.background(self._claim_what_is_durable, endless=True)

    @property
    def _stored(self) -> StoredMetadata:
        assert self._opened is not None, "it is opened at the start"
        return self._opened

    async def _claim_what_is_durable(self) -> None:
        """Once after each spell of changes."""
        while True:
            await self._committed.wait()
            await trio.sleep(UNSYNCED_SECONDS_MAX)
            self._committed = trio.Event()
            await self._stored.claim(self._clock.now())

    async def end_turn(self) -> None:
        if await self._stored.commit():
            self._committed.set()

    async def stop(self) -> None:
        await self._stored.close()

    def close(self) -> None:
        if self._opened is not None:
            self._opened.abandon()

    @answers(ReadTopics)
    async def read_topics(self, _: ReadTopics) -> MetadataRecord:
        return self._stored.metadata.topics.snapshot()

    @answers(WriteTopics)
    async def write_topics(self, message: WriteTopics) -> None:
        await self._stored.write(message.records, self._clock.now())
