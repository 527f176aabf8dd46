"""Readers that wait for more."""

from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.waiting.longpoll import LongPoll


def test_a_reader_is_let_go_when_something_lies_at_its_offset() -> None:
    poll: LongPoll[str] = LongPoll()
    poll.wait("at 5", 5, 10.0)
    poll.wait("at 7", 7, 10.0)
    assert poll.reached(5) == []
    assert poll.reached(6) == ["at 5"]
    assert poll.reached(100) == ["at 7"]
    assert len(poll) == 0


def test_a_reader_is_let_go_when_its_time_is_up_earliest_first() -> None:
    poll: LongPoll[str] = LongPoll()
    poll.wait("late", 0, 9.0)
    poll.wait("early", 0, 3.0)
    assert poll.next_deadline() == 3.0
    assert poll.expired(2.9) == []
    assert poll.expired(9.0) == ["early", "late"]
    assert poll.next_deadline() is None


def test_one_who_was_served_has_no_deadline_any_more() -> None:
    poll: LongPoll[str] = LongPoll()
    poll.wait("served", 0, 3.0)
    poll.wait("waiting", 9, 5.0)
    assert poll.reached(1) == ["served"]
    assert poll.next_deadline() == 5.0
    assert poll.expired(4.0) == []


def test_at_the_end_everybody_is_let_go() -> None:
    poll: LongPoll[str] = LongPoll()
    poll.wait("a", 0, 3.0)
    poll.wait("b", 0, 2.0)
    assert poll.all() == ["a", "b"]
    assert poll.next_deadline() is None


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=20),
    st.lists(st.integers(0, 21), max_size=9),
)
def test_every_reader_is_let_go_exactly_once(readers: list[tuple[int, int]], steps: list[int]) -> None:
    poll: LongPoll[int] = LongPoll()
    for number, (offset, deadline) in enumerate(readers):
        poll.wait(number, offset, float(deadline))
    gone: list[int] = []
    for turn, step in enumerate(steps):
        gone += poll.reached(step) if turn % 2 else poll.expired(float(step))
    gone += poll.all()
    assert sorted(gone) == list(range(len(readers)))
