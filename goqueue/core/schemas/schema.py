"""A schema, its references, and its place in the registry."""

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias
from uuid import UUID

SchemaId: TypeAlias = int
VersionNumber: TypeAlias = int


class SchemaType(Enum):
    JSON = "JSON"
    AVRO = "AVRO"
    """Stored and served, and validates nothing."""


class Compatibility(Enum):
    """Which versions of a subject a new one is compared with, and in which direction."""

    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"

    @property
    def is_backward(self) -> bool:
        """The new schema reads what the old one wrote."""
        return self.value.startswith(("BACKWARD", "FULL"))

    @property
    def is_forward(self) -> bool:
        """The old schema reads what the new one writes."""
        return self.value.startswith(("FORWARD", "FULL"))

    @property
    def is_transitive(self) -> bool:
        return self.value.endswith("_TRANSITIVE")


class Mode(Enum):
    READWRITE = "READWRITE"
    READONLY = "READONLY"
    IMPORT = "IMPORT"
    """Ids and versions are given, to take over the schemas of another registry."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A schema refers to `name`, which is this version of a subject."""

    name: str
    subject: str
    version: VersionNumber


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema as it was given. Texts are kept to the letter."""

    text: str
    type: SchemaType = SchemaType.JSON
    references: tuple[Reference, ...] = ()
    metadata: str | None = None
    """A JSON object, compact."""
    rule_set: str | None = None
    """A JSON object, compact."""


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """One version of a subject."""

    subject: str
    version: VersionNumber
    id: SchemaId
    guid: UUID
    schema: Schema
    is_deleted: bool = False
    """Softly: it can be read by those who ask for deleted ones, and validates nothing."""


@dataclass(frozen=True, slots=True)
class ResolvedSchema:
    """A schema's text, and the schemas that its references name, each with its own references."""

    text: str
    type: SchemaType = SchemaType.JSON
    references: tuple[tuple[str, "ResolvedSchema"], ...] = ()
    """Name, as `$ref` has it, and schema."""
