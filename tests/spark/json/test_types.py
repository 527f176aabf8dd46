"""A JSON Schema read as columns, and what cannot be one. Without Spark."""

from typing import Any

import pytest

from goqueue.errors import InvalidConfig
from goqueue.spark.json.types import (
    Field,
    JsonObject,
    Mapped,
    Plain,
    Scalar,
    Sequenced,
    ValueLimits,
    patterns_of,
    record_of,
)


def kind_of(schema: Any, **root: Any) -> Any:
    return record_of({"type": "object", "properties": {"a": schema}, **root}).fields[0].kind


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"type": "string"}, Plain(Scalar.STRING)),
        ({"type": ["string", "null"]}, Plain(Scalar.STRING, is_nullable=True)),
        ({"oneOf": [{"type": "null"}, {"type": "integer"}]}, Plain(Scalar.INTEGER, is_nullable=True)),
        ({"anyOf": [{"type": "boolean"}]}, Plain(Scalar.BOOLEAN)),
        ({"type": "string", "format": "date"}, Plain(Scalar.DATE)),
        ({"type": "string", "format": "date-time"}, Plain(Scalar.DATE_TIME)),
        ({"type": "string", "format": "email", "title": "t", "x-shown": 1}, Plain(Scalar.STRING)),
        ({"enum": ["a", "b"]}, Plain(Scalar.STRING, ValueLimits(values=("a", "b")))),
        ({"enum": ["a", None]}, Plain(Scalar.STRING, ValueLimits(values=("a",)), is_nullable=True)),
        ({"type": ["string", "null"], "enum": ["a"]}, Plain(Scalar.STRING, ValueLimits(values=("a",)))),
        ({"const": 3}, Plain(Scalar.INTEGER, ValueLimits(values=(3,)))),
        ({"type": ["integer", "number"], "minimum": 1}, Plain(Scalar.NUMBER, ValueLimits(least=1))),
        (
            {"type": "integer", "minimum": 1.5, "maximum": 2.5, "exclusiveMinimum": 0.5, "exclusiveMaximum": 9.5},
            Plain(Scalar.INTEGER, ValueLimits(least=2, most=2, above=0, below=10)),
        ),
        ({"type": "object"}, Plain(Scalar.OBJECT)),
        ({}, Plain(Scalar.ANYTHING, is_nullable=True)),
        (True, Plain(Scalar.ANYTHING, is_nullable=True)),
        ({"type": "array", "items": {"type": "string"}, "maxItems": 2}, Sequenced(Plain(Scalar.STRING), None, 2)),
        ({"type": "object", "additionalProperties": {"type": "number"}}, Mapped(Plain(Scalar.NUMBER))),
        (
            {"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"]},
            JsonObject((Field("b", Plain(Scalar.STRING), is_required=True),)),
        ),
    ],
)
def test_a_schema_is_a_column(schema: Any, kind: Any) -> None:
    assert kind_of(schema) == kind


def test_a_reference_is_what_it_refers_to() -> None:
    address = {"type": "object", "properties": {"street/no": {"type": "string", "pattern": "^[A-Z]"}}}
    kind = kind_of(
        {"$ref": "#/$defs/an~1old%20address", "description": "d"}, **{"$defs": {"an/old address": address}}
    )
    assert isinstance(kind, JsonObject)
    assert patterns_of(kind) == ["^[A-Z]"]


@pytest.mark.parametrize(
    ("schema", "pointer", "why"),
    [
        ({"type": "string", "uniqueItems": True}, "#/properties/a/uniqueItems", "cannot be checked"),
        ({"type": ["string", "integer"]}, "#/properties/a/type", "one type"),
        ({"type": "strnig"}, "#/properties/a/type", "is none of"),
        ({"type": "null"}, "#/properties/a/type", "one type"),
        ({"minimum": 3}, "#/properties/a", "says minimum but no type"),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, "#/properties/a/oneOf", "one type"),
        ({"$ref": "http://elsewhere/x"}, "#/properties/a/$ref", "not a part of this schema"),
        ({"$ref": "#/$defs/none"}, "#/properties/a/$ref", "there is no"),
        ({"$ref": "#/properties/a"}, "#/properties/a/$ref", "holds itself"),
        (
            {"type": "array", "items": {"type": "string", "minLength": -1}},
            "#/properties/a/items/minLength",
            "count",
        ),
        ({"type": "object", "properties": {"b": {}, "B": {}}}, "#/properties/a/properties/B", "cannot tell it"),
        ({"type": "object", "required": ["b"]}, "#/properties/a", "any object"),
        ({"type": "object", "properties": {"b": {}}, "required": ["c"]}, "#/properties/a/required", "'c'"),
        ({"type": "object", "properties": {"`": {}}}, "#/properties/a/properties/`", "name of a column"),
        ({"type": "integer", "maximum": 2**64}, "#/properties/a/maximum", "beyond 64 bits"),
        ({"type": "integer", "enum": ["x"]}, "#/properties/a/enum", "not all of type"),
        ("string", "#/properties/a", "a schema is an object"),
    ],
)
def test_what_cannot_be_a_column_is_told_with_its_place(schema: Any, pointer: str, why: str) -> None:
    with pytest.raises(InvalidConfig, match=why) as told:
        kind_of(schema)
    assert told.value.details["pointer"] == pointer


def test_a_table_has_columns_of_its_own_and_is_an_object() -> None:
    with pytest.raises(InvalidConfig, match="at #/properties/_Offset"):
        record_of({"type": "object", "properties": {"_Offset": {}}}, frozenset({"_offset"}))
    with pytest.raises(InvalidConfig, match="needs an object"):
        record_of({"type": "array"})
