"""The schemas that the messages of one topic are held to. They never change: a new version makes new ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import orjson

from goqueue.core.schemas.schema import ResolvedSchema, Schema, SchemaType, SchemaVersion
from goqueue.core.schemas.validation.compiled import CompiledSchemas
from goqueue.core.schemas.validation.framing import SchemaName

Version: TypeAlias = tuple[SchemaVersion, ResolvedSchema]


@dataclass(frozen=True, slots=True)
class SubjectSchemas:
    """The live versions of a subject, by rising number; the last one is in force."""

    subject: str
    versions: Sequence[Version]

    @property
    def newest(self) -> Version:
        return self.versions[-1]

    def by_name(self) -> Mapping[SchemaName, Version]:
        """By id and by guid."""
        named: dict[SchemaName, Version] = {}
        for version, resolved in self.versions:
            named[version.id] = named[version.guid] = version, resolved
        return named


@dataclass(frozen=True, slots=True)
class TopicSchemas:
    values: SubjectSchemas | None
    keys: SubjectSchemas | None
    compiled: CompiledSchemas = field(default_factory=CompiledSchemas)
    """The validators; whoever makes schemas for many topics gives all of them the same ones."""

    @property
    def subjects(self) -> tuple[SubjectSchemas, ...]:
        return tuple(each for each in (self.values, self.keys) if each is not None and each.versions)


def is_checked(schema: Schema) -> bool:
    """Whether values of this schema are held to it. With encoding rules they are encrypted."""
    return schema.type is SchemaType.JSON and not _has_encoding_rules(schema.rule_set)


def _has_encoding_rules(rule_set: str | None) -> bool:
    if rule_set is None:
        return False
    try:
        rules = orjson.loads(rule_set)
    except orjson.JSONDecodeError:
        return False
    return isinstance(rules, dict) and bool(rules.get("encodingRules"))
