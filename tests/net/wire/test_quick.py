"""A small frame that is built at once says what the strict reader says, or nothing."""

from typing import Any

import msgpack
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from goqueue.errors import ProtocolError
from goqueue.net.wire.codec import Frame, encode, open_frame, open_strictly, read_body
from goqueue.net.wire.kinds import BODIES, KINDS, Body
from goqueue.net.wire.messages import DescribeTopics, Produce, ProduceBatch
from goqueue.net.wire.quick import SMALL_SIZE_MAX, built_from
from tests.net.strategies import any_body, correlations

MIB = 1024 * 1024
PRODUCE = Produce(2, (ProduceBatch(bytes(16), 1, 2, 3, 4, 5, 0, 1, b"body"),))

plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3) | st.integers(0, 9), inner),
    max_leaves=12,
)


def outcome(data: bytes, *, strictly: bool, items_max: int | None = None) -> Frame | str:
    try:
        return read_body(open_strictly(data) if strictly else open_frame(data, MIB), items_max)
    except ProtocolError as error:
        return error.message


def agree(data: bytes, items_max: int | None = None) -> None:
    one = outcome(data, strictly=False, items_max=items_max)
    assert repr(one) == repr(outcome(data, strictly=True, items_max=items_max))  # of a NaN, only the repr is equal


@given(any_body, correlations, st.integers(0, 2**32 - 1))
def test_every_message_is_read_alike(body: Body, correlation: int, throttle_ms: int) -> None:
    agree(encode(body, correlation, throttle_ms))


@given(any_body, correlations, st.integers(0, 2000), st.integers(0, 255))
def test_one_byte_changed_is_read_alike(body: Body, correlation: int, place: int, byte: int) -> None:
    data = bytearray(encode(body, correlation))
    data[place % len(data)] = byte
    agree(bytes(data))


@given(st.sampled_from(sorted(BODIES)), st.lists(plain, max_size=9), st.lists(plain, max_size=2))
@example(34, [*PRODUCE], [])
@example(34, [2, [[*PRODUCE.batches[0], {1: 2}]]], [0, {1: 2}])
def test_anything_else_is_read_alike(kind: int, body: list[Any], more: list[Any]) -> None:
    agree(msgpack.packb([kind, 7, body, *more]))


@given(st.binary(max_size=60))
def test_random_bytes_are_read_alike(data: bytes) -> None:
    agree(data)


@given(st.integers(0, 40), st.integers(0, 400))
def test_the_bound_on_items_holds_either_way(count: int, items_max: int) -> None:
    agree(encode(DescribeTopics(("name",) * count), 7), items_max)


def test_a_plain_message_takes_the_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("goqueue.net.wire.codec.Source", None)
    for body in (PRODUCE, DescribeTopics(None), DescribeTopics(("a", "b"))):
        assert read_body(open_frame(encode(body, 7), MIB), 1_000).body == body


def test_what_is_large_or_nested_is_not_built() -> None:
    assert built_from(msgpack.packb([34, 7, bytes(SMALL_SIZE_MAX)])) is None
    assert built_from(b"\x91" * 4_000) is None
    assert built_from(encode(PRODUCE, KINDS[Produce])) is not None
