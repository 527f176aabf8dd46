"""The parts of the checker that can be told apart from it: matchings, patterns, values, sentences."""

import json
import re
import string
from collections.abc import Generator
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.schemas.compatibility.comparing.comparison import Ask, Comparison, SchemaDifference
from goqueue.core.schemas.compatibility.comparing.matching import matched
from goqueue.core.schemas.compatibility.explanations import SENTENCES, help_with
from goqueue.core.schemas.compatibility.nodes.namepatterns import matches
from goqueue.core.schemas.compatibility.nodes.values import ABSENT, is_multiple, key_of, shown

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)
EDGES = st.sets(st.tuples(st.integers(0, 4), st.integers(0, 4)))


def matching(edges: set[tuple[int, int]]) -> dict[int, int]:
    def fits(member: int, partner: int) -> Generator[Ask | None, Comparison | None, bool]:
        yield None
        return (member, partner) in edges

    work = matched(5, 5, fits)
    while True:
        try:
            next(work)
        except StopIteration as end:
            pairs: dict[int, int] = end.value
            return pairs


@given(EDGES)
def test_a_matching_is_one_to_one_and_the_largest(edges: set[tuple[int, int]]) -> None:
    pairs = matching(edges)
    assert set(pairs.items()) <= edges
    assert len(set(pairs.values())) == len(pairs)
    largest = max(sum((member, each[member]) in edges for member in range(5)) for each in permutations(range(5)))
    assert len(pairs) == largest


PIECES = st.sampled_from(["^", "$", "a", "b", "_", "-", ".", "[ab]", "[^a]", "[0-9]", "\\d", "\\w", "\\.", "(a|b)"])
REPEATS = st.sampled_from(["", "", "", "*", "+", "?", "{2}"])
PATTERNS = st.lists(st.builds(lambda piece, repeat: piece + repeat, PIECES, REPEATS), max_size=5).map("".join)


@given(PATTERNS, st.text("ab_-.1", max_size=8))
def test_a_pattern_matches_as_python_says_or_nobody_knows(pattern: str, name: str) -> None:
    try:
        expected = re.search(pattern, name) is not None
    except re.error:
        assert matches(pattern, name) is None
    else:
        assert matches(pattern, name) in (None, expected)


@pytest.mark.parametrize(
    ("pattern", "name", "is_match"),
    [("^x_", "x_1", True), ("^x_", "ax_", False), ("_id$", "user_id", True), ("^[a-z]+$", "abc", True)],
)
def test_the_patterns_that_people_write_are_known(pattern: str, name: str, is_match: bool) -> None:
    assert matches(pattern, name) is is_match


@pytest.mark.parametrize(
    "pattern", ["(a+)+$", "(a|aa)*", "(?=a)", "(a)\\1", "\\p{L}", "[[:alpha:]]", "a&&b", "(", "\\", "ä", "a" * 300]
)
def test_a_pattern_that_is_costly_or_not_the_same_in_all_dialects_is_not_tried(pattern: str) -> None:
    assert matches(pattern, "aaaa") is None


@pytest.mark.parametrize("name", ["é", "a\n", "a" * 300])
def test_an_unusual_name_is_not_tried(name: str) -> None:
    assert matches("^a", name) is None


def test_repetitions_are_not_tried_on_long_names() -> None:
    assert matches("a*b*c*d*", "a" * 200) is None
    assert matches("^a*", "a" * 200) is True


@given(VALUES, VALUES)
def test_values_have_the_same_key_when_they_are_equal_in_json(one: Any, other: Any) -> None:
    assert (key_of(one) == key_of(other)) == is_equal_in_json(one, other)


def is_equal_in_json(one: Any, other: Any) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_equal_in_json, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(is_equal_in_json(one[name], other[name]) for name in one)
    return bool(one == other)


@pytest.mark.parametrize(
    ("one", "other"), [("1", "1.0"), ("100", "1e2"), ("0.1", "0.10"), ("-0", "0.0"), ("[1.5e30]", "[15e29]")]
)
def test_numbers_are_equal_however_they_are_written(one: str, other: str) -> None:
    assert key_of(json.loads(one)) == key_of(json.loads(other))


@pytest.mark.parametrize(
    ("number", "of", "expected"),
    [
        ("0.3", "0.1", True),
        ("0.35", "0.1", False),
        ("6", "4", False),
        ("1e300", "3", False),
        ("1e300", "10", True),
    ],
)
def test_decimal_fractions_are_exact(number: str, of: str, expected: bool) -> None:
    assert is_multiple(json.loads(number), json.loads(of)) is expected


def test_values_are_shown_as_short_json() -> None:
    assert shown(ABSENT) == ""
    assert shown({"a": [1, "ü", None]}) == '{"a": [1, "ü", null]}'
    assert shown(json.loads("0.1")) == "0.1"
    assert shown(["x" * 1_000])[-2:] == "x…"


@pytest.mark.parametrize("type_", SENTENCES)
def test_a_sentence_says_what_helps(type_: str) -> None:
    text = help_with(SchemaDifference(type_, ("properties", "a{b}"), ABSENT, ABSENT, True))
    assert text.endswith(".")
    assert "{name}" not in text
    assert text[0] in string.ascii_uppercase
