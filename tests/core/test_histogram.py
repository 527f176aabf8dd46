"""Percentiles out of buckets: never too low, hardly too high."""

from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.histogram import GROWTH, Histogram

SECONDS = st.floats(min_value=0.000_01, max_value=600)


def test_nothing_took_no_time() -> None:
    assert (Histogram().percentile(99), Histogram().highest) == (0, 0)


@given(st.lists(SECONDS, min_size=1, max_size=200), st.sampled_from([50, 90, 99, 100]))
def test_a_percentile_is_right_or_a_quarter_too_high(times: list[float], percent: int) -> None:
    histogram = Histogram()
    for seconds in times:
        histogram.add(seconds)
    right = sorted(times)[-(-len(times) * percent // 100) - 1]
    assert right <= histogram.percentile(percent) * 1.000_001
    assert histogram.percentile(percent) <= right * GROWTH * 1.000_001
    assert histogram.highest == max(times)
    assert histogram.count == len(times)


def test_what_is_longer_than_all_buckets_is_told_as_it_was() -> None:
    histogram = Histogram()
    histogram.add(1e6)
    assert histogram.percentile(50) == 1e6
