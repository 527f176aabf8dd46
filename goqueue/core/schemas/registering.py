"""Registering a schema: whether a subject may take it, and under which id and version.

    the same schema is a live version of the subject      that version is the answer, whatever the mode
    the same schema is known elsewhere, or softly deleted  a new version under the id that it has
    otherwise                                             a new version under a new id

The registration is decided before the schema is checked and compared, which takes its time, and once more after it:
other changes may have come between. A schema that is known was checked when it came.

In mode IMPORT ids and versions are given, since messages carry the ids of the registry that they come from. What is
imported was compared there, and is not compared again.
"""

from dataclasses import dataclass
from reprlib import repr as shortened

from goqueue.core.schemas import refusals
from goqueue.core.schemas.entries import RegistryEntry, entry_of, schema_to_plain
from goqueue.core.schemas.references import resolve
from goqueue.core.schemas.registry import ID_MAX, SchemaRegistry
from goqueue.core.schemas.schema import (
    Compatibility,
    Mode,
    Reference,
    ResolvedSchema,
    SchemaId,
    SchemaType,
    SchemaVersion,
    VersionNumber,
)
from goqueue.core.schemas.settings import EffectiveSettings
from goqueue.core.schemas.stored import StoredSchema
from goqueue.core.schemas.subjects import check_subject_name
from goqueue.core.schemas.text import SchemaContent, invalid
from goqueue.errors import GoQueueError

VERSIONS_MAX = 100_000
SUBJECTS_MAX = 20_000
SIZE_MAX = 64 * 1024 * 1024
"""Limits of the whole registry: it is held in memory, and a backup asks for it as one."""
IMPORTED_MAX = 2_000_000_000
"""Limit of an id and a version that are given, so that there are others left."""


@dataclass(frozen=True, slots=True)
class EarlierVersion:
    """An earlier version that a schema is compared with, and in which direction."""

    version: SchemaVersion
    resolved: ResolvedSchema
    is_backward: bool
    """The schema must read what was written with the version."""
    is_forward: bool
    """The version must read what is written with the schema."""


@dataclass(frozen=True, slots=True)
class Registration:
    """A version that a subject may get, once the schema is found to be valid and compatible."""

    resolved: ResolvedSchema
    is_checked: bool
    """It is a schema that the registry has: it is valid."""
    comparisons: tuple[EarlierVersion, ...]
    entry: RegistryEntry


@dataclass(frozen=True, slots=True)
class Wish:
    """What is asked for: a schema for a subject. `id` and `version` are for mode IMPORT."""

    subject: str
    content: SchemaContent
    normalize: bool | None = None
    force: bool = False
    """Without comparison to earlier versions."""
    id: SchemaId | None = None
    version: VersionNumber | None = None


def register(registry: SchemaRegistry, wish: Wish) -> SchemaVersion | Registration:
    """The version that has the schema already, or the one that it may become."""
    check_subject_name(wish.subject)
    settings = registry.settings(wish.subject)
    existing = find_same(registry, wish.subject, wish.content, wish.normalize)
    if existing is not None and wish.id in (None, existing.id) and wish.version in (None, existing.version):
        return existing
    _check_mode(wish, settings.mode)
    _check_type(wish, settings.level)
    resolved = resolve_content(registry, wish.content)
    known = _id_of_same(registry, wish, settings)
    _check_room(registry, wish, is_new=known is None)
    compares = not wish.force and settings.mode is not Mode.IMPORT
    level = settings.level if compares else Compatibility.NONE
    entry = _entry(registry, wish, known)
    return Registration(resolved, known is not None, comparisons(registry, wish.subject, level), entry)


def find_same(
    registry: SchemaRegistry,
    subject: str,
    content: SchemaContent,
    normalize: bool | None = None,
    *,
    deleted: bool = False,
) -> SchemaVersion | None:
    """The newest version of the subject that has this schema."""
    found = registry.find(subject)
    if found is None:
        return None
    normalized = registry.settings(subject).normalize if normalize is None else normalize
    return found.version_of(registry.same_as(content, normalize=normalized), deleted=deleted)


def look_up(
    registry: SchemaRegistry,
    subject: str,
    content: SchemaContent,
    normalize: bool | None = None,
    *,
    deleted: bool = False,
) -> SchemaVersion:
    """The same, or why there is none."""
    registry.subject(subject, deleted=deleted)
    found = find_same(registry, subject, content, normalize, deleted=deleted)
    if found is None:
        raise refusals.not_in_subject(subject)
    return found


def resolve_content(registry: SchemaRegistry, content: SchemaContent) -> ResolvedSchema:
    """With the schemas that it refers to. They must be there, and not deleted."""
    return resolve(content.schema, [_referred(registry, each) for each in content.schema.references])


def _referred(registry: SchemaRegistry, reference: Reference) -> ResolvedSchema:
    if not 1 <= reference.version <= ID_MAX:
        raise invalid(f"reference {shortened(reference.name)} names no version; versions begin at 1")
    try:
        return registry.resolved(registry.version(reference.subject, reference.version).id)
    except GoQueueError as error:
        raise invalid(f"reference {shortened(reference.name)}: {error.message}") from error


def comparisons(registry: SchemaRegistry, subject: str, level: Compatibility) -> tuple[EarlierVersion, ...]:
    """The versions that a new one is compared with at this level, the newest first."""
    found = registry.find(subject)
    if found is None or level is Compatibility.NONE:
        return ()
    live = found.live()[::-1]
    return tuple(
        EarlierVersion(each, registry.resolved(each.id), level.is_backward, level.is_forward)
        for each in (live if level.is_transitive else live[:1])
    )


def _check_mode(wish: Wish, mode: Mode) -> None:
    name = shortened(wish.subject)
    if mode is Mode.READONLY:
        raise refusals.not_permitted(f"subject {name} is in mode READONLY; set its mode to READWRITE first")
    if mode is Mode.IMPORT and wish.id is None:
        raise refusals.not_permitted(
            f"subject {name} is in mode IMPORT, which wants an id; give one, or set READWRITE"
        )
    if mode is Mode.READWRITE and (wish.id is not None or wish.version is not None):
        raise refusals.not_permitted(f"subject {name} takes ids and versions in mode IMPORT only; leave them out")


def _check_type(wish: Wish, level: Compatibility) -> None:
    if wish.content.schema.type is SchemaType.AVRO and level is not Compatibility.NONE:
        raise invalid(
            f"subject {shortened(wish.subject)} has level {level.value}, and Avro schemas are not compared here; "
            "set its level to NONE to store them"
        )


def _id_of_same(registry: SchemaRegistry, wish: Wish, settings: EffectiveSettings) -> SchemaId | None:
    """The id under which the schema is known."""
    normalize = settings.normalize if wish.normalize is None else wish.normalize
    is_import = settings.mode is Mode.IMPORT
    known = next(iter(registry.same_as(wish.content, normalize=normalize and not is_import)), None)
    if wish.id is not None:
        _check_given_id(registry, wish.id, known)
    return known


def _check_given_id(registry: SchemaRegistry, wanted: SchemaId, known: SchemaId | None) -> None:
    if known is not None and known != wanted:
        raise refusals.id_is_taken(wanted, f"cannot be given to this schema, which has id {known} here")
    if known is None and registry.has(wanted):
        raise refusals.id_is_taken(wanted, "belongs to another schema; give this one its own")
    if known is None and registry.was_given(wanted):
        raise refusals.id_is_taken(wanted, "belonged to a schema that was deleted for good, and is not given again")
    if not 1 <= wanted <= IMPORTED_MAX:
        raise refusals.id_is_taken(wanted, f"cannot be given; ids are 1 to {IMPORTED_MAX:,}")


def _check_room(registry: SchemaRegistry, wish: Wish, *, is_new: bool) -> None:
    added = StoredSchema.of(0, wish.content).size if is_new else 0
    if registry.total_versions >= VERSIONS_MAX:
        raise refusals.not_permitted(f"the registry has {VERSIONS_MAX:,} versions, as many as may be; {_REMOVE}")
    if registry.size + added > SIZE_MAX:
        raise refusals.not_permitted(
            f"the schemas of the registry have {SIZE_MAX:,} bytes, as many as may be; {_REMOVE}"
        )
    if registry.find(wish.subject) is None:
        check_room_for_subject(registry, wish.subject)


def check_room_for_subject(registry: SchemaRegistry, subject: str) -> None:
    if not registry.is_known(subject) and registry.known_subjects >= SUBJECTS_MAX:
        raise refusals.not_permitted(f"the registry has {SUBJECTS_MAX:,} subjects, as many as may be; {_REMOVE}")


_REMOVE = "delete some with permanent=true"


def _entry(registry: SchemaRegistry, wish: Wish, known: SchemaId | None) -> RegistryEntry:
    number = _number(registry, wish)
    if known is not None:
        return entry_of("registered", subject=wish.subject, version=number, id=known)
    schema_id = registry.next_id if wish.id is None else wish.id
    if schema_id > ID_MAX:
        raise refusals.not_permitted("every id was given; no further schema can be registered")
    plain = schema_to_plain(StoredSchema.of(schema_id, wish.content))
    return entry_of("registered", subject=wish.subject, version=number, id=schema_id, schema=plain)


def _number(registry: SchemaRegistry, wish: Wish) -> VersionNumber:
    following = registry.next_version(wish.subject)
    if following > ID_MAX:
        raise refusals.not_permitted(
            f"subject {shortened(wish.subject)} gave every version; register to another one"
        )
    if wish.version is None:
        return following
    if not 1 <= wish.version <= IMPORTED_MAX:
        raise refusals.invalid_version(wish.version)
    if wish.version < following:
        raise refusals.version_was_given(wish.subject, wish.version, following)
    return wish.version
