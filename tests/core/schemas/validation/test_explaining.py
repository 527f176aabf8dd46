"""A refusal names the path, the keyword and what the schema wants, and never the value."""

from typing import Any

import pytest

from goqueue.core.schemas.schema import ResolvedSchema
from goqueue.core.schemas.text import finished
from goqueue.core.schemas.validation.compiling import compile_schema
from goqueue.core.schemas.validation.explaining import LIMIT_LENGTH_MAX, Fault, path_of
from tests.core.schemas.given import resolved

SECRET = "a secret password"
ROOT = {"$ref": "#"}


def fault(value: Any, schema: Any, **references: ResolvedSchema) -> Fault | None:
    validator = compile_schema(resolved(schema, **references))
    assert not validator.is_valid(value)
    return finished(validator.explain(value))


@pytest.mark.parametrize(
    ("value", "schema", "expected"),
    [
        (SECRET, {"type": "integer"}, Fault("$", "type", '"integer"')),
        ({"a": {"b": [1, SECRET]}}, {"properties": {"a": {"properties": {"b": {"items": {"type": "number"}}}}}},
         Fault("$.a.b[1]", "type", '"number"')),
        (SECRET, {"type": ["integer", "null"]}, Fault("$", "type", '["null","integer"]')),
        ({}, {"required": ["id"]}, Fault("$", "required", '"id"')),
        ({"id": 1, "the secret": 1}, {"properties": {"id": {}}, "additionalProperties": False},
         Fault('$["the secret"]', "additionalProperties")),
        ({"more": 1}, {"unevaluatedProperties": False}, Fault("$.more", "unevaluatedProperties")),
        (SECRET, {"maxLength": 3}, Fault("$", "maxLength", "3")),
        (SECRET, {"minLength": 30}, Fault("$", "minLength", "30")),
        (SECRET, {"pattern": "^[0-9]+$"}, Fault("$", "pattern", '"^[0-9]+$"')),
        (SECRET, {"enum": ["red", "green"]}, Fault("$", "enum")),
        (SECRET, {"const": "red"}, Fault("$", "const", '"red"')),
        (7, {"multipleOf": 5}, Fault("$", "multipleOf", "5")),
        (7, {"maximum": 5}, Fault("$", "maximum", "5")),
        (7, {"exclusiveMinimum": 7}, Fault("$", "exclusiveMinimum", "7")),
        ([1, 1], {"uniqueItems": True}, Fault("$", "uniqueItems")),
        ([1, 2], {"maxItems": 1}, Fault("$", "maxItems", "1")),
        ([1, 2], {"contains": {"type": "string"}}, Fault("$", "contains")),
        ({"ab": 1}, {"propertyNames": {"maxLength": 1}}, Fault("$", "propertyNames")),
        (SECRET, {"anyOf": [{"type": "integer"}, {"type": "null"}]}, Fault("$", "anyOf")),
        (SECRET, {"oneOf": [{"type": "string"}, {"minLength": 1}]}, Fault("$", "oneOf")),
        (SECRET, {"not": {"type": "string"}}, Fault("$", "not")),
        (SECRET, {"not": {"not": {"type": "integer"}}}, Fault("$", "not")),
        (SECRET, False, Fault("$", "falseSchema")),
        ({"a": 1}, {"properties": {"a": False}}, Fault("$.a", "falseSchema")),
        (SECRET, {"if": {"type": "string"}, "then": {"maxLength": 2}}, Fault("$", "maxLength", "2")),
        ({"a": 1}, {"dependentRequired": {"a": ["b"]}}, Fault("$", "dependentRequired", '"b"')),
        ({"a": SECRET}, {"$ref": "#/$defs/x", "$defs": {"x": {"properties": {"a": {"type": "null"}}}}},
         Fault("$.a", "type", '"null"')),
        ({"a": {"a": {"a": SECRET}}}, {"type": "object", "properties": {"a": ROOT}},
         Fault("$.a.a.a", "type", '"object"')),
        ({"a": {"a": SECRET}}, {"anyOf": [{"type": "integer"}, {"type": "object", "properties": {"a": ROOT}}]},
         Fault("$", "anyOf")),
    ],
)  # fmt: skip
def test_a_fault_is_told(value: Any, schema: Any, expected: Fault) -> None:
    found = fault(value, schema)
    assert found == expected
    assert SECRET not in f"{found}"


def test_a_ref_to_a_member_of_a_union_is_explained_too() -> None:
    schema = {
        "anyOf": [{"type": "string", "maxLength": 3}, {"type": "object"}],
        "properties": {"a": {"$ref": "#/anyOf/0"}, "anyOf": {"oneOf": [{"$ref": "#/anyOf/1"}]}},
        "allOf": [{"minProperties": 0}],
    }
    assert fault({"a": "long"}, schema) == Fault("$.a", "maxLength", "3")
    assert fault({"anyOf": "x"}, schema) == Fault("$.anyOf", "oneOf")


def test_what_a_member_of_a_union_looked_at_counts_as_looked_at() -> None:
    """So that the explanation does not blame it."""
    schema = {
        "anyOf": [{"properties": {"a": True}}, {"properties": {"b": True}}],
        "unevaluatedProperties": False,
        "properties": {"c": {"maximum": 1}},
    }
    assert fault({"a": 1, "b": 2, "c": 3}, schema) == Fault("$.c", "maximum", "1")
    assert fault({"a": 1, "b": 2, "d": 3}, schema) == Fault("$.d", "unevaluatedProperties")


def test_a_fault_in_a_reference_has_the_path_in_the_value() -> None:
    schema = {"properties": {"zip": {"$ref": "zip.json"}}}
    assert fault({"zip": SECRET}, schema, zip=resolved({"maxLength": 5})) == Fault("$.zip", "maxLength", "5")


@pytest.mark.parametrize(
    "schema",
    [
        {"allOf": [{"properties": {"a": ROOT}}, {"properties": {"a": ROOT}}], "type": ["object", "null"]},
        {"properties": {"a": ROOT}, "patternProperties": {"^a": ROOT}, "type": ["object", "null"]},
        {"anyOf": [{"properties": {"a": ROOT}}], "unevaluatedProperties": False},
    ],
)
def test_what_would_take_for_ever_to_explain_is_only_refused(schema: Any) -> None:
    """It takes twice the time for each level of the value."""
    value: Any = 1
    for _ in range(200):
        value = {"a": value}
    assert fault({"a": value, "b": value} if "anyOf" in schema else value, schema) is None


def test_a_union_that_a_value_can_pass_on_many_ways_is_explained_at_once() -> None:
    """The members of a recursive union, each with its own error, would be 2 ** 200."""
    member = {"type": "object", "properties": {"a": ROOT}}
    value: Any = 1
    for _ in range(200):
        value = {"a": value}
    assert fault(value, {"anyOf": [member, {**member, "required": ["b"]}]}) == Fault("$", "anyOf")


def test_what_a_schema_wants_is_told_in_short() -> None:
    found = fault(1, {"const": "x" * 1_000})
    assert found is not None
    assert len(found.limit) == LIMIT_LENGTH_MAX


@pytest.mark.parametrize(
    ("steps", "path"),
    [
        ([], "$"),
        (["a", 0, "b_c-d"], "$.a[0].b_c-d"),
        (["a b"], '$["a b"]'),
        (["a.b", ""], '$["a.b"][""]'),
        (['"'], '$["\\""]'),
        (["\n"], '$["\\n"]'),
        (["é"], '$["é"]'),
        (["0"], '$["0"]'),
    ],
)
def test_a_path_is_written_as_people_write_it(steps: list[str | int], path: str) -> None:
    assert path_of(steps) == path
