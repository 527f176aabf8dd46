"""The requests of clients about the schema registry.

What only reads is answered from the board, and calls nobody. The board changes between two slices of a long list;
what changed meanwhile may be in it or not.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar
from uuid import UUID

import orjson

from goqueue.actors.front.session import BrokerSession
from goqueue.actors.registry.board import SchemaBoard
from goqueue.actors.registry.requests import ChangeSettings, Delete, Register, ResetSettings
from goqueue.core.schemas import refusals
from goqueue.core.schemas.changing import SettingsChange
from goqueue.core.schemas.comparing import Found
from goqueue.core.schemas.registering import look_up
from goqueue.core.schemas.registry import SchemaRegistry
from goqueue.core.schemas.schema import Reference, Schema, SchemaType, SchemaVersion
from goqueue.core.schemas.settings import DEFAULTS, EffectiveSettings, OwnSettings
from goqueue.core.schemas.stored import Subject
from goqueue.core.schemas.subjects import check_subject_name
from goqueue.core.schemas.text import invalid
from goqueue.errors import ProtocolError
from goqueue.net.wire import schemas as wire
from goqueue.net.wire.fields import LIST_COUNT_MAX, NAME_SIZE_MAX, PROSE_SIZE_MAX, Properties
from goqueue.storage.slices import Slices
from goqueue.types import Scalar

LIVE, ALSO_DELETED, ONLY_DELETED = 0, 1, 2
PAGE_SIZE = 2 * 1024 * 1024
"""Limit of the texts of one page of schemas, beyond which only its first one goes."""
ItemT = TypeVar("ItemT")


# Changes


async def register_schema(session: BrokerSession, request: wire.RegisterSchema) -> wire.SchemaRegistered:
    asked = Register(
        request.subject,
        schema_of(request.schema),
        request.normalize,
        request.force,
        request.id,
        request.version,
    )
    registered = await session.broker.registry.call(asked)
    return wire.SchemaRegistered(described(registered.version), registered.is_new)


async def delete_schema(session: BrokerSession, request: wire.DeleteSchema) -> wire.SchemaDeleted:
    asked = Delete(request.subject, request.version, request.permanent)
    return wire.SchemaDeleted(tuple(await session.broker.registry.call(asked)))


async def change_settings(session: BrokerSession, request: wire.ChangeSchemaSettings) -> wire.SchemaSettings:
    subject, resets = request.subject, request.reset_config or request.reset_mode
    wanted = (request.level, request.normalize, request.mode)
    if resets and wanted != (None, None, None):
        raise ProtocolError("settings are changed or reset, not both at once; ask one after the other")
    if resets:
        before = await session.broker.registry.call(
            ResetSettings(subject, config=request.reset_config, mode=request.reset_mode)
        )
        return _settings(subject, before)
    change = SettingsChange(subject, *wanted, request.force)
    return _settings(subject, await session.broker.registry.call(ChangeSettings(change)))


# One schema


async def look_up_schema(session: BrokerSession, request: wire.LookUpSchema) -> wire.SchemaFound:
    board = session.broker.schemas
    board.registry.subject(request.subject, deleted=request.deleted)
    content = await board.read(schema_of(request.schema))
    found = look_up(board.registry, request.subject, content, request.normalize, deleted=request.deleted)
    return wire.SchemaFound(described(found))


async def get_schema(session: BrokerSession, request: wire.GetSchema) -> wire.SchemaFound:
    return wire.SchemaFound(described(await _found(_registry(session), request)))


async def _found(registry: SchemaRegistry, request: wire.GetSchema) -> SchemaVersion:
    if request.id is not None:
        return registry.use_of(request.id, request.subject)
    if request.guid is not None:
        return registry.use_of(registry.id_of(UUID(bytes=request.guid)), request.subject)
    if request.subject is None:
        raise ProtocolError("a schema is named by its subject, its id or its guid; give one of them")
    if request.metadata is not None:
        return await _newest_with(registry, request.subject, request.metadata, deleted=request.deleted)
    return registry.version(request.subject, request.version, deleted=request.deleted)


async def _newest_with(registry: SchemaRegistry, name: str, wanted: Properties, *, deleted: bool) -> SchemaVersion:
    slices = Slices()
    for version in _versions(registry.subject(name, deleted=deleted), ALSO_DELETED if deleted else LIVE)[::-1]:
        if _has_properties(version.schema.metadata, wanted):
            return version
        await slices.step()
    raise refusals.unknown_version(name, wire.LATEST)


def _has_properties(metadata: str | None, wanted: Properties) -> bool:
    properties = orjson.loads(metadata).get("properties") if metadata else None
    return not wanted or (isinstance(properties, dict) and wanted.items() <= _texts(properties).items())


def _texts(properties: dict[str, Any]) -> dict[str, str]:
    return {name: value for name, value in properties.items() if isinstance(value, str)}


# Lists


async def list_subjects(session: BrokerSession, request: wire.ListSubjects) -> wire.Subjects:
    def is_listed(subject: Subject) -> bool:
        return subject.name.startswith(request.prefix) and _is_listed(subject, request.deleted)

    page, has_more = await _page(_registry(session), is_listed, request)
    return wire.Subjects(tuple([each.name for each in page]), has_more)


def _is_listed(subject: Subject, deleted: int) -> bool:
    return deleted == ALSO_DELETED or (subject.newest is None) == (deleted == ONLY_DELETED)


async def list_versions(session: BrokerSession, request: wire.ListVersions) -> wire.SchemaVersions:
    subject = _registry(session).subject(request.subject, deleted=request.deleted != LIVE)
    page, has_more = await _page(_versions(subject, request.deleted), _any, request)
    return wire.SchemaVersions(tuple([each.version for each in page]), has_more)


async def list_schemas(session: BrokerSession, request: wire.ListSchemas) -> wire.Schemas:
    """One at a time on a connection, as with other large lists."""
    async with session.describing:
        page, has_more = await _page(_wanted(_registry(session), request), _any, request, PAGE_SIZE)
        return wire.Schemas(tuple([described(each) for each in page]), has_more)


def _wanted(registry: SchemaRegistry, request: wire.ListSchemas) -> Iterable[SchemaVersion]:
    for subject in registry:
        if subject.name.startswith(request.prefix):
            versions = _versions(subject, request.deleted)
            yield from versions[-1:] if request.latest_only else versions


async def find_uses(session: BrokerSession, request: wire.FindUses) -> wire.SchemaUses:
    registry, schema_id = _registry(session), request.id
    if schema_id is None and request.guid is None:
        raise ProtocolError("a schema is named by its id or its guid; give one of them")
    if schema_id is None and request.guid is not None:
        schema_id = registry.id_of(UUID(bytes=request.guid))
    assert schema_id is not None
    return await _uses(registry.uses(schema_id), request.deleted, request)


async def find_referrers(session: BrokerSession, request: wire.FindReferrers) -> wire.SchemaUses:
    registry = _registry(session)
    version = registry.version(request.subject, request.version)
    return await _uses(registry.referrers(version.subject, version.version), LIVE, request)


async def _uses(versions: Iterable[SchemaVersion], deleted: int, request: Any) -> wire.SchemaUses:
    page, has_more = await _page(versions, lambda each: _is_wanted(each, deleted), request)
    return wire.SchemaUses(tuple([wire.SchemaUse(each.subject, each.version, each.id) for each in page]), has_more)


async def _page(
    items: Iterable[ItemT], is_wanted: Callable[[ItemT], bool], request: Any, size_max: int | None = None
) -> tuple[list[ItemT], bool]:
    """The items that a request for a list asks for, and whether there are more behind them."""
    page, passed, size, slices = list[ItemT](), 0, 0, Slices()
    for each in items:
        await slices.step()
        if not is_wanted(each):
            continue
        passed += 1
        if passed <= request.offset:
            continue
        size += 0 if size_max is None else _size(each)
        if len(page) == request.count_max or (page and size_max is not None and size > size_max):
            return page, True
        page.append(each)
    return page, False


def _any(_: object) -> bool:
    return True


def _size(version: Any) -> int:
    schema = version.schema
    return len(schema.text) + len(schema.metadata or "") + len(schema.rule_set or "")


def _versions(subject: Subject, deleted: int) -> list[SchemaVersion]:
    return [each for each in subject.versions.values() if _is_wanted(each, deleted)]


def _is_wanted(version: SchemaVersion, deleted: int) -> bool:
    return deleted == ALSO_DELETED or version.is_deleted == (deleted == ONLY_DELETED)


# Checks and settings


async def check_schema(session: BrokerSession, request: wire.CheckSchema) -> wire.SchemaChecked:
    check_subject_name(request.subject)
    board = session.broker.schemas
    level, found = await board.check(request.subject, schema_of(request.schema), request.version)
    findings = tuple([_finding(each) for each in found[:LIST_COUNT_MAX]])
    return wire.SchemaChecked(not found, findings, level.value)


def _finding(found: Found) -> wire.SchemaFinding:
    finding = found.finding
    texts = (finding.path, finding.old, finding.new, finding.help)
    path, old, new, advice = (each[:PROSE_SIZE_MAX] for each in texts)
    return wire.SchemaFinding(finding.type[:NAME_SIZE_MAX], path, old, new, advice, found.version.version)


async def read_settings(session: BrokerSession, request: wire.ReadSchemaSettings) -> wire.SchemaSettings:
    registry, subject = _registry(session), request.subject
    if request.with_default:
        return _held(registry.settings(subject))
    return _settings(subject, registry.own_settings(subject))


def _settings(subject: str | None, own: OwnSettings) -> wire.SchemaSettings:
    """The registry has all settings, whether somebody set them or not."""
    if subject is None:
        return _held(own.over(DEFAULTS))
    level, mode = (None if each is None else each.value for each in (own.level, own.mode))
    return wire.SchemaSettings(level, own.normalize, mode)


def _held(settings: EffectiveSettings) -> wire.SchemaSettings:
    return wire.SchemaSettings(settings.level.value, settings.normalize, settings.mode.value)


async def count_schemas(session: BrokerSession, _: wire.CountSchemas) -> wire.RegistryCounts:
    return wire.RegistryCounts(*_registry(session).counts())


async def fetch_registry(session: BrokerSession, request: wire.FetchRegistry) -> wire.RegistryPiece:
    pieces = session.registry_pieces
    if request.number >= len(pieces):
        raise ProtocolError("the last snapshot of this connection has no such piece of the registry; take another")
    if request.number == len(pieces) - 1:
        session.registry_pieces = ()
    return wire.RegistryPiece(pieces[request.number])


def schema_figures(board: SchemaBoard) -> dict[str, Scalar]:
    """The counters of the registry."""
    counts = board.registry.counts()
    return {
        "schemas": counts.schemas,
        "schemas.subjects": counts.subjects,
        "schemas.versions": counts.versions,
        "schemas.deleted_versions": counts.deleted_versions,
        "schemas.size": counts.size,
        **{f"schemas.registrations.{result}": count for result, count in sorted(board.results.items())},
    }


# Between the wire and the core


def _registry(session: BrokerSession) -> SchemaRegistry:
    return session.broker.schemas.registry


def schema_of(body: wire.SchemaBody) -> Schema:
    references = tuple(Reference(*each) for each in body.references)
    return Schema(body.text, _type_named(body.type), references, body.metadata, body.rule_set)


def _type_named(name: str) -> SchemaType:
    known: Sequence[str] = [each.value for each in SchemaType]
    if name not in ("", *known):
        raise invalid(f"{name[:100]!r} is no type of schemas that is kept here; choose {' or '.join(known)}")
    return SchemaType(name or SchemaType.JSON.value)


def described(version: SchemaVersion) -> wire.SchemaDescription:
    schema = version.schema
    references = tuple(wire.SchemaReference(each.name, each.subject, each.version) for each in schema.references)
    body = wire.SchemaBody(schema.text, schema.type.value, references, schema.metadata, schema.rule_set)
    return wire.SchemaDescription(
        version.subject, version.version, version.id, version.guid.bytes, body, version.is_deleted
    )


ANSWERED: dict[type[Any], Callable[[BrokerSession, Any], Any]] = {
    wire.RegisterSchema: register_schema,
    wire.LookUpSchema: look_up_schema,
    wire.GetSchema: get_schema,
    wire.ListSubjects: list_subjects,
    wire.ListVersions: list_versions,
    wire.ListSchemas: list_schemas,
    wire.FindUses: find_uses,
    wire.FindReferrers: find_referrers,
    wire.DeleteSchema: delete_schema,
    wire.CheckSchema: check_schema,
    wire.ReadSchemaSettings: read_settings,
    wire.ChangeSchemaSettings: change_settings,
    wire.CountSchemas: count_schemas,
    wire.FetchRegistry: fetch_registry,
}
