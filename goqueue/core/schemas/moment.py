"""The whole registry at one moment. It is taken at once, and told at leisure, while the registry goes on."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from goqueue.core.offsetset import Run
from goqueue.core.schemas.entries import RegistryEntry, entry_of, schema_to_plain, settings_to_plain
from goqueue.core.schemas.schema import SchemaVersion, VersionNumber
from goqueue.core.schemas.settings import OwnSettings
from goqueue.core.schemas.stored import StoredSchema

Plain: TypeAlias = list[Any]


class SubjectThen(NamedTuple):
    name: str
    next_version: VersionNumber
    own: OwnSettings
    versions: tuple[SchemaVersion, ...]

    def to_plain(self) -> Plain:
        versions = [[each.version, each.id, each.is_deleted] for each in self.versions]
        return [self.name, self.next_version, settings_to_plain(self.own), versions]


@dataclass(frozen=True, slots=True)
class RegistryMoment:
    schemas: tuple[StoredSchema, ...]
    subjects: tuple[SubjectThen, ...]
    own: OwnSettings
    given: tuple[Run, ...]
    floor: VersionNumber

    def entry(self) -> RegistryEntry:
        """The snapshot that stands for all entries until then."""
        return self._entry(schemas=list(self.plain_schemas()), subjects=list(self.plain_subjects()))

    def frame(self) -> RegistryEntry:
        """The snapshot without its two long lists, which are to stand behind it."""
        return self._entry()

    def _entry(self, **lists: list[Plain]) -> RegistryEntry:
        given = [[run.first, run.last] for run in self.given]
        return entry_of("snapshot", own=settings_to_plain(self.own), given=given, floor=self.floor, **lists)

    def plain_schemas(self) -> Iterator[Plain]:
        return ([stored.id, *schema_to_plain(stored)] for stored in self.schemas)

    def plain_subjects(self) -> Iterator[Plain]:
        return (subject.to_plain() for subject in self.subjects)
