"""Requests to the registry, checked before they are sent, and the answers."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeVar
from uuid import UUID

from goqueue.client.link.arguments import check_flag, check_text, check_whole, refusal
from goqueue.client.schemas.source import (
    AnyReference,
    AnySchema,
    RegisteredSchema,
    SchemaSource,
    references_of,
    source_of,
)
from goqueue.core.schemas.schema import (
    Compatibility,
    Mode,
    Reference,
    ResolvedSchema,
    SchemaId,
    SchemaType,
    VersionNumber,
)
from goqueue.errors import UnknownSubject
from goqueue.net.wire import schemas as wire
from goqueue.net.wire.fields import U32_MAX
from goqueue.net.wire.kinds import Answer, Request

AnswerT = TypeVar("AnswerT", bound=Answer)
ItemT = TypeVar("ItemT")
AnyVersion: TypeAlias = VersionNumber | str
LATEST = "latest"
SUBJECT_LENGTH_MAX = 1_024
NONE_OF_ITS_OWN = (40408, 40409)
"""The error codes of a reset of what a subject does not have."""
TYPES, LEVELS, MODES = ([each.value for each in kind] for kind in (SchemaType, Compatibility, Mode))


@dataclass(frozen=True, slots=True)
class SchemaFinding:
    """One difference for which a schema is not compatible with an earlier version."""

    type: str
    """The name that Confluent's registry gives to it."""
    path: str
    """The path in the schema."""
    old: str
    new: str
    """What stands there in the schema that wrote and in the one that reads, as short JSON; or empty."""
    help: str
    """What is wrong, and what would make it compatible."""
    version: VersionNumber
    """The earlier version; 0: none of the subject's."""


class SchemaFindings(list[SchemaFinding]):
    """Why a schema is not compatible; empty when it is."""

    def __init__(self, findings: Iterable[SchemaFinding], level: str, *, is_compatible: bool) -> None:
        super().__init__(findings)
        self.level = level
        """The compatibility that was asked of it."""
        self.is_compatible = is_compatible


class RegistryCaller(Protocol):
    """What these requests need: a client has it."""

    async def call(self, request: Request, kind: type[AnswerT]) -> AnswerT: ...


class SchemaQuestions:
    def __init__(self, client: RegistryCaller) -> None:
        self._client = client

    # Schemas

    async def register(
        self,
        subject: str,
        source: SchemaSource,
        *,
        normalize: bool | None = None,
        force: bool = False,
        schema_id: SchemaId | None = None,
        version: VersionNumber | None = None,
    ) -> tuple[RegisteredSchema, bool]:
        """The version with this schema, and whether it was made."""
        request = wire.RegisterSchema(
            _subject(subject),
            _body_of(source),
            _flag_or_none("normalize", normalize),
            check_flag("force", force),
            None if schema_id is None else check_whole("schema_id", schema_id, 1, U32_MAX),
            None if version is None else check_whole("version", version, 1, U32_MAX),
        )
        answer = await self._client.call(request, wire.SchemaRegistered)
        return _registered(answer.described), answer.is_new

    async def find(self, subject: str, source: SchemaSource, *, deleted: bool = False) -> RegisteredSchema:
        request = wire.LookUpSchema(_subject(subject), _body_of(source), deleted=check_flag("deleted", deleted))
        return _registered((await self._client.call(request, wire.SchemaFound)).described)

    async def get(self, subject: str, version: AnyVersion, *, deleted: bool = False) -> RegisteredSchema:
        return await self._get(
            wire.GetSchema(_subject(subject), _version(version), deleted=check_flag("deleted", deleted))
        )

    async def by_id(self, schema_id: SchemaId) -> RegisteredSchema:
        return await self._get(wire.GetSchema(id=check_whole("schema_id", schema_id, 1, U32_MAX), deleted=True))

    async def _get(self, request: wire.GetSchema) -> RegisteredSchema:
        return _registered((await self._client.call(request, wire.SchemaFound)).described)

    async def delete(
        self, subject: str, version: AnyVersion | None, *, permanent: bool = False
    ) -> list[VersionNumber]:
        number = None if version is None else _version(version)
        request = wire.DeleteSchema(_subject(subject), number, check_flag("permanent", permanent))
        return list((await self._client.call(request, wire.SchemaDeleted)).versions)

    async def check(
        self,
        subject: str,
        source: SchemaSource,
        *,
        version: AnyVersion | None = None,
        normalize: bool | None = None,
    ) -> SchemaFindings:
        request = wire.CheckSchema(
            _subject(subject),
            _body_of(source),
            None if version is None else _version(version),
            _flag_or_none("normalize", normalize),
        )
        answer = await self._client.call(request, wire.SchemaChecked)
        found = [SchemaFinding(*each) for each in answer.findings]
        return SchemaFindings(found, answer.level, is_compatible=answer.is_compatible)

    async def resolved(self, source: SchemaSource) -> ResolvedSchema:
        """With all that its references name, and theirs. What several name is one object."""
        return await self._resolved(source, {})

    async def _resolved(self, source: SchemaSource, known: dict[Reference, ResolvedSchema]) -> ResolvedSchema:
        named = list[tuple[str, ResolvedSchema]]()
        for each in source.references:
            place = Reference("", each.subject, each.version)
            if place not in known:
                found = await self.get(each.subject, each.version, deleted=True)
                known[place] = await self._resolved(source_to_register(found), known)
            named.append((each.name, known[place]))
        return ResolvedSchema(source.text, SchemaType(source.type), tuple(named))

    # Subjects and versions, page by page

    async def subjects(self, prefix: str, *, deleted: bool = False) -> list[str]:
        text, shown = _text("prefix", prefix), int(check_flag("deleted", deleted))

        async def page(offset: int) -> tuple[Sequence[str], bool]:
            request = wire.ListSubjects(text, shown, offset)
            answer = await self._client.call(request, wire.Subjects)
            return answer.names, answer.has_more

        return await _all_pages(page)

    async def versions(self, subject: str, *, deleted: bool = False) -> list[VersionNumber]:
        name, shown = _subject(subject), int(check_flag("deleted", deleted))

        async def page(offset: int) -> tuple[Sequence[VersionNumber], bool]:
            request = wire.ListVersions(name, shown, offset)
            answer = await self._client.call(request, wire.SchemaVersions)
            return answer.versions, answer.has_more

        return await _all_pages(page)

    async def latest(self, prefix: str, *, deleted: bool = False) -> list[RegisteredSchema]:
        """The newest version of each subject."""
        text, shown = _text("prefix", prefix), int(check_flag("deleted", deleted))

        async def page(offset: int) -> tuple[Sequence[RegisteredSchema], bool]:
            request = wire.ListSchemas(text, shown, True, offset)
            answer = await self._client.call(request, wire.Schemas)
            return [_registered(each) for each in answer.schemas], answer.has_more

        return await _all_pages(page)

    # Settings

    async def settings(self, subject: str | None, *, with_default: bool = True) -> wire.SchemaSettings:
        name = None if subject is None else _subject(subject)
        return await self._client.call(wire.ReadSchemaSettings(name, with_default), wire.SchemaSettings)

    async def change(
        self,
        subject: str | None,
        *,
        level: str | None = None,
        normalize: bool | None = None,
        mode: str | None = None,
        force: bool = False,
    ) -> None:
        """What is None stays."""
        request = wire.ChangeSchemaSettings(
            None if subject is None else _subject(subject),
            level and _chosen("level", level, LEVELS),
            _flag_or_none("normalize", normalize),
            mode and _chosen("mode", mode, MODES),
            force=check_flag("force", force),
        )
        await self._client.call(request, wire.SchemaSettings)

    async def reset(self, subject: str | None, *, config: bool = False, mode: bool = False) -> None:
        """Take back what the subject has of its own, if it has any."""
        name = None if subject is None else _subject(subject)
        if config:
            await self._reset(wire.ChangeSchemaSettings(name, reset_config=True))
        if mode:
            await self._reset(wire.ChangeSchemaSettings(name, reset_mode=True))

    async def _reset(self, request: wire.ChangeSchemaSettings) -> None:
        try:
            await self._client.call(request, wire.SchemaSettings)
        except UnknownSubject as error:
            if error.error_code not in NONE_OF_ITS_OWN:
                raise


def source_to_register(
    schema: AnySchema, references: Iterable[AnyReference] = (), schema_type: str | None = None
) -> SchemaSource:
    """A schema of the registry brings its own references and its type."""
    source, named = source_of(schema), references_of(references)
    kind = source.type if schema_type is None else _chosen("schema_type", schema_type, TYPES)
    return SchemaSource(source.text, kind, named or source.references)


async def _all_pages(page: Callable[[int], Awaitable[tuple[Sequence[ItemT], bool]]]) -> list[ItemT]:
    found, has_more = list[ItemT](), True
    while has_more:
        some, has_more = await page(len(found))
        found += some
        has_more = has_more and bool(some)
    return found


# Arguments


def _subject(subject: object) -> str:
    return check_text("subject", subject, SUBJECT_LENGTH_MAX)


def _text(name: str, value: object) -> str:
    return check_text(name, value, SUBJECT_LENGTH_MAX)


def _version(version: object) -> VersionNumber:
    if version == LATEST:
        return wire.LATEST
    if type(version) is not int or not 1 <= version <= U32_MAX:
        raise refusal(f'version={version!r} is none; give a number from 1 on, or "{LATEST}"')
    return version


def _flag_or_none(name: str, value: object) -> bool | None:
    return None if value is None else check_flag(name, value)


def _chosen(name: str, value: object, allowed: Sequence[str]) -> str:
    """By its name, in any case."""
    chosen = value.upper().replace("-", "_") if isinstance(value, str) else getattr(value, "value", value)
    if chosen not in allowed:
        raise refusal(f"{name}={value!r} is none; there are {', '.join(allowed)}")
    return str(chosen)


# Wire


def _body_of(source: SchemaSource) -> wire.SchemaBody:
    references = tuple([wire.SchemaReference(each.name, each.subject, each.version) for each in source.references])
    return wire.SchemaBody(source.text, source.type, references)


def _registered(described: wire.SchemaDescription) -> RegisteredSchema:
    body = described.schema
    return RegisteredSchema(
        described.subject,
        described.version,
        described.id,
        UUID(bytes=described.guid),
        body.type,
        body.text,
        tuple([Reference(*each) for each in body.references]),
        described.is_deleted,
    )
