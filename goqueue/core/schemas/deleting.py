"""Deleting versions and subjects: softly first, then for good.

A version that is softly deleted can be read by those who ask for deleted ones, and its schema by its id, since
there are messages that carry it. It holds no message to anything. Removed for good, it is gone; its number, and the
id of a schema that no version has any more, are never given again.

A version that another one refers to stays: softly deleted it may be once all that refer to it are.
"""

from collections.abc import Iterable

from goqueue.core.schemas import refusals
from goqueue.core.schemas.entries import RegistryEntry, entry_of
from goqueue.core.schemas.registry import SchemaRegistry
from goqueue.core.schemas.schema import Mode, SchemaVersion, VersionNumber
from goqueue.core.schemas.stored import Subject


def delete_version(
    registry: SchemaRegistry, name: str, number: VersionNumber, *, permanent: bool = False
) -> RegistryEntry:
    """`number` may be `LATEST`."""
    _check_mode(registry, name)
    version = registry.version(name, number, deleted=permanent or number != 0)
    if permanent and not version.is_deleted:
        raise refusals.version_is_not_deleted(version)
    if not permanent and version.is_deleted:
        raise refusals.version_is_deleted(version)
    _check_referrers(registry, [version], permanent=permanent)
    return entry_of("removed" if permanent else "deleted", subject=version.subject, versions=[version.version])


def delete_subject(registry: SchemaRegistry, name: str, *, permanent: bool = False) -> RegistryEntry:
    """All versions; a soft deletion takes those that are not deleted yet."""
    _check_mode(registry, name)
    subject = registry.subject(name, deleted=True)
    return _removal(registry, subject) if permanent else _deletion(registry, subject)


def _deletion(registry: SchemaRegistry, subject: Subject) -> RegistryEntry:
    live = subject.live()
    if not live:
        raise refusals.subject_is_deleted(subject.name)
    _check_referrers(registry, live, permanent=False)
    numbers = [each.version for each in live]
    return entry_of("deleted", subject=subject.name, versions=numbers, whole=True)


def _removal(registry: SchemaRegistry, subject: Subject) -> RegistryEntry:
    if subject.newest is not None:
        raise refusals.subject_is_not_deleted(subject.name)
    _check_referrers(registry, subject.versions.values(), permanent=True)
    return entry_of("removed", subject=subject.name, versions=[*subject.versions])


def _check_referrers(registry: SchemaRegistry, versions: Iterable[SchemaVersion], *, permanent: bool) -> None:
    """Versions that are deleted together may refer to each other."""
    going = {(each.subject, each.version) for each in versions}
    for version in versions:
        for by in registry.referrers(version.subject, version.version):
            if (permanent or not by.is_deleted) and (by.subject, by.version) not in going:
                raise refusals.is_referred_to(version, by)


def _check_mode(registry: SchemaRegistry, name: str) -> None:
    if registry.settings(name).mode is Mode.READONLY:
        raise refusals.not_permitted(f"subject {name[:100]!r} is in mode READONLY; set its mode to READWRITE first")
