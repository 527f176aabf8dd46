"""Hostile schemas: deep, circular, wide and costly. The comparison ends, in small pieces, or is refused."""

import json
import sys
from collections.abc import Generator
from typing import Any

import pytest

from goqueue.core.schemas.compatibility.check import FINDINGS_MAX, PATH_MAX, findings
from goqueue.core.schemas.compatibility.comparing.comparison import COMPARISONS_MAX
from goqueue.core.schemas.compatibility.nodes.values import SHOWN_MAX
from goqueue.core.schemas.schema import ResolvedSchema
from goqueue.errors import InvalidSchema
from tests.core.schemas.compatibility.comparing import (
    Schema,
    finished,
    found,
    resolved,
    spaced,
    types_and_paths,
)

STRING, NULL = {"type": "string"}, {"type": "null"}
DEPTH = 60
"""Of schemas; that is a hundred and twenty of JSON."""
FRAMES_MAX = 200
"""Frames of Python that a comparison may need; parsing JSON of depth 128 needs most of them."""
WRAPPINGS: dict[str, Any] = {
    "properties": lambda inner: {"properties": {"a": inner}},
    "items": lambda inner: {"items": inner},
    "allOf": lambda inner: {"allOf": [inner, {"minLength": 1}]},
    "anyOf": lambda inner: {"anyOf": [inner, NULL]},
    "oneOf": lambda inner: {"oneOf": [inner, {"type": "array"}]},
    "not": lambda inner: {"not": inner},
    "if": lambda inner: {"if": inner, "then": {"minLength": 1}},
    "contains": lambda inner: {"contains": inner},
    "dependentSchemas": lambda inner: {"dependentSchemas": {"a": inner}},
    "patternProperties": lambda inner: {"patternProperties": {"a": inner}},
    "unevaluatedProperties": lambda inner: {"unevaluatedProperties": inner, "allOf": [{"minLength": 1}, True]},
}


def nested(keyword: str, innermost: Schema) -> Schema:
    schema = innermost
    for _ in range(DEPTH):
        schema = WRAPPINGS[keyword](schema)
    return schema


def within_few_frames(work: Generator[None, None, Any]) -> Any:
    """Runs it where the stack has little room left."""
    depth, frame = 0, sys._getframe()
    while frame.f_back is not None:
        depth, frame = depth + 1, frame.f_back
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(depth + FRAMES_MAX)
    try:
        return finished(work)[0]
    finally:
        sys.setrecursionlimit(limit)


@pytest.mark.parametrize("keyword", WRAPPINGS)
def test_deep_schemas_need_no_deep_stack(keyword: str) -> None:
    old, new = spaced(nested(keyword, STRING)), spaced(nested(keyword, STRING | {"x": 1}))
    assert within_few_frames(findings(resolved(nested(keyword, STRING)), old)) == []
    assert within_few_frames(findings(new, old))


def test_a_long_chain_of_definitions_needs_no_deep_stack() -> None:
    def chain(last: Schema) -> ResolvedSchema:
        ends = [{"type": "array", "items": {"$ref": f"#/$defs/N{place + 1}"}} for place in range(1_000)]
        nodes = {f"N{place}": {"anyOf": [each, NULL]} for place, each in enumerate(ends)}
        return spaced({"$ref": "#/$defs/N0", "$defs": nodes | {"N1000": last}})

    assert within_few_frames(findings(chain(STRING), resolved(json.loads(chain(STRING).text)))) == []
    assert within_few_frames(findings(chain({"type": "integer"}), chain(STRING)))


def test_unions_that_are_too_wide_to_be_matched_are_refused() -> None:
    old = {"anyOf": [{"const": value} for value in range(2_000)]}
    new = {"anyOf": [{"const": -value} for value in range(2_000)]}
    with pytest.raises(InvalidSchema, match="too involved") as refused:
        found(new, old)
    assert refused.value.error_code == 42201


def test_wide_unions_that_hardly_change_are_compared() -> None:
    members = [{"properties": {"kind": {"const": value}}, "required": ["kind"]} for value in range(500)]
    new = [*members[:250], {"properties": {"kind": {"const": -1}}, "required": ["kind"]}, *members[250:400]]
    assert types_and_paths({"anyOf": [*members, True]}, {"anyOf": members}) == []
    assert types_and_paths({"anyOf": new}, {"anyOf": members[:400]}) == []


def test_the_bound_counts_all_that_a_comparison_does() -> None:
    """Pieces of work, those that find a comparison done before as well."""
    wide = {"properties": {f"p{place}": {"$ref": "#/$defs/A"} for place in range(3_000)}}
    schema = wide | {"$defs": {"A": {"anyOf": [STRING, NULL]}}}
    pieces = finished(findings(resolved(schema), spaced(schema)))[1]
    assert 3_000 <= pieces < COMPARISONS_MAX


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {f"p{place}": STRING for place in range(5_000)}},
        {"required": [f"p{place}" for place in range(10_000)]},
        {"enum": list(range(15_000))},
        {"anyOf": [{"const": place} for place in range(1_000)]},
        {"allOf": [{"minLength": place} for place in range(1_000)]},
        {"$defs": {f"D{place}": {"$anchor": f"a{place}"} for place in range(5_000)}},
        {"prefixItems": [STRING for _ in range(5_000)]},
        {"dependentRequired": {f"p{place}": ["a"] for place in range(5_000)}},
    ],
    ids=lambda schema: next(iter(schema)),
)
def test_wide_schemas_are_compared_in_many_pieces(schema: Schema) -> None:
    size = len(next(iter(schema.values())))
    assert finished(findings(resolved(schema), spaced(schema)))[1] > size / 250


def test_patterns_that_backtrack_without_end_are_not_tried() -> None:
    evil = {"(a+)+$": STRING, "(a|aa)*b": STRING, "^(?=(a+))\\1b": STRING}
    old = {"patternProperties": evil, "properties": {"a" * 100: STRING}, "additionalProperties": False}
    new = {"patternProperties": evil, "properties": {"a" * 100 + "!": STRING}, "additionalProperties": False}
    assert types_and_paths(old, old) == []
    assert [each.type for each in found(new, old)] == [
        "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL",
        "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL",
    ]


@pytest.mark.parametrize(
    "text", ["", "{", '{"maximum": NaN}', '{"maximum": 1e400}', '"string"', "[]", "null", '{"$schema": "mine"}']
)
def test_what_is_no_schema_is_refused(text: str) -> None:
    for schemas in ((ResolvedSchema(text), resolved(STRING)), (resolved(STRING), ResolvedSchema(text))):
        with pytest.raises(InvalidSchema) as refused:
            finished(findings(*schemas))
        assert refused.value.error_code == 42201


@pytest.mark.parametrize("number", ["1e300", "1e-300", "-1e300", "123456789012345678901234567890", "0.1e-200"])
def test_huge_numbers_are_compared(number: str) -> None:
    old = ResolvedSchema(f'{{"multipleOf": {number}, "maximum": {number}, "enum": [{number}]}}')
    new = ResolvedSchema(f'{{"multipleOf": {number}, "maximum": {number}, "enum": [0, {number}]}}')
    assert finished(findings(new, old))[0] == []
    assert [each.type for each in finished(findings(old, new))[0]] == ["ENUM_ARRAY_NARROWED"]
    small = ResolvedSchema('{"multipleOf": 3, "maximum": 0.1, "enum": [0.1]}')
    assert finished(findings(small, old))[0]


def test_keywords_of_another_shape_are_equal_to_themselves_alone() -> None:
    """No metaschema permits them, so they have no meaning."""
    strange = {"type": 5, "properties": [], "enum": {}, "not": 1, "allOf": [], "required": "a", "$ref": 5}
    assert types_and_paths(strange, strange) == []
    for keyword, value in strange.items():
        assert found({keyword: value}, STRING)


def test_findings_are_bounded() -> None:
    old = {"properties": {f"p{place}": {"title": "x" * 10_000} | STRING for place in range(60)}}
    names = [f"{place}" + "n" * 300 for place in range(2_000)]
    assert len(found({"required": names}, {"type": "object"})) == FINDINGS_MAX
    [finding] = found({"enum": ["x" * 10_000]}, old)
    assert len(finding.new) == SHOWN_MAX
    [finding] = found({"required": ["n" * 10_000]}, {"type": "object"})
    assert len(finding.path) <= PATH_MAX + 1
    assert len(finding.help) < PATH_MAX


def test_a_schema_that_refers_to_too_many_others_is_refused() -> None:
    schema = resolved({})
    for _ in range(300):
        schema = resolved({}, {"next": schema})
    with pytest.raises(InvalidSchema, match="more than 256 references") as refused:
        finished(findings(schema, resolved(STRING)))
    assert refused.value.error_code == 42201


def test_a_schema_that_is_referred_to_many_times_is_opened_once() -> None:
    schema = resolved(STRING)
    for _ in range(60):
        schema = resolved({"anyOf": [{"$ref": "l"}, {"$ref": "r"}]}, {"l": schema, "r": schema})
    assert finished(findings(schema, resolved(STRING)))[0] == []
