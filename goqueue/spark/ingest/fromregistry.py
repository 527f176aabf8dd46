"""Schemas that the registry of the broker has: which version a run reads by, and the others that messages name.

The driver asks for them: the version of a run when it begins, and all others of the subject once, when the first
message names one. After that only new ones are asked for, when a message names what is not known. Deleted versions
count as well, since messages were written with them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeAlias

from goqueue.blocking import Client
from goqueue.blocking.inside import resolved_schema
from goqueue.client.schemas.registry import LATEST, AnyVersion
from goqueue.client.schemas.source import JSON, RegisteredSchema
from goqueue.core.schemas.reading.bundling import bundled
from goqueue.core.schemas.schema import ResolvedSchema, VersionNumber
from goqueue.core.schemas.subjects import subject_of_values
from goqueue.core.schemas.text import finished
from goqueue.errors import InvalidConfig, InvalidSchema
from goqueue.spark.ingest.naming import names_of

Connect: TypeAlias = Callable[[], AbstractContextManager[Client]]


@dataclass(frozen=True, slots=True)
class FromRegistry:
    """The schema of an ingest is a version of a subject, looked up when a run begins."""

    subject: str | None = None
    """None: that of the topic's values."""
    version: AnyVersion = LATEST

    def subject_for(self, topics: Sequence[str]) -> str:
        if self.subject is not None:
            return self.subject
        if len(topics) != 1:
            raise InvalidConfig("with several topics the schema's subject has to be named")
        return subject_of_values(topics[0])


@dataclass(frozen=True, slots=True)
class FoundVersion:
    described: RegisteredSchema
    resolved: ResolvedSchema

    @property
    def names(self) -> tuple[str, ...]:
        return names_of(self.described.id, self.described.guid)

    @property
    def shown(self) -> str:
        return f"version {self.described.version} of subject {self.described.subject}"

    def about(self) -> dict[str, Any]:
        found = self.described
        return {"subject": found.subject, "version": found.version, "id": found.id}

    def document(self) -> Any:
        """With all that it refers to below its `$defs`; `InvalidConfig` if it cannot be one document."""
        if self.described.type != JSON:
            raise InvalidConfig(f"{self.shown} is {self.described.type}; a table needs JSON Schema")
        try:
            return finished(bundled(self.resolved))
        except InvalidSchema as error:
            raise InvalidConfig(f"{self.shown} cannot be one document: {error.message}") from None


def found_version(client: Client, subject: str, version: AnyVersion, *, deleted: bool = False) -> FoundVersion:
    described = client.schema(subject, version, deleted=deleted)
    return FoundVersion(described, resolved_schema(client, described))


class SubjectVersions:
    """The versions of a subject that are known so far."""

    def __init__(self, connect: Connect, own: FoundVersion) -> None:
        self.own = own
        """That of the run."""
        self._connect = connect
        self._found: dict[VersionNumber, FoundVersion] = {own.described.version: own}

    @property
    def subject(self) -> str:
        return self.own.described.subject

    def by_name(self) -> Mapping[str, FoundVersion]:
        """That of the run stands for its schema, whichever other versions have it too."""
        return {name: each for each in (*self._found.values(), self.own) for name in each.names}

    def look_again(self) -> None:
        with self._connect() as client:
            for number in self._new(client.schema_versions(self.subject, deleted=True)):
                self._found[number] = found_version(client, self.subject, number, deleted=True)

    def _new(self, numbers: Iterable[VersionNumber]) -> list[VersionNumber]:
        return [number for number in numbers if number not in self._found]
