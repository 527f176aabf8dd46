"""Holds every answer to the OpenAPI document: its status is declared for its route, its body is as declared."""

from functools import cache
from typing import Any

import jsonschema_rs
import orjson

from goqueue.http.routes import ROUTES
from goqueue.http.routes.links import LINKS
from goqueue.http.routing.openapi import document
from goqueue.http.routing.route import JSON_KINDS, Route
from goqueue.http.routing.table import RouteTable
from goqueue.http.server.errors import HttpError

TABLE = RouteTable(ROUTES)
ERROR_FIELDS = {"code", "message", "retryable", "details", "request_id"}
REGISTRY_ERROR_FIELDS = {"error_code", "message"}


@cache
def the_document() -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads(orjson.dumps(document(ROUTES, "0", LINKS)))
    return found


def check_declared(method: str, target: str, status: int, content_type: str, body: bytes) -> None:
    path, _, _ = target.partition("?")
    try:
        route, _ = TABLE.find(method, path)
    except HttpError:
        expected = REGISTRY_ERROR_FIELDS if TABLE.is_of_registry(path) else ERROR_FIELDS
        assert method == "HEAD" or set(orjson.loads(body)) == expected
        return
    if method in ("HEAD", "OPTIONS"):
        return
    declared = the_document()["paths"][route.path][route.method.lower()]["responses"]
    assert str(status) in declared, f"{method} {route.path} does not declare {status}: {body[:300]!r}"
    content = declared[str(status)].get("content", {})
    assert content or status == 204, f"{method} {route.path} declares nothing to read for {status}"
    if content:
        given = {kind.partition(";")[0] for kind in content}
        assert content_type.partition(";")[0] in given, (
            f"{method} {route.path} declares no {content_type} for {status}"
        )
    if content_type in JSON_KINDS and body:
        _validator(route, str(status), content_type).validate(orjson.loads(body))


@cache
def _validator(route: Route, status: str, kind: str) -> jsonschema_rs.Validator:
    responses = the_document()["paths"][route.path][route.method.lower()]["responses"]
    schema = responses[status]["content"][kind]["schema"]
    return jsonschema_rs.Draft202012Validator({**schema, "components": the_document()["components"]})
