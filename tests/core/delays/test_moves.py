"""The rules for moving and counting delayed messages."""

import pytest

from goqueue.core.delays.duetimes import check_edges, moved_due
from goqueue.core.records.record import DELAY_BIT, DELAY_MAX, TIMESTAMP_MAX
from goqueue.errors import InvalidMessage


def test_a_message_is_moved_to_a_time_or_by_a_delay() -> None:
    assert moved_due(TIMESTAMP_MAX, None) == TIMESTAMP_MAX
    assert moved_due(None, DELAY_MAX) == DELAY_MAX | DELAY_BIT
    assert moved_due(None, 0) == DELAY_BIT


@pytest.mark.parametrize(("due", "delay"), [(None, None), (1, 1), (TIMESTAMP_MAX + 1, None), (None, DELAY_MAX + 1)])
def test_a_move_to_two_times_to_none_or_beyond_all_is_refused(due: int | None, delay: int | None) -> None:
    with pytest.raises(InvalidMessage):
        moved_due(due, delay)


def test_times_between_which_is_counted_do_not_fall() -> None:
    check_edges(())
    check_edges((1, 1, 2))
    with pytest.raises(InvalidMessage):
        check_edges((1, 3, 2))
