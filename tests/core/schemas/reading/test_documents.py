"""What a `$ref` names: a place in the schema or a reference, and nothing else."""

from typing import Any

import pytest

from goqueue.core.schemas.reading.documents import DOCUMENTS_MAX, DYNAMIC_MAX, Documents, Place
from goqueue.core.schemas.schema import ResolvedSchema
from goqueue.core.schemas.text import finished
from goqueue.errors import InvalidSchema
from tests.core.schemas.given import resolved

DRAFT_4 = "http://json-schema.org/draft-04/schema#"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"
DRAFT_2019 = "https://json-schema.org/draft/2019-09/schema"


def documents_of(schema: Any, **references: ResolvedSchema) -> Documents:
    documents = Documents()
    finished(documents.load(resolved(schema, **references)))
    finished(documents.resolve())
    return documents


def target(schema: Any, **references: ResolvedSchema) -> Place:
    """What the only `$ref` of the schema names."""
    [found] = [place for place in documents_of(schema, **references).places if place.refs]
    [named] = found.refs.values()
    return named


def refusal(schema: Any, **references: ResolvedSchema) -> str:
    with pytest.raises(InvalidSchema) as caught:
        documents_of(schema, **references)
    assert caught.value.error_code == 42201
    return caught.value.message


@pytest.mark.parametrize(
    "ref",
    ["#/$defs/zip", "#/%24defs/zip", "#zip", "zip.json", "http://acme.com/zip.json", "./zip.json#", "#/other/0"],
)
def test_a_place_is_named_by_pointer_anchor_or_id(ref: str) -> None:
    schema = {
        "$id": "http://acme.com/order.json",
        "properties": {"zip": {"$ref": ref}},
        "$defs": {"zip": {"title": "here"}, "by_id": {"$id": "zip.json", "title": "here"}},
        "$anchor": "root",
        "allOf": [{"$anchor": "zip", "title": "here"}],
        "other": [{"title": "here"}],
    }
    schema["properties"]["zip"] = {"$ref": ref}  # type: ignore[index]
    assert target(schema).schema["title"] == "here"  # type: ignore[index]


def test_a_pointer_has_its_own_escapes() -> None:
    schema = {"$ref": "#/$defs/a~1b~0c%25", "$defs": {"a/b~c%": {"title": "here"}}}
    assert target(schema).schema == {"title": "here"}


@pytest.mark.parametrize(
    "ref",
    [
        "http://acme.com/x",
        "https://json-schema.org/draft/2020-12/schema",
        "file:///etc/passwd",
        "other.json",
        "zip.json",
        "//x",
        "http://[",
        "#/$defs/nothing",
        "#/$defs/number",
        "#/allOf/1",
        "#/allOf/-1",
        "#/allOf/x",
        f"#/allOf/{'9' * 5_000}",
        "#nowhere",
        "?x",
        "urn:x",
    ],
)
def test_what_is_neither_here_nor_a_reference_is_refused_with_the_path(ref: str) -> None:
    schema = {"properties": {"a": {"$ref": ref}}, "$defs": {"number": 5}, "allOf": [True]}
    assert refusal(schema).startswith("#/properties/a/$ref: ")


@pytest.mark.parametrize("ref", ["zip.json", "http://acme.com/zip.json"])
def test_a_reference_is_named_as_it_is_or_relative_to_the_id(ref: str) -> None:
    order = {"$id": "http://acme.com/order.json", "properties": {"zip": {"$ref": ref}}}
    assert target(order, zip=resolved({"title": "far"})).schema == {"title": "far"}


def test_a_part_of_a_reference_is_named_too() -> None:
    zip_code = resolved({"$id": "http://else.where/x", "$defs": {"us": {"title": "far", "$anchor": "us"}}})
    for ref in ("zip.json#/$defs/us", "zip.json#us"):
        assert target({"$ref": ref}, zip=zip_code).steps == ("$defs", "us")


def test_the_same_name_is_another_schema_in_another_scope() -> None:
    inner = resolved({"$ref": "zip.json"}, zip=resolved({"title": "its own"}))
    outer = documents_of({"allOf": [{"$ref": "zip.json"}, {"$ref": "inner.json"}]}, zip=resolved(True), inner=inner)
    named = {place.path: place.refs["$ref"].schema for place in outer.places if place.refs}
    assert named["#/allOf/0"] is True
    assert named["inner.json #"] == {"title": "its own"}


def test_the_scope_of_a_referrer_is_not_that_of_its_reference() -> None:
    inner = resolved({"$ref": "zip.json"})
    message = refusal({"$ref": "inner.json"}, inner=inner, zip=resolved(True))
    assert message.startswith("inner.json #/$ref: ")


def test_one_schema_under_many_names_is_read_once() -> None:
    """Each refers to the next one twice: as many ways as no broker can go."""
    schema = resolved(True)
    for _ in range(60):
        schema = resolved({"allOf": [{"$ref": "a.json"}, {"$ref": "b.json"}]}, a=schema, b=schema)
    documents = Documents()
    finished(documents.load(schema))
    assert len(documents.all) == 61


def test_references_are_bounded() -> None:
    many = {f"r{number}": resolved(True) for number in range(DOCUMENTS_MAX)}
    assert "references" in refusal(True, **many)


def test_schemas_within_what_only_a_ref_names_are_found() -> None:
    schema = {"$ref": "#/components/a", "components": {"a": {"items": {"$ref": "#/components/b"}}, "b": {}}}
    paths = [place.path for place in documents_of(schema).places]
    assert paths == ["#", "#/components/a", "#/components/a/items", "#/components/b"]


def test_a_ref_in_data_is_data() -> None:
    documents = documents_of({"const": {"$ref": "x"}, "enum": [{"$ref": "y"}], "default": {"$ref": "z"}})
    assert [place.refs for place in documents.places] == [{}]


def test_a_property_may_be_called_ref() -> None:
    assert [place.refs for place in documents_of({"properties": {"$ref": {"type": "string"}}}).places] == [{}, {}]


def test_two_schemas_cannot_have_the_same_id_or_anchor() -> None:
    twice = {"a": {"$id": "http://acme.com/x"}, "b": {"$id": "http://acme.com/x#"}}
    assert refusal({"$defs": twice}).startswith("#/$defs/")
    anchors = {"a": {"$anchor": "x"}, "b": {"$anchor": "x"}}
    assert "anchor x" in refusal({"$defs": anchors})


def test_the_id_keyword_is_that_of_the_draft() -> None:
    four: dict[str, Any] = {"$schema": DRAFT_4, "id": "http://acme.com/a", "$ref": "http://acme.com/a"}
    assert "$ref" in refusal(four), "beside $ref nothing counts, the id neither"
    four = {"$schema": DRAFT_4, "id": "http://acme.com/a", "not": {"$ref": "http://acme.com/a"}}
    assert target(four).steps == ()
    seven = {"$schema": DRAFT_7, "id": "http://acme.com/a", "not": {"$ref": "http://acme.com/a"}}
    assert "$ref" in refusal(seven)
    assert target({"$schema": DRAFT_7, "not": {"$ref": "#x"}, "definitions": {"x": {"$id": "#x"}}}).steps == (
        "definitions",
        "x",
    )


def test_a_dynamic_ref_may_name_each_schema_with_its_anchor() -> None:
    tree = {
        "$id": "http://acme.com/tree",
        "$dynamicAnchor": "node",
        "properties": {"child": {"$dynamicRef": "#node"}},
    }
    strict = {"$id": "http://acme.com/strict", "$dynamicAnchor": "node", "$ref": "tree.json"}
    places = documents_of(strict, tree=resolved(tree)).places
    [child] = [place for place in places if place.path == "tree.json #/properties/child"]
    assert {place.path for place in child.others} == {"#", "tree.json #"}


def test_a_recursive_ref_may_name_each_schema_that_asks_for_it() -> None:
    schema = {"$schema": DRAFT_2019, "$recursiveAnchor": True, "items": {"$recursiveRef": "#"}}
    [items] = [place for place in documents_of(schema).places if place.steps == ("items",)]
    assert [place.steps for place in items.others] == [()]


def test_dynamic_anchors_of_one_name_are_bounded() -> None:
    many = {f"d{n}": {"$id": f"http://acme.com/{n}", "$dynamicAnchor": "x"} for n in range(DYNAMIC_MAX + 1)}
    assert "dynamic anchor" in refusal({"$defs": many})


def test_a_draft_that_is_not_known_is_refused() -> None:
    for named in ("http://json-schema.org/draft-03/schema#", "http://acme.com/my", 5, None, ""):
        assert refusal({"$schema": named}).startswith("#/$schema: ")
