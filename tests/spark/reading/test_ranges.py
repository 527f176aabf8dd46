"""Offsets are shared out among tasks: each once, none too many."""

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from goqueue.spark.reading.ranges import BYTES_MAX, OFFSETS_MAX, OffsetRange, split

ORDERS, PAYMENTS = UUID(int=1), UUID(int=2)


def ranges() -> st.SearchStrategy[list[OffsetRange]]:
    one = st.builds(
        lambda uuid, partition, start, count, each: OffsetRange(
            "orders" if uuid == ORDERS else "payments", uuid, partition, start, start + count, each
        ),
        st.sampled_from([ORDERS, PAYMENTS]),
        st.integers(0, 5),
        st.integers(0, 2**40),
        st.integers(0, 50) | st.integers(0, 5 * OFFSETS_MAX),
        st.just(0.0) | st.floats(1, 2**24),
    )
    return st.lists(one, max_size=6, unique_by=lambda each: (each.uuid, each.partition))


@given(ranges(), st.integers(1, 40))
def test_every_offset_is_read_by_exactly_one_task(given: list[OffsetRange], tasks_min: int) -> None:
    pieces = split(given, tasks_min)
    for whole in given:
        own = [each for each in pieces if (each.uuid, each.partition) == (whole.uuid, whole.partition)]
        assert all(each.topic == whole.topic for each in own)
        places = [whole.start, *[each.end for each in own]]
        assert [each.start for each in own] == places[:-1], "each begins where the one before ends"
        assert places[-1] == whole.end
    assert all(each.count > 0 for each in pieces)


@given(ranges(), st.integers(1, 40))
def test_there_are_as_many_tasks_as_were_asked_for_if_there_are_offsets(
    given: list[OffsetRange], tasks_min: int
) -> None:
    offsets = sum(each.count for each in given)
    assert len(split(given, tasks_min)) >= min(tasks_min, offsets)


@given(ranges())
def test_no_task_is_larger_than_one_may_be(given: list[OffsetRange]) -> None:
    for each in split(given):
        assert each.count <= OFFSETS_MAX
        assert each.count == 1 or each.count * each.bytes_each <= BYTES_MAX


def test_what_is_small_stays_whole() -> None:
    given = [OffsetRange("orders", ORDERS, number, 5, 1_005, 100.0) for number in range(3)]
    assert split(given) == given


def test_pieces_are_of_one_size() -> None:
    [first, second, third] = split([OffsetRange("orders", ORDERS, 0, 10, 18)], 3)
    assert [(each.start, each.end) for each in (first, second, third)] == [(10, 12), (12, 15), (15, 18)]
