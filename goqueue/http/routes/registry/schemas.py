"""Schemas by their ids and guids, whatever their subjects are; and what there is of them."""

from typing import Annotated, Any, cast

import orjson
from pydantic import Field, RootModel

from goqueue.http.routes.registry.forms import (
    FormatQuery,
    Limit,
    Offset,
    SchemaAnswer,
    SchemaFormat,
    guid_in_path,
    id_in_path,
    registry_response,
    registry_route,
    schema_in_json,
)
from goqueue.http.routes.registry.pages import ALSO_DELETED, deleted_ones, everything, page_of
from goqueue.http.routing.route import REGISTRY, HttpCall, Model
from goqueue.http.server.exchange import Response
from goqueue.net.wire import schemas as wire

TYPES = ["JSON", "AVRO"]
CONTEXT = "."
"""There is one, and this is its name."""


class ByIdQuery(FormatQuery):
    subject: str | None = None
    """A hint, for an answer that says subject and version; it filters nothing."""
    reference_format: SchemaFormat = None
    """As `format`."""
    largest: Annotated[bool, Field(alias="fetchMaxId")] = False
    """Some clients say so, and it changes nothing here."""


class UsesQuery(Model):
    subject: str | None = None
    """A hint, which filters nothing."""
    deleted: bool = False
    """Also versions that were deleted softly."""
    offset: Offset = 0
    limit: Limit = -1


class SchemasQuery(Model):
    prefix: Annotated[str, Field(alias="subjectPrefix")] = ""
    deleted: bool = False
    latest_only: Annotated[bool, Field(alias="latestOnly")] = False
    """Only the newest version of each subject."""
    offset: Offset = 0
    limit: Limit = -1
    """-1: all."""


class ContextsQuery(Model):
    offset: Offset = 0
    limit: Limit = -1


class UseAnswer(Model):
    subject: str
    version: int


class UsesAnswer(RootModel[list[UseAnswer]]):
    """Each version that has the schema."""


class ContextId(Model):
    context: str
    id: int


class ContextIdsAnswer(RootModel[list[ContextId]]):
    """The ids of a guid."""


class SchemasAnswer(RootModel[list[SchemaAnswer]]):
    """Versions, by subject and number."""


class TextsAnswer(RootModel[list[str]]):
    """Texts, in their order."""


async def show_by_id(call: HttpCall[ByIdQuery, None]) -> Response:
    described = await _by_id(call)
    return registry_response(schema_in_json(described, with_place=call.query.subject is not None))


async def show_text_by_id(call: HttpCall[ByIdQuery, None]) -> Response:
    return Response(body=(await _by_id(call)).schema.text.encode(), content_type=REGISTRY)


async def _by_id(call: HttpCall[ByIdQuery, None]) -> wire.SchemaDescription:
    """Also of versions that were deleted softly, since messages still have their ids."""
    asked = wire.GetSchema(call.query.subject, id=id_in_path(call.path["id"]))
    return cast(wire.SchemaFound, await call.ask(asked)).described


async def show_by_guid(call: HttpCall[FormatQuery, None]) -> Response:
    asked = wire.GetSchema(guid=guid_in_path(call.path["guid"]))
    described = cast(wire.SchemaFound, await call.ask(asked)).described
    return registry_response(schema_in_json(described, with_place=False))


async def list_ids_of_guid(call: HttpCall[None, None]) -> Response:
    asked = wire.FindUses(guid=guid_in_path(call.path["guid"]), deleted=ALSO_DELETED)
    uses = page_of(await call.ask(asked))
    ids = dict.fromkeys(each.id for each in uses)
    return registry_response([{"context": CONTEXT, "id": each} for each in ids])


async def list_subjects_of_id(call: HttpCall[UsesQuery, None]) -> Response:
    return registry_response(list(dict.fromkeys(each.subject for each in await _uses(call))))


async def list_versions_of_id(call: HttpCall[UsesQuery, None]) -> Response:
    uses = await _uses(call)
    return registry_response([{"subject": each.subject, "version": each.version} for each in uses])


async def _uses(call: HttpCall[UsesQuery, None]) -> list[wire.SchemaUse]:
    request = wire.FindUses(id_in_path(call.path["id"]), deleted=deleted_ones(call.query.deleted))
    return await everything(call, request, call.query, page_of)


async def list_schemas(call: HttpCall[SchemasQuery, None]) -> Response | None:
    """Schemas may be large and many: beyond one page of the wire the answer comes in pieces."""
    asked = call.query
    request = wire.ListSchemas(asked.prefix, deleted_ones(asked.deleted), asked.latest_only)
    page = await _page(call, request, 0)
    if not page.has_more or 0 <= asked.limit <= len(page.schemas):
        return Response(body=b"[" + _joined(page, asked.limit) + b"]", content_type=REGISTRY)
    await call.exchange.begin(Response(content_type=REGISTRY))
    await call.exchange.send(b"[" + _joined(page, asked.limit))
    count = len(page.schemas)
    while _goes_on(page) and not 0 <= asked.limit <= count:
        page = await _page(call, request, count)
        more = _joined(page, asked.limit if asked.limit < 0 else asked.limit - count)
        count += len(page.schemas)
        await call.exchange.send(b"," + more if more else b"")
    await call.exchange.send(b"]")
    await call.exchange.end()
    return None


def _goes_on(page: wire.Schemas) -> bool:
    """A page without a schema is the last one, whatever it says."""
    return page.has_more and bool(page.schemas)


async def _page(call: HttpCall[SchemasQuery, None], request: wire.ListSchemas, count: int) -> wire.Schemas:
    left = call.query.limit - count if call.query.limit >= 0 else wire.PAGE_MAX
    most = max(1, min(wire.PAGE_MAX, left))
    return cast(wire.Schemas, await call.ask(request._replace(offset=call.query.offset + count, count_max=most)))


def _joined(page: wire.Schemas, limit: int) -> bytes:
    shown = page.schemas if limit < 0 else page.schemas[:limit]
    return b",".join(orjson.dumps(schema_in_json(each)) for each in shown)


async def types(_: HttpCall[None, None]) -> Response:
    return registry_response(TYPES)


async def contexts(call: HttpCall[ContextsQuery, None]) -> Response:
    found = [CONTEXT][call.query.offset :]
    return registry_response(found if call.query.limit < 0 else found[: call.query.limit])


async def nothing(_: HttpCall[Any, Any]) -> Response:
    """Clients look here whether there is a registry."""
    return registry_response({})


UNKNOWN = ("unknown_schema", "registry_error")
ROUTES = (
    registry_route(
        "GET",
        "/schemas/ids/{id}",
        show_by_id,
        "Show a schema by its id, which messages have in them.",
        query=ByIdQuery,
        answer=SchemaAnswer,
        errors=UNKNOWN,
        asks=(wire.GetSchema,),
        example="$URL/schemas/ids/1",
    ),
    registry_route(
        "GET",
        "/schemas/ids/{id}/schema",
        show_text_by_id,
        "Show a schema by its id, as it was registered.",
        query=ByIdQuery,
        errors=UNKNOWN,
        asks=(wire.GetSchema,),
        example="$URL/schemas/ids/1/schema",
    ),
    registry_route(
        "GET",
        "/schemas/ids/{id}/subjects",
        list_subjects_of_id,
        "List the subjects that have a schema.",
        query=UsesQuery,
        answer=TextsAnswer,
        errors=UNKNOWN,
        asks=(wire.FindUses,),
        example="$URL/schemas/ids/1/subjects",
    ),
    registry_route(
        "GET",
        "/schemas/ids/{id}/versions",
        list_versions_of_id,
        "List the versions that have a schema.",
        query=UsesQuery,
        answer=UsesAnswer,
        errors=UNKNOWN,
        asks=(wire.FindUses,),
        example="$URL/schemas/ids/1/versions",
    ),
    registry_route(
        "GET",
        "/schemas/guids/{guid}",
        show_by_guid,
        "Show a schema by its guid, which is made of its content.",
        query=FormatQuery,
        answer=SchemaAnswer,
        errors=UNKNOWN,
        asks=(wire.GetSchema,),
    ),
    registry_route(
        "GET",
        "/schemas/guids/{guid}/ids",
        list_ids_of_guid,
        "List the ids of a guid.",
        answer=ContextIdsAnswer,
        errors=UNKNOWN,
        asks=(wire.FindUses,),
    ),
    registry_route(
        "GET",
        "/schemas",
        list_schemas,
        "List versions with their schemas, by subject and number.",
        query=SchemasQuery,
        answer=SchemasAnswer,
        asks=(wire.ListSchemas,),
        example="'$URL/schemas?latestOnly=true'",
    ),
    registry_route(
        "GET",
        "/schemas/types",
        types,
        "List the types of schemas.",
        answer=TextsAnswer,
        example="$URL/schemas/types",
    ),
    registry_route(
        "GET",
        "/contexts",
        contexts,
        "List the contexts: there is one.",
        query=ContextsQuery,
        answer=TextsAnswer,
        example="$URL/contexts",
    ),
    registry_route("GET", "/", nothing, "Answer `{}`, as a schema registry does."),
)
