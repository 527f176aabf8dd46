"""The register of groups as an actor: what it was told is durable when it answers. One sync for all of a turn.

A register that cannot be read is no reason to refuse the topics: every request hears what is wrong, and the file is
left as it is. That is so for a version that is not known. One that is damaged is used as far as it is sound, and
the groups that it lacks are adopted from the partitions (actors/groups/adoption.py).
"""

import logging
from contextlib import suppress

import trio

from goqueue.actors.register.requests import (
    NoteAdopted,
    NoteAttached,
    NoteBegun,
    NoteCeased,
    NoteForgotten,
    NoteGeneration,
    NoteMade,
    NoteMembers,
    NoteMended,
    NoteRemoved,
    NoteSettings,
    ReadDamage,
    ReadGroup,
    ReadLeaving,
    ReadRegister,
)
from goqueue.actors.runtime.actor import Actor
from goqueue.actors.runtime.handlers import answers
from goqueue.core.groups.registry import GroupRegistry, KnownGroup, RegistryEntry
from goqueue.core.groups.start import EARLIEST
from goqueue.core.log.durability import UNSYNCED_SECONDS_MAX
from goqueue.errors import DiskFull, UnknownFormat
from goqueue.storage.journals.groups import StoredRegistry
from goqueue.storage.log.volume import Volume

logger = logging.getLogger("goqueue.groups")


class GroupRegister(Actor):
    def __init__(self, volume: Volume, data: str) -> None:
        self._volume = volume
        self._data = data
        self._stored: StoredRegistry | None = None
        self._why_not = ""
        self._is_dirty = False
        self._committed = trio.Event()

    async def start(self) -> None:
        try:
            self._stored = await StoredRegistry.open(self._volume, self._data)
        except UnknownFormat as error:
            self._why_not = error.message
            logger.error("no group can be used: %s", error.message)
            return
        for report in self._stored.reports:
            logger.warning("%s", report)
        self.background(self._claim_what_is_durable, endless=True)

    async def _claim_what_is_durable(self) -> None:
        """Once after each spell of changes."""
        while True:
            await self._committed.wait()
            await trio.sleep(UNSYNCED_SECONDS_MAX)
            self._committed = trio.Event()
            self.stored.claim()

    async def stop(self) -> None:
        if self._stored is not None:
            await self._stored.close()

    def close(self) -> None:
        if self._stored is not None:
            self._stored.abandon()

    @property
    def stored(self) -> StoredRegistry:
        if self._stored is None:
            raise UnknownFormat(self._why_not)
        return self._stored

    @property
    def registry(self) -> GroupRegistry:
        return self.stored.registry

    def _write(self, entry: RegistryEntry) -> None:
        self.stored.write(entry)
        self._is_dirty = True

    async def end_turn(self) -> None:
        if not self._is_dirty:
            return
        self._is_dirty = False
        await self.stored.commit()
        self._committed.set()
        if self.stored.wants_compaction:
            with suppress(DiskFull):  # the entries are there; the next turn tries again
                await self.stored.compact()

    # Questions

    @answers(ReadRegister)
    async def read(self, _: ReadRegister) -> tuple[KnownGroup, ...]:
        return tuple(self.registry)

    @answers(ReadLeaving)
    async def read_leaving(self, _: ReadLeaving) -> tuple[KnownGroup, ...]:
        return tuple(self.registry.leaving())

    @answers(ReadDamage)
    async def read_damage(self, _: ReadDamage) -> bool:
        return bool(self.stored.reports)

    @answers(ReadGroup)
    async def read_group(self, message: ReadGroup) -> KnownGroup:
        return self.registry.group(message.name)

    # Changes

    @answers(NoteMade)
    async def note_made(self, message: NoteMade) -> KnownGroup:
        self._write(self.registry.make(message.name, message.id, by_broker=message.by_broker))
        return self.registry.group(message.name)

    @answers(NoteSettings)
    async def note_settings(self, message: NoteSettings) -> KnownGroup:
        self._write(self.registry.fix(message.name, message.settings))
        return self.registry.group(message.name)

    @answers(NoteGeneration)
    async def note_generation(self, message: NoteGeneration) -> KnownGroup:
        self._write(self.registry.reserve(message.name, message.generation))
        return self.registry.group(message.name)

    @answers(NoteBegun)
    async def note_begun(self, message: NoteBegun) -> KnownGroup:
        self._write(
            self.registry.begin(message.name, message.topic, message.uuid, message.partitions, message.start)
        )
        return self.registry.group(message.name)

    @answers(NoteMembers)
    async def note_members(self, message: NoteMembers) -> KnownGroup:
        self._write(self.registry.remember(message.name, message.members))
        return self.registry.group(message.name)

    @answers(NoteAttached)
    async def note_attached(self, message: NoteAttached) -> KnownGroup:
        self._write(self.registry.attach(message.name, message.topic, message.uuid, message.partitions))
        return self.registry.group(message.name)

    @answers(NoteAdopted)
    async def note_adopted(self, message: NoteAdopted) -> KnownGroup:
        adoption, registry = message.adoption, self.registry
        if adoption.is_unknown:
            self._write(registry.remake(adoption.name, adoption.id))
        if adoption.settings is not None:
            self._write(registry.fix(adoption.name, adoption.settings))
        self._write(registry.reserve(adoption.name, message.generation))
        for topic in adoption.topics:
            self._write(registry.begin(adoption.name, topic.name, topic.uuid, topic.partitions, EARLIEST))
            self._write(registry.attach(adoption.name, topic.name, topic.uuid, topic.attached))
        return registry.group(adoption.name)

    @answers(NoteMended)
    async def note_mended(self, _: NoteMended) -> None:
        with suppress(DiskFull):  # then the next start finds the damage once more
            await self.stored.compact()
            self.stored.reports.clear()

    @answers(NoteCeased)
    async def note_ceased(self, message: NoteCeased) -> KnownGroup:
        self._write(self.registry.cease(message.name, message.topic, message.uuid))
        return self.registry.group(message.name)

    @answers(NoteRemoved)
    async def note_removed(self, message: NoteRemoved) -> KnownGroup:
        known = self.registry.group(message.name)
        self._write(self.registry.remove(message.name))
        return known

    @answers(NoteForgotten)
    async def note_forgotten(self, message: NoteForgotten) -> None:
        self._write(self.registry.forget(message.name, message.id))
