"""Objects become compact JSON and come back, in whatever frame; what does not fit is said without its value."""

from typing import Any

import pytest
from pydantic import BaseModel, field_validator

import goqueue
from goqueue.client.schemas.codec import body_in, codec_of
from tests.client.schemas.orders import NOON, ORDER_SCHEMA, Line, NewerOrder, Order, Payment

SECRET = "4711-0815"
PAIRS: list[tuple[Any, Any, bytes]] = [
    (Order, Order(id=1, lines=[Line(sku="tea")]), b'{"id":1,"note":"","lines":[{"sku":"tea","count":1}]}'),
    (Payment, Payment(2, 1.5, ["visa"]), b'{"id":2,"amount":1.5,"cards":["visa"]}'),
    (ORDER_SCHEMA, {"id": 3, "note": "grün"}, '{"id":3,"note":"grün"}'.encode()),
    (list[int], [1, 2], b"[1,2]"),
    (True, [None], b"[null]"),
    ('{"type": "string"}', "a", b'"a"'),
]


@pytest.mark.parametrize(("schema", "value", "data"), PAIRS, ids=repr)
def test_an_object_is_written_compactly_and_comes_back(schema: Any, value: Any, data: bytes) -> None:
    codec = codec_of(schema)
    assert codec.encode(value) == data
    assert body_in(codec, data) == value


@pytest.mark.parametrize(("schema", "value", "data"), PAIRS, ids=repr)
def test_a_value_in_confluent_s_frame_is_unwrapped(schema: Any, value: Any, data: bytes) -> None:
    assert body_in(codec_of(schema), b"\0\0\0\0\x07" + data) == value


def test_a_message_of_another_version_is_read_by_names() -> None:
    older, newer = codec_of(Order), codec_of(NewerOrder)
    assert newer.decode(older.encode(Order(id=1))) == NewerOrder(id=1, placed_at=NOON)
    assert older.decode(newer.encode(NewerOrder(id=1))) == Order(id=1)


@pytest.mark.parametrize(
    ("schema", "value", "fault"),
    [
        (Order, {"id": "1"}, "the value is no Order: id: Input should be a valid integer"),
        (Order, Payment(1, 2.0), "the value is no Order"),
        (Order, b'{"id":1}', "the value is no Order"),
        (Payment, Payment(SECRET, 1.0), "the value is no Payment: id cannot be written as the type declares"),  # type: ignore[arg-type]
        (list[int], ["x"], "0: Input should be a valid integer"),
        (ORDER_SCHEMA, {"at": NOON}, "datetime is not JSON serializable"),
        (ORDER_SCHEMA, float("nan"), "cannot be written as JSON"),
        (ORDER_SCHEMA, "\ud800", "lone surrogates"),
    ],
    ids=str,
)
def test_what_is_no_such_object_is_not_written(schema: Any, value: Any, fault: str) -> None:
    with pytest.raises(goqueue.SchemaMisfit) as refused:
        codec_of(schema).encode(value)
    assert fault in str(refused.value)
    assert SECRET not in str(refused.value)


def test_a_dict_that_is_an_object_in_all_its_types_is_taken_for_one() -> None:
    assert codec_of(Order).encode({"id": 1}) == codec_of(Order).encode(Order(id=1))


def test_a_model_that_was_changed_into_something_else_is_not_written() -> None:
    order = Order(id=1)
    order.note = 5  # type: ignore[assignment]
    with pytest.raises(goqueue.SchemaMisfit, match="the value is no Order: note cannot be written"):
        codec_of(Order).encode(order)


@pytest.mark.parametrize(
    ("schema", "data", "fault"),
    [
        (Order, b'{"id":"%b"}' % SECRET.encode(), "no Order: id: Input should be a valid integer"),
        (Order, b'{"lines":[{"count":0}]}', "id: Field required; lines.0.sku: Field required; lines.0.count: "),
        (Order, b"{", "Invalid JSON"),
        (Order, b"\xff", "Invalid JSON"),
        (Order, b"", "Invalid JSON"),
        (Order, b"[" * 100_000, "Invalid JSON: recursion limit"),
        (Payment, b"3", "no Payment"),
        (list[int], b'["a","a","a","a","a"]', "; and 2 more"),
        (ORDER_SCHEMA, b'{"id":"%b"}' % SECRET.encode(), "id"),
        (ORDER_SCHEMA, b'{"id":NaN}', "NaN is no JSON"),
        (ORDER_SCHEMA, b"[" * 100_000, "nested too deeply"),
        (ORDER_SCHEMA, b'{"id": 1', "the value is no JSON"),
        (ORDER_SCHEMA, b"\xff", "byte 0 is not UTF-8"),
    ],
)
def test_what_does_not_fit_is_named_without_its_value(schema: Any, data: bytes, fault: str) -> None:
    with pytest.raises(goqueue.SchemaMisfit) as refused:
        codec_of(schema).decode(data)
    assert fault in str(refused.value)
    assert SECRET not in str(refused.value)
    assert refused.value.__cause__ is None
    assert len(str(refused.value)) < 1_000


def test_a_value_that_is_nested_deeper_than_its_schema_can_bear_is_a_misfit() -> None:
    """The validator cannot be interrupted, and ends the program where its stack ends."""
    codec = codec_of({"$defs": {"list": {"items": {"$ref": "#/$defs/list"}}}, "$ref": "#/$defs/list"})
    assert codec.decode(b"[" * 100 + b"]" * 100)
    with pytest.raises(goqueue.SchemaMisfit, match="levels deep"):
        codec.decode(b"[" * 600 + b"]" * 600)


def test_a_validator_of_the_program_s_own_that_fails_is_a_misfit() -> None:
    class Divided(BaseModel):
        by: int

        @field_validator("by")
        @classmethod
        def check(cls, value: int) -> int:
            return 1 // value

    with pytest.raises(goqueue.SchemaMisfit, match="its validator failed with ZeroDivisionError") as refused:
        codec_of(Divided).decode(b'{"by":0}')
    assert isinstance(refused.value.__cause__, ZeroDivisionError)


def test_a_long_list_of_faults_ends() -> None:
    with pytest.raises(goqueue.SchemaMisfit) as refused:
        codec_of(dict[str, int]).decode(b'{"%b": "x"}' % (b"k" * 5_000))
    assert len(str(refused.value)) < 1_000
