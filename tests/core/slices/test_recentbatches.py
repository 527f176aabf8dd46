"""Batches that were read a moment ago are there for who comes back to them, as long as they are true."""

from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.records.record import encode_record
from goqueue.core.slices.cachebudget import CacheBudget
from goqueue.core.slices.readcache import BATCHES_AT_A_TIME, BatchCache
from tests.client.reading.test_message import sealed


def a_batch(base: int, size: int = 10) -> bytes:
    return sealed(*[encode_record(number, 0, b"value") for number in range(size)], base_offset=base)


def test_a_batch_is_found_by_every_offset_in_it() -> None:
    recent, first, second = BatchCache(CacheBudget()), a_batch(100), a_batch(110, 5)
    recent.note(first + second, 0)
    found = [recent.holding(offset, 0) for offset in range(99, 116)]
    assert [None if each is None else each.data for each in found] == [None, *[first] * 10, *[second] * 5, None]
    kept = recent.holding(104, 0)
    assert kept is not None
    assert (kept.base, kept.end) == (100, 110)


def test_nothing_is_kept_of_a_log_that_has_changed() -> None:
    recent = BatchCache(CacheBudget())
    recent.note(a_batch(100), 0)
    assert recent.holding(100, 1) is None
    recent.note(a_batch(100), 0)
    assert recent.holding(100, 1) is None, "it was read before the change"
    recent.note(a_batch(100), 1)
    assert recent.holding(100, 1) is not None


def test_of_a_read_of_many_small_batches_none_is_kept() -> None:
    recent, row = BatchCache(CacheBudget()), [a_batch(10 * number) for number in range(BATCHES_AT_A_TIME + 1)]
    recent.note(b"".join(row), 0)
    assert recent.holding(0, 0) is None
    recent.note(b"".join(row[1:]), 0)
    assert recent.holding(10, 0) is not None


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 60))), st.integers(0, 10_000))
def test_no_more_bytes_are_kept_than_are_allowed_and_the_newest_stay(
    read: list[tuple[int, int]], bytes_max: int
) -> None:
    recent = BatchCache(CacheBudget(), bytes_max)
    for row, size in read:
        data = a_batch(100 * row, size)
        recent.note(data, 0)
        kept = recent.holding(100 * row, 0)
        assert (None if kept is None else kept.data) == (data if len(data) <= bytes_max else None)
        assert sum(len(each.data) for each in recent.kept) == recent.kept.bytes_kept <= bytes_max
