"""The groups' part of the metadata: which there are, their settings, and what they have seen."""

from contextlib import suppress

from goqueue.actors.metadata.requests import (
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
from goqueue.actors.runtime.handlers import answers
from goqueue.core.groups.registry import GroupRegistry, KnownGroup, RegistryEntry, SeenTopic
from goqueue.core.groups.start import EARLIEST
from goqueue.core.metadata.metadata import group_record
from goqueue.environment import WallClock
from goqueue.errors import DiskFull
from goqueue.storage.directory.storedmetadata import StoredMetadata


class GroupRegister:
    """A part of the metadata's owner, which commits before any answer leaves."""

    def __init__(self, stored: StoredMetadata, clock: WallClock) -> None:
        self._stored = stored
        self._clock = clock

    @property
    def registry(self) -> GroupRegistry:
        """Raises when no group can be used."""
        return self._stored.groups

    async def _write(self, *entries: RegistryEntry) -> None:
        await self._stored.write([group_record(entry) for entry in entries], self._clock.now())

    # Questions

    @answers(ReadRegister)
    async def read(self, _: ReadRegister) -> tuple[KnownGroup, ...]:
        return tuple(self.registry)

    @answers(ReadLeaving)
    async def read_leaving(self, _: ReadLeaving) -> tuple[KnownGroup, ...]:
        return tuple(self.registry.leaving())

    @answers(ReadDamage)
    async def read_damage(self, _: ReadDamage) -> bool:
        return self.registry.is_doubtful

    @answers(ReadGroup)
    async def read_group(self, message: ReadGroup) -> KnownGroup:
        return self.registry.group(message.name)

    # Changes

    @answers(NoteMade)
    async def note_made(self, message: NoteMade) -> KnownGroup:
        await self._write(self.registry.make(message.name, message.id, by_broker=message.by_broker))
        return self.registry.group(message.name)

    @answers(NoteSettings)
    async def note_settings(self, message: NoteSettings) -> KnownGroup:
        await self._write(self.registry.fix(message.name, message.settings))
        return self.registry.group(message.name)

    @answers(NoteGeneration)
    async def note_generation(self, message: NoteGeneration) -> KnownGroup:
        await self._write(self.registry.reserve(message.name, message.generation))
        return self.registry.group(message.name)

    @answers(NoteBegun)
    async def note_begun(self, message: NoteBegun) -> KnownGroup:
        entries = [self.registry.begin(message.name, topic) for topic in message.topics]
        if message.settings is not None:
            entries.append(self.registry.fix(message.name, message.settings))
        if message.generation is not None:
            entries.append(self.registry.reserve(message.name, message.generation))
        await self._write(*entries)
        return self.registry.group(message.name)

    @answers(NoteMembers)
    async def note_members(self, message: NoteMembers) -> KnownGroup:
        await self._write(self.registry.remember(message.name, message.members))
        return self.registry.group(message.name)

    @answers(NoteAttached)
    async def note_attached(self, message: NoteAttached) -> KnownGroup:
        await self._write(self.registry.attach(message.name, message.topic, message.uuid, message.partitions))
        return self.registry.group(message.name)

    @answers(NoteAdopted)
    async def note_adopted(self, message: NoteAdopted) -> KnownGroup:
        adoption, registry = message.adoption, self.registry
        if adoption.is_unknown:
            await self._write(registry.remake(adoption.name, adoption.id))
        if adoption.settings is not None:
            await self._write(registry.fix(adoption.name, adoption.settings))
        await self._write(registry.reserve(adoption.name, message.generation))
        for topic in adoption.topics:
            seen = SeenTopic(topic.name, topic.uuid, topic.partitions, EARLIEST)
            await self._write(registry.begin(adoption.name, seen))
            await self._write(registry.attach(adoption.name, topic.name, topic.uuid, topic.attached))
        return registry.group(adoption.name)

    @answers(NoteMended)
    async def note_mended(self, message: NoteMended) -> None:
        with suppress(DiskFull):  # then the next start looks once more
            await self._write(self.registry.mend(message.generation))

    @answers(NoteCeased)
    async def note_ceased(self, message: NoteCeased) -> KnownGroup:
        await self._write(self.registry.cease(message.name, message.topic, message.uuid))
        return self.registry.group(message.name)

    @answers(NoteRemoved)
    async def note_removed(self, message: NoteRemoved) -> KnownGroup:
        known = self.registry.group(message.name)
        await self._write(self.registry.remove(message.name))
        return known

    @answers(NoteForgotten)
    async def note_forgotten(self, message: NoteForgotten) -> None:
        await self._write(self.registry.forget(message.name, message.id))
