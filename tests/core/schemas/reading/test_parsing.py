"""A schema's text is bounded before anything costs time that cannot be interrupted."""

import pytest

from goqueue.core.schemas.reading.parsing import CONTAINERS_MAX, MEMBERS_MAX, parsed
from goqueue.core.schemas.text import DEPTH_MAX, finished
from goqueue.errors import InvalidSchema


def read(text: str) -> object:
    return finished(parsed(text))


def refusal(text: str) -> InvalidSchema:
    with pytest.raises(InvalidSchema) as caught:
        read(text)
    assert caught.value.error_code == 42201
    return caught.value


def nested(depth: int) -> str:
    return '{"not":' * depth + "true" + "}" * depth


def test_what_is_json_is_read() -> None:
    assert read('{"type": "string"}') == {"type": "string"}
    assert read("true") is True


@pytest.mark.parametrize("text", ["", "{", '{"a": NaN}', "[1,]", '"\ud800"', '{"a": "\\ud800"}', "\ufeff{}"])
def test_what_is_no_json_is_refused_with_the_place(text: str) -> None:
    assert refusal(text).message.startswith("#: no JSON: ")


def test_brackets_are_counted_before_the_text_is_parsed() -> None:
    """It is no JSON, and nobody finds out."""
    assert "objects and arrays" in refusal("{" * (CONTAINERS_MAX + 1)).message
    assert "values" in refusal("," * (MEMBERS_MAX + 1)).message


def test_a_schema_is_as_deep_as_the_bound_and_no_deeper() -> None:
    read(nested(DEPTH_MAX))
    assert "levels deep" in refusal(nested(DEPTH_MAX + 1)).message


def test_a_wide_schema_is_walked_in_steps() -> None:
    text = "[" + ",".join(["{}"] * 5_000) + "]"
    assert sum(1 for _ in parsed(text)) > 5
