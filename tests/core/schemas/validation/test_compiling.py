"""The validator of a schema decides as the schema says, whatever its references are called."""

import json
from typing import Any

import pytest

from goqueue.core.schemas.reading.drafts import Draft
from goqueue.core.schemas.schema import ResolvedSchema
from goqueue.core.schemas.text import finished
from goqueue.core.schemas.validation.compiled import CompiledSchemas
from goqueue.core.schemas.validation.compiling import compile_schema
from tests.core.schemas.given import resolved


def fits(value: Any, schema: Any, **references: ResolvedSchema) -> bool:
    return compile_schema(resolved(schema, **references)).is_valid(value)


def test_formats_are_not_asserted_in_any_draft() -> None:
    for draft in Draft:
        assert fits("no address", {"$schema": draft.uri, "format": "email"})


def test_the_same_name_is_another_schema_in_another_scope() -> None:
    inner = resolved({"$ref": "zip.json"}, zip=resolved({"type": "string"}))
    outer = {"properties": {"a": {"$ref": "inner.json"}, "b": {"$ref": "zip.json"}}}
    zip_code = resolved({"type": "integer"})
    assert fits({"a": "x", "b": 1}, outer, inner=inner, zip=zip_code)
    assert not fits({"a": 1}, outer, inner=inner, zip=zip_code)
    assert not fits({"b": "x"}, outer, inner=inner, zip=zip_code)


def test_two_versions_of_a_reference_may_have_the_same_id() -> None:
    address = {"$id": "http://acme.com/address", "$defs": {"zip": {"type": "integer"}}, "$ref": "#/$defs/zip"}
    older = {**address, "$defs": {"zip": {"type": "string"}}}
    both = {"prefixItems": [{"$ref": "new.json"}, {"$ref": "old.json"}]}
    assert fits([1, "x"], both, new=resolved(address), old=resolved(older))
    assert not fits(["x", "x"], both, new=resolved(address), old=resolved(older))
    assert not fits([1, 1], both, new=resolved(address), old=resolved(older))


@pytest.mark.parametrize("name", ["a b.json", "é", "http://acme.com/x?y=1", "../up", "com.acme.Order"])
def test_a_reference_may_have_any_name_that_a_ref_can_say(name: str) -> None:
    schema = ResolvedSchema(json.dumps({"$ref": name}), references=((name, resolved({"type": "string"})),))
    assert compile_schema(schema).is_valid("x")
    assert not compile_schema(schema).is_valid(1)


def test_embedded_ids_and_anchors_are_followed() -> None:
    schema = {
        "$id": "http://acme.com/order",
        "properties": {
            "a": {"$ref": "item"},
            "b": {"$ref": "item#price"},
            "c": {"$ref": "#/$defs/item/$defs/price"},
        },
        "$defs": {
            "item": {
                "$id": "item",
                "type": "object",
                "properties": {"price": {"$ref": "#price"}},
                "$defs": {"price": {"$anchor": "price", "type": "number"}},
            }
        },
    }
    assert fits({"a": {"price": 1}, "b": 1, "c": 1}, schema)
    for wrong in ({"a": 1}, {"a": {"price": "x"}}, {"b": "x"}, {"c": "x"}):
        assert not fits(wrong, schema)


def test_a_dynamic_ref_is_decided_by_the_way_to_it() -> None:
    tree = {
        "$id": "http://acme.com/tree",
        "$dynamicAnchor": "node",
        "type": "object",
        "properties": {"child": {"$dynamicRef": "#node"}},
    }
    strict = {
        "$id": "http://acme.com/strict",
        "$dynamicAnchor": "node",
        "$ref": "tree.json",
        "unevaluatedProperties": False,
    }
    assert fits({"child": {"more": 1}}, tree)
    assert fits({"child": {}}, strict, tree=resolved(tree))
    assert not fits({"child": {"more": 1}}, strict, tree=resolved(tree))


def test_a_recursive_ref_is_decided_by_the_way_to_it() -> None:
    draft = Draft.DRAFT_2019_09.uri
    tree = {"$schema": draft, "$recursiveAnchor": True, "properties": {"child": {"$recursiveRef": "#"}}}
    strict = {"$schema": draft, "$recursiveAnchor": True, "$ref": "tree.json", "unevaluatedProperties": False}
    assert fits({"child": {"more": 1}}, tree)
    assert not fits({"child": {"more": 1}}, strict, tree=resolved(tree))


def test_old_drafts_have_their_own_keywords() -> None:
    assert not fits(1, {"$schema": Draft.DRAFT_4.uri, "minimum": 1, "exclusiveMinimum": True})
    assert not fits(1, {"exclusiveMinimum": 1})
    assert not fits(["x", 1], {"$schema": Draft.DRAFT_7.uri, "items": [{}], "additionalItems": False})
    beside = {"$schema": Draft.DRAFT_7.uri, "$ref": "#/definitions/a", "definitions": {"a": {}}, "type": "string"}
    assert fits(1, beside), "beside $ref nothing counts"
    named = {
        "$schema": Draft.DRAFT_4.uri,
        "id": "http://acme.com/x",
        "properties": {"a": {"$ref": "#zip"}},
        "definitions": {"zip": {"id": "#zip", "type": "integer"}},
    }
    assert not fits({"a": "x"}, named)


def kept(schemas: CompiledSchemas, schema: ResolvedSchema) -> object:
    return finished(schemas.validator(schema))


def test_a_schema_is_compiled_once() -> None:
    schemas, schema = CompiledSchemas(), resolved({"type": "string"})
    assert kept(schemas, schema) is kept(schemas, schema)


def test_validators_are_bounded_by_number_and_those_not_used_go_first() -> None:
    schemas = CompiledSchemas(validators_max=2)
    one, two, three = (resolved({"maximum": number}) for number in range(3))
    first = kept(schemas, one)
    second = kept(schemas, two)
    assert kept(schemas, one) is first
    kept(schemas, three)
    assert len(schemas) == 2
    assert kept(schemas, one) is first
    assert kept(schemas, two) is not second


def test_validators_are_bounded_by_the_size_of_their_schemas_references_counted() -> None:
    schemas = CompiledSchemas(texts_size_max=1_000)
    large = resolved({"title": "x" * 900})
    for number in range(5):
        kept(schemas, resolved({"maximum": number, "$ref": "a.json"}, a=large))
        assert len(schemas) == 1
