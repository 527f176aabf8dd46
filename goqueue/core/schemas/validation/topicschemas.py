"""The schemas that the messages of one topic are held to. They never change: a new version makes new ones."""

from collections.abc import Sequence
from dataclasses import dataclass

from goqueue.core.schemas.schema import ResolvedSchema, SchemaVersion


@dataclass(frozen=True, slots=True)
class SubjectSchemas:
    """The live versions of a subject, by rising number; the last one is in force."""

    subject: str
    versions: Sequence[tuple[SchemaVersion, ResolvedSchema]]


@dataclass(frozen=True, slots=True)
class TopicSchemas:
    values: SubjectSchemas | None
    keys: SubjectSchemas | None
