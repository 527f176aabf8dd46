"""Short words for tests of the schema registry on disk."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from goqueue.core.schemas.changing import SettingsChange, change
from goqueue.core.schemas.deleting import delete_subject, delete_version
from goqueue.core.schemas.entries import entry_of
from goqueue.core.schemas.registering import Wish, register
from goqueue.core.schemas.registry import SchemaRegistry
from goqueue.core.schemas.schema import Reference, Schema, SchemaVersion
from goqueue.core.schemas.text import read_schema
from goqueue.errors import UnknownFormat
from goqueue.storage.directory.recoveringschemas import (
    RecoveredRegistry,
    put_schemas_in_place,
    recover_schemas,
)
from goqueue.storage.directory.storedschemas import StoredSchemas
from goqueue.testing.disk import SimulatedDisk
from tests.storage.logs import NOW, mounted

FOLDER = "/data/logs/__schemas/0"
STRING, NUMBER = '{"type":"string"}', '{"type":"number"}'


class Registered:
    """An open registry, of which every change is committed before it is answered."""

    def __init__(self, stored: StoredSchemas) -> None:
        self.stored = stored

    @property
    def registry(self) -> SchemaRegistry:
        return self.stored.registry

    async def _write(self, entry: dict[str, Any]) -> None:
        async with self.stored.changing():
            await self.stored.write(entry, NOW)
        await self.stored.commit()

    async def register(self, subject: str, text: str = STRING, *references: Reference) -> tuple[int, int]:
        """Version and id."""
        wish = Wish(subject, read_schema(Schema(text, references=references)), force=True)
        found = register(self.registry, wish)
        if isinstance(found, SchemaVersion):
            return found.version, found.id
        await self._write(found.entry)
        return found.entry["version"], found.entry["id"]

    async def delete(self, subject: str, number: int | None = None, *, permanent: bool = False) -> None:
        if number is None:
            await self._write(delete_subject(self.registry, subject, permanent=permanent))
        else:
            await self._write(delete_version(self.registry, subject, number, permanent=permanent))

    async def set(self, subject: str | None = None, **settings: Any) -> None:
        await self._write(change(self.registry, SettingsChange(subject, **settings)))

    async def write_unknown(self) -> None:
        """An entry of a newer goqueue."""
        await self.stored._log.append([entry_of("unheard of")], NOW)
        await self.stored.commit()


@asynccontextmanager
async def stored_on(disk: SimulatedDisk) -> AsyncIterator[Registered]:
    async with mounted(disk) as volume:
        stored = await StoredSchemas.open(volume, "/data")
        try:
            yield Registered(stored)
            await stored.close()
        finally:
            stored.abandon()


def segments(disk: SimulatedDisk) -> list[str]:
    return [f"{FOLDER}/{name}" for name in disk.list(FOLDER) if name.endswith(".log")]


async def recovered_on(
    disk: SimulatedDisk, *, write: bool = True, ids_above: int = 0
) -> tuple[RecoveredRegistry, str | None]:
    """Do what `goqueue recover schemas` does."""
    async with mounted(disk) as volume:
        found = await recover_schemas(volume, "/data", ids_above=ids_above)
        if not write or found.is_same:
            return found, None
        return found, await put_schemas_in_place(volume, "/data", found.registry, NOW)


async def refused_on(disk: SimulatedDisk) -> str:
    """Why a start refuses it."""
    async with mounted(disk) as volume:
        with pytest.raises(UnknownFormat) as refusal:
            await StoredSchemas.open(volume, "/data")
    return refusal.value.message
