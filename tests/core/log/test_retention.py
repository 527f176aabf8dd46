"""Which segments go."""

from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.log.retention import SegmentAge, count_expired

# Append times never fall, so segments are as old as their order says.
ages = st.lists(
    st.builds(SegmentAge, size=st.integers(0, 100), last_append_time=st.integers(0, 1_000)), max_size=8
).map(lambda segments: sorted(segments, key=lambda segment: segment.last_append_time))


def expired(segments: list[SegmentAge], now: int = 0, age: int | None = None, size: int | None = None) -> int:
    return count_expired(segments, now, retention_age=age, retention_bytes=size)


def test_without_limits_everything_stays() -> None:
    assert expired([SegmentAge(1, 0)] * 3, now=10**18) == 0


def test_a_segment_goes_when_its_last_record_reaches_the_age() -> None:
    segments = [SegmentAge(1, 10), SegmentAge(1, 20), SegmentAge(1, 30)]
    assert [expired(segments, now=now, age=100) for now in (109, 110, 119, 120, 130)] == [0, 1, 1, 2, 3]


def test_a_younger_segment_protects_those_behind_it() -> None:
    assert expired([SegmentAge(1, 50), SegmentAge(1, 10)], now=110, age=100) == 0


def test_the_oldest_go_until_the_rest_fits() -> None:
    segments = [SegmentAge(10, 0)] * 4
    assert [expired(segments, size=size) for size in (100, 40, 39, 20, 10)] == [0, 0, 1, 2, 3]


def test_the_last_segment_never_goes_by_size() -> None:
    assert expired([SegmentAge(10, 0)], size=0) == 0
    assert expired([], size=0) == 0


@given(ages, st.integers(0, 2_000), st.integers(1, 500), st.integers(0, 300))
def test_what_stays_is_young_and_fits(segments: list[SegmentAge], now: int, age: int, size: int) -> None:
    count = expired(segments, now=now, age=age, size=size)
    rest = segments[count:]
    assert not rest or rest[0].last_append_time + age > now
    assert len(rest) <= 1 or sum(segment.size for segment in rest) <= size
