"""Values that are JSON, and what is said of those that are not."""

import math
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.records.jsonvalue import json_bytes, value_of_json
from goqueue.errors import InvalidMessage

SOUND_TEXT = st.text(st.characters(exclude_categories=["Cs"]))
SOUND = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | SOUND_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(SOUND_TEXT, inner, max_size=4),
    max_leaves=20,
)


@given(SOUND)
def test_what_is_written_is_read_again(value: Any) -> None:
    assert value_of_json(json_bytes(value)) == value


def test_json_is_compact_utf_8_with_its_keys_in_order() -> None:
    assert json_bytes({"b": [1, 2.5, None], "a": "grün"}) == '{"b":[1,2.5,null],"a":"grün"}'.encode()


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


ITSELF: list[Any] = []
ITSELF.append(ITSELF)


@pytest.mark.parametrize(
    "value",
    [math.nan, math.inf, -math.inf, [math.nan], b"bytes", {1, 2}, {(1, 2): 3}, "\ud800", ITSELF, nested(100_000)],
    ids=["nan", "inf", "-inf", "inner nan", "bytes", "a set", "a tuple as key", "a surrogate", "itself", "deep"],
)
def test_a_value_that_is_no_json_is_refused(value: object) -> None:
    with pytest.raises(InvalidMessage, match="cannot be written as JSON: "):
        json_bytes(value)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"secret",
        b'{"secret":',
        b"\xff",
        b"NaN",
        b"[Infinity]",
        b"[" * 100_000,
        b"9" * 5_000,
        b"\xef\xbb\xbf{}",
    ],
    ids=["nothing", "a word", "cut", "no UTF-8", "NaN", "Infinity", "deep", "a huge number", "a byte order mark"],
)
def test_data_that_is_no_json_is_refused_without_a_word_of_it(data: bytes) -> None:
    with pytest.raises(ValueError, match=r".") as refused:
        value_of_json(data)
    assert "secret" not in str(refused.value)
    assert refused.value.__context__ is None


@given(st.binary(max_size=40))
def test_no_bytes_make_it_fail_in_another_way(data: bytes) -> None:
    with suppress(ValueError):
        value_of_json(data)
