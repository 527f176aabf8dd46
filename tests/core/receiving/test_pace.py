"""How many messages a worker holds: as many as its handlers begin soon."""

from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.receiving.pace import AHEAD_SECONDS, BATCH_MAX, Pace


def test_before_a_handler_has_ended_nothing_is_held() -> None:
    assert Pace(slots=10).ahead == 0


def test_fast_handlers_have_a_batch_held_and_slow_ones_nothing() -> None:
    for seconds, ahead in ((0.0, BATCH_MAX), (0.01, 500), (0.1, 50), (1, 5), (5, 1), (10, 0)):
        pace = Pace(slots=10)
        pace.ended(seconds)
        assert pace.ahead == ahead


def test_handlers_that_become_slow_have_less_held() -> None:
    pace = Pace(slots=10)
    for _ in range(100):
        pace.ended(0.001)
    assert pace.ahead == BATCH_MAX
    for _ in range(3):
        pace.ended(10)
    assert pace.ahead <= 2


def test_after_messages_were_held_for_too_long_nothing_is_held_until_a_handler_has_ended() -> None:
    pace = Pace(slots=10)
    pace.ended(0.1)
    pace.was_too_fast()
    assert pace.ahead == 0
    pace.ended(60)
    assert pace.ahead == 0


@given(slots=st.integers(1, 1_000), times=st.lists(st.floats(0, 1_000), min_size=1))
def test_what_is_held_is_at_most_half_a_second_of_work_at_the_slowest_pace(slots: int, times: list[float]) -> None:
    pace = Pace(slots)
    for seconds in times:
        pace.ended(seconds)
    assert 0 <= pace.ahead <= BATCH_MAX
    assert pace.ahead * min(times) / slots <= AHEAD_SECONDS + 1e-9
