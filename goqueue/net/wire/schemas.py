"""The messages of the protocol about the schema registry.

A version of 0 means the newest one. Refusals have the detail `error_code`, the number of Confluent's registry.
"""

from typing import Annotated, NamedTuple, TypeAlias

from goqueue.net.wire.fields import U32, U63, Blob, Count, Many, Name, Properties, Prose, Range, Size, Uuid
from goqueue.net.wire.registry import kind

SCHEMA_SIZE_MAX = 4 * 1024 * 1024
"""Limit of a schema's text on the wire. The registry's own limit is lower, and its refusal says what it is."""
REFERENCES_MAX = 256
PAGE_MAX = 1_000
LATEST = 0

SchemaText: TypeAlias = Annotated[str, Size(0, SCHEMA_SIZE_MAX)]
Subject: TypeAlias = Annotated[str, Size(0, 1_024)]
Deleted: TypeAlias = Annotated[int, Range(0, 2)]
"""0 only those that are not deleted, 1 also softly deleted ones, 2 only these."""


class SchemaReference(NamedTuple):
    name: Prose
    subject: Subject
    version: U32


class SchemaBody(NamedTuple):
    """`type` is `JSON` or `AVRO`. `metadata` and `rule_set` are JSON objects, as text."""

    text: SchemaText
    type: Name = "JSON"
    references: Annotated[tuple[SchemaReference, ...], Count(REFERENCES_MAX)] = ()
    metadata: SchemaText | None = None
    rule_set: SchemaText | None = None


class SchemaDescription(NamedTuple):
    subject: Subject
    version: U32
    id: U32
    guid: Uuid
    schema: SchemaBody
    is_deleted: bool = False


class SchemaUse(NamedTuple):
    subject: Subject
    version: U32
    id: U32


class SchemaFinding(NamedTuple):
    """`path` is one in the schema. `old` and `new` are short JSON, or empty."""

    type: Name
    path: Prose
    old: Prose
    new: Prose
    help: Prose
    version: U32
    """The earlier version that it was compared with; 0 where that is no version."""


@kind(144, "SchemaRegistered")
class RegisterSchema(NamedTuple):
    """`force` skips the comparison with earlier versions. `id` and `version` are for mode IMPORT alone."""

    subject: Subject
    schema: SchemaBody
    normalize: bool | None = None
    force: bool = False
    id: U32 | None = None
    version: U32 | None = None


@kind(145)
class SchemaRegistered(NamedTuple):
    """The version that has this schema; `is_new`: it was made."""

    described: SchemaDescription
    is_new: bool


@kind(146, "SchemaFound")
class LookUpSchema(NamedTuple):
    """The version of the subject that has this schema."""

    subject: Subject
    schema: SchemaBody
    normalize: bool | None = None
    deleted: bool = False


@kind(148, "SchemaFound")
class GetSchema(NamedTuple):
    """By version of a subject; or by `id` or `guid`, where `subject` is a hint. With `metadata` the newest version
    of the subject whose metadata has these properties."""

    subject: Subject | None = None
    version: U32 = LATEST
    id: U32 | None = None
    guid: Uuid | None = None
    deleted: bool = False
    metadata: Properties | None = None


@kind(149)
class SchemaFound(NamedTuple):
    described: SchemaDescription


@kind(150, "Subjects")
class ListSubjects(NamedTuple):
    """In order of name, from `offset` on."""

    prefix: Subject = ""
    deleted: Deleted = 0
    offset: U32 = 0
    count_max: Annotated[int, Range(1, PAGE_MAX)] = PAGE_MAX


@kind(151)
class Subjects(NamedTuple):
    names: Annotated[tuple[Subject, ...], Many]
    has_more: bool


@kind(152, "SchemaVersions")
class ListVersions(NamedTuple):
    subject: Subject
    deleted: Deleted = 0
    offset: U32 = 0
    count_max: Annotated[int, Range(1, 10_000)] = 10_000


@kind(153)
class SchemaVersions(NamedTuple):
    versions: Annotated[tuple[U32, ...], Many]
    has_more: bool


@kind(154, "Schemas")
class ListSchemas(NamedTuple):
    """Whole schemas, by subject and version. An answer may have fewer than `count_max`, where schemas are large."""

    prefix: Subject = ""
    deleted: Deleted = 0
    latest_only: bool = False
    offset: U32 = 0
    count_max: Annotated[int, Range(1, PAGE_MAX)] = PAGE_MAX


@kind(155)
class Schemas(NamedTuple):
    schemas: Annotated[tuple[SchemaDescription, ...], Many]
    has_more: bool


@kind(156, "SchemaUses")
class FindUses(NamedTuple):
    """The subjects and versions that have the schema of this id or guid."""

    id: U32 | None = None
    guid: Uuid | None = None
    deleted: Deleted = 0
    offset: U32 = 0
    count_max: Annotated[int, Range(1, 10_000)] = 10_000


@kind(157)
class SchemaUses(NamedTuple):
    uses: Annotated[tuple[SchemaUse, ...], Many]
    has_more: bool = False


@kind(158, "SchemaUses")
class FindReferrers(NamedTuple):
    """The versions that refer to this one."""

    subject: Subject
    version: U32 = LATEST
    offset: U32 = 0
    count_max: Annotated[int, Range(1, 10_000)] = 10_000


@kind(160, "SchemaDeleted")
class DeleteSchema(NamedTuple):
    """One version, or all of them where `version` is nil. `permanent` wants a soft delete before."""

    subject: Subject
    version: U32 | None = None
    permanent: bool = False


@kind(161)
class SchemaDeleted(NamedTuple):
    versions: Annotated[tuple[U32, ...], Many]


@kind(162, "SchemaChecked")
class CheckSchema(NamedTuple):
    """Compare with one version (0 the newest), or as the subject's level says where `version` is nil."""

    subject: Subject
    schema: SchemaBody
    version: U32 | None = None
    normalize: bool | None = None


@kind(163)
class SchemaChecked(NamedTuple):
    is_compatible: bool
    findings: Annotated[tuple[SchemaFinding, ...], Many]
    level: Name


@kind(164, "SchemaSettings")
class ReadSchemaSettings(NamedTuple):
    """A subject's settings, or the registry's where it is nil. `with_default`: what holds for the subject."""

    subject: Subject | None = None
    with_default: bool = False


@kind(165)
class SchemaSettings(NamedTuple):
    """Nil where the subject has none of its own. After a change: how they are now; after a reset: how they were."""

    level: Name | None
    normalize: bool | None
    mode: Name | None


@kind(166, "SchemaSettings")
class ChangeSchemaSettings(NamedTuple):
    """What is nil stays. `reset_config` and `reset_mode` take back what the subject has of its own."""

    subject: Subject | None = None
    level: Name | None = None
    normalize: bool | None = None
    mode: Name | None = None
    reset_config: bool = False
    reset_mode: bool = False
    force: bool = False


@kind(170, "RegistryPiece")
class FetchRegistry(NamedTuple):
    """A piece of the registry as it was when this connection took its last snapshot."""

    number: U32


@kind(171)
class RegistryPiece(NamedTuple):
    """The pieces together are a record of `__schemas` that stands for all others, as on disk."""

    data: Blob


@kind(168, "RegistryCounts")
class CountSchemas(NamedTuple):
    """How much the registry holds."""


@kind(169)
class RegistryCounts(NamedTuple):
    subjects: U63
    versions: U63
    deleted_versions: U63
    schemas: U63
    size: U63
    """Bytes of all schemas' texts."""
