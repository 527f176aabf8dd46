"""Subjects and their versions: register, look up, list, delete."""

from typing import Annotated, cast
from urllib.parse import unquote

from pydantic import AliasChoices, Field, RootModel

from goqueue.errors import RegistryError
from goqueue.http.routes.registry.forms import (
    LATEST,
    FormatQuery,
    Limit,
    NewSchemaFields,
    Offset,
    SchemaAnswer,
    SchemaFields,
    registry_response,
    registry_route,
    schema_in_json,
    subject_of,
    version_in_path,
)
from goqueue.http.routes.registry.pages import deleted_ones, everything, page_of
from goqueue.http.routing.route import REGISTRY, HttpCall, Model
from goqueue.http.server.errors import InvalidRequest
from goqueue.http.server.exchange import Response
from goqueue.net.wire import schemas as wire

ALL_CONTEXTS = ":*:"
"""Some clients ask so for the subjects of all contexts. There is one context."""


class RegisterQuery(FormatQuery):
    normalize: bool = False
    """Members in any order are the same schema. False: as the settings of the subject say."""
    force: bool = False
    """Do not compare it with earlier versions. The audit notes it."""


class LookUpQuery(FormatQuery):
    normalize: bool = False
    deleted: bool = False


class DeletedQuery(Model):
    deleted: bool = False
    """Also those that were deleted softly."""
    deleted_only: Annotated[bool, Field(validation_alias=AliasChoices("deleted_only", "deletedOnly"))] = False


class PagedQuery(DeletedQuery):
    offset: Offset = 0
    limit: Limit = -1
    """-1: all."""


class SubjectsQuery(PagedQuery):
    prefix: Annotated[str, Field(alias="subjectPrefix")] = ""


class VersionQuery(FormatQuery):
    deleted: bool = False


class ReferrersQuery(Model):
    offset: Offset = 0
    limit: Limit = -1


class DeleteQuery(Model):
    permanent: bool = False
    """For good. It has to be deleted softly before."""


class MetadataQuery(FormatQuery):
    lists = ("key", "value")

    key: list[str] = []  # noqa: RUF012  # of a class that is never written to
    """A property that the metadata have; may be given more than once, each with its `value`."""
    value: list[str] = []  # noqa: RUF012
    deleted: bool = False


class NamesAnswer(RootModel[list[str]]):
    """Names, in their order."""


class NumbersAnswer(RootModel[list[int]]):
    """Numbers, in their order."""


class NumberAnswer(RootModel[int]):
    """One number."""


async def register(call: HttpCall[RegisterQuery, NewSchemaFields]) -> Response:
    given, asked = call.body, call.query
    request = wire.RegisterSchema(
        subject_of(call),
        given.in_wire(),
        asked.normalize or None,
        asked.force,
        given.given_id,
        given.given_version,
    )
    registered = cast(wire.SchemaRegistered, await call.ask(request))
    return registry_response(schema_in_json(registered.described))


async def look_up(call: HttpCall[LookUpQuery, SchemaFields]) -> Response:
    asked = call.query
    request = wire.LookUpSchema(subject_of(call), call.body.in_wire(), asked.normalize or None, asked.deleted)
    found = cast(wire.SchemaFound, await call.ask(request))
    return registry_response(schema_in_json(found.described))


async def list_subjects(call: HttpCall[SubjectsQuery, None]) -> Response:
    asked = call.query
    prefix = "" if asked.prefix == ALL_CONTEXTS else asked.prefix
    request = wire.ListSubjects(prefix, deleted_ones(asked.deleted, asked.deleted_only))
    return registry_response(await everything(call, request, asked, lambda page: cast(wire.Subjects, page).names))


async def list_versions(call: HttpCall[PagedQuery, None]) -> Response:
    asked = call.query
    request = wire.ListVersions(subject_of(call), deleted_ones(asked.deleted, asked.deleted_only))
    found = await everything(call, request, asked, lambda page: cast(wire.SchemaVersions, page).versions)
    return registry_response(found)


async def show(call: HttpCall[VersionQuery, None]) -> Response:
    return registry_response(schema_in_json(await _described(call)))


async def show_text(call: HttpCall[VersionQuery, None]) -> Response:
    described = await _described(call)
    return Response(body=described.schema.text.encode(), content_type=REGISTRY)


async def _described(call: HttpCall[VersionQuery, None]) -> wire.SchemaDescription:
    version = version_in_path(call.path["version"])
    asked = wire.GetSchema(subject_of(call), version, deleted=call.query.deleted)
    return cast(wire.SchemaFound, await call.ask(asked)).described


async def list_referrers(call: HttpCall[ReferrersQuery, None]) -> Response:
    request = wire.FindReferrers(subject_of(call), version_in_path(call.path["version"]))
    ids = await everything(call, request, call.query, lambda page: [each.id for each in page_of(page)])
    return registry_response(list(dict.fromkeys(ids)))


async def show_by_metadata(call: HttpCall[MetadataQuery, None]) -> Response:
    """Confluent's client encodes the names and values twice, so they are tried as they came, and decoded."""
    asked = call.query
    if len(asked.key) != len(asked.value):
        raise InvalidRequest("each key= has a value=")
    literal = dict(zip(asked.key, asked.value, strict=True))
    decoded = {unquote(name): unquote(value) for name, value in literal.items()}
    try:
        return await _newest_with(call, literal)
    except RegistryError:
        if decoded == literal:
            raise
    return await _newest_with(call, decoded)


async def _newest_with(call: HttpCall[MetadataQuery, None], properties: dict[str, str]) -> Response:
    asked = wire.GetSchema(subject_of(call), deleted=call.query.deleted, metadata=dict(properties))
    found = cast(wire.SchemaFound, await call.ask(asked))
    return registry_response(schema_in_json(found.described))


async def delete_subject(call: HttpCall[DeleteQuery, None]) -> Response:
    request = wire.DeleteSchema(subject_of(call), None, call.query.permanent)
    return registry_response(list(cast(wire.SchemaDeleted, await call.ask(request)).versions))


async def delete_version(call: HttpCall[DeleteQuery, None]) -> Response:
    version = version_in_path(call.path["version"])
    request = wire.DeleteSchema(subject_of(call), version, call.query.permanent)
    [number] = cast(wire.SchemaDeleted, await call.ask(request)).versions
    return registry_response(number)


SUBJECT, VERSIONS = "/subjects/{subject}", "/subjects/{subject}/versions"
ONE = f"{VERSIONS}/{{version}}"
UNKNOWN = ("unknown_subject", "unknown_schema", "invalid_schema")
EXAMPLE = """-d '{"schemaType": "JSON", "schema": "{\\"type\\": \\"object\\"}"}'"""


ROUTES = (
    registry_route(
        "POST",
        VERSIONS,
        register,
        "Register a schema. One that the subject has already is answered with the version that has it.",
        query=RegisterQuery,
        body=NewSchemaFields,
        answer=SchemaAnswer,
        errors=("invalid_schema", "incompatible_schema", "schema_conflict", "unknown_schema", "disk_full"),
        asks=(wire.RegisterSchema,),
        example=f"{EXAMPLE} $URL/subjects/customers-value/versions",
    ),
    registry_route(
        "POST",
        SUBJECT,
        look_up,
        "Find the version of a subject that has this schema.",
        query=LookUpQuery,
        body=SchemaFields,
        answer=SchemaAnswer,
        errors=UNKNOWN,
        asks=(wire.LookUpSchema,),
        example=f"{EXAMPLE} $URL/subjects/customers-value",
    ),
    registry_route(
        "GET",
        "/subjects",
        list_subjects,
        "List subjects.",
        query=SubjectsQuery,
        answer=NamesAnswer,
        asks=(wire.ListSubjects,),
        example="$URL/subjects",
    ),
    registry_route(
        "GET",
        VERSIONS,
        list_versions,
        "List the versions of a subject.",
        query=PagedQuery,
        answer=NumbersAnswer,
        errors=UNKNOWN,
        asks=(wire.ListVersions,),
        example="$URL/subjects/customers-value/versions",
    ),
    registry_route(
        "GET",
        ONE,
        show,
        f"Show a version of a subject: a number, or `{LATEST}`.",
        query=VersionQuery,
        answer=SchemaAnswer,
        errors=UNKNOWN,
        asks=(wire.GetSchema,),
        example="$URL/subjects/customers-value/versions/latest",
    ),
    registry_route(
        "GET",
        f"{ONE}/schema",
        show_text,
        "Show the schema of a version, as it was registered.",
        query=VersionQuery,
        errors=UNKNOWN,
        asks=(wire.GetSchema,),
        example="$URL/subjects/customers-value/versions/1/schema",
    ),
    registry_route(
        "GET",
        f"{ONE}/referencedby",
        list_referrers,
        "List the ids of the schemas that refer to a version.",
        query=ReferrersQuery,
        answer=NumbersAnswer,
        errors=UNKNOWN,
        asks=(wire.FindReferrers,),
        example="$URL/subjects/customers-value/versions/1/referencedby",
    ),
    registry_route(
        "GET",
        f"{SUBJECT}/metadata",
        show_by_metadata,
        "Show the newest version of a subject whose metadata have these properties.",
        query=MetadataQuery,
        answer=SchemaAnswer,
        errors=UNKNOWN,
        asks=(wire.GetSchema,),
    ),
    registry_route(
        "DELETE",
        ONE,
        delete_version,
        "Delete a version. It validates nothing any more, and can still be read by its id.",
        query=DeleteQuery,
        answer=NumberAnswer,
        errors=(*UNKNOWN, "schema_conflict", "disk_full"),
        asks=(wire.DeleteSchema,),
    ),
    registry_route(
        "DELETE",
        SUBJECT,
        delete_subject,
        "Delete all versions of a subject.",
        query=DeleteQuery,
        answer=NumbersAnswer,
        errors=(*UNKNOWN, "schema_conflict", "disk_full"),
        asks=(wire.DeleteSchema,),
    ),
)
