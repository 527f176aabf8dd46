"""Records of one shape are found, and judged as the walk from record to record judges them."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.records.columns import RECORDS_MAX, RECORDS_MIN, SIZE_MAX, Shape, find_sound, shape_of, values_of
from goqueue.core.records.inspection import _inspect_fast, _walk
from goqueue.core.records.record import FLAGS_FROM_CLIENTS, HEADER_SIZE, encode_record
from goqueue.types import Priority


def body_of(
    values: Sequence[bytes], key: bytes = b"", priority: Priority = Priority.NORMAL, step: int = 0
) -> bytes:
    return b"".join(
        encode_record(number, 1_000 + step * number, value, key=key, priority=priority)
        for number, value in enumerate(values)
    )


def test_records_of_one_size_have_a_shape_and_their_values_are_had_at_once() -> None:
    values = [b"%07d" % number for number in range(300)]
    body = body_of(values, key=b"key")
    shape = shape_of(body, len(values))
    assert shape == Shape(HEADER_SIZE + 10, 3, 7)
    assert values_of(body, len(values), shape) == tuple(values)


@pytest.mark.parametrize(
    "values", [[b"one"] * (RECORDS_MIN - 1), [b"one"] * 20 + [b"three"] * 20, [b"x" * SIZE_MAX] * 20]
)
def test_few_large_or_unlike_records_have_none(values: list[bytes]) -> None:
    assert shape_of(body_of(values), len(values)) is None


def test_sizes_that_only_add_up_are_no_shape() -> None:
    """The first is as long as all are on average, and the others are not."""
    values = [b"four"] + [b"fives", b"six"] * 20
    assert shape_of(body_of(values), len(values)) is None


@pytest.mark.parametrize("step", [0, 1, -1])
@pytest.mark.parametrize("priority", list(Priority))
def test_what_they_hold_is_what_the_walk_finds(priority: Priority, step: int) -> None:
    body = body_of([b"value"] * 300, priority=priority, step=step)
    shape = shape_of(body, 300)
    assert shape is not None
    assert find_sound(body, 300, shape) is not None
    assert _inspect_fast(body, 300, FLAGS_FROM_CLIENTS) == _walk(body, 300, FLAGS_FROM_CLIENTS) is not None


def test_every_flipped_bit_is_found() -> None:
    """G14: nothing that the walk refuses is let through."""
    body = body_of([b"v"] * RECORDS_MIN, key=b"k")
    for position in range(len(body)):
        for bit in range(8):
            flipped = bytearray(body)
            flipped[position] ^= 1 << bit
            assert _inspect_fast(bytes(flipped), RECORDS_MIN, FLAGS_FROM_CLIENTS) is None


@given(st.data())
def test_both_say_the_same_of_whatever_comes(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 40))
    values = data.draw(st.lists(st.binary(min_size=4, max_size=5), min_size=count, max_size=count))
    numbers = data.draw(st.sampled_from([list(range(count)), [0] * count, list(range(1, count + 1))]))
    lanes = data.draw(st.lists(st.sampled_from(Priority), min_size=count, max_size=count) | st.just([2] * count))
    body = b"".join(
        encode_record(number, 7, value, priority=Priority(lane))
        for number, value, lane in zip(numbers, values, lanes, strict=True)
    )
    try:
        expected = _walk(body, count, FLAGS_FROM_CLIENTS)
    except ValueError:
        expected = None
    assert _inspect_fast(body, count, FLAGS_FROM_CLIENTS) == expected


def test_very_many_are_walked() -> None:
    body = body_of([b""] * (RECORDS_MAX + 1))
    assert shape_of(body, RECORDS_MAX + 1) is None
    assert _inspect_fast(body, RECORDS_MAX + 1, FLAGS_FROM_CLIENTS) is not None
