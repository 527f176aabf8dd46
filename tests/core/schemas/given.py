"""Schemas as tests write them."""

import json
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from goqueue.core.schemas.schema import ResolvedSchema, Schema, SchemaType, SchemaVersion
from goqueue.core.schemas.validation.topicschemas import SubjectSchemas, TopicSchemas

FIRST_ID = 101


def resolved(schema: Any, **references: ResolvedSchema) -> ResolvedSchema:
    """A reference's name has `.json` behind it."""
    text = schema if isinstance(schema, str) else json.dumps(schema)
    named = tuple((f"{name}.json", reference) for name, reference in references.items())
    return ResolvedSchema(text, references=named)


def guid_of(number: int) -> UUID:
    return UUID(int=number)


def subject(
    *schemas: Any, name: str = "orders-value", types: Sequence[SchemaType] = (), rule_set: str | None = None
) -> SubjectSchemas:
    """Versions 1, 2 … with the ids 101, 102 … The last type and the rule set are those of the last version."""
    versions = []
    for number, schema in enumerate(schemas, 1):
        kind = types[number - 1] if types else SchemaType.JSON
        text = schema if isinstance(schema, str) else json.dumps(schema)
        stored = Schema(text, kind, rule_set=rule_set if number == len(schemas) else None)
        version = SchemaVersion(name, number, FIRST_ID + number - 1, guid_of(number), stored)
        versions.append((version, ResolvedSchema(text, kind)))
    return SubjectSchemas(name, versions)


def topic(values: SubjectSchemas | None = None, keys: SubjectSchemas | None = None) -> TopicSchemas:
    return TopicSchemas(values, keys)


def prefixed(schema_id: int, value: bytes) -> bytes:
    return b"\x00" + schema_id.to_bytes(4, "big") + value


def with_guid(number: int) -> bytes:
    return b"\x01" + guid_of(number).bytes


Headers = Mapping[str, bytes]
