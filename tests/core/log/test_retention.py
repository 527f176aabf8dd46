"""Which segments go."""

from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.log.merging import SegmentSpan
from goqueue.core.log.retention import GroupStanding, SegmentAge, count_expired, kept_for, slowest_of

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


# By acks


def segments_of(sizes: list[int]) -> list[SegmentAge]:
    """Segments with so many messages each, one after the other."""
    ends = list(accumulate(sizes))
    return [SegmentAge(size, 10 * number, end) for number, (size, end) in enumerate(zip(sizes, ends, strict=True))]


def done(segments: list[SegmentAge], done_to: int | None, now: int = 0, size: int | None = None) -> int:
    return count_expired(
        segments, now, retention_age=None, retention_bytes=size, done_to=done_to, segment_age=1_000
    )


def test_a_segment_goes_once_everything_in_it_is_done() -> None:
    segments = segments_of([10, 10, 10])
    assert [done(segments, done_to) for done_to in (None, 0, 9, 10, 19, 20, 29)] == [0, 0, 0, 1, 1, 2, 2]


def test_the_last_segment_goes_by_acks_when_nothing_was_written_to_it_for_long() -> None:
    segments = segments_of([10, 10])
    assert [done(segments, 20, now) for now in (0, 1_009, 1_010)] == [1, 1, 2]
    assert done(segments, 19, 10**9) == 1
    assert done([], 0, 10**9) == 0


def test_bytes_bound_what_acks_keep() -> None:
    segments = segments_of([10, 10, 10])
    assert done(segments, 0, size=20) == 1
    assert done(segments, 20, size=29) == 2


@given(
    st.lists(st.integers(1, 20), max_size=8),
    st.lists(st.none() | st.integers(0, 160), max_size=4),
    st.integers(0, 3_000),
)
def test_no_segment_with_a_message_that_a_group_has_not_done_goes_by_acks(
    sizes: list[int], committed: list[int | None], now: int
) -> None:
    """G5. A group that has not begun holds everything, and so does a topic without groups."""
    segments = segments_of(sizes)
    groups = [GroupStanding(f"g{number}", each) for number, each in enumerate(committed)]
    slowest = slowest_of(groups)
    gone = segments[: done(segments, None if slowest is None else slowest.committed, now)]
    for segment in gone:
        assert groups
        assert all(each.committed is not None and each.committed >= segment.end_offset for each in groups)


@given(st.lists(st.integers(1, 20), max_size=8), st.none() | st.integers(0, 160))
def test_what_is_kept_for_a_group_begins_with_the_segment_of_its_first_message(
    sizes: list[int], committed: int | None
) -> None:
    ends = list(accumulate(sizes))
    spans = [SegmentSpan(end - size, end, size) for size, end in zip(sizes, ends, strict=True)]
    kept = kept_for(spans, committed)
    if kept is None:
        assert not spans or (committed is not None and committed >= ends[-1])
        return
    first = next(each for each in spans if committed is None or committed < each.end_offset)
    assert (kept.first, kept.last) == (first.base_offset, first.end_offset - 1)
    assert (kept.segments, kept.size) == (len(spans) - spans.index(first), ends[-1] - first.base_offset)
