"""What the registry keeps: schemas by id, and subjects with their versions."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from uuid import UUID

from goqueue.core.schemas.schema import Schema, SchemaId, SchemaVersion, VersionNumber
from goqueue.core.schemas.settings import NONE_OWN, OwnSettings
from goqueue.core.schemas.subjects import SubjectKey
from goqueue.core.schemas.text import SchemaContent, guid_of


@dataclass(frozen=True, slots=True)
class StoredSchema:
    id: SchemaId
    schema: Schema
    digest: bytes
    normal: bytes

    @classmethod
    def of(cls, schema_id: SchemaId, content: SchemaContent) -> "StoredSchema":
        return cls(schema_id, content.schema, content.digest, content.normal)

    @property
    def guid(self) -> UUID:
        return guid_of(self.digest)

    @property
    def size(self) -> int:
        """Bytes that its texts take."""
        schema = self.schema
        return sum(
            len(text.encode()) for text in (schema.text, schema.metadata, schema.rule_set) if text is not None
        )


@dataclass(slots=True)
class Subject:
    """A subject with versions or settings, or one that once had versions: their numbers are never given again."""

    key: SubjectKey
    name: str
    """As it was first registered."""
    next_version: VersionNumber
    own: OwnSettings = NONE_OWN
    versions: dict[VersionNumber, SchemaVersion] = field(default_factory=dict)
    """By rising number."""

    def live(self) -> list[SchemaVersion]:
        return [each for each in self.versions.values() if not each.is_deleted]

    @property
    def newest(self) -> SchemaVersion | None:
        """The newest version that is not deleted."""
        return next(self._newest_first(), None)

    def _newest_first(self) -> Iterator[SchemaVersion]:
        return (each for each in reversed(self.versions.values()) if not each.is_deleted)

    def version_of(self, ids: Collection[SchemaId], *, deleted: bool = False) -> SchemaVersion | None:
        """The newest version that has one of these ids."""
        among = reversed(self.versions.values()) if deleted else self._newest_first()
        return next((each for each in among if each.id in ids), None)

    def put(self, version: SchemaVersion) -> None:
        if not self.versions:
            self.name = version.subject
        self.versions[version.version] = replace(version, subject=self.name)
        self.next_version = max(self.next_version, version.version + 1)

    def delete(self, number: VersionNumber) -> None:
        self.versions[number] = replace(self.versions[number], is_deleted=True)
