"""Makes the examples of docs/schema-compatibility.md: `python -m tests.schemapage` writes them.

Each example is an old schema, a new one, and what the checker says of them in both directions.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from goqueue.core.schemas.compatibility.check import findings
from goqueue.core.schemas.schema import ResolvedSchema
from goqueue.core.schemas.text import finished

PAGE = Path(__file__).parents[1] / "docs" / "schema-compatibility.md"
BEGIN, END = "<!-- examples: written by python -m tests.schemapage -->", "<!-- end of examples -->"
LINE_MAX = 120


class Example(NamedTuple):
    title: str
    text: str
    old: Any
    new: Any


STRING, INTEGER, NUMBER = ({"type": name} for name in ("string", "integer", "number"))
CLOSED = {"type": "object", "properties": {"id": INTEGER}, "additionalProperties": False}
OPEN = {"type": "object", "properties": {"id": INTEGER}}


def named(kind: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"kind": {"const": kind}, **properties}, "required": ["kind"]}


EXAMPLES = [
    Example(
        "An optional property in a closed object",
        "The old schema permits no `note`, so none was written that the new one could refuse.",
        CLOSED,
        CLOSED | {"properties": {"id": INTEGER, "note": STRING}},
    ),
    Example(
        "An optional property in an open object",
        "The old schema says nothing of a `note`; a producer may have sent one that is a number.",
        OPEN,
        OPEN | {"properties": {"id": INTEGER, "note": STRING}},
    ),
    Example(
        "A required property",
        "With a default it would be compatible: readers fill it in.",
        CLOSED,
        CLOSED | {"properties": {"id": INTEGER, "note": STRING}, "required": ["note"]},
    ),
    Example(
        "A wider type",
        "Every integer is a number; not every number is an integer.",
        {"type": "array", "items": INTEGER},
        {"type": "array", "items": NUMBER},
    ),
    Example(
        "A property that may be null",
        "An array of types is a union; `anyOf` says the same.",
        {"properties": {"note": STRING}},
        {"properties": {"note": {"anyOf": [STRING, {"type": "null"}]}}},
    ),
    Example(
        "One kind more",
        "The members of `oneOf` are told apart by a constant, so that no value fits two of them.",
        {"oneOf": [named("created"), named("paid", amount=INTEGER)]},
        {"oneOf": [named("created"), named("paid", amount=INTEGER), named("shipped")]},
    ),
    Example(
        "A change in a definition",
        "References are followed; what two places share is reported once.",
        {"properties": {"to": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"type": "string", "maxLength": 80}}},
        {"properties": {"to": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"type": "string", "maxLength": 40}}},
    ),
]


def examples_as_shown() -> str:
    return "\n\n".join("\n".join(_lines(each)) for each in EXAMPLES)


def _lines(example: Example) -> Iterator[str]:
    yield from (f"### {example.title}", "", example.text, "", "```json")
    yield from (*_json(example.old), *_json(example.new), "```", "")
    yield f"- BACKWARD, new reads old: {_verdict(example.new, example.old)}"
    yield f"- FORWARD, old reads new: {_verdict(example.old, example.new)}"


def _json(value: Any, before: str = "", indent: str = "", after: str = "") -> list[str]:
    """On one line where it fits there, else each part on its own."""
    line = f"{indent}{before}{json.dumps(value)}{after}"
    if len(line) <= LINE_MAX or not isinstance(value, dict | list):
        return [line]
    parts = [(f"{json.dumps(name)}: ", each) for name, each in value.items()] if isinstance(value, dict) else []
    parts = parts or [("", each) for each in value]
    begin, end = "{}" if isinstance(value, dict) else "[]"
    lines = [f"{indent}{before}{begin}"]
    for place, (name, each) in enumerate(parts, 1):
        lines += _json(each, name, indent + "  ", "," if place < len(parts) else "")
    return [*lines, f"{indent}{end}{after}"]


def _verdict(reader: Any, writer: Any) -> str:
    found = finished(findings(*(ResolvedSchema(json.dumps(each)) for each in (reader, writer))))
    return "; ".join(f"`{each.type}` at `{each.path}`. {each.help}" for each in found) or "compatible"


def page_with_examples(page: str) -> str:
    return re.sub(f"{BEGIN}.*{END}", lambda _: f"{BEGIN}\n\n{examples_as_shown()}\n\n{END}", page, flags=re.DOTALL)


if __name__ == "__main__":
    PAGE.write_text(page_with_examples(PAGE.read_text()))
