"""What became of a call's messages: a list to whoever looks, and no object for each until then."""

import operator
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.client.producing.outcome import Confirmations, ConfirmedRun, Outcome
from goqueue.client.reading.message import Published
from goqueue.errors import Closed, DeliveryTimeout


def settled(*runs: tuple[int, int, int | None]) -> Outcome:
    """Runs as (length, partition, base offset), one behind the other, confirmed in any order."""
    outcome = Outcome(sum(length for length, _, _ in runs), 0.0)
    first, places = 0, []
    for length, partition, base in runs:
        places.append((range(first, first + length), partition, base))
        first += length
    Random(len(runs)).shuffle(places)
    for each, partition, base in places:
        outcome.confirm(each, "t", partition, base)
    return outcome


runs = st.lists(
    st.tuples(st.integers(1, 5), st.integers(0, 3), st.none() | st.integers(0, 100)), min_size=1, max_size=5
)


@given(runs)
def test_runs_read_like_the_list_of_what_was_published(parts: list[tuple[int, int, int | None]]) -> None:
    expected = [
        Published("t", partition, None if base is None else base + number)
        for length, partition, base in parts
        for number in range(length)
    ]
    outcome = settled(*parts)
    found = outcome.confirmations
    assert outcome.is_settled
    assert found == expected
    assert expected == found
    assert list(found) == expected
    assert [found[place] for place in range(-len(expected), len(expected))] == expected * 2
    assert found[1:3] == expected[1:3]
    assert (len(found), repr(found)) == (len(expected), repr(expected))
    assert outcome.results == expected


def test_it_behaves_as_a_list_where_programs_expect_one() -> None:
    found = Confirmations("t", [ConfirmedRun(0, 2, 1, 7)])
    assert operator.add(found, [1]) == [*found, 1]
    assert operator.add([1], found) == [1, *found]
    assert found != [Published("t", 1, 7)]
    assert found != "ab"
    assert Published("t", 1, 8) in found
    with pytest.raises(IndexError):
        found[2]
    with pytest.raises(TypeError):
        hash(found)


def test_the_first_word_holds() -> None:
    outcome = Outcome(4, 0.0)
    assert outcome.confirm(range(2), "t", 0, 5) == 2
    assert outcome.give_up(DeliveryTimeout("late")) == 2
    assert outcome.confirm(range(2, 4), "t", 0, 7) == 0
    assert outcome.fail(range(4), Closed("later still")) == 0
    assert outcome.has_failed
    first, second, *rest = outcome.results
    assert (first, second) == (Published("t", 0, 5), Published("t", 0, 6))
    assert [type(each) for each in rest] == [DeliveryTimeout, DeliveryTimeout]
