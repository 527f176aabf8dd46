"""What is left of a stretch of the log is kept for the next delivery, as long as it is true and not too much."""

from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.records.record import encode_record
from goqueue.core.slices.batchindex import BatchIndexes
from goqueue.core.slices.cachebudget import CacheBudget
from goqueue.core.slices.deliverable import Reader
from goqueue.core.slices.lanestretch import PIECE_BYTES, LaneStretch, WantedRecords, cut_lane
from goqueue.core.slices.readcache import LARGER_READS_MAX, StretchCache
from tests.client.reading.test_message import sealed


def a_stretch(lane: int, start: int, size: int = 10) -> LaneStretch:
    records = [encode_record(number, 0, b"value", priority=number % 2) for number in range(size)]
    data = sealed(*records, base_offset=start)
    return cut_lane(data, start + size, WantedRecords(lane, start, 1), Reader("billing", 0), BatchIndexes())


def test_what_is_left_of_a_stretch_is_there_for_the_next_delivery() -> None:
    ahead, stretch = StretchCache(CacheBudget()), a_stretch(1, 100)
    assert ahead.holding(1, 100, 0) is None
    ahead.note_used(stretch, 104, 0)
    assert ahead.holding(1, 104, 0) is stretch
    assert ahead.holding(1, 100, 0) is stretch, "for another group too"
    assert ahead.holding(0, 104, 0) is None
    assert ahead.holding(1, 110, 0) is None
    ahead.note_used(stretch, 110, 0)
    assert ahead.holding(1, 104, 0) is None, "it is used up"


def test_nothing_is_kept_of_a_log_that_has_changed() -> None:
    ahead = StretchCache(CacheBudget())
    ahead.note_used(a_stretch(1, 100), 104, 0)
    assert ahead.holding(1, 104, 1) is None
    ahead.note_used(a_stretch(1, 100), 104, 0)
    assert ahead.holding(1, 104, 1) is None, "it was read before the change"
    ahead.note_used(a_stretch(1, 100), 104, 1)
    assert ahead.holding(1, 104, 1) is not None


def test_what_is_not_for_everybody_is_not_kept() -> None:
    ahead, stretch = StretchCache(CacheBudget()), a_stretch(1, 100)
    stretch.is_for_all = False
    ahead.note_used(stretch, 104, 0)
    assert ahead.holding(1, 104, 0) is None


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 9), st.integers(1, 60))), st.integers(0, 10_000))
def test_no_more_bytes_are_kept_than_are_allowed_and_the_newest_stay(
    used: list[tuple[int, int, int]], bytes_max: int
) -> None:
    ahead = StretchCache(CacheBudget(), bytes_max)
    for lane, row, size in used:
        kept = ahead.holding(lane, 1_000 * row, 0)
        stretch = a_stretch(lane, 1_000 * row, size) if kept is None else kept
        ahead.note_used(stretch, stretch.start, 0)
        assert (ahead.holding(lane, stretch.start, 0) is stretch) == (stretch.bytes_kept <= bytes_max)
        assert sum(each.bytes_kept for each in ahead.kept) == ahead.kept.bytes_kept <= bytes_max
        assert ahead.kept.bytes_kept >= PIECE_BYTES * len(list(ahead.kept)), "those with nothing in them count too"


def test_where_a_kept_stretch_was_used_up_more_is_read_at_a_time() -> None:
    ahead, stretch = StretchCache(CacheBudget()), a_stretch(1, 100)
    ahead.note_used(stretch, 110, 0)
    assert ahead.how_much(1, 110, 7) == 7, "one delivery has used it up"
    ahead.note_used(stretch, 104, 0)
    ahead.note_used(stretch, 110, 0)
    assert ahead.how_much(0, 110, 7) == 7
    assert ahead.how_much(1, 110, 7) == 2 * stretch.bytes_read > 400
    assert ahead.how_much(1, 110, 7) == 7, "once"


def test_only_so_many_places_are_remembered() -> None:
    ahead = StretchCache(CacheBudget())
    for row in range(2 * LARGER_READS_MAX):
        stretch = a_stretch(1, 1_000 * row)
        ahead.note_used(stretch, stretch.start, 0)
        ahead.note_used(stretch, stretch.end, 0)
    assert len(ahead._read_on) == LARGER_READS_MAX
