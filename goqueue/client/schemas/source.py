"""The text of a schema, from whatever a program has: JSON, a map, a type of its own, a schema of the registry.

A type's schema says what its objects look like once they are written, and its objects are closed
(`additionalProperties` is false) unless the type says otherwise: only so may a field be added later.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from reprlib import repr as shortened
from types import UnionType
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

from goqueue.client.link.arguments import check_whole, is_text, refusal
from goqueue.core.records.jsonvalue import json_bytes
from goqueue.core.schemas.schema import Reference, SchemaId, VersionNumber
from goqueue.errors import InvalidMessage, SchemaMisfit
from goqueue.net.wire.fields import U32_MAX

AnySchema: TypeAlias = Any
"""JSON as text or bytes, a dict or a bool, a `RegisteredSchema`, or a type: a pydantic model, a dataclass."""
WrittenSchema: TypeAlias = "str | bytes | Mapping[str, Any] | bool | RegisteredSchema | UnionType"
"""A schema that is JSON, or a type that no `type[…]` describes."""
AnyReference: TypeAlias = Reference | tuple[str, str, int] | Mapping[str, Any]
"""`name` is what `$ref` says, and stands for that version of a subject."""

JSON, AVRO = "JSON", "AVRO"
FAULT_LENGTH_MAX = 800
"""A fault is the reason of a dead letter, which has an end."""
_PARTS = {"name", "subject", "version"}


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """One version of a subject of the registry."""

    subject: str
    version: VersionNumber
    id: SchemaId
    """The same schema has the same id in all subjects."""
    guid: UUID
    """Made of the schema's content: the same in every registry."""
    type: str
    """"JSON" or "AVRO"."""
    schema: str
    """The text, as it was registered."""
    references: tuple[Reference, ...] = ()
    is_deleted: bool = False
    """Softly: it is shown to those who ask for deleted ones, and validates nothing."""


class SchemaSource(NamedTuple):
    """A schema that may be registered."""

    text: str
    type: str = JSON
    references: tuple[Reference, ...] = ()


def source_of(schema: AnySchema) -> SchemaSource:
    if isinstance(schema, RegisteredSchema):
        return SchemaSource(schema.schema, schema.type, schema.references)
    if is_type(schema):
        return SchemaSource(_models().type_text(schema))
    return SchemaSource(_text_of(schema))


def is_type(schema: AnySchema) -> bool:
    """Whether it is a type whose objects a program has in its hands, and no schema as JSON."""
    return not isinstance(schema, str | bytes | bytearray | memoryview | Mapping | bool | RegisteredSchema | None)


def misfit(name: str, fault: str) -> SchemaMisfit:
    return SchemaMisfit(f"the value is no {name}: {fault[:FAULT_LENGTH_MAX]}")


def _text_of(schema: object) -> str:
    if isinstance(schema, bytes | bytearray):
        schema = _decoded(bytes(schema))
    if isinstance(schema, str):
        return _checked_text(schema)
    if isinstance(schema, Mapping | bool):
        return _written(schema)
    raise refusal(
        f"schema={shortened(schema)} is no schema; give JSON Schema as text, bytes, a dict or a bool, "
        "a pydantic model or a dataclass"
    )


def _decoded(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise refusal(f"the schema is no UTF-8: byte {error.start} is not") from None


def _checked_text(text: str) -> str:
    if not is_text(text):
        raise refusal("the schema has lone surrogates, which UTF-8 cannot hold")
    return text


def _written(schema: Mapping[str, Any] | bool) -> str:
    try:
        return json_bytes(dict(schema) if isinstance(schema, Mapping) else schema).decode()
    except InvalidMessage as error:
        raise refusal(f"the schema is no JSON: {error.message}") from None


def references_of(references: Iterable[AnyReference]) -> tuple[Reference, ...]:
    return tuple([_reference_of(each) for each in references])


def _reference_of(reference: AnyReference) -> Reference:
    if isinstance(reference, Reference):
        return reference
    named = dict(reference) if isinstance(reference, Mapping) else None
    if named is not None and named.keys() == _PARTS:
        return _checked_reference(named["name"], named["subject"], named["version"])
    if isinstance(reference, tuple) and len(reference) == len(_PARTS):
        return _checked_reference(*reference)
    raise refusal(f"references: {shortened(reference)} is none; give a name, a subject and a version")


def _checked_reference(name: object, subject: object, version: object) -> Reference:
    if not (is_text(name) and is_text(subject)):
        raise refusal("references: a name and a subject are texts")
    return Reference(name, subject, check_whole("references: version", version, 1, U32_MAX))


def _models() -> Any:
    from goqueue.client.schemas import models  # noqa: PLC0415 (pydantic takes a tenth of a second)

    return models
