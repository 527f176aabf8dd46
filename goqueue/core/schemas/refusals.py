"""Why the registry refuses, with the numbers by which clients of Confluent's registry know the reason."""

from reprlib import repr as shortened

from goqueue.core.schemas.schema import SchemaId, SchemaVersion, VersionNumber
from goqueue.errors import InvalidSchema, SchemaConflict, UnknownSchema, UnknownSubject

INVALID_VERSION, INVALID_LEVEL, INVALID_MODE = 42202, 42203, 42204
NOT_PERMITTED, REFERRED_TO, ID_TAKEN = 42205, 42206, 42207


def unknown_subject(name: str) -> UnknownSubject:
    return UnknownSubject(
        f"there is no subject {shortened(name)}; list the subjects, or register a schema first", error_code=40401
    )


def unknown_version(name: str, number: VersionNumber) -> UnknownSchema:
    which = f"version {number}" if number else "version that is not deleted"
    return UnknownSchema(f"subject {shortened(name)} has no {which}; list its versions", error_code=40402)


def unknown_schema(which: object) -> UnknownSchema:
    return UnknownSchema(f"there is no schema {which}; list the versions of its subject", error_code=40403)


def not_in_subject(name: str) -> UnknownSchema:
    return UnknownSchema(
        f"subject {shortened(name)} has no version with this schema; register it, or ask with normalize=true",
        error_code=40403,
    )


def subject_is_deleted(name: str) -> SchemaConflict:
    return SchemaConflict(
        f"subject {shortened(name)} is softly deleted already; delete it with permanent=true to remove it for good",
        error_code=40404,
    )


def subject_is_not_deleted(name: str) -> SchemaConflict:
    return SchemaConflict(
        f"subject {shortened(name)} has versions that are not deleted; delete it softly first", error_code=40405
    )


def version_is_deleted(version: SchemaVersion) -> SchemaConflict:
    return SchemaConflict(
        f"{shown(version)} is softly deleted already; delete it with permanent=true to remove it for good",
        error_code=40406,
    )


def version_is_not_deleted(version: SchemaVersion) -> SchemaConflict:
    return SchemaConflict(f"{shown(version)} is not deleted; delete it softly first", error_code=40407)


def no_own_config(name: str) -> UnknownSubject:
    return UnknownSubject(
        f"subject {shortened(name)} has no level of its own; ask with defaultToGlobal=true", error_code=40408
    )


def no_own_mode(name: str) -> UnknownSubject:
    return UnknownSubject(
        f"subject {shortened(name)} has no mode of its own; ask with defaultToGlobal=true", error_code=40409
    )


def is_referred_to(version: SchemaVersion, by: SchemaVersion) -> SchemaConflict:
    return SchemaConflict(
        f"{shown(version)} is referred to by {shown(by)}; delete that first", error_code=REFERRED_TO
    )


def id_is_taken(schema_id: SchemaId, why: str) -> SchemaConflict:
    return SchemaConflict(f"id {schema_id} {why}", error_code=ID_TAKEN)


def version_was_given(name: str, number: VersionNumber, next_version: VersionNumber) -> SchemaConflict:
    return SchemaConflict(
        f"subject {shortened(name)} had version {number} or later ones before, and none is given again; import "
        f"versions in rising order, from {next_version} on",
        error_code=INVALID_VERSION,
    )


def not_permitted(text: str) -> SchemaConflict:
    return SchemaConflict(text, error_code=NOT_PERMITTED)


def invalid_level(name: str, known: str) -> InvalidSchema:
    return InvalidSchema(f"{shortened(name)} is no compatibility level; choose {known}", error_code=INVALID_LEVEL)


def invalid_mode(name: str, known: str) -> InvalidSchema:
    return InvalidSchema(f"{shortened(name)} is no mode; choose {known}", error_code=INVALID_MODE)


def invalid_version(number: int) -> InvalidSchema:
    return InvalidSchema(f"{number} is no version; versions are 1 to {2**31 - 1}", error_code=INVALID_VERSION)


def shown(version: SchemaVersion) -> str:
    return f"version {version.version} of subject {shortened(version.subject)}"
