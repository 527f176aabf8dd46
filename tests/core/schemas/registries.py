"""Registries for tests: commands that are applied at once."""

import json
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from goqueue.core.schemas.changing import SettingsChange, change, reset
from goqueue.core.schemas.deleting import delete_subject, delete_version
from goqueue.core.schemas.references import check_references
from goqueue.core.schemas.registering import EarlierVersion, Wish, look_up, register
from goqueue.core.schemas.registry import SchemaRegistry
from goqueue.core.schemas.schema import Reference, Schema, SchemaType, SchemaVersion
from goqueue.core.schemas.settings import OwnSettings
from goqueue.core.schemas.text import SchemaContent, read_schema

STRING, NUMBER = '{"type":"string"}', '{"type":"number"}'


def an_object(*names: str) -> str:
    return json.dumps({"type": "object", "properties": {name: {} for name in names}})


def content(text: str, references: Sequence[Reference] = (), **others: Any) -> SchemaContent:
    check_references(references)
    return read_schema(Schema(text, references=tuple(references), **others))


class AppliedRegistry:
    """A registry whose entries are applied as soon as they are decided."""

    def __init__(self, **bounds: int) -> None:
        self.registry = SchemaRegistry(**bounds)
        self.entries: list[dict[str, Any]] = []

    def _apply(self, entry: dict[str, Any]) -> None:
        self.registry.apply(entry)
        self.entries.append(entry)

    def register(
        self,
        subject: str,
        text: str = STRING,
        references: Sequence[Reference] = (),
        *,
        type: SchemaType = SchemaType.JSON,  # noqa: A002
        **wished: Any,
    ) -> SchemaVersion:
        found = register(self.registry, Wish(subject, content(text, references, type=type), **wished))
        if isinstance(found, SchemaVersion):
            return found
        self._apply(found.entry)
        return self.registry.version(subject, found.entry["version"])

    def compared_with(self, subject: str, text: str, **wished: Any) -> tuple[EarlierVersion, ...]:
        found = register(self.registry, Wish(subject, content(text), **wished))
        assert not isinstance(found, SchemaVersion)
        return found.comparisons

    def look_up(self, subject: str, text: str, **how: Any) -> SchemaVersion:
        return look_up(self.registry, subject, content(text), **how)

    def delete(self, subject: str, number: int | None = None, *, permanent: bool = False) -> list[int]:
        if number is None:
            entry = delete_subject(self.registry, subject, permanent=permanent)
        else:
            entry = delete_version(self.registry, subject, number, permanent=permanent)
        self._apply(entry)
        numbers: list[int] = entry["versions"]
        return numbers

    def remove(self, subject: str, number: int | None = None) -> list[int]:
        """Softly, then for good."""
        self.delete(subject, number)
        return self.delete(subject, number, permanent=True)

    def set(self, subject: str | None = None, **settings: Any) -> None:
        self._apply(change(self.registry, SettingsChange(subject, **settings)))

    def reset(self, subject: str | None = None, *, config: bool = False, mode: bool = False) -> OwnSettings:
        before = self.registry.own_settings(subject)
        self._apply(reset(self.registry, subject, config=config, mode=mode))
        return before

    def versions(self, subject: str, *, deleted: bool = False) -> list[int]:
        found = self.registry.subject(subject, deleted=deleted)
        return [number for number, each in found.versions.items() if deleted or not each.is_deleted]

    def subjects(self) -> list[str]:
        return [each.name for each in self.registry]

    def guid(self, subject: str) -> UUID:
        return self.registry.version(subject).guid
