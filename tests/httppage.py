"""Makes docs/http-reference.md from the table of routes: `python -m tests.httppage` writes it."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from goqueue.http.routes import ROUTES
from goqueue.http.routes.links import LINKS
from goqueue.http.routes.pages import curl
from goqueue.http.routing.openapi import document
from goqueue.http.routing.reference import FieldRow, FieldTable, codes_of, tables_of
from goqueue.http.routing.route import Route

PAGE = Path(__file__).parents[1] / "docs/http-reference.md"
INTRODUCTION = """\
# HTTP reference

Every route of the HTTP port, as `GET /docs` of a broker shows it and `GET /openapi.json` has it for programs. What
is common to all of them, and how a client works with them, says [the page about HTTP](http.md). In the examples
`$URL` is the broker's address, `http://127.0.0.1:7711`.

Each route may also refuse with 400 `invalid_request` or `protocol_error`, 403 `handshake_refused`, 408, 413, 415,
429 `too_many_requests`, 431, 500 and 503. The routes of the schema registry say so in
[their own form](http.md#schema-registry).

This page is made from the table of routes: `python -m tests.httppage`.
"""


def page() -> str:
    return INTRODUCTION + "".join(sections())


def sections() -> Iterator[str]:
    described = document(ROUTES, "0", LINKS)
    groups: dict[str, list[Route]] = {}
    for route in ROUTES:
        groups.setdefault(route.group, []).append(route)
    for group, routes in groups.items():
        yield f"\n## {group}\n"
        for route in routes:
            yield entry(route, described)


def entry(route: Route, described: Mapping[str, Any]) -> str:
    operation = described["paths"][route.path][route.method.lower()]
    parts = [
        f"\n### {route.method} {route.path}\n\n{route.summary}\n",
        *map(table, tables_of(operation, described)),
    ]
    also = "".join(f" {status}: {text}" for status, text in route.also.items())
    parts.append(f"\nAnswers {route.status}.{also}{codes(route)}\n")
    if route.example is not None:
        parts.append(f"\n```sh\n{curl(route)}\n```\n")
    return "".join(parts)


def codes(route: Route) -> str:
    own = [f"{status} `{code}`" for status, code in codes_of(route)]
    return f" Refuses with {', '.join(own)}." if own else ""


def table(of: FieldTable) -> str:
    lines = [f"| {of.heading} | type | default | |", "|---|---|---|---|", *map(line, of.rows)]
    return "\n" + "\n".join(lines) + "\n"


def line(row: FieldRow) -> str:
    default = "needed" if row.is_needed else "" if row.default is None else f"`{json.dumps(row.default)}`"
    return f"| `{row.name}` | {row.type} | {default} | {row.meaning.replace('|', ' or ')} |"


if __name__ == "__main__":
    PAGE.write_text(page())
