"""A schema and its references as one document say what they say apart."""

import json
from typing import Any

import jsonschema_rs
import pytest

from goqueue.core.schemas.reading.bundling import bundled
from goqueue.core.schemas.schema import ResolvedSchema
from goqueue.core.schemas.text import finished
from goqueue.core.schemas.validation.compiling import compile_schema
from goqueue.errors import InvalidSchema
from tests.core.schemas.given import resolved

OLD = "http://json-schema.org/draft-07/schema#"
TEXT, WHOLE = {"type": "string"}, {"type": "integer"}
TOWN = resolved(
    {"$id": "https://acme.example/town", "$defs": {"a/b": TEXT}, "properties": {"n": {"$ref": "#/$defs/a~1b"}}}
)
OTHER_TOWN = resolved({"$id": "https://acme.example/town", "properties": {"n": WHOLE}})
PLACE = resolved({"properties": {"town": {"$ref": "town.json"}}}, town=OTHER_TOWN)
LIST = resolved({"properties": {"next": {"$ref": "#"}, "n": WHOLE}})
ANCHORED = resolved({"$defs": {"x": {"$anchor": "whole", **WHOLE}}})
DRAFT_7 = resolved(
    {"$schema": OLD, "definitions": {"n": {"$id": "n.json", **WHOLE}}, "properties": {"n": {"$ref": "n.json"}}}
)


def of(schema: Any, **references: ResolvedSchema) -> ResolvedSchema:
    return resolved({"properties": {"a": schema}}, **references)


@pytest.mark.parametrize(
    "schema",
    [
        of({"$ref": "town.json"}, town=TOWN),
        of({"$ref": "town.json#/$defs/a~1b"}, town=TOWN),
        of({"$ref": "place.json"}, place=PLACE, town=TOWN),
        of({"items": {"$ref": "town.json"}}, place=PLACE, town=TOWN),
        of({"$ref": "list.json"}, list=LIST),
        of({"$ref": "anchored.json#whole"}, anchored=ANCHORED),
        of({"$ref": "old.json"}, old=DRAFT_7),
        resolved({"$id": "https://acme.example/", "properties": {"a": {"$ref": "town.json"}}}, town=TOWN),
        resolved({"$defs": {"town.json": WHOLE}, "properties": {"a": {"$ref": "town.json"}}}, town=TOWN),
        resolved({"$ref": "town.json", "required": ["n"]}, town=TOWN),
        resolved({"properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"$id": "x.json", **WHOLE}}}),
        of({"$ref": "never.json"}, never=resolved(False)),
        resolved({"properties": {"#1 name": WHOLE, "a": {"$ref": "#/properties/%231%20name"}}}),
        resolved(True),
    ],
    ids=lambda schema: schema.text,
)
def test_it_says_the_same(schema: ResolvedSchema) -> None:
    whole = json.loads(json.dumps(finished(bundled(schema))))
    apart, together = compile_schema(schema), jsonschema_rs.validator_for(whole, offline=True)
    values = [
        "t",
        7,
        {"n": "t"},
        {"n": 7},
        {"next": {"next": {"n": "t"}}},
        {"town": {"n": "t"}},
        {"town": {"n": 7}},
    ]
    values += [[each] for each in values]
    for value in [*values, *({"a": each} for each in values)]:
        assert together.is_valid(value) == apart.is_valid(value), value


def test_every_reference_is_a_place_of_the_document() -> None:
    whole = finished(bundled(of({"$ref": "place.json"}, place=PLACE, town=TOWN)))
    assert isinstance(whole, dict)
    assert whole["properties"]["a"] == {"$ref": "#/$defs/place.json"}
    names = list(whole["$defs"])
    assert names == ["place.json", "town.json", "town.json-2"], "two schemas of one name"
    assert all(each.startswith('"#/') for each in json.dumps(whole).split('"$ref": ')[1:])


def test_what_is_no_reference_is_refused() -> None:
    with pytest.raises(InvalidSchema, match="neither in the schema nor a reference"):
        finished(bundled(of({"$ref": "elsewhere.json"}, town=TOWN)))
