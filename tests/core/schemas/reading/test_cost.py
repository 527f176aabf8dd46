"""What a schema costs at most is known before a value is held to it; what could cost too much is refused."""

from typing import Any

import pytest

from goqueue.core.schemas.reading.cost import (
    DEPTH_MAX,
    DEPTH_MIN,
    LOAD_MAX,
    MATCHING_MAX,
    NESTING_MAX,
    SchemaCost,
    cost_of,
)
from goqueue.core.schemas.reading.documents import Documents
from goqueue.core.schemas.reading.patterns import PatternCost, Patterns
from goqueue.core.schemas.schema import ResolvedSchema
from goqueue.core.schemas.text import finished
from goqueue.errors import InvalidSchema
from tests.core.schemas.given import resolved

ROOT = {"$ref": "#"}
OLD = "http://json-schema.org/draft-07/schema#"


def cost(schema: Any, **references: ResolvedSchema) -> SchemaCost:
    documents, patterns = Documents(), Patterns()
    finished(documents.load(resolved(schema, **references)))
    finished(documents.resolve())
    finished(patterns.measure(documents))
    return finished(cost_of(documents, patterns))


def refusal(schema: Any, **references: ResolvedSchema) -> str:
    with pytest.raises(InvalidSchema) as caught:
        cost(schema, **references)
    assert caught.value.error_code == 42201
    return caught.value.message


def doubling(keyword: str, levels: int) -> Any:
    """Each level names the next one twice."""
    inner = {
        f"a{n}": {keyword: [{"$ref": f"#/$defs/a{n + 1}"}, {"$ref": f"#/$defs/a{n + 1}"}]} for n in range(levels)
    }
    return {"$ref": "#/$defs/a0", "$defs": {**inner, f"a{levels}": {"type": "string"}}}


def test_a_plain_object_costs_little() -> None:
    fields = {f"field{n}": {"type": "string"} for n in range(9)}
    assert cost({"properties": fields}) == SchemaCost(
        load=1, patterns=PatternCost(), depth_max=DEPTH_MAX, is_recursive=False, forks=False
    )


def test_schemas_for_the_same_value_add_up_and_those_for_its_parts_do_not() -> None:
    assert cost({"allOf": [{}, {}], "not": {}}).load == 4
    assert cost({"properties": {"a": {}, "b": {}}}).load == 1
    assert cost({"properties": {"a": {}}, "patternProperties": {"x": {}, "y": {}}}).load == 3
    assert cost({"anyOf": [{"properties": {"a": {}}}, {"properties": {"a": {"allOf": [{}, {}]}}}]}).load == 4


def test_long_lists_of_names_have_their_weight() -> None:
    assert cost({"required": [str(n) for n in range(1_000)]}).load == 101


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
def test_a_schema_that_unfolds_without_bound_is_refused(keyword: str) -> None:
    assert f"{LOAD_MAX:,} schemas" in refusal(doubling(keyword, 20))
    assert cost(doubling(keyword, 10)).load > 1_000


def test_a_schema_that_unfolds_level_by_level_is_refused() -> None:
    named = {f"a{n}": {"allOf": 2 * [{"properties": {"a": {"$ref": f"#/$defs/a{n + 1}"}}}]} for n in range(20)}
    assert "schemas" in refusal({"$ref": "#/$defs/a0", "$defs": {**named, "a20": {}}})


@pytest.mark.parametrize(
    "schema",
    [
        ROOT,
        {"allOf": [ROOT]},
        {"anyOf": [{"type": "string"}, ROOT]},
        {"not": ROOT},
        {"if": True, "then": ROOT},
        {"dependentSchemas": {"a": ROOT}},
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
        {"$dynamicAnchor": "x", "$dynamicRef": "#x"},
        {"$schema": "https://json-schema.org/draft/2019-09/schema", "$recursiveRef": "#"},
    ],
)
def test_a_schema_that_refers_to_itself_for_the_same_value_is_refused(schema: Any) -> None:
    assert "refers to itself" in refusal(schema)


def test_two_references_may_not_refer_to_each_other_for_the_same_value_through_a_dynamic_anchor() -> None:
    inner = resolved({"$id": "http://a.b/i", "$dynamicAnchor": "x", "anyOf": [{"$dynamicRef": "#x"}]})
    assert "refers to itself" in refusal({"$dynamicAnchor": "x", "$ref": "inner.json"}, inner=inner)


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": ROOT}},
        {"items": {"anyOf": [ROOT, {"type": "null"}]}},
        {"additionalProperties": ROOT},
        {"prefixItems": [ROOT]},
        {"contains": ROOT},
        {"$dynamicAnchor": "x", "items": {"$dynamicRef": "#x"}},
    ],
)
def test_a_recursive_schema_has_a_bound_of_depth(schema: Any) -> None:
    found = cost(schema)
    assert found.is_recursive
    assert DEPTH_MIN <= found.depth_max <= NESTING_MAX // 2


def test_many_schemas_in_a_row_for_one_value_are_refused() -> None:
    def chain(length: int) -> Any:
        named = {f"a{n}": {"$ref": f"#/$defs/a{n + 1}"} for n in range(length)}
        return {"$ref": "#/$defs/a0", "$defs": {**named, f"a{length}": {"items": ROOT}}}

    assert cost(chain(50)).depth_max >= DEPTH_MIN
    assert "in a row" in refusal(chain(100))


def test_a_long_way_down_without_a_loop_has_a_bound_of_depth_too() -> None:
    """Sixty in a row for one value, a thousand for the value and its parts."""
    named = {
        f"a{n}": {"items": {"$ref": f"#/$defs/a{n + 1}"}} if n % 50 == 0 else {"$ref": f"#/$defs/a{n + 1}"}
        for n in range(1_500)
    }
    found = cost({"$ref": "#/$defs/a0", "$defs": {**named, "a1500": {}}})
    assert not found.is_recursive
    assert found.depth_max < DEPTH_MAX


@pytest.mark.parametrize(
    ("schema", "forks"),
    [
        ({"properties": {"left": ROOT, "right": ROOT}}, False),
        ({"properties": {"a": ROOT}, "additionalProperties": ROOT}, False),
        ({"prefixItems": [ROOT], "items": ROOT}, False),
        ({"anyOf": [{"properties": {"a": ROOT}}, {"properties": {"a": ROOT}}]}, False),
        ({"allOf": [{"properties": {"a": ROOT}}, {"properties": {"a": ROOT}}]}, True),
        ({"properties": {"a": ROOT}, "patternProperties": {"^a": ROOT}}, True),
        ({"properties": {"a": ROOT}, "allOf": [{"additionalProperties": ROOT}]}, True),
        ({"items": ROOT, "contains": ROOT}, True),
    ],
)
def test_whether_a_value_can_be_sent_round_in_two_ways(schema: Any, *, forks: bool) -> None:
    """Members of unions are not explained, so they do not count."""
    assert cost(schema).forks is forks


def test_each_member_of_a_loop_counts_once_and_what_it_leads_out_to() -> None:
    assert cost({"properties": {"a": ROOT, "b": {"allOf": [{}, {}]}}}).load == 2 + 3


def test_what_stands_beside_a_ref_in_an_old_draft_counts_for_nothing() -> None:
    beside = {"$schema": OLD, "$ref": "#/definitions/a", "definitions": {"a": {}}, "allOf": [{}, {}, {}]}
    assert cost(beside).load == cost({"$ref": "#/$defs/a", "$defs": {"a": {}}}).load


def test_patterns_add_up_where_one_value_meets_them() -> None:
    for pattern in ("^a{1,40}$", "^a+$"):
        one = cost({"pattern": pattern}).patterns
        assert cost({"pattern": pattern, "allOf": [{"pattern": pattern}]}).patterns == one + one
        assert cost({"properties": {"a": {"pattern": pattern}, "b": {"pattern": pattern}}}).patterns == one
        assert cost({"patternProperties": {pattern: {}}}).patterns == one


def test_patterns_that_are_too_large_together_for_one_value_are_refused() -> None:
    many = [{"pattern": f"^[a-z]{{1,900}}{n}$"} for n in range(4)]
    assert f"{MATCHING_MAX:,} bytes of patterns" in refusal({"allOf": many})
    cost({"properties": {str(n): each for n, each in enumerate(many)}})
