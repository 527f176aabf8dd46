"""Which messages of a batch are refused: what is held to which schema, and what is held to none."""

from collections.abc import Mapping
from typing import Any

import pytest

from goqueue.core.records.record import Flag, encode_record
from goqueue.core.schemas.schema import SchemaType
from goqueue.core.schemas.text import finished
from goqueue.core.schemas.validation.bounds import CONTAINERS_MAX, VALUE_BYTES
from goqueue.core.schemas.validation.judging import SchemaJudgement, SchemaVerdict
from goqueue.core.schemas.validation.topicschemas import TopicSchemas
from goqueue.errors import InvalidMessage, SchemaRefused, TooLarge
from goqueue.net.wire.failures import NOTE_SIZE_MAX
from goqueue.types import Buffer
from tests.core.schemas.given import guid_of, prefixed, subject, topic, with_guid

TIME = 1_700_000_000_000_000
STRING, INTEGER, OBJECT = {"type": "string"}, {"type": "integer"}, {"type": "object", "required": ["id"]}
NEWEST = topic(subject(STRING, INTEGER))
"""Version 1 with id 101 is for text, version 2 with id 102 for numbers."""
RULES = '{"encodingRules": [{"name": "encrypt", "type": "ENCRYPT_PAYLOAD"}]}'


def record(value: bytes, number: int = 0, **others: Any) -> bytes:
    return encode_record(number, TIME, value, **others)


def verdict(schemas: TopicSchemas, records: Buffer, count: int = 1, **bounds: int) -> SchemaVerdict:
    return finished(SchemaJudgement(schemas, **bounds).verdict(records, count))


def fault(
    schemas: TopicSchemas, value: bytes, *, value_bytes_max: int = VALUE_BYTES, **others: Any
) -> InvalidMessage | None:
    found = verdict(schemas, record(value, **others), value_bytes_max=value_bytes_max)
    return found.bad[0].error if found.bad else None


def refusal(schemas: TopicSchemas, value: bytes, **others: Any) -> str:
    error = fault(schemas, value, **others)
    assert isinstance(error, SchemaRefused)
    return error.message


# Which schema


@pytest.mark.parametrize(
    ("value", "headers"),
    [
        (b"5", None),
        (b"5", {"trace": b"x"}),
        (b'"x"', {"schema-id": b"101"}),
        (b"5", {"schema-id": b"102"}),
        (b'"x"', {"schema-id": b"0101"}),
        (prefixed(101, b'"x"'), None),
        (prefixed(102, b"5"), None),
        (with_guid(1) + b'"x"', None),
        (b'"x"', {"__value_schema_id": with_guid(1)}),
        (b"5", {"__value_schema_id": with_guid(2)}),
        (b'"x"', {"__value_schema_id": prefixed(101, b"")}),
        (prefixed(101, b'"x"'), {"schema-id": b"101"}),
        (prefixed(101, b'"x"'), {"__value_schema_id": with_guid(1)}),
        (b'"x"', {"schema-id": b"101", "__value_schema_id": with_guid(2)}),
        (b"5", {"__key_schema_id": with_guid(1)}),
    ],
)
def test_a_value_is_held_to_the_newest_schema_or_to_the_one_that_it_names(
    value: bytes, headers: Mapping[str, bytes] | None
) -> None:
    assert fault(NEWEST, value, headers=headers) is None


@pytest.mark.parametrize(
    ("value", "headers", "why"),
    [
        (b'"x"', None, '$: type "integer"; subject orders-value, version 2'),
        (b"5", {"schema-id": b"101"}, '$: type "string"; subject orders-value, version 1'),
        (prefixed(101, b"5"), None, '$: type "string"; subject orders-value, version 1'),
        (b"5", {"__value_schema_id": with_guid(1)}, '$: type "string"; subject orders-value, version 1'),
        (b"5", {"schema-id": b"103"}, "$: schema 103 is not one of this subject; subject orders-value"),
        (prefixed(7, b"5"), None, "$: schema 7 is not one of this subject; subject orders-value"),
        (with_guid(3) + b"5", None, f"$: schema {guid_of(3)} is not one of this subject; subject orders-value"),
        (b"5", {"schema-id": b""}, "$: header schema-id is no decimal number; subject orders-value"),
        (b"5", {"schema-id": b"-1"}, "$: header schema-id is no decimal number; subject orders-value"),
        (b"5", {"schema-id": b"1e2"}, "$: header schema-id is no decimal number; subject orders-value"),
        (b"5", {"schema-id": "１０２".encode()}, "$: header schema-id is no decimal number; subject orders-value"),
        (b"5", {"schema-id": b"9" * 60_000}, "$: header schema-id is no decimal number; subject orders-value"),
        (b"\x00", None, "$: the prefix is no schema id"),
        (b"\x00\x00\x00\x00", None, "$: the prefix is no schema id"),
        (b"\x01" + bytes(15), None, "$: the prefix is no schema id"),
        (b"5", {"__value_schema_id": b""}, "$: header __value_schema_id is no schema id"),
        (b"5", {"__value_schema_id": b"102"}, "$: header __value_schema_id is no schema id"),
        (
            b"5",
            {"__value_schema_id": with_guid(2) + b"x"},
            "$: header __value_schema_id has 18 bytes instead of 17",
        ),
        (prefixed(102, b"5"), {"schema-id": b"101"}, "$: the header and the prefix name different schemas"),
        (prefixed(102, b""), None, "$: no JSON, "),
        (prefixed(102, prefixed(102, b"5")), None, "$: no JSON, "),
    ],
)
def test_what_does_not_fit_or_names_no_schema_is_refused(
    value: bytes, headers: Mapping[str, bytes] | None, why: str
) -> None:
    assert refusal(NEWEST, value, headers=headers).startswith(why)


def test_a_tombstone_is_held_to_nothing() -> None:
    assert fault(NEWEST, b"", key=b"k", flags=Flag.TOMBSTONE) is None


def test_a_delayed_message_is_held_to_its_schema_when_it_is_published() -> None:
    assert refusal(NEWEST, b'"x"', due=TIME)
    assert fault(NEWEST, b"5", due=TIME) is None
    assert fault(NEWEST, b'"x"', due=TIME, headers={"schema-id": b"101"}) is None


def test_keys_have_schemas_of_their_own() -> None:
    keys = topic(subject(INTEGER), subject(STRING, OBJECT, name="orders-key"))
    assert fault(keys, b"5", key=b'{"id": 1}') is None
    assert fault(keys, b"5", key=prefixed(101, b'"x"')) is None
    assert fault(keys, b"5", key=b'"x"', headers={"__key_schema_id": with_guid(1)}) is None
    assert refusal(keys, b"5", key=b"plain") == (
        "$: no JSON, unexpected character, expected a JSON value at character 0; subject orders-key, version 2"
    )
    assert refusal(keys, b"5", key=b"{}") == '$: required "id"; subject orders-key, version 2'
    assert refusal(keys, b"", key=b"{}", flags=Flag.TOMBSTONE), "a tombstone has a key"
    assert fault(keys, b"5") is None, "a message without a key has none to be held to it"
    assert refusal(keys, b'"x"', key=b'{"id": 1}') == '$: type "integer"; subject orders-value, version 1'


def test_the_header_of_values_names_no_schema_of_keys() -> None:
    keys = topic(None, subject(STRING, INTEGER, name="orders-key"))
    assert fault(keys, b"anything", key=b"5", headers={"schema-id": b"101"}) is None


def test_values_need_no_schema_where_only_keys_have_one() -> None:
    keys = topic(None, subject(STRING, name="orders-key"))
    assert fault(keys, b"\x00 no JSON", key=b'"x"') is None
    assert verdict(keys, record(b"x")).judged == 0


def test_a_subject_without_versions_holds_nothing() -> None:
    assert fault(topic(subject()), b"no JSON") is None


# What is not validated


@pytest.mark.parametrize("value", [b"no JSON", b"\x00", b"\x00\x01\x02", b"\x01", prefixed(7, b"x"), b""])
def test_values_of_an_avro_schema_are_held_to_nothing(value: bytes) -> None:
    avro = topic(subject('"string"', types=[SchemaType.AVRO]))
    assert fault(avro, value) is None
    assert verdict(avro, record(value)).judged == 0


def test_values_of_a_schema_with_encoding_rules_are_held_to_nothing() -> None:
    encrypted = topic(subject(STRING, INTEGER, rule_set=RULES))
    for value in (b"cipher text", prefixed(102, b"cipher text"), b"\x00cipher", b"\x01", b"x"):
        assert fault(encrypted, value) is None
        assert fault(encrypted, value, headers={"schema-id": b"102"}) is None
    assert refusal(encrypted, prefixed(101, b"5")), "an earlier version without rules"
    assert refusal(encrypted, b"5", headers={"schema-id": b"101"})
    assert refusal(encrypted, b"5", headers={"schema-id": b"7"})


@pytest.mark.parametrize("rule_set", ['{"domainRules": [{}]}', '{"encodingRules": []}', "{}", "no JSON", "[]"])
def test_other_rules_change_nothing(rule_set: str) -> None:
    assert refusal(topic(subject(INTEGER, rule_set=rule_set)), b'"x"')


# What JSON is


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b" ",
        b"NaN",
        b"Infinity",
        b"-Infinity",
        b"1e400",
        b'"\\ud800"',
        b'"\\udc00\\ud800"',
        b'"\xff"',
        b"\xef\xbb\xbf1",
        b"{'a': 1}",
        b"[1,]",
        b"1 2",
        b"01",
        b'{"a": 1',
        b"[" * 1_025 + b"]" * 1_025,
        b"tru",
        b'"\x00"',
    ],
)
def test_what_is_no_json_is_refused(value: bytes) -> None:
    assert refusal(topic(subject(True)), value).startswith("$: no JSON, ")


@pytest.mark.parametrize(
    "value", [b"1", b" [1, 2]\n", b'"\\ud83d\\ude00"', b"1e300", b"-0", b"[" * 1_024 + b"]" * 1_024]
)
def test_what_is_json_is_taken(value: bytes) -> None:
    assert fault(topic(subject(True)), value) is None


def test_the_last_of_two_members_of_a_name_counts() -> None:
    schemas = topic(subject({"properties": {"a": INTEGER}}))
    assert fault(schemas, b'{"a": "x", "a": 1}') is None
    assert refusal(schemas, b'{"a": 1, "a": "x"}')


def test_integers_that_no_machine_word_holds_are_numbers() -> None:
    assert fault(topic(subject(INTEGER)), b"123456789012345678901234567890") is None
    assert refusal(topic(subject({"maximum": 5})), b"123456789012345678901234567890")


# Bounds


def test_a_value_above_the_bound_in_bytes_is_too_large() -> None:
    error = fault(topic(subject(STRING)), b'"%s"' % bytes(VALUE_BYTES).replace(b"\x00", b"x"))
    assert isinstance(error, TooLarge)
    assert f"{VALUE_BYTES:,}" in error.message
    assert isinstance(fault(topic(subject(STRING)), b'"12345"', value_bytes_max=6), TooLarge)
    assert fault(topic(subject(STRING)), b'"1234"', value_bytes_max=6) is None


def test_a_prefix_does_not_count() -> None:
    assert fault(topic(subject(STRING)), prefixed(101, b'"1234"'), value_bytes_max=6) is None


def test_a_value_with_too_many_brackets_is_too_large_before_it_is_parsed() -> None:
    error = fault(topic(subject(True)), b"[" * (CONTAINERS_MAX + 1))
    assert isinstance(error, TooLarge)
    assert "brackets and braces" in error.message


def test_a_value_with_more_parts_than_its_schema_can_bear_is_too_large() -> None:
    """Each item is held to many schemas."""
    involved = topic(subject({"items": {"anyOf": [{"minimum": number} for number in range(1_000)]}}))
    many = b"[%s]" % b",".join([b"1"] * 5_000)
    assert isinstance(fault(involved, many), TooLarge)
    assert fault(involved, many, value_bytes_max=16 * VALUE_BYTES) is None, "all bounds rise together"
    assert fault(involved, b"[%s]" % b",".join([b"1"] * 1_000)) is None


def test_a_value_that_is_long_for_its_patterns_is_too_large() -> None:
    """A linear engine takes a step for each character and each part of the pattern."""
    matched = topic(subject({"pattern": "[ab]*a[ab]{900}c"}))
    assert isinstance(fault(matched, b'"%s"' % (b"ab" * 10_000)), TooLarge)
    assert refusal(matched, b'"%s"' % (b"ab" * 1_000))


def test_a_value_that_is_nested_deeper_than_a_recursive_schema_can_bear_is_refused() -> None:
    recursive = topic(subject({"items": {"$ref": "#"}}))
    deep = refusal(recursive, b"[" * 1_000 + b"]" * 1_000)
    assert "levels deep" in deep
    most = int(deep.partition("more than ")[2].partition(" ")[0])
    assert fault(recursive, b"[" * most + b"]" * most) is None
    assert "levels deep" in refusal(recursive, b"[" * (most + 1) + b"]" * (most + 1))
    assert fault(recursive, b"[%s]" % b",".join([b"[]"] * 5_000)) is None, "wide is not deep"


# Refusals


def test_a_refusal_never_has_the_value_and_fits_into_a_note() -> None:
    """The path, the keyword, the subject and the version, the important first."""
    name = "s" * 240 + "-value"
    deep: Any = {"type": "integer", "title": "x"}
    for step in range(20):
        deep = {"properties": {f"a long name of a property, the {step}.": deep}}
    value: Any = b'"a secret"'
    for step in range(20):
        value = b'{"a long name of a property, the %d.": %s}' % (step, value)
    text = refusal(topic(subject(*[True] * 9_999, deep, name=name)), value)
    assert "secret" not in text
    assert len(text) <= NOTE_SIZE_MAX
    assert text.startswith('$["a long name of a property, the 19."]')
    assert 'type "integer"; subject sss' in text
    assert text.endswith("version 10000")


@pytest.mark.parametrize("limit", ["x" * 500, "é" * 500, '"' * 500])
def test_whatever_the_schema_says_a_refusal_fits_into_a_note(limit: str) -> None:
    text = refusal(topic(subject({"const": limit}, name="s" * 255)), b'{"%s": 1}' % (b"n" * 1_000))
    assert len(text) <= NOTE_SIZE_MAX
    assert text.endswith("version 1")


def test_each_bad_record_is_named_and_the_same_reason_is_one_object() -> None:
    values = [b"5", b'"x"', b"6", b"no", b'"y"']
    body = b"".join(record(value, number) for number, value in enumerate(values))
    found = verdict(NEWEST, body, len(values))
    assert [bad.index for bad in found.bad] == [1, 3, 4]
    assert found.bad[0].error is found.bad[2].error
    assert found.judged == 5


def test_keys_and_values_that_were_judged_are_counted() -> None:
    both = topic(subject(INTEGER), subject(INTEGER, name="orders-key"))
    values = [record(b"5", 0, key=b"1"), record(b"5", 1), record(b"", 2, key=b"1", flags=Flag.TOMBSTONE)]
    assert verdict(both, b"".join(values), 3).judged == 4


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_records_may_lie_in_any_buffer(kind: Any) -> None:
    body = kind(record(b"5") + record(b"x", 1))
    assert [bad.index for bad in verdict(NEWEST, body, 2).bad] == [1]


def test_a_judgement_goes_on_from_batch_to_batch() -> None:
    judgement = SchemaJudgement(NEWEST)
    for _ in range(3):
        assert finished(judgement.verdict(record(prefixed(101, b'"x"')), 1)) == SchemaVerdict([], 1)


def test_many_versions_may_be_named_one_after_the_other() -> None:
    many = SchemaJudgement(topic(subject(*[{"maximum": number} for number in range(50)])))
    for _ in range(2):
        for number in range(50):
            named = {"schema-id": b"%d" % (101 + number)}
            assert not finished(many.verdict(record(b"%d" % number, headers=named), 1)).bad
            assert finished(many.verdict(record(b"%d" % (number + 1), headers=named), 1)).bad


def test_others_may_run_while_a_large_batch_is_judged() -> None:
    body = b"".join(record(b"%d" % number, number) for number in range(20_000))
    assert sum(1 for _ in SchemaJudgement(NEWEST).verdict(body, 20_000)) >= len(body) // (64 * 1024)


def test_a_pattern_that_is_done_after_some_characters_bounds_no_long_text() -> None:
    """As that of an id beside a long text."""
    schema = {"properties": {"id": {"pattern": "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"}}}
    value = b'{"id": "01234567-0123-0123-0123456789ab", "text": "%s"}' % (b"x" * 250_000)
    assert fault(topic(subject(schema)), value) is None
    assert isinstance(
        fault(topic(subject({"properties": {"id": {"pattern": "[ab]*a[ab]{99}c"}}})), value), TooLarge
    )


# The header of producers, in the short loop


@pytest.mark.parametrize(
    ("value", "headers", "is_refused"),
    [
        (b"5", {"schema-id": b"102"}, False),
        (b'"x"', {"schema-id": b"102"}, True),
        (b'"x"', {"schema-id": b"101"}, False),
        (b"5", {"schema-id": b"101"}, True),
        (b"5", {"schema-id": b"102", "trace": b"x"}, False),
        (b'"x"', {"schema-id": b"102", "trace": b"x"}, True),
        (b"5", {"schema-id": b"103"}, True),
        (prefixed(102, b"5"), {"schema-id": b"102"}, False),
        (prefixed(101, b'"x"'), {"schema-id": b"102"}, True),
        (b"hello", {"schema-id": b"102"}, True),
    ],
)
@pytest.mark.parametrize("others", [{}, {"key": b"k"}, {"flags": int(Flag.FIRED)}])
def test_a_message_under_a_producer_s_header_is_held_to_what_it_names(
    value: bytes, headers: dict[str, bytes], is_refused: bool, others: dict[str, Any]
) -> None:
    records = b"".join(record(value, number, headers=headers, **others) for number in range(3))
    found = verdict(NEWEST, records, 3)
    assert [bad.index for bad in found.bad] == ([0, 1, 2] if is_refused else [])
    assert found.judged == 3
