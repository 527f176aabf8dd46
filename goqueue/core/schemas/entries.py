"""The entries of the registry: what changes it, as records of the internal log `__schemas`.

An entry is a map: `v` (1), `kind`, and

    registered   subject, version, id     the subject has this version; and the first time that there is this id:
                 schema                   [text, type, references, metadata, rule set, digest, normal digest]
    deleted      subject, versions        softly: they are kept, and hold no message to anything
                 whole                    the subject itself was deleted, and its settings with it
    removed      subject, versions        for good; their numbers and ids are never given again
    settings     subject, own             [level, normalize, mode] of the subject, each nil where it has none of its
                                          own; subject nil: those of the registry
    lost         count, ids               entries were lost, and gave so many ids and versions at most; `ids`: none
                                          above it was given
    snapshot     schemas, subjects, own, given, floor    stands for all entries before it

In a snapshot `schemas` are [id, …] as above, `subjects` [name, next version, own, [[version, id, is deleted] …]],
`given` the runs of ids that were ever given, and `floor` the version above which all other subjects begin.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

from goqueue.core.schemas.schema import Compatibility, Mode, Reference, Schema, SchemaType
from goqueue.core.schemas.settings import OwnSettings
from goqueue.core.schemas.stored import StoredSchema
from goqueue.errors import UnknownFormat

VERSION = 1

RegistryEntry: TypeAlias = dict[str, Any]


def entry_of(kind: str, **fields: Any) -> RegistryEntry:
    return {"v": VERSION, "kind": kind, **fields}


def checked_entry(entry: object) -> RegistryEntry:
    """An entry of a version that is known; its kind may be any."""
    if not isinstance(entry, dict):
        raise UnknownFormat(f"an entry of the schema registry is a map, not {type(entry).__name__}")
    version = entry.get("v")
    if type(version) is not int or version != VERSION:
        raise UnknownFormat(
            f"version {version!r:.100} of the schema registry is unknown; start a goqueue that knows it"
        )
    return entry


def schema_to_plain(stored: StoredSchema) -> list[Any]:
    schema = stored.schema
    references = [[each.name, each.subject, each.version] for each in schema.references]
    extras = [schema.metadata, schema.rule_set]
    return [schema.text, schema.type.value, references, *extras, stored.digest, stored.normal]


def schema_from_plain(schema_id: int, plain: Sequence[Any]) -> StoredSchema:
    text, kind, references, metadata, rule_set, digest, normal = plain[:7]
    named = tuple(Reference(_text(name), _text(subject), int(version)) for name, subject, version in references)
    schema = Schema(_text(text), SchemaType(kind), named, _text_or_none(metadata), _text_or_none(rule_set))
    return StoredSchema(int(schema_id), schema, _bytes(digest), _bytes(normal))


def settings_to_plain(own: OwnSettings) -> list[Any]:
    level, mode = (None if each is None else each.value for each in (own.level, own.mode))
    return [level, own.normalize, mode]


def settings_from_plain(plain: Sequence[Any]) -> OwnSettings:
    level, normalize, mode = plain[:3]
    return OwnSettings(
        None if level is None else Compatibility(level),
        None if normalize is None else bool(normalize),
        None if mode is None else Mode(mode),
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.100} is no text")
    return value


def _text_or_none(value: object) -> str | None:
    return None if value is None else _text(value)


def _bytes(value: object) -> bytes:
    if not isinstance(value, bytes):
        raise TypeError(f"{value!r:.100} is no digest")
    return value
