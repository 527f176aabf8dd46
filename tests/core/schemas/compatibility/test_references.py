"""References are followed before anything is compared: in a document, by `$id`, and to other schemas by name."""

import pytest

from goqueue.core.schemas.compatibility.check import findings
from goqueue.core.schemas.schema import ResolvedSchema
from goqueue.errors import InvalidSchema
from tests.core.schemas.compatibility.comparing import Schema, finished, found, resolved, types_and_paths

DRAFT_4, DRAFT_7 = "http://json-schema.org/draft-04/schema#", "http://json-schema.org/draft-07/schema#"
STRING, INTEGER = {"type": "string"}, {"type": "integer"}
PLAIN = {"properties": {"a": STRING}}
CHANGED = ["TYPE_CHANGED #/properties/a"]


def by_name(new: ResolvedSchema, old: ResolvedSchema) -> list[str]:
    return [f"{each.type} {each.path}" for each in finished(findings(new, old))[0]]


WAYS = {
    "$defs": {"properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": STRING}},
    "definitions": {"properties": {"a": {"$ref": "#/definitions/A"}}, "definitions": {"A": STRING}},
    "any place": {
        "properties": {"a": {"$ref": "#/components/schemas/A"}},
        "components": {"schemas": {"A": STRING}},
    },
    "a place in a list": {
        "properties": {"a": {"$ref": "#/$defs/A/allOf/1"}},
        "$defs": {"A": {"allOf": [True, STRING]}},
    },
    "an escaped name": {"properties": {"a": {"$ref": "#/$defs/~0%25~1A"}}, "$defs": {"~%/A": STRING}},
    "through another": {
        "properties": {"a": {"$ref": "#/$defs/B"}},
        "$defs": {"A": STRING, "B": {"title": "b", "$ref": "#/$defs/A"}},
    },
    "$anchor": {"properties": {"a": {"$ref": "#here"}}, "$defs": {"A": STRING | {"$anchor": "here"}}},
    "$dynamicRef": {
        "properties": {"a": {"$dynamicRef": "#here"}},
        "$defs": {"A": STRING | {"$dynamicAnchor": "here"}},
    },
    "an anchor before 2019-09": {
        "$schema": DRAFT_7,
        "properties": {"a": {"$ref": "#here"}},
        "definitions": {"A": STRING | {"$id": "#here"}},
    },
    "absolute $id": {
        "$id": "http://example.com/order.json",
        "properties": {"a": {"$ref": "http://example.com/a.json"}},
        "$defs": {"A": STRING | {"$id": "http://example.com/a.json"}},
    },
    "relative $id": {
        "$id": "http://example.com/schemas/order.json",
        "properties": {"a": {"$ref": "../a.json#/$defs/B"}},
        "$defs": {"A": {"$id": "../a.json", "$defs": {"B": STRING}}},
    },
    "within a part with an $id": {
        "$id": "http://example.com/order.json",
        "properties": {"a": {"$ref": "a.json"}},
        "$defs": {"A": {"$id": "a.json", "$ref": "#/$defs/B", "$defs": {"B": STRING}}, "B": INTEGER},
    },
    "id in draft 4": {
        "$schema": DRAFT_4,
        "id": "http://example.com/order.json",
        "properties": {"a": {"$ref": "a.json"}},
        "definitions": {"A": STRING | {"id": "a.json"}},
    },
    "what stands beside it, before 2019-09": {
        "$schema": DRAFT_7,
        "properties": {"a": {"$ref": "#/definitions/A", "maxLength": 3}},
        "definitions": {"A": STRING},
    },
    "the only member": {"properties": {"a": {"allOf": [{"$ref": "#/$defs/A"}]}}, "$defs": {"A": STRING}},
}


@pytest.mark.parametrize("schema", WAYS.values(), ids=WAYS)
def test_a_reference_stands_for_its_target(schema: Schema) -> None:
    other = {"properties": {"a": INTEGER}}
    if "$schema" in schema:
        other |= {"$schema": schema["$schema"]}
    assert types_and_paths(schema, PLAIN) == []
    assert types_and_paths(PLAIN, schema) == []
    assert types_and_paths(other, schema) == CHANGED
    assert types_and_paths(schema, other) == CHANGED


def test_what_stands_beside_a_reference_holds_too_since_2019_09() -> None:
    old = {"properties": {"a": {"$ref": "#/$defs/A", "maxLength": 5}}, "$defs": {"A": STRING}}
    new = {"properties": {"a": {"$ref": "#/$defs/A", "maxLength": 3}}, "$defs": {"A": STRING}}
    assert types_and_paths(new, old) == ["MAX_LENGTH_DECREASED #/properties/a/maxLength"]
    assert types_and_paths(old, new) == []


def test_schemas_are_found_by_the_names_of_their_references() -> None:
    old = resolved({"properties": {"a": {"$ref": "a.json"}}}, {"a.json": resolved(STRING)})
    new = resolved({"properties": {"a": {"$ref": "a.json"}}}, {"a.json": resolved(INTEGER)})
    assert by_name(new, old) == CHANGED
    assert by_name(new, resolved(PLAIN)) == CHANGED
    assert by_name(old, resolved(PLAIN)) == []


@pytest.mark.parametrize("name", ["a.json", "http://example.com/schemas/a.json"])
@pytest.mark.parametrize("reference", ["a.json", "http://example.com/schemas/a.json"])
def test_names_of_references_may_be_relative_to_the_id(name: str, reference: str) -> None:
    schema = {
        "$id": "http://example.com/schemas/order.json",
        "properties": {"a": {"$ref": reference + "#/$defs/A"}},
    }
    assert by_name(resolved(schema, {name: resolved({"$defs": {"A": STRING}})}), resolved(PLAIN)) == []


def test_each_schema_has_names_of_its_own() -> None:
    """Two schemas refer to the same name and mean different versions of it."""
    left = resolved({"properties": {"a": {"$ref": "common"}}}, {"common": resolved(STRING)})
    right = resolved({"properties": {"a": {"$ref": "common"}}}, {"common": resolved(INTEGER)})
    both = resolved({"properties": {"l": {"$ref": "left"}, "r": {"$ref": "right"}}}, {"left": left, "right": right})
    plain = {"properties": {"l": PLAIN, "r": {"properties": {"a": INTEGER}}}}
    assert by_name(both, resolved(plain)) == []
    swapped = resolved(
        {"properties": {"l": {"$ref": "left"}, "r": {"$ref": "right"}}}, {"left": right, "right": left}
    )
    assert len(by_name(swapped, both)) == 2


def test_definitions_of_the_same_name_belong_to_their_own_document() -> None:
    inner = resolved({"$ref": "#/$defs/A", "$defs": {"A": STRING}})
    outer = resolved({"properties": {"a": {"$ref": "inner"}}, "$defs": {"A": INTEGER}}, {"inner": inner})
    assert by_name(outer, resolved(PLAIN)) == []


@pytest.mark.parametrize("reference", ["http://example.com/a", "#/$defs/Nobody", "#nobody", "file:///etc/passwd"])
def test_a_reference_that_leads_nowhere_is_refused(reference: str) -> None:
    with pytest.raises(InvalidSchema) as refused:
        found({"$ref": reference}, STRING)
    assert refused.value.error_code == 42201


# Recursion


def tree(value: Schema, **more: Schema) -> Schema:
    node = {"type": "object", "properties": {"value": value, "next": {"$ref": "#/$defs/Node"}} | more}
    return {"$ref": "#/$defs/Node", "$defs": {"Node": node}}


def test_a_schema_that_contains_itself_is_compared_once() -> None:
    assert types_and_paths(tree(STRING), tree(STRING)) == []
    assert types_and_paths(tree(INTEGER), tree(STRING)) == ["TYPE_CHANGED #/properties/value"]


def test_a_difference_deep_in_a_circle_reaches_the_union_around_it() -> None:
    """The pair on the stack counts as equal at first. That it is not has to be carried back into the union."""

    def schema(last: Schema) -> Schema:
        branch = {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]}
        node = {"type": "object", "properties": {"left": branch, "value": last}}
        return {"properties": {"root": {"$ref": "#/$defs/Node"}}, "$defs": {"Node": node}}

    assert types_and_paths(schema(STRING), schema(STRING)) == []
    expected = "COMBINED_TYPE_SUBSCHEMAS_CHANGED #/properties/root/properties/left"
    assert expected in types_and_paths(schema(INTEGER), schema(STRING))


def test_what_is_found_at_the_end_of_a_long_circle_is_found() -> None:
    def circle(last: Schema) -> Schema:
        nodes = {f"N{place}": {"items": {"$ref": f"#/$defs/N{(place + 1) % 50}"}} for place in range(50)}
        nodes["N49"]["minItems"] = last
        return {"$ref": "#/$defs/N7", "$defs": nodes}

    assert types_and_paths(circle(1), circle(1)) == []
    [finding] = found(circle(2), circle(1))
    assert finding.type == "MIN_ITEMS_INCREASED"
    assert finding.path == "#/" + "items/" * 42 + "minItems"


def test_circles_of_different_length_mean_the_same() -> None:
    short = {"$ref": "#/$defs/A", "$defs": {"A": {"items": {"$ref": "#/$defs/A"}, "minItems": 1}}}
    long = {
        "$ref": "#/$defs/A",
        "$defs": {
            "A": {"items": {"$ref": "#/$defs/B"}, "minItems": 1},
            "B": {"items": {"items": {"$ref": "#/$defs/A"}, "minItems": 1}, "minItems": 1},
        },
    }
    assert types_and_paths(short, long) == []
    assert types_and_paths(long, short) == []
    long["$defs"]["B"]["items"]["minItems"] = 2  # type: ignore[index]
    assert types_and_paths(long, short) == ["MIN_ITEMS_INCREASED #/items/items/minItems"]


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf", "not", "if"])
def test_a_circle_that_says_nothing_is_equal_to_itself_alone(keyword: str) -> None:
    inner: Schema = {"$ref": "#"} if keyword in ("not", "if") else [{"$ref": "#"}, {"minItems": 2}]
    schema = {keyword: inner, "then": {"minItems": 3}} if keyword == "if" else {keyword: inner}
    assert types_and_paths(schema, schema) == []
    assert types_and_paths(schema | {"maxItems": 3}, schema) != []


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
def test_a_circle_that_says_nothing_proves_nothing(keyword: str) -> None:
    """Else a union would read everything because it contains itself."""
    assert types_and_paths({keyword: [{"$ref": "#"}, STRING]}, INTEGER) != []


def test_a_schema_that_is_nothing_but_itself_takes_everything() -> None:
    assert types_and_paths({"$ref": "#"}, STRING) == []
    assert types_and_paths(STRING, {"$ref": "#"}) == ["TYPE_CHANGED #/"]


def test_a_dynamic_reference_with_several_targets_needs_the_same_document() -> None:
    def schema(last: Schema) -> Schema:
        inner = {"$id": "inner", "$dynamicAnchor": "node", "items": {"$dynamicRef": "#node"}, "contains": last}
        return {"$dynamicAnchor": "node", "properties": {"a": {"$ref": "inner"}}, "$defs": {"A": inner}}

    assert types_and_paths(schema(STRING), schema(STRING | {"title": "a"})) == []
    found_types = [each.type for each in found(schema(INTEGER), schema(STRING))]
    assert "DYNAMIC_REF_CHANGED" in found_types


def test_references_that_only_lead_on_end_somewhere() -> None:
    definitions = {f"D{place}": {"$ref": f"#/$defs/D{place + 1}"} for place in range(9_000)}
    schema = {"$ref": "#/$defs/D0", "$defs": definitions | {"D9000": STRING}}
    with pytest.raises(InvalidSchema, match="references lead from one to the next") as refused:
        found(schema, STRING)
    assert refused.value.error_code == 42201
