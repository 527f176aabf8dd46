"""What the gateway says of itself: the OpenAPI document, the reference page, the version."""

from functools import cache
from html import escape
from importlib.metadata import version as version_of
from typing import Any

import orjson

from goqueue.http.routes.links import LINKS
from goqueue.http.routing.answers import json_response
from goqueue.http.routing.openapi import document, refusals
from goqueue.http.routing.route import HttpCall, Model, Route
from goqueue.http.server.exchange import Response
from goqueue.net.session.machine import HIGHEST_VERSION, LOWEST_VERSION

GROUP = "About"
HTML = "text/html; charset=utf-8"
POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
"""The page loads nothing, from anywhere, and runs nothing."""

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "code,pre{font-family:ui-monospace,monospace}pre{background:#8881;padding:.6rem;overflow:auto}"
    "h3{margin-bottom:.2rem}p{margin:.2rem 0}table{border-collapse:collapse}td{padding:.1rem .8rem .1rem 0}"
    ":root{color-scheme:light dark}"
)


class VersionAnswer(Model):
    version: str
    node: str
    cluster: str
    protocol: list[int]
    """The lowest and the highest version of the websocket protocol."""


async def version(call: HttpCall[None, None]) -> Response:
    broker = call.gateway.broker
    return json_response(
        {
            "version": version_of("goqueue"),
            "node": broker.node,
            "cluster": broker.cluster.hex(),
            "protocol": [LOWEST_VERSION, HIGHEST_VERSION],
        }
    )


async def openapi(call: HttpCall[None, None]) -> Response:
    return Response(body=_document(call.gateway.table.routes))


@cache
def _document(routes: tuple[Route, ...]) -> bytes:
    return orjson.dumps(document(routes, version_of("goqueue"), LINKS))


async def reference(call: HttpCall[None, None]) -> Response:
    headers = {"content-security-policy": POLICY, "x-content-type-options": "nosniff"}
    return Response(body=_page(call.gateway.table.routes), content_type=HTML, headers=headers)


@cache
def _page(routes: tuple[Route, ...]) -> bytes:
    sections: dict[str, list[str]] = {}
    for route in routes:
        sections.setdefault(route.group, []).append(_entry(route))
    body = "".join(f"<h2>{escape(group)}</h2>{''.join(entries)}" for group, entries in sections.items())
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>goqueue over HTTP</title><style>{_STYLE}</style>"
        "<h1>goqueue over HTTP</h1><p>The same for programs: <a href=openapi.json>openapi.json</a></p>"
        f"{body}</html>"
    ).encode()


def _entry(route: Route) -> str:
    lines = [f"<h3><code>{route.method} {escape(route.path)}</code></h3><p>{_inline(route.summary)}</p>"]
    if route.query is not None:
        lines.append(f"<p>Parameters: {_names(route.query)}</p>")
    if route.body is not None:
        lines.append(f"<p>Body: {_names(route.body)}</p>")
    codes = "".join(
        f"<tr><td>{status}<td>{', '.join(f'<code>{escape(code)}</code>' for code in names)}"
        for status, names in sorted(refusals(route).items())
        if any(name in route.errors for name in names)
    )
    if codes:
        lines.append(f"<table>{codes}</table>")
    if route.example is not None:
        lines.append(f"<pre>{escape(curl(route))}</pre>")
    return "".join(lines)


def _names(model: type[Any]) -> str:
    return ", ".join(f"<code>{escape(field.alias or name)}</code>" for name, field in model.model_fields.items())


def _inline(text: str) -> str:
    pieces = escape(text).split("`")
    return "".join(f"<code>{piece}</code>" if number % 2 else piece for number, piece in enumerate(pieces))


def curl(route: Route) -> str:
    """The example as a command."""
    assert route.example is not None
    kind = f"-H 'Content-Type: {route.takes[0]}' " if route.method in ("POST", "PATCH", "PUT") else ""
    return f"curl {kind}{route.example}"


async def nothing(_: HttpCall[None, None]) -> Response:
    """As a schema registry answers at its root: clients look whether one is there."""
    return json_response({})


ROUTES = (
    Route(
        "GET", "/version", version, "Say which broker this is.", GROUP, answer=VersionAnswer, example="$URL/version"
    ),
    Route("GET", "/openapi.json", openapi, "This reference for programs: OpenAPI 3.1.", GROUP),
    Route("GET", "/docs", reference, "This reference for people.", GROUP, gives=(HTML,)),
    Route("GET", "/", nothing, "Answer `{}`.", GROUP),
)
