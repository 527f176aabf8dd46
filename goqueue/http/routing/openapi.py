"""The OpenAPI document, made from the table of routes: what it says is what the router does.

Statuses of refusals come from the codes that a route names, and from those with which any route may answer.
"""

import re
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any, Literal, TypeAlias

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from goqueue.http.routing.route import (
    JSON_KINDS,
    NAME_SHAPE,
    NDJSON,
    OCTETS,
    REGISTRY,
    TEXT,
    Model,
    Route,
    RouteLink,
)
from goqueue.http.server.errors import STATUS
from goqueue.http.server.exchange import JSON
from goqueue.net.wire.fields import INTEGER_MAX, U32_MAX

Schemas: TypeAlias = Mapping[Any, Any]
"""The schema of each model and mode."""

EVERYWHERE = {
    400: ("invalid_request", "protocol_error"),
    403: ("handshake_refused",),
    408: ("request_timed_out",),
    413: ("too_large",),
    415: ("unsupported_media_type",),
    429: ("too_many_requests",),
    431: ("head_too_large",),
    500: ("internal_error", "storage_error"),
    503: ("unavailable", "overloaded", "going_away", "actor_died"),
}
"""Codes with which any route may answer, by status."""
OF_HTTP = {"in_flight_full": 429, "not_acceptable": 406, "not_found": 404}
PARTLY = 207
REFERENCE = "#/components/schemas/{model}"
_SHAPES: Mapping[str, Any] = {
    "topic": {"type": "string", **NAME_SHAPE},
    "group": {"type": "string", **NAME_SHAPE},
    "partition": {"type": "integer", "minimum": 0, "maximum": U32_MAX},
    "offset": {"type": "integer", "minimum": 0, "maximum": INTEGER_MAX},
    "subject": {"type": "string", "minLength": 1, "maxLength": 255},
    "version": {"anyOf": [{"type": "integer", "minimum": 1, "maximum": 2**31 - 1}, {"const": "latest"}]},
    "id": {"type": "integer", "minimum": 1, "maximum": 2**31 - 1},
    "guid": {"type": "string", "format": "uuid"},
}
"""The parameters of paths."""
_PARAMETER = re.compile(r"{(\w+)}")


class ErrorAnswer(Model):
    """Why a request was refused."""

    code: str
    message: str
    retryable: bool
    details: dict[str, Any]
    request_id: str


class RegistryErrorAnswer(Model):
    """Why a request of a client of the schema registry was refused."""

    error_code: int
    """The number by which clients know the reason."""
    message: str


ERROR_FORMS: Mapping[bool, type[Model]] = {False: ErrorAnswer, True: RegistryErrorAnswer}
"""The form of errors, for a route that is not of the registry, and for one that is."""


def document(routes: Iterable[Route], version: str, links: Iterable[RouteLink] = ()) -> dict[str, Any]:
    routes = list(routes)
    names, definitions = _schemas(routes)
    paths: dict[str, dict[str, Any]] = {}
    by_name = {f"{route.method} {route.path}": route for route in routes}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, names)
    for link in links:
        source, target = by_name[link.source], by_name[link.target]
        answer = paths[source.path][source.method.lower()]["responses"][str(source.status)]
        answer.setdefault("links", {})[operation_id(target)] = _link(link, target)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "goqueue",
            "version": version,
            "description": "Every route is a request of goqueue's protocol. `/v1/…` is the same as `/…`; for the"
            " schema registry, `/schemas/…` is.",
        },
        "paths": paths,
        "components": {"schemas": definitions},
    }


def _schemas(routes: list[Route]) -> tuple[Schemas, dict[str, Any]]:
    taken: dict[tuple[type[BaseModel], Literal["validation", "serialization"]], None] = {
        (form, "serialization"): None for form in ERROR_FORMS.values()
    }
    for route in routes:
        if route.body is not None:
            taken[route.body, "validation"] = None
        if route.answer is not None:
            taken[route.answer, "serialization"] = None
        for model in route.documented:
            taken[model, "validation"] = None
    schemas, definitions = models_json_schema(list(taken), ref_template=REFERENCE)
    return schemas, definitions["$defs"]


def operation_id(route: Route) -> str:
    words = re.sub(r"[{}]", "", route.path).strip("/").replace("/", "_").replace("-", "_").replace(".", "_")
    return f"{route.method.lower()}_{words}"


def _operation(route: Route, schemas: Schemas) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": operation_id(route),
        "tags": [route.group],
        "summary": route.summary,
        "parameters": [*_path_parameters(route), *_query_parameters(route)],
        "responses": _responses(route, schemas),
    }
    if route.method in ("POST", "PUT", "PATCH"):
        content = _body_content(route, schemas)
        if content:
            operation["requestBody"] = {
                "required": route.body is not None or bool(route.documented),
                "content": content,
            }
    return operation


def _link(link: RouteLink, target: Route) -> dict[str, Any]:
    told: dict[str, Any] = {"operationId": operation_id(target)}
    if link.parameters:
        told["parameters"] = dict(link.parameters)
    if link.body is not None:
        told["requestBody"] = link.body
    return told


def _path_parameters(route: Route) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": _SHAPES[name]}
        for name in _PARAMETER.findall(route.path)
    ]


def _query_parameters(route: Route) -> list[dict[str, Any]]:
    if route.query is None:
        return []
    schema = route.query.model_json_schema(ref_template=REFERENCE)
    definitions = schema.get("$defs", {})
    required = schema.get("required", ())
    return [
        {
            "name": name,
            "in": "query",
            "required": name in required,
            "schema": _inlined(_without_null(each), definitions),
        }
        for name, each in schema["properties"].items()
    ]


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """A parameter that is left out is null; nobody writes null into an address."""
    options = [each for each in schema.get("anyOf", ()) if each.get("type") != "null"]
    rest = {name: each for name, each in schema.items() if name not in ("anyOf", "default", "title")}
    if schema.get("default") is not None:
        rest["default"] = schema["default"]
    return {**(options[0] if len(options) == 1 else {"anyOf": options} if options else {}), **rest}


def _inlined(schema: dict[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    reference = schema.pop("$ref", None)
    return {**definitions[reference.rpartition("/")[2]], **schema} if reference else schema


def _body_content(route: Route, schemas: Schemas) -> dict[str, Any]:
    content: dict[str, Any] = {}
    documented = {each.media_type: schemas[each, "validation"] for each in route.documented}
    for kind in route.takes[:1] if route.of_registry else route.takes:  # the registry's are three names of one form
        if kind in JSON_KINDS and route.body is not None:
            content[kind] = {"schema": schemas[route.body, "validation"]}
        elif kind in documented:
            content[kind] = {"schema": documented[kind]}
        elif kind in (NDJSON, OCTETS, TEXT):
            content[kind] = {"schema": {}}
    return content


def _responses(route: Route, schemas: Schemas) -> dict[str, Any]:
    answers: dict[str, Any] = {}
    for status, text in {route.status: HTTPStatus(route.status).phrase, **route.also}.items():
        answers[str(status)] = {"description": text}
        if status != 204:
            answers[str(status)]["content"] = _answer_content(route, schemas)
    refused: dict[str, Any] = {REGISTRY if route.of_registry else JSON: {"schema": _refused(route, schemas)}}
    if PARTLY in route.also and NDJSON in route.gives:
        refused[NDJSON] = {"schema": {}}
    for status, codes in sorted(refusals(route).items()):
        content = refused
        if str(status) not in answers:
            answers[str(status)] = {"description": ", ".join(f"`{code}`" for code in codes), "content": content}
    return answers


def _refused(route: Route, schemas: Schemas) -> Any:
    """Where each part of a request has an outcome of its own, all of them may have failed."""
    error = schemas[ERROR_FORMS[route.of_registry], "serialization"]
    if PARTLY in route.also and route.answer is not None:
        return {"anyOf": [error, schemas[route.answer, "serialization"]]}
    return error


def _answer_content(route: Route, schemas: Schemas) -> dict[str, Any]:
    content: dict[str, Any] = {}
    for kind in route.gives:
        is_model = kind in JSON_KINDS and route.answer is not None
        content[kind] = {"schema": schemas[route.answer, "serialization"] if is_model and route.answer else {}}
    return content


def refusals(route: Route) -> dict[int, list[str]]:
    """The codes with which a route may refuse, by status."""
    found: dict[int, list[str]] = {status: list(codes) for status, codes in EVERYWHERE.items()}
    for code in (*route.errors, *(["not_found"] if "{" in route.path else [])):
        status = OF_HTTP.get(code) or STATUS[code]
        codes = found.setdefault(status, [])
        if code not in codes:
            codes.append(code)
        if code == "offset_out_of_range":
            found.setdefault(416, []).append(code)
    return found
