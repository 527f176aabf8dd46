"""Patterns are for a linear engine, and no larger than it can compile at once."""

from typing import Any

import pytest

from goqueue.core.schemas.reading.documents import Documents
from goqueue.core.schemas.reading.patterns import PATTERN_SIZE_MAX, Patterns, is_tied
from goqueue.core.schemas.text import finished
from goqueue.errors import InvalidSchema
from tests.core.schemas.given import resolved


def measured(schema: Any) -> tuple[Patterns, Documents]:
    documents, sizes = Documents(), Patterns()
    finished(documents.load(resolved(schema)))
    finished(sizes.measure(documents))
    return sizes, documents


def refusal(schema: Any) -> str:
    with pytest.raises(InvalidSchema) as caught:
        measured(schema)
    assert caught.value.error_code == 42201
    return caught.value.message


@pytest.mark.parametrize(
    "pattern", ["(?=a)b", "(?!a)", "(?<=a)b", r"(a)\1", "(", "[", "a{2,1}", "*", r"\p{Nothing}"]
)
def test_a_pattern_that_the_engine_does_not_take_is_refused_with_its_path(pattern: str) -> None:
    message = refusal({"properties": {"a": {"pattern": pattern}}})
    assert message.startswith(f"#/properties/a/pattern: the pattern {pattern} is not for a linear engine")
    assert refusal({"patternProperties": {pattern: True}}).startswith("#/patternProperties: ")


@pytest.mark.parametrize("pattern", ["(a{1000}){1000}", r"\p{L}{1,2000}"])
def test_a_pattern_that_would_be_huge_is_refused(pattern: str) -> None:
    assert f"{PATTERN_SIZE_MAX:,} bytes" in refusal({"pattern": pattern})


def test_many_patterns_are_refused_that_take_long_to_compile_together() -> None:
    large = {str(n): {"pattern": rf"\p{{L}}{{1,3}}{n}"} for n in range(50)}
    assert "its patterns" in refusal({"properties": large})
    long = {str(n): {"pattern": "|".join(str(n * each) for each in range(4_000))} for n in range(1, 6)}
    assert "its patterns" in refusal({"properties": long})


@pytest.mark.parametrize("pattern", ["", "^a+$", "^(a+)+$", r"^\d{4}-\d\d$", r"^[^@\s]+@[^@\s]+\.[a-z]{2,}$"])
def test_usual_patterns_are_small(pattern: str) -> None:
    sizes, documents = measured({"pattern": pattern})
    [place] = documents.places
    cost = sizes.cost_at(place)
    assert cost.reading_on + cost.tied <= 8_192


def test_each_pattern_is_compiled_once() -> None:
    _, documents = measured({"properties": {str(n): {"pattern": "^a$"} for n in range(1_000)}})
    sizes = Patterns()
    assert sum(1 for _ in sizes.measure(documents)) == 1


def test_a_pattern_that_is_no_text_is_left_to_the_metaschema() -> None:
    measured({"pattern": 5, "patternProperties": []})


@pytest.mark.parametrize(
    "pattern",
    [
        "^",
        "^a$",
        "^[0-9a-f]{8}-[0-9a-f]{4}$",
        r"^\d{4}-\d\d$",
        "^(ab){1,3}$",
        "^(?:a)?b",
        r"^a\+\*\|$",
        "^[*+|{1,}]$",
    ],
)
def test_a_pattern_that_is_done_after_some_characters_is_known(pattern: str) -> None:
    assert is_tied(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "a$",
        "^a+",
        "^a*",
        "^a|b",
        "^(a|b)",
        "^a{3,}",
        "(^a)",
        "(?m)^a",
        "^(?m:^a)",
        "^(?i)a",
        r"\^a",
        r"^\\+",
        "^[]*]",
    ],
)
def test_in_doubt_a_pattern_reads_a_text_to_its_end(pattern: str) -> None:
    assert not is_tied(pattern)
