"""Which neighbouring segments are joined."""

from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.log.merging import NEIGHBOURS_MAX, SPAN_MAX, SegmentSpan, runs_to_merge

SIZE_MAX = 1_000


def row(*sizes: int) -> list[SegmentSpan]:
    return [SegmentSpan(number * 10, number * 10 + 10, size) for number, size in enumerate(sizes)]


def merged(segments: list[SegmentSpan]) -> list[SegmentSpan]:
    runs = {run.start: run for run in runs_to_merge(segments, SIZE_MAX)}
    result, number = [], 0
    while number < len(segments):
        run = runs.get(number, range(number, number + 1))
        parts = [segments[each] for each in run]
        result.append(SegmentSpan(parts[0].base_offset, parts[-1].end_offset, sum(part.size for part in parts)))
        number = run.stop
    return result


def test_small_neighbours_are_joined_as_far_as_they_fit() -> None:
    assert runs_to_merge(row(96, 96, 950, 96, 400, 400), SIZE_MAX) == [range(2), range(3, 6)]
    assert runs_to_merge(row(), SIZE_MAX) == runs_to_merge(row(5), SIZE_MAX) == []


def test_a_large_one_is_not_copied_for_the_sake_of_a_small_one() -> None:
    assert runs_to_merge(row(600, 96), SIZE_MAX) == []
    assert runs_to_merge(row(600, *[10] * NEIGHBOURS_MAX), SIZE_MAX) == [range(NEIGHBOURS_MAX + 1)]


def test_a_gap_in_offsets_is_not_bridged() -> None:
    segments = [SegmentSpan(0, 10, 5), SegmentSpan(20, 30, 5), SegmentSpan(30, 40, 5)]
    assert runs_to_merge(segments, SIZE_MAX) == [range(1, 3)]


def test_no_segment_spans_more_offsets_than_its_index_can_name() -> None:
    half = SPAN_MAX // 2
    segments = [SegmentSpan(0, half, 5), SegmentSpan(half, half + 10, 5), SegmentSpan(half + 10, SPAN_MAX + 10, 5)]
    assert runs_to_merge(segments, SIZE_MAX) == [range(2)]


@given(st.lists(st.integers(0, SIZE_MAX), max_size=60))
def test_what_is_left_is_few_for_its_size(sizes: list[int]) -> None:
    """Segment by segment, as they come: the files are bounded by the bytes, not by how many there ever were."""
    segments: list[SegmentSpan] = []
    for segment in row(*sizes):
        segments = merged([*segments, segment])
        assert all(each.size <= SIZE_MAX for each in segments)
    full = 2 * sum(sizes) // SIZE_MAX + 1
    assert len(segments) <= full * (NEIGHBOURS_MAX + 1)
    assert [each.base_offset for each in segments[1:]] == [each.end_offset for each in segments[:-1]]
