"""Reading the text of a schema strictly, and when two are the same."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.schemas.schema import Schema
from goqueue.core.schemas.text import (
    DEPTH_MAX,
    EXTRAS_SIZE_MAX,
    NODES_MAX,
    TEXT_SIZE_MAX,
    SchemaContent,
    read_schema,
    reading,
)
from goqueue.errors import InvalidSchema

FLOATS = st.floats(allow_nan=False, allow_infinity=False).filter(lambda each: not 0 < abs(each) < 1e-300)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | FLOATS.filter(lambda x: abs(x) < 1e300)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=20,
)


def content(text: str) -> SchemaContent:
    return read_schema(Schema(text))


def refusal_of(text: str, **others: Any) -> InvalidSchema:
    with pytest.raises(InvalidSchema) as refused:
        read_schema(Schema(text, **others))
    return refused.value


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no JSON"),
        ("{", "no JSON"),
        ("{}x", "no JSON"),
        ('{"a":1,}', "no JSON"),
        ('{"a":NaN}', "NaN"),
        ('{"a":-Infinity}', "Infinity"),
        ('{"a":1,"b":2,"a":3}', "names its member 'a' twice"),
        ('{"b":[{"a":1,"a":1}]}', "twice"),
        (r'{"a":1,"\u0061":2}', "twice"),
        (r'{"a":"\ud800"}', "surrogate"),
        (r'{"a":"\udc00\ud800"}', "surrogate"),
        (r'{"\uDBff":1}', "surrogate"),
        ('{"a":"\ud800"}', "surrogate"),
        ('{"a":1e999}', "too large"),
        ('{"a":1e-999}', "too small"),
        ('{"a":1e99999999999999999999}', "exponent"),
        ('{"a":' + "9" * 5_000 + "}", "digits"),
        ("[" * 100_000, "values"),
        ("[" * 2_000 + "]" * 2_000, "deep"),
        ('{"a":' * DEPTH_MAX + "[1]" + "}" * DEPTH_MAX, "deep"),
        (json.dumps({"enum": list(range(NODES_MAX))}), "values"),
        (json.dumps({"enum": list(range(100_000))}), "values"),
        (json.dumps([{} for _ in range(NODES_MAX)]), "values"),
    ],
)
def test_what_readers_would_not_agree_on_is_refused(text: str, why: str) -> None:
    error = refusal_of(text)
    assert error.error_code == 42201
    assert why in error.message


@pytest.mark.parametrize(
    "text",
    [
        "true",
        r'{"a":"\ud83d\ude00"}',
        r'{"a":"\\ud800"}',
        r'{"a":"\\\\ud800"}',
        '{"a":"' + ",[{" * 100_000 + '"}',
        '{"a":' * (DEPTH_MAX - 1) + "[1]" + "}" * (DEPTH_MAX - 1),
        json.dumps({"enum": list(range(NODES_MAX - 2))}),
        '{"a":0e0,"b":-0.0,"c":1.5e300}',
    ],
)
def test_what_is_within_the_bounds_can_be_read(text: str) -> None:
    assert content(text).schema.text == text


def test_a_text_has_a_size() -> None:
    assert refusal_of(f'"{"x" * TEXT_SIZE_MAX}"').error_code == 42209
    assert refusal_of(f'"{"é" * (TEXT_SIZE_MAX // 2)}"').error_code == 42209
    large = json.dumps({"a": "x" * EXTRAS_SIZE_MAX})
    assert refusal_of("{}", metadata=large).error_code == 42209
    assert refusal_of("{}", rule_set=large).error_code == 42209


def test_metadata_and_rule_sets_are_objects() -> None:
    for bad in ("[]", "1", "x"):
        assert refusal_of("{}", metadata=bad).error_code == 42201
        assert refusal_of("{}", rule_set=bad).error_code == 42201


def test_long_texts_are_read_in_steps() -> None:
    assert len(list(reading(Schema(json.dumps({"description": "x" * 1_000_000}))))) >= 4


@given(JSON)
def test_white_space_and_escapes_do_not_count(value: Any) -> None:
    plain = content(json.dumps(value, ensure_ascii=False))
    for other in (json.dumps(value, indent=3), json.dumps(value, separators=(",", ":"))):
        assert content(other).digest == plain.digest
        assert content(other).guid == plain.guid


@given(JSON, JSON)
def test_schemas_are_the_same_just_if_their_json_is_equal(one: Any, other: Any) -> None:
    first, second = content(json.dumps(one)), content(json.dumps(other))
    assert (first.digest == second.digest) == (_ordered(one) == _ordered(other))
    assert (first.normal == second.normal) == (_sorted(one) == _sorted(other))


def _ordered(value: Any) -> Any:
    """A form that is equal only for equal JSON with members in the same order."""
    if isinstance(value, dict):
        return ("object", [(name, _ordered(each)) for name, each in value.items()])
    if isinstance(value, list):
        return ("array", [_ordered(each) for each in value])
    return (type(value) if isinstance(value, bool) or value is None else "number or text", value)


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return ("object", sorted((name, _sorted(each)) for name, each in value.items()))
    if isinstance(value, list):
        return ("array", [_sorted(each) for each in value])
    return _ordered(value)


@pytest.mark.parametrize(
    ("one", "other"), [("1", "1.0"), ("100", "1e2"), ("0", "-0"), ("0.5", "5e-1"), ('"é"', r'"\u00e9"')]
)
def test_numbers_and_characters_are_the_same_however_they_are_written(one: str, other: str) -> None:
    assert content(one).digest == content(other).digest


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1", '"1"'),
        ("1", "true"),
        ("0", "false"),
        ("null", '"null"'),
        ("0.1", "0.10000000000000000001"),
        ("9007199254740993", "9007199254740992"),
        ('{"a":1,"b":2}', '{"b":2,"a":1}'),
        ("[1,2]", "[2,1]"),
        ("[]", "{}"),
    ],
)
def test_others_are_not(one: str, other: str) -> None:
    assert content(one).digest != content(other).digest


def test_what_belongs_to_the_schema_counts() -> None:
    digests = {
        read_schema(Schema("{}", metadata=metadata, rule_set=rule_set)).digest
        for metadata in (None, "{}", '{"a":1}')
        for rule_set in (None, "{}", '{"a":1}')
    }
    assert len(digests) == 9


def test_a_guid_is_the_same_on_every_node() -> None:
    """It is part of what clients have stored."""
    assert str(content('{"type":"string"}').guid) == str(content('{ "type": "string" }').guid)
    assert (content("{}").guid.version, content("{}").guid.variant) == (8, "specified in RFC 4122")
    assert str(content("{}").guid) == "c5a61a44-6ad5-838d-bd5a-79f4b2670ffb"
