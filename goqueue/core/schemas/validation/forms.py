"""The forms of a schema that are compiled: each `$ref` is written as the place of its target, with our own URIs.

The explaining form has a double negation for each `anyOf` and `oneOf`: `{"not": {"not": {"anyOf": […]}}}`, as a
member of `allOf`. So an explanation says that the union fails, and not what each member says of it.
"""

from collections.abc import Generator
from typing import Any
from urllib.parse import quote

from goqueue.core.schemas.reading.documents import Documents, Place
from goqueue.core.schemas.reading.parsing import WALKED_AT_ONCE

UNIONS = ("anyOf", "oneOf")
_SAFE = "/~!$&'()*+,;=:@-._?"


def write_form(documents: Documents, *, without_unions: bool) -> Generator[None, None, None]:
    """Changes the documents into what is compiled. They can be written once."""
    for number, place in enumerate(documents.places):
        if isinstance(place.schema, dict):
            _write_references(place, place.schema, without_unions)
        if number % WALKED_AT_ONCE == 0:
            yield
    for number, place in enumerate(documents.places):
        if isinstance(place.schema, dict):
            _write_identity(place, place.schema)
            if without_unions and not place.stands_alone:
                _hide_unions(place.schema)
        if number % WALKED_AT_ONCE == 0:
            yield


def is_hidden_union(schema: Any) -> str | None:
    """The keyword of the union that stands behind a `not` in the explaining form."""
    inner = schema.get("not") if isinstance(schema, dict) and len(schema) == 1 else None
    if isinstance(inner, dict) and len(inner) == 1:
        return next((keyword for keyword in UNIONS if keyword in inner), None)
    return None


def _write_references(place: Place, schema: dict[str, Any], without_unions: bool) -> None:
    for keyword, target in place.refs.items():
        anchor = schema[keyword].partition("#")[2]
        if keyword == "$dynamicRef" and anchor and not anchor.startswith("/"):
            schema[keyword] = f"{target.resource.uri}#{anchor}"
        elif keyword != "$recursiveRef":
            schema[keyword] = f"{target.resource.uri}{_fragment(target, without_unions)}"


def _fragment(place: Place, without_unions: bool) -> str:
    begin = len(place.resource.steps)
    steps: list[str | int] = []
    for at in range(begin, len(place.steps)):
        if without_unions and place.steps[at] in UNIONS:
            steps += _hidden_at(place.document.places.get(place.steps[:at]), str(place.steps[at]))
        steps.append(place.steps[at])
    written = "".join("/" + quote(str(step).replace("~", "~0").replace("/", "~1"), _SAFE) for step in steps)
    return (
        f"#{written}" if written else ""
    )  # behind an empty fragment the compiler loses the way of a $recursiveRef


def _hidden_at(parent: Place | None, keyword: str) -> list[str | int]:
    """The steps that lie before a union's keyword once it is hidden. A property may have the keyword's name."""
    if parent is None or parent.stands_alone or not isinstance(parent.schema, dict):
        return []
    unions = _unions_of(parent.schema)
    if keyword not in unions:
        return []
    return ["allOf", len(parent.schema.get("allOf", ())) + unions.index(keyword), "not", "not"]


def _unions_of(schema: dict[str, Any]) -> list[str]:
    return [keyword for keyword in UNIONS if isinstance(schema.get(keyword), list)]


def _hide_unions(schema: dict[str, Any]) -> None:
    unions = _unions_of(schema)
    if unions:
        schema["allOf"] = [
            *schema.get("allOf", ()),
            *({"not": {"not": {keyword: schema.pop(keyword)}}} for keyword in unions),
        ]


def _write_identity(place: Place, schema: dict[str, Any]) -> None:
    draft = place.document.draft
    schema.pop("$schema", None)
    schema.pop(draft.id_keyword, None)
    if place.resource.root is place:
        schema[draft.id_keyword] = place.resource.uri
    if not place.steps:
        schema["$schema"] = draft.uri
