"""What the gateway says of itself: the OpenAPI document, the reference page, the version."""

from collections.abc import Mapping
from functools import cache
from html import escape
from importlib.metadata import version as version_of
from typing import Any

import orjson

from goqueue.http.routes.links import LINKS
from goqueue.http.routing.answers import json_response
from goqueue.http.routing.openapi import document, operation_id
from goqueue.http.routing.reference import FieldRow, FieldTable, codes_of, tables_of
from goqueue.http.routing.route import HttpCall, Model, Route
from goqueue.http.server.exchange import Response
from goqueue.net.session.machine import HIGHEST_VERSION, LOWEST_VERSION

GROUP = "About"
HTML = "text/html; charset=utf-8"
POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
"""The page loads nothing, from anywhere, and runs nothing."""

_STYLE = (
    ":root{color-scheme:light dark;--line:#8884;--soft:#8881;--link:#2563eb}"
    "body{font:16px/1.55 system-ui,sans-serif;max-width:64rem;margin:0 auto;padding:2rem 1rem 6rem}"
    "a{color:var(--link);text-decoration:none}a:hover{text-decoration:underline}"
    "code,pre{font-family:ui-monospace,SFMono-Regular,Menlo,monospace;font-size:.9em}"
    "pre{background:var(--soft);padding:.7rem .9rem;border-radius:.4rem;overflow:auto}"
    "nav{columns:3 16rem;padding:1rem 0;border-bottom:1px solid var(--line)}nav b{display:block;margin-top:.4rem}"
    "nav div{break-inside:avoid}nav a{display:block;font-size:.85rem}"
    "h2{margin-top:3rem;border-bottom:1px solid var(--line)}h3{margin:2.2rem 0 .2rem}p{margin:.3rem 0}"
    ".GET{color:#15803d}.POST{color:#2563eb}.PATCH{color:#b45309}.DELETE{color:#dc2626}"
    "table{border-collapse:collapse;margin:.6rem 0;font-size:.92rem}"
    "th{text-align:left;font-weight:600}th,td{padding:.2rem 1rem .2rem 0;border-bottom:1px solid var(--line);"
    "vertical-align:top}"
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
    described = document(routes, version_of("goqueue"))
    groups: dict[str, list[Route]] = {}
    for route in routes:
        groups.setdefault(route.group, []).append(route)
    contents = "".join(
        f"<div><b>{escape(group)}</b>{''.join(map(_line, of))}</div>" for group, of in groups.items()
    )
    body = "".join(
        f"<h2>{escape(group)}</h2>{''.join(_entry(route, described) for route in of)}"
        for group, of in groups.items()
    )
    return (
        '<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content="width=device-width">'
        f"<title>goqueue over HTTP</title><style>{_STYLE}</style>"
        "<h1>goqueue over HTTP</h1><p>The same for programs: <a href=openapi.json>openapi.json</a>."
        f" <code>$URL</code> is the address of this broker.</p><nav>{contents}</nav>{body}</html>"
    ).encode()


def _line(route: Route) -> str:
    return f"<a href=#{operation_id(route)}>{_name(route)}</a>"


def _name(route: Route) -> str:
    return f"<code><span class={route.method}>{route.method}</span> {escape(route.path)}</code>"


def _entry(route: Route, described: Mapping[str, Any]) -> str:
    operation = described["paths"][route.path][route.method.lower()]
    lines = [f"<h3 id={operation_id(route)}>{_name(route)}</h3><p>{_inline(route.summary)}</p>"]
    lines += map(_table, tables_of(operation, described))
    also = "".join(f" {status}: {_inline(text)}" for status, text in route.also.items())
    codes = ", ".join(f"{status} <code>{escape(code)}</code>" for status, code in codes_of(route))
    lines.append(f"<p>Answers {route.status}.{also}{f' Refuses with {codes}.' if codes else ''}</p>")
    if route.example is not None:
        lines.append(f"<pre>{escape(curl(route))}</pre>")
    return "".join(lines)


def _table(table: FieldTable) -> str:
    rows = "".join(
        f"<tr><td><code>{escape(row.name)}</code><td>{_inline(row.type)}<td>{_default(row)}<td>{_inline(row.meaning)}"
        for row in table.rows
    )
    return f"<table><tr><th>{escape(table.heading)}<th>type<th>default<th>{rows}</table>"


def _default(row: FieldRow) -> str:
    if row.is_needed:
        return "needed"
    return "" if row.default is None else f"<code>{escape(orjson.dumps(row.default).decode())}</code>"


def _inline(text: str) -> str:
    pieces = escape(text).split("`")
    return "".join(f"<code>{piece}</code>" if number % 2 else piece for number, piece in enumerate(pieces))


def curl(route: Route) -> str:
    """The example as a command."""
    assert route.example is not None
    kind = f"-H 'Content-Type: {route.takes[0]}' " if route.method in ("POST", "PATCH", "PUT") else ""
    return f"curl {kind}{route.example}"


ROUTES = (
    Route(
        "GET", "/version", version, "Say which broker this is.", GROUP, answer=VersionAnswer, example="$URL/version"
    ),
    Route("GET", "/openapi.json", openapi, "This reference for programs: OpenAPI 3.1.", GROUP),
    Route("GET", "/docs", reference, "This reference for people.", GROUP, gives=(HTML,)),
)
