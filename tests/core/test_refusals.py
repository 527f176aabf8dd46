"""A trouble is said at once and then at growing intervals, however often it is met."""

from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.refusals import LONGEST_SECONDS, Refusal, Refusals


def said(refusals: Refusals, begin: float, end: float, step: float = 0.25) -> list[float]:
    """When lines are written of a trouble that is met all the time."""
    times = [begin + number * step for number in range(round((end - begin) / step))]
    return [time for time in times if refusals.note("disk_full", "no room", time)]


def test_it_is_said_at_once_and_then_at_growing_intervals() -> None:
    assert said(Refusals(), 100, 350) == [100, 101, 103, 107, 115, 131, 163, 223, 283, 343]


def test_the_last_reason_is_known_and_since_when_it_goes_on() -> None:
    refusals = Refusals()
    refusals.note("disk_full", "no room", 3)
    refusals.note("topic_full", "too many", 5)
    assert refusals.last == Refusal("topic_full", "too many", since=3)
    refusals.end(6)
    assert refusals.last is None


def test_a_trouble_that_comes_back_soon_goes_on_where_it_stopped() -> None:
    refusals = Refusals()
    assert said(refusals, 0, 4) == [0, 1, 3]
    refusals.end(4)
    assert said(refusals, 4, 16) == [7, 15]
    refusals.end(16)
    assert said(refusals, 16 + LONGEST_SECONDS, 80) == [76, 77, 79]


@given(st.lists(st.tuples(st.floats(0, 3), st.booleans()), max_size=200))
def test_whatever_succeeds_in_between_there_are_few_lines(steps: list[tuple[float, bool]]) -> None:
    refusals, now, lines = Refusals(), 0.0, 0
    for pause, succeeds in steps:
        now += pause
        if succeeds:
            refusals.end(now)
        else:
            lines += refusals.note("topic_full", "too many", now)
    assert lines <= 7 * (1 + now / LONGEST_SECONDS)
