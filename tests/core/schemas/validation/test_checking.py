"""A schema is refused for what is wrong with it, with the path; and nothing is ever fetched."""

import json
import socket
from typing import Any

import pytest

from goqueue.core.schemas.reading.drafts import Draft
from goqueue.core.schemas.schema import ResolvedSchema, SchemaType
from goqueue.core.schemas.validation.checking import check_schema, checking
from goqueue.errors import InvalidSchema
from tests.core.schemas.given import resolved

DRAFT_4, DRAFT_7 = Draft.DRAFT_4.uri, Draft.DRAFT_7.uri


def refusal(schema: Any, **references: ResolvedSchema) -> str:
    with pytest.raises(InvalidSchema) as caught:
        check_schema(resolved(schema, **references))
    assert caught.value.error_code == 42201
    return caught.value.message


@pytest.mark.parametrize("draft", Draft)
def test_each_draft_is_known_with_and_without_its_hash(draft: Draft) -> None:
    for uri in (draft.value, f"{draft.value}#"):
        check_schema(resolved({"$schema": uri, "type": "object", "properties": {"a": {"enum": [1, 2]}}}))


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ({"type": "strin"}, "#/type"),
        ({"type": ["string", "string"]}, "#/type"),
        ({"properties": {"a": {"minLength": "x"}}}, "#/properties/a/minLength"),
        ({"properties": {"a": {"minLength": -1}}}, "#/properties/a/minLength"),
        ({"properties": {"a": 5}}, "#/properties/a"),
        ({"properties": []}, "#/properties"),
        ({"items": [{}]}, "#/items"),
        ({"items": 5}, "#/items"),
        ({"allOf": []}, "#/allOf"),
        ({"allOf": {}}, "#/allOf"),
        ({"anyOf": [True, 5]}, "#/anyOf/1"),
        ({"not": None}, "#/not"),
        ({"required": "a"}, "#/required"),
        ({"required": ["a", "a"]}, "#/required"),
        ({"required": [*map(str, range(120)), 5]}, "#/required/120"),
        ({"dependentRequired": {"a": [*map(str, range(120)), 5]}}, "#/dependentRequired/a/120"),
        ({"enum": 5}, "#/enum"),
        ({"multipleOf": 0}, "#/multipleOf"),
        ({"pattern": 5}, "#/pattern"),
        ({"title": 5}, "#/title"),
        ({"$ref": 5}, "#/$ref"),
        ({"$id": "http://acme.com/#part"}, "#/$id"),
        ({"$anchor": "not an anchor"}, "#/$anchor"),
        ({"$defs": {"a/b": {"type": 5}}}, "#/$defs/a~1b/type"),
        ({"definitions": {"a": {"if": {"then": 5}}}}, "#/definitions/a/if/then"),
        ({"$ref": "#/x/y", "x": {"y": {"maximum": "1"}}}, "#/x/y/maximum"),
        ({"$schema": DRAFT_4, "properties": {"a": True}}, "#/properties/a"),
        ({"$schema": DRAFT_4, "exclusiveMinimum": 5}, "#"),
        ({"$schema": DRAFT_4, "enum": []}, "#/enum"),
        ({"$schema": DRAFT_4, "required": []}, "#/required"),
        ({"$schema": DRAFT_7, "dependencies": {"a": 5}}, "#/dependencies/a"),
        ({"$schema": DRAFT_7, "items": [True, 5]}, "#/items/1"),
        ({"properties": {"a": {"$schema": DRAFT_7}}}, "#/properties/a/$schema"),
        ({"$schema": "http://json-schema.org/draft-03/schema#"}, "#/$schema"),
        ({"pattern": "(?=a)"}, "#/pattern"),
        ({"not": {"$ref": "http://acme.com/x"}}, "#/not/$ref"),
    ],
)
def test_what_is_wrong_is_named_with_its_path(schema: Any, path: str) -> None:
    assert refusal(schema).partition(": ")[0] == path


@pytest.mark.parametrize("schema", [[], 5, "x", None])
def test_a_schema_is_an_object_or_a_bool(schema: Any) -> None:
    assert refusal(json.dumps(schema)) == "#: a schema is an object, true or false"


@pytest.mark.parametrize(
    "schema",
    [
        True,
        False,
        {},
        {"x-own": [[["anything"]]], "unknown": {"type": "strin"}},
        {"const": {"type": 5}, "default": {"$ref": 5}, "examples": [{"minLength": "x"}]},
        {"enum": [1, 1.5, None, {"type": "strin"}, ["a"]]},
        {"format": "made-up", "contentEncoding": "base64", "contentMediaType": "x/y"},
        {"definitions": {"a": True}, "$ref": "#/definitions/a"},
        {"$schema": DRAFT_7, "items": [{"type": "string"}], "additionalItems": False},
        {"properties": dict.fromkeys(("", "a b", "$ref", "é", "\x00", "a/b", "~"), True)},
    ],
)
def test_what_is_right_is_taken(schema: Any) -> None:
    check_schema(resolved(schema))


def test_what_is_wrong_in_a_reference_is_named_with_its_name() -> None:
    assert refusal({"$ref": "zip.json"}, zip=resolved({"type": "strin"})).startswith("zip.json #/type: ")
    assert refusal({"$ref": "zip.json"}, zip=resolved("{")).startswith("zip.json #: no JSON")


def test_a_reference_may_be_of_another_draft() -> None:
    check_schema(
        resolved({"$ref": "a.json"}, a=resolved({"$schema": DRAFT_4, "exclusiveMinimum": True, "minimum": 1}))
    )


def test_an_avro_schema_is_only_looked_at_as_json() -> None:
    check_schema(ResolvedSchema('{"type": "record", "name": "x", "fields": []}', SchemaType.AVRO))
    check_schema(ResolvedSchema('"string"', SchemaType.AVRO))
    with pytest.raises(InvalidSchema):
        check_schema(ResolvedSchema("record x", SchemaType.AVRO))


def test_nothing_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither while a schema is read nor by the validators, which would like to."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("somebody opens a socket")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    for uri in ("http://127.0.0.1:9/x", "https://acme.com/x", "file:///etc/hostname", "ftp://acme.com/x"):
        for keyword in ("$ref", "$dynamicRef", "$schema"):
            refusal({keyword: uri})
        check_schema(resolved({"$id": uri, "const": {"$ref": uri}}))


def test_a_large_schema_is_checked_in_many_steps() -> None:
    """Fields that all differ, so that none is known from another."""
    fields = {f"field{n}": {"type": "string", "maxLength": n} for n in range(500)}
    assert sum(1 for _ in checking(resolved({"properties": fields}))) > 500


def test_what_is_known_to_be_right_is_not_asked_again() -> None:
    fields = {f"field{n}": {"type": "string", "description": f"The field {n}"} for n in range(500)}
    assert sum(1 for _ in checking(resolved({"properties": fields}))) < 50


def test_a_refusal_is_short_whatever_the_schema_has() -> None:
    assert len(refusal({"properties": {"a" * 10_000: {"type": "b" * 10_000}}})) < 1_000
