"""Messages that are known to fit at once: whatever stands beside them in a block, none that does not fit."""

import json
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.spark.json.arrow import PIECE_MIN, SIZE_MAX, ArrowReading, can_be_at_once
from goqueue.spark.json.columns import type_of
from goqueue.spark.json.types import record_of
from goqueue.spark.schema import arrow_schema
from tests.spark.json.model import fits

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["id", "at", "note"],
    "properties": {
        "id": {"type": "integer"},
        "at": {"type": "string", "format": "date-time"},
        "note": {"type": ["string", "null"]},
        "day": {"type": "string", "format": "date"},
        "price": {"type": ["number", "null"]},
        "paid": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "lines": {
            "type": "array",
            "items": {"type": "object", "required": ["sku"], "properties": {"sku": {"type": "string"}}},
        },
        "maybe": {"type": ["array", "null"], "items": {"type": ["number", "null"]}},
        "address": {
            "type": "object",
            "required": ["street", "no"],
            "additionalProperties": False,
            "properties": {"street": {"type": "string"}, "no": {"type": ["integer", "null"]}},
        },
    },
}
"""Without limits, which are asked for later."""
PLAIN = b'{"id": 1, "at": "2026-11-17T10:00:00Z", "note": "n"}'
TEXTS = [
    "0", "-1", "1.0", "1e3", "-0.5", "9223372036854775807", "9223372036854775808", "1e400", "1e-400", "null",
    "true", "false", '""', '"a"', '"null"', '"12"', '"NaN"', "[]", "{}", "NaN", "Infinity", "-Infinity", "Inf",
    "nan", "01",
    '"2026-11-17"', '"2026-02-30"', '"2026-1-5"', '"0000-01-01"', '"0999-01-01"', '"2026-11-17T10:00:00Z"',
    '"2026-11-17T24:00:00Z"', '"2026-11-17 10:00:00Z"', '"2026-11-17T10:00Z"', '"2026-11-17T10:00:00"',
    '"2026-11-17T10:00:00.123456+02:00"', '"2026-11-17T10:00:00.1234567Z"', '"2026-11-17T10:00:60Z"',
    '"2026-11-17T10:00:00.5-19:00"', '"2026-11-17T10:00:00+18:00"', '"2026-02-30T10:00:00Z"', '"\\u0041"',
    '"\\ud800"', '"\U0001f600"', '{"street": "x"}', '{"street": "x", "no": null}', '{"street": "x", "no": 1}',
    '{"street": "x", "no": 1, "more": 1}', '{"street": "x", "no": 1, "more": null}', '{"street": null, "no": 1}',
    '[{"sku": "a"}, {"sku": "b", "more": [1]}]', '[{"sku": 1}]', "[{}]", "[null]", '["a", null]', '["a", "b"]',
    '["a", 1]', "[1, 2.5, null]", "[NaN]", '{"a": NaN}', "'a'", "", '{"a": 1, "a": 2}', '{"a": 1} {', "1}{",
    '"a"}\n{"id": 2', '"\t"', "1 /* */",
]  # fmt: skip
WHOLE = [
    b"", b" ", b"{", b"}", b"{}", b"[]", b"null", b"12", b'"x"', b"\xff\xfe", b"{\xff}", PLAIN + PLAIN,
    PLAIN + b"x", PLAIN + b"\n" + PLAIN, PLAIN + b"\r" + PLAIN, PLAIN + b"\n", b" " + PLAIN,
    b"\xef\xbb\xbf" + PLAIN, None,
    PLAIN[:-1], PLAIN[1:], b'{"id": "\xff"}', b'{"at": "}', b'{": "}', PLAIN.replace(b"n\"", b"\xed\xa0\x80\""),
    PLAIN[:-1] + b', "x": ' + b"[" * 2_000 + b"]" * 2_000 + b"}", PLAIN[:-1] + b', "x": ' + b"1" * 2_000 + b"}",
    b'{"id": 1, "at": "2026-11-17T10:00:00Z"}', b'{"id": 1, "at": "2026-11-17T10:00:00Z", "x": {"note": null}}',
    b'{"id": 1, "at": "2026-11-17T10:00:00Z", "\\u006eote": null}',
    PLAIN[:-1] + b', "p\\u0061id": null}', PLAIN.replace(b"1", b"1" * SIZE_MAX, 1),
]  # fmt: skip


def known(values: list[bytes | None], schema: dict[str, Any] = SCHEMA) -> list[dict[str, Any] | None]:
    record = record_of(schema)
    kind = arrow_schema(type_of(record))  # type: ignore[arg-type]
    found: list[Any] = ArrowReading(record, pa.struct(list(kind))).read(pa.array(values, pa.binary())).to_pylist()
    assert len(found) == len(values)
    return found


def document(fields: dict[str, str]) -> bytes:
    return ("{" + ", ".join(f"{json.dumps(name)}: {text}" for name, text in fields.items()) + "}").encode()


def documents() -> st.SearchStrategy[bytes | None]:
    names = st.sampled_from([*SCHEMA["properties"], "unknown", "other"])
    fields = st.dictionaries(names, st.sampled_from(TEXTS), max_size=4)
    whole = json.loads(PLAIN)
    plain = {name: json.dumps(value) for name, value in whole.items()}
    made = st.builds(lambda drawn, kept: document({**{name: plain[name] for name in kept}, **drawn}), fields,
                     st.sampled_from([list(plain)] * 5 + [["id"], ["at", "id"], []]))  # fmt: skip
    return st.one_of(made, st.just(PLAIN), st.sampled_from(WHOLE))


def value_of(name: str, text: Any) -> Any:
    if text is None:
        return None
    if name == "at":
        return datetime.fromisoformat(text).astimezone(UTC)
    if name == "day":
        return date.fromisoformat(text)
    if name == "price":
        return float(text)
    if name == "maybe":
        return [None if each is None else float(each) for each in text]
    if name == "lines":
        return [{"sku": each["sku"]} for each in text]
    return text


@given(st.lists(documents(), max_size=20))
def test_what_is_known_to_fit_fits_and_has_its_values(values: list[bytes | None]) -> None:
    for value, found in zip(values, known(values), strict=True):
        if found is not None:
            assert fits(SCHEMA, value), value
            assert value is not None
            given_ = json.loads(value)
            assert found == {name: value_of(name, given_.get(name)) for name in SCHEMA["properties"]}


@pytest.mark.parametrize("name", [*SCHEMA["properties"], "unknown"])
@pytest.mark.parametrize("text", TEXTS)
def test_a_single_field_is_never_taken_for_what_it_is_not(name: str, text: str) -> None:
    plain = {key: json.dumps(value) for key, value in json.loads(PLAIN).items()}
    value = document({**plain, name: text})
    [found] = known([value])
    assert found is None or fits(SCHEMA, value)


def test_whole_messages_are_never_taken_for_what_they_are_not() -> None:
    for value in WHOLE:
        [found] = known([value])
        assert found is None or fits(SCHEMA, value), value


def test_most_messages_are_known() -> None:
    """Else all would be right, and slow."""
    more = [
        b'{"at": "2026-11-17T10:00:00+02:00", "note": null, "id": 2}',
        b'{"note":"","id":3,"at":"2026-11-17T10:00:00.123Z","day":"2026-02-28","price":1,"paid":true}',
        b'{"id": 4, "at": "2026-11-17T10:00:00Z", "note": "null", "price": null, "tags": ["a"], "maybe": null}',
        b'{"id": 5, "at": "2026-11-17T10:00:00Z", "note": "n", "lines": [{"sku": "x", "more": 1}], "other": {}}',
        b'{"id": 6, "at": "2026-11-17T10:00:00Z", "note": "n", "address": {"no": 3, "street": "\\u00e9"}}',
        b' \r\n{"id": 7, "at": "2026-11-17T10:00:00Z", "note": "n"}\n',
    ]
    found = known([PLAIN, *more])
    assert all(each is not None for each in found)
    assert [each and each["id"] for each in found] == [1, 2, 3, 4, 5, 6, 7]


def test_a_bad_message_takes_few_of_its_neighbours_along() -> None:
    many: list[bytes | None] = [PLAIN] * 5_000
    for number in (0, 2_345, 4_999):
        many[number] = PLAIN.replace(b"1", b'"one"', 1)
    found = known(many)
    assert sum(each is None for each in found) <= 3 * PIECE_MIN
    assert found[1_000] == found[3_000] is not None


def test_what_is_no_json_by_its_looks_takes_nobody_along() -> None:
    found = known([PLAIN, b"no", PLAIN, None, PLAIN, b"{\xff}", PLAIN])
    assert [each is not None for each in found] == [True, False, True, False, True, False, True]


@pytest.mark.parametrize(
    "inner",
    [
        {"type": "object"},
        {},
        {"type": "object", "additionalProperties": {"type": "integer"}},
        {"type": "string", "format": "date", "minLength": 3},
        {"type": "array", "items": {"type": "integer", "minimum": 0}},
        {"type": "array", "items": {}},
    ],
)
def test_schemas_of_which_it_does_not_know_enough_are_walked(inner: dict[str, Any]) -> None:
    assert not can_be_at_once(record_of({"type": "object", "properties": {"a": inner}}))
