"""Tokens: never more in any stretch of time than were there at its beginning and came within it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.tokens import Tokens


def test_at_first_all_that_may_be_used_at_once_are_there() -> None:
    tokens = Tokens(per_second=100, at_once=20, now=5.0)
    assert tokens.take(15, 5.0) == 15
    assert tokens.take(15, 5.0) == 5
    assert tokens.take(15, 5.0) == 0


def test_what_is_not_used_is_kept_up_to_the_bound() -> None:
    tokens = Tokens(per_second=100, at_once=20, now=0.0)
    assert tokens.take(20, 0.0) == 20
    assert tokens.take(20, 0.05) == 5
    assert tokens.take(100, 3_600.0) == 20


def test_they_are_ready_when_a_twentieth_of_the_most_is_there() -> None:
    tokens = Tokens(per_second=100, at_once=200, now=0.0)
    tokens.take(200, 0.0)
    assert tokens.ready_at(0.0) == pytest.approx(0.1)
    assert tokens.ready_at(0.05) == pytest.approx(0.1)
    assert tokens.ready_at(7.0) == 7.0
    assert tokens.take(100, tokens.ready_at(0.0) + 1e-6) == 10


@given(
    per_second=st.integers(1, 1_000),
    at_once=st.integers(1, 1_000),
    asked=st.lists(st.tuples(st.integers(0, 500), st.floats(0, 3)), max_size=30),
)
def test_in_no_stretch_of_time_more_are_taken_than_came(
    per_second: int, at_once: int, asked: list[tuple[int, float]]
) -> None:
    tokens, now, taken = Tokens(per_second, at_once, 0.0), 0.0, list[tuple[float, int]]()
    for wanted, pause in asked:
        now += pause
        count = tokens.take(wanted, now)
        assert 0 <= count <= wanted
        taken.append((now, count))
    for begin in range(len(taken)):
        for end in range(begin, len(taken)):
            seconds = taken[end][0] - taken[begin][0]
            assert sum(count for _, count in taken[begin : end + 1]) <= at_once + seconds * per_second + 1e-6
