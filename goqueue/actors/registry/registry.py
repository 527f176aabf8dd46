"""The owner of the schema registry: it alone changes it. Damage stops its start: ids may hide behind it (G13).

Its state is there twice. `StoredSchemas.registry` has everything that was written, and decides what comes next; the
board's has what is durable, and everybody reads it.
"""

import logging

import trio

from goqueue.actors.registry.board import SchemaBoard
from goqueue.actors.registry.copies import SchemaCopies
from goqueue.actors.registry.registrations import Registrations
from goqueue.actors.registry.requests import ChangeSettings, Delete, ResetSettings
from goqueue.actors.runtime.actor import Actor
from goqueue.actors.runtime.handlers import answers
from goqueue.core.schemas.changing import change, reset
from goqueue.core.schemas.deleting import delete_subject, delete_version
from goqueue.core.schemas.entries import RegistryEntry
from goqueue.core.schemas.settings import OwnSettings
from goqueue.environment import WallClock
from goqueue.storage.directory.schemafiles import SchemaFiles
from goqueue.storage.directory.storedschemas import StoredSchemas
from goqueue.storage.log.volume import Volume

logger = logging.getLogger("goqueue.schemas")


class Registry(Actor):
    def __init__(self, volume: Volume, data: str, clock: WallClock, board: SchemaBoard) -> None:
        self._volume = volume
        self._data = data
        self._clock = clock
        self._board = board
        self._opened: StoredSchemas | None = None
        self._registrations: Registrations | None = None
        self._copies = SchemaCopies(SchemaFiles(volume, data), board.registry)
        self._grown = trio.Event()

    async def start(self) -> None:
        self._opened = await StoredSchemas.open(self._volume, self._data)
        for report in self._opened.reports:
            logger.warning("%s", report)
        self._board.show(self._opened.registry.snapshot())
        self._registrations = Registrations(self._opened, self._board, self._clock, self._commit)
        self.add_parts(self._registrations)
        self.background(self._registrations.run)
        self.background(self._shrink, endless=True)
        self.background(self._copies.keep, endless=True)

    @property
    def _stored(self) -> StoredSchemas:
        assert self._opened is not None, "it is opened at the start"
        return self._opened

    async def _write(self, entry: RegistryEntry) -> None:
        await self._stored.write(entry, self._clock.now())

    async def _commit(self) -> None:
        for entry in await self._stored.commit():
            for key in self._board.show(entry):
                self._copies.note(key)
        if self._stored.has_grown:
            self._grown.set()

    async def _shrink(self) -> None:
        while True:
            await self._grown.wait()
            self._grown = trio.Event()
            await self._stored.shrink(self._clock.now())

    async def end_turn(self) -> None:
        await self._commit()

    def stop_asked(self) -> None:
        if self._registrations is not None:
            self._registrations.stop()

    async def stop(self) -> None:
        await self._stored.close()
        await self._copies.end()

    def close(self) -> None:
        if self._opened is not None:
            self._opened.abandon()

    @answers(Delete)
    async def delete(self, message: Delete) -> tuple[int, ...]:
        registry, name = self._stored.registry, message.subject
        async with self._stored.changing():
            if message.version is None:
                entry = delete_subject(registry, name, permanent=message.permanent)
            else:
                entry = delete_version(registry, name, message.version, permanent=message.permanent)
            await self._write(entry)
        return tuple(entry["versions"])

    @answers(ChangeSettings)
    async def change_settings(self, message: ChangeSettings) -> OwnSettings:
        registry = self._stored.registry
        async with self._stored.changing():
            await self._write(change(registry, message.change))
            return registry.own_settings(message.change.subject)

    @answers(ResetSettings)
    async def reset_settings(self, message: ResetSettings) -> OwnSettings:
        registry = self._stored.registry
        async with self._stored.changing():
            before = registry.own_settings(message.subject)
            await self._write(reset(registry, message.subject, config=message.config, mode=message.mode))
        return before
