"""The schema registry: the state machine behind the internal log `__schemas`.

A command (registering.py, deleting.py, changing.py) is checked against the state and gives the entry to write; it
changes nothing. Once the entry is durable, `apply` changes the state. Starting again applies the same entries;
entries.py lists them.

An id names a schema for good, in all subjects, and a number one version of a subject for good: messages carry them.
So ids and versions that were given are remembered when what they named is removed. A subject without versions and
settings is remembered for its numbers alone; there may be many of those, so the oldest are forgotten and `_floor`
rises, above which every subject begins that is not known.

The versions that are not deleted refer only to such, and those that are softly deleted to versions that are there:
so every schema can be resolved as long as it is kept.
"""

from collections.abc import Callable, Collection, Iterator
from itertools import islice
from operator import attrgetter
from typing import NamedTuple, TypeVar
from uuid import UUID

from goqueue.core.offsetset import OffsetSet
from goqueue.core.schemas import refusals
from goqueue.core.schemas.entries import (
    RegistryEntry,
    checked_entry,
    schema_from_plain,
    settings_from_plain,
)
from goqueue.core.schemas.moment import RegistryMoment, SubjectThen
from goqueue.core.schemas.schema import Reference, ResolvedSchema, SchemaId, SchemaVersion, VersionNumber
from goqueue.core.schemas.settings import DEFAULTS, NONE_OWN, EffectiveSettings, OwnSettings
from goqueue.core.schemas.stored import StoredSchema, Subject
from goqueue.core.schemas.subjects import SubjectKey, canonical
from goqueue.core.schemas.text import SchemaContent
from goqueue.errors import UnknownFormat

KeyT = TypeVar("KeyT")

LATEST = 0
"""In the place of a version: the newest one."""
USES_SEEN_MAX = 100
"""Limit of the versions with one schema that are looked at for one that is not deleted."""
GONE_MAX = 10_000
"""Limit of the subjects that are remembered for their numbers alone."""
ID_MAX = 2**31 - 1
"""Ids and versions are signed in Confluent's framing and its clients."""


class RegistrySize(NamedTuple):
    subjects: int
    versions: int
    deleted_versions: int
    schemas: int
    size: int
    """Bytes of all schemas."""


class SchemaRegistry:
    def __init__(self, gone_max: int = GONE_MAX) -> None:
        self._gone_max = gone_max
        self._schemas: dict[SchemaId, StoredSchema] = {}
        self._by_digest: dict[bytes, SchemaId] = {}
        self._by_normal: dict[bytes, dict[SchemaId, None]] = {}
        self._by_guid: dict[UUID, SchemaId] = {}
        self._resolved: dict[SchemaId, ResolvedSchema] = {}
        self._uses: dict[SchemaId, dict[tuple[SubjectKey, VersionNumber], None]] = {}
        self._referrers: dict[tuple[SubjectKey, VersionNumber], dict[SchemaId, None]] = {}
        self._subjects: dict[SubjectKey, Subject] = {}
        self._gone: dict[SubjectKey, None] = {}
        self._versions = self._deleted_versions = self._size = 0
        self._given = OffsetSet()
        self._floor = 0
        self._listed: tuple[Subject, ...] | None = None
        self._live_subjects: int | None = None
        """These two are remembered from one change to the next, for those who look often."""
        self.own = NONE_OWN
        """The settings that were set for the registry."""

    # Schemas

    def schema(self, schema_id: SchemaId) -> StoredSchema:
        found = self._schemas.get(schema_id)
        if found is None:
            raise refusals.unknown_schema(f"with id {schema_id}")
        return found

    def id_of(self, guid: UUID) -> SchemaId:
        found = self._by_guid.get(guid)
        if found is None:
            raise refusals.unknown_schema(f"with guid {guid}")
        return found

    def same_as(self, content: SchemaContent, *, normalize: bool) -> Collection[SchemaId]:
        """The ids of schemas that are the same; the one with members in the same order comes first."""
        exact = self._by_digest.get(content.digest)
        ids = {} if exact is None else {exact: None}
        return {**ids, **self._by_normal.get(content.normal, {})} if normalize else ids

    def has(self, schema_id: SchemaId) -> bool:
        return schema_id in self._schemas

    def was_given(self, schema_id: SchemaId) -> bool:
        return schema_id in self._given

    @property
    def next_id(self) -> SchemaId:
        bounds = self._given.bounds
        return 1 if bounds is None else bounds.last + 1

    def resolved(self, schema_id: SchemaId) -> ResolvedSchema:
        """The schema with what it refers to. The same object each time, as long as the schema is there."""
        found = self._resolved.get(schema_id)
        if found is None:
            schema = self.schema(schema_id).schema
            targets = ((each.name, self._target(each)) for each in schema.references)
            found = self._resolved[schema_id] = ResolvedSchema(schema.text, schema.type, tuple(targets))
        return found

    def _target(self, reference: Reference) -> ResolvedSchema:
        return self.resolved(self.version(reference.subject, reference.version, deleted=True).id)

    def uses(self, schema_id: SchemaId, *, deleted: bool = True) -> list[SchemaVersion]:
        """The versions that have this schema, by subject and number."""
        self.schema(schema_id)
        found = (self._subjects[key].versions[number] for key, number in self._uses[schema_id])
        return sorted((each for each in found if deleted or not each.is_deleted), key=_PLACE)

    def use_of(self, schema_id: SchemaId, subject: str | None = None) -> SchemaVersion:
        """A version that has this schema: of this subject if it has one, and not deleted if there is such. Many
        subjects may have it, and those who read messages ask often."""
        self.schema(schema_id)
        hinted = None if subject is None else self.find(subject)
        own = None if hinted is None else _own_use(hinted, schema_id)
        if own is not None:
            return own
        found = [
            self._subjects[key].versions[number] for key, number in islice(self._uses[schema_id], USES_SEEN_MAX)
        ]
        return next((each for each in found if not each.is_deleted), found[0])

    def referrers(self, subject: str, number: VersionNumber) -> list[SchemaVersion]:
        """The versions whose schemas refer to this one, also those that are softly deleted."""
        ids = self._referrers.get((canonical(subject), number), {})
        return sorted((use for schema_id in ids for use in self.uses(schema_id)), key=_PLACE)

    # Subjects

    def __iter__(self) -> Iterator[Subject]:
        """Every subject that has versions, in order of name."""
        if self._listed is None:
            listed = [subject for subject in self._subjects.values() if subject.versions]
            self._listed = tuple(sorted(listed, key=attrgetter("name")))
        return iter(self._listed)

    def find(self, name: str) -> Subject | None:
        """The subject, should it have versions."""
        found = self._subjects.get(canonical(name))
        return found if found is not None and found.versions else None

    def subject(self, name: str, *, deleted: bool = False) -> Subject:
        """`UnknownSubject` also where all versions are deleted, unless `deleted`."""
        found = self.find(name)
        if found is None or (not deleted and found.newest is None):
            raise refusals.unknown_subject(name)
        return found

    def version(self, name: str, number: VersionNumber = LATEST, *, deleted: bool = False) -> SchemaVersion:
        subject = self.subject(name, deleted=deleted)
        if number == LATEST:
            found = next(reversed(subject.versions.values())) if deleted else subject.newest
        else:
            found = subject.versions.get(number)
        if found is None or (found.is_deleted and not deleted):
            raise refusals.unknown_version(name, number)
        return found

    def next_version(self, name: str) -> VersionNumber:
        known = self._subjects.get(canonical(name))
        return self._floor + 1 if known is None else known.next_version

    def own_settings(self, name: str | None) -> OwnSettings:
        """Those of a subject, or those that were set for the registry."""
        if name is None:
            return self.own
        known = self._subjects.get(canonical(name))
        return NONE_OWN if known is None else known.own

    def settings(self, name: str | None = None) -> EffectiveSettings:
        """The settings that hold for this subject, or where a subject has none of its own."""
        below = self.own.over(DEFAULTS)
        return below if name is None else self.own_settings(name).over(below)

    def is_known(self, name: str) -> bool:
        """Whether the subject has versions or settings."""
        key = canonical(name)
        return key in self._subjects and key not in self._gone

    @property
    def known_subjects(self) -> int:
        """The number of subjects with versions or settings."""
        return len(self._subjects) - len(self._gone)

    def counts(self) -> RegistrySize:
        if self._live_subjects is None:
            self._live_subjects = sum(1 for each in self._subjects.values() if each.newest is not None)
        live = self._versions - self._deleted_versions
        return RegistrySize(self._live_subjects, live, self._deleted_versions, len(self._schemas), self._size)

    @property
    def total_versions(self) -> int:
        return self._versions

    @property
    def size(self) -> int:
        return self._size

    # Entries

    def apply(self, entry: object) -> list[SubjectKey]:
        """Apply an entry that is in the log; returns the subjects whose versions it changed. `UnknownFormat`
        changes nothing."""
        fields = checked_entry(entry)
        kind = fields.get("kind")
        if not isinstance(kind, str) or kind not in _APPLIED:
            raise UnknownFormat(
                f"kind {kind!r:.100} of the schema registry is unknown; start a goqueue that knows it"
            )
        self._listed = self._live_subjects = None
        try:
            return _APPLIED[kind](self, fields)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise UnknownFormat(
                f"an entry of the schema registry cannot be read: {kind}: {error!r:.200}"
            ) from error

    def _registered(self, fields: RegistryEntry) -> list[SubjectKey]:
        name, number, schema_id = str(fields["subject"]), int(fields["version"]), int(fields["id"])
        stored = self._stored_by(fields, schema_id)
        if not self.next_version(name) <= number <= ID_MAX:
            raise ValueError(f"version {number} of {name!r} was given before")
        if "schema" in fields:
            self._keep(stored)
        key = self._put(name, number, stored, is_deleted=False)
        return [key]

    def _stored_by(self, fields: RegistryEntry, schema_id: SchemaId) -> StoredSchema:
        if "schema" not in fields:
            return self._schemas[schema_id]
        if self.was_given(schema_id) or not 1 <= schema_id <= ID_MAX:
            raise ValueError(f"id {schema_id} was given before")
        return schema_from_plain(schema_id, fields["schema"])

    def _put(self, name: str, number: VersionNumber, stored: StoredSchema, *, is_deleted: bool) -> SubjectKey:
        subject = self._subject_named(name)
        subject.put(SchemaVersion(name, number, stored.id, stored.guid, stored.schema, is_deleted))
        self._uses[stored.id][subject.key, number] = None
        self._versions += 1
        self._deleted_versions += is_deleted
        return subject.key

    def _subject_named(self, name: str) -> Subject:
        key = canonical(name)
        self._gone.pop(key, None)
        return self._subjects.setdefault(key, Subject(key, name, self._floor + 1))

    def _keep(self, stored: StoredSchema) -> None:
        self._schemas[stored.id] = stored
        self._by_digest.setdefault(stored.digest, stored.id)
        self._by_normal.setdefault(stored.normal, {})[stored.id] = None
        self._by_guid.setdefault(stored.guid, stored.id)
        self._uses[stored.id] = {}
        for each in stored.schema.references:
            self._referrers.setdefault((canonical(each.subject), each.version), {})[stored.id] = None
        self._given.add(stored.id, stored.id)
        self._size += stored.size

    def _forget_schema(self, schema_id: SchemaId) -> None:
        """Nobody uses it any more; its id stays given."""
        stored = self._schemas.pop(schema_id)
        del self._by_digest[stored.digest], self._by_guid[stored.guid], self._uses[schema_id]
        _drop(self._by_normal, stored.normal, schema_id)
        for key in {(canonical(each.subject), each.version) for each in stored.schema.references}:
            _drop(self._referrers, key, schema_id)
        self._resolved.pop(schema_id, None)
        self._size -= stored.size

    def _deleted(self, fields: RegistryEntry) -> list[SubjectKey]:
        subject = self._meant(fields)
        numbers = [int(each) for each in fields["versions"]]
        if len({*numbers}) < len(numbers) or any(subject.versions[number].is_deleted for number in numbers):
            raise ValueError("a version is deleted twice")
        for number in numbers:
            subject.delete(number)
        self._deleted_versions += len(numbers)
        if fields.get("whole"):
            subject.own = NONE_OWN
        return [subject.key]

    def _removed(self, fields: RegistryEntry) -> list[SubjectKey]:
        subject = self._meant(fields)
        gone = [subject.versions[int(number)] for number in fields["versions"]]
        for version in gone:
            self._remove(subject, version)
        self._note_if_gone(subject)
        return [subject.key]

    def _remove(self, subject: Subject, version: SchemaVersion) -> None:
        del subject.versions[version.version]
        del self._uses[version.id][subject.key, version.version]
        self._versions -= 1
        self._deleted_versions -= version.is_deleted
        if not self._uses[version.id]:
            self._forget_schema(version.id)

    def _note_if_gone(self, subject: Subject) -> None:
        if subject.versions or subject.own != NONE_OWN:
            return
        self._gone[subject.key] = None
        if len(self._gone) > self._gone_max:
            oldest = next(iter(self._gone))
            del self._gone[oldest]
            self._floor = max(self._floor, self._subjects.pop(oldest).next_version - 1)

    def _meant(self, fields: RegistryEntry) -> Subject:
        return self._subjects[canonical(str(fields["subject"]))]

    def _set(self, fields: RegistryEntry) -> list[SubjectKey]:
        own = settings_from_plain(fields["own"])
        if fields["subject"] is None:
            self.own = own
            return []
        subject = self._subject_named(str(fields["subject"]))
        subject.own = own
        self._note_if_gone(subject)
        return []

    def _lost(self, fields: RegistryEntry) -> list[SubjectKey]:
        """This number of ids and versions may have been given, and nobody knows which."""
        count, last = int(fields["count"]), self.next_id - 1
        end = min(ID_MAX, max(last + count, int(fields.get("ids", 0))))
        if end > last:
            self._given.add(last + 1, end)
        self._floor = min(ID_MAX, self._floor + count)
        for subject in self._subjects.values():
            subject.next_version = min(ID_MAX + 1, subject.next_version + count)
        return []

    # Snapshots

    def moment(self) -> RegistryMoment:
        """The registry as it is now."""
        return RegistryMoment(
            tuple(self._schemas.values()),
            tuple(
                SubjectThen(each.name, each.next_version, each.own, tuple(each.versions.values()))
                for each in self._subjects.values()
            ),
            self.own,
            tuple(self._given.runs()),
            self._floor,
        )

    def snapshot(self) -> RegistryEntry:
        """One entry that stands for all before it."""
        return self.moment().entry()

    def _replaced(self, fields: RegistryEntry) -> list[SubjectKey]:
        changed = [*self._subjects]
        restored = SchemaRegistry(self._gone_max)
        restored._restore(fields)
        vars(self).update(vars(restored))  # others hold this object
        return list(dict.fromkeys([*changed, *self._subjects]))

    def _restore(self, fields: RegistryEntry) -> None:
        for schema_id, *plain in fields["schemas"]:
            self._keep(schema_from_plain(schema_id, plain))
        for name, next_version, own, versions in fields["subjects"]:
            self._restore_subject(str(name), int(next_version), settings_from_plain(own), versions)
        self._given = OffsetSet((int(first), int(last)) for first, last in fields["given"])
        if not all(map(self.was_given, self._schemas)) or not all(self._uses.values()):
            raise ValueError("a snapshot has schemas without an id or a version")
        self._floor, self.own = int(fields["floor"]), settings_from_plain(fields["own"])

    def _restore_subject(
        self, name: str, next_version: VersionNumber, own: OwnSettings, versions: list[list[int]]
    ) -> None:
        subject = self._subject_named(name)
        subject.own = own
        for number, schema_id, is_deleted in versions:
            self._put(name, int(number), self._schemas[schema_id], is_deleted=bool(is_deleted))
        if next_version < subject.next_version:
            raise ValueError(f"a snapshot gives version {next_version} of {name!r} again")
        subject.next_version = next_version
        self._note_if_gone(subject)


_APPLIED: dict[str, Callable[[SchemaRegistry, RegistryEntry], list[SubjectKey]]] = {
    "registered": SchemaRegistry._registered,
    "deleted": SchemaRegistry._deleted,
    "removed": SchemaRegistry._removed,
    "settings": SchemaRegistry._set,
    "lost": SchemaRegistry._lost,
    "snapshot": SchemaRegistry._replaced,
}


_PLACE = attrgetter("subject", "version")


def _own_use(subject: Subject, schema_id: SchemaId) -> SchemaVersion | None:
    return subject.version_of((schema_id,)) or subject.version_of((schema_id,), deleted=True)


def _drop(index: dict[KeyT, dict[SchemaId, None]], key: KeyT, schema_id: SchemaId) -> None:
    ids = index[key]
    del ids[schema_id]
    if not ids:
        del index[key]
