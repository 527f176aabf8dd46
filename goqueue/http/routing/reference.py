"""What the reference says of a route's parameters and fields, read from the OpenAPI document."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from goqueue.http.routing.openapi import refusals
from goqueue.http.routing.route import Route
from goqueue.http.server.exchange import JSON

Described = Mapping[str, Any]
"""The OpenAPI document, or a part of it."""


class FieldRow(NamedTuple):
    name: str
    type: str
    default: object
    """None: there is none."""
    is_needed: bool
    meaning: str


class FieldTable(NamedTuple):
    heading: str
    rows: list[FieldRow]


def tables_of(operation: Described, document: Described) -> Iterator[FieldTable]:
    """The query, the body, and what the lists of the body have in them."""
    query = [each for each in operation["parameters"] if each["in"] == "query"]
    if query:
        yield FieldTable("parameter", [_row(each["name"], each["schema"], each["required"]) for each in query])
    content = operation.get("requestBody", {}).get("content", {})
    schema = _referred(content.get(JSON, {}).get("schema", {}), document)
    if schema.get("properties"):
        yield FieldTable("field", _rows(schema))
    for name, each in schema.get("properties", {}).items():
        items = each.get("items", {})
        if "$ref" in items:
            yield FieldTable(f"field of {name}", _rows(_referred(items, document)))


def codes_of(route: Route) -> list[tuple[int, str]]:
    """The codes that are the route's own, with their statuses."""
    return [
        (status, code)
        for status, codes in sorted(refusals(route).items())
        for code in codes
        if code in route.errors
    ]


def _rows(schema: Described) -> list[FieldRow]:
    needed = schema.get("required", ())
    return [_row(name, each, name in needed) for name, each in schema["properties"].items()]


def _row(name: str, schema: Described, is_needed: bool) -> FieldRow:
    default = schema.get("default")
    meaning = " ".join(schema.get("description", "").split())
    return FieldRow(name, _type_of(schema), None if default in ("", {}) else default, is_needed, meaning)


def _referred(schema: Described, document: Described) -> Described:
    reference = schema.get("$ref")
    found: Described = document["components"]["schemas"][reference.rpartition("/")[2]] if reference else schema
    return found


def _type_of(schema: Described) -> str:
    if "enum" in schema or "const" in schema:
        return ", ".join(f"`{each}`" for each in schema.get("enum", [schema.get("const")]))
    if "anyOf" in schema:
        kinds = [_type_of(each) for each in schema["anyOf"] if each.get("type") != "null"]
        return " or ".join(dict.fromkeys(kinds))
    kind = str(schema.get("type", "object" if "$ref" in schema else "anything"))
    if kind == "array":
        return f"list of {_type_of(schema['items'])}"
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is not None and most is not None and most < 2**31:
        return f"{kind}, {least:g} to {most:,}"
    return kind
