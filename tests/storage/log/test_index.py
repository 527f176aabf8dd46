"""The sparse index: where to begin to look, for an offset, a time or a lane."""

from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.records.batch import Envelope, envelope_for
from goqueue.storage.log.index import BEGINNING, ENTRY_SIZE, STRETCH_SIZE_MIN, IndexEntry, SparseIndex
from tests.storage.logs import batch

BASE = 1_000
PLAIN = envelope_for(batch(b"x"), 0, leader_epoch=1, append_time=1, durable_offset=0)

Row = tuple[int, int, int, int]
"""A batch as (records, bytes, timestamp, priority)."""
rows: st.SearchStrategy[list[Row]] = st.lists(
    st.tuples(st.integers(1, 5), st.integers(100, 6_000), st.integers(0, 100), st.integers(0, 4)), max_size=40
)


def built(batches: list[tuple[int, int, int, int]]) -> tuple[SparseIndex, list[tuple[int, Envelope]]]:
    index, placed = SparseIndex(), []
    position, offset = 0, BASE
    for count, size, timestamp, priority in batches:
        envelope = PLAIN._replace(
            base_offset=offset,
            last_offset_delta=count - 1,
            length=size,
            highest_timestamp=timestamp,
            priority_mask=1 << priority,
        )
        index.note(BASE, position, envelope)
        placed.append((position, envelope))
        position += envelope.size
        offset += count
    return index, placed


@given(rows)
def test_every_offset_is_at_or_behind_its_place_and_less_than_a_stretch_and_a_batch_away(
    batches: list[Row],
) -> None:
    index, placed = built(batches)
    begins = {position: envelope.base_offset - BASE for position, envelope in placed}
    for position, envelope in placed:
        for relative in (envelope.base_offset - BASE, envelope.end_offset - 1 - BASE):
            place = index.place_of_offset(relative)
            assert begins[place.position] == place.relative_offset <= relative
            assert position - place.position < STRETCH_SIZE_MIN


@given(rows)
def test_every_batch_ends_with_its_stretch_at_the_latest_and_the_last_stretch_may_grow(batches: list[Row]) -> None:
    index, placed = built(batches)
    for position, envelope in placed:
        place = index.place_of_offset(envelope.base_offset - BASE)
        if place == index.last_place():
            assert index.stretch_size(place) == STRETCH_SIZE_MIN
        else:
            end = place.position + index.stretch_size(place)
            assert position + envelope.size <= end
            assert end in {position for position, _ in placed}


@given(rows, st.integers(0, 101))
def test_the_first_batch_of_a_time_lies_in_the_stretch_that_is_found(batches: list[Row], time: int) -> None:
    index, placed = built(batches)
    late = [position for position, envelope in placed if envelope.highest_timestamp >= time]
    place = index.place_of_time(time)
    if not late:
        assert place is None
    else:
        assert place is not None
        assert place.position <= late[0] < place.position + STRETCH_SIZE_MIN


def positions_of_lane(index: SparseIndex, lane: int) -> list[int]:
    """Of one stretch after the other, each found from behind the one before."""
    begins = [index.place(entry).relative_offset for entry in range(len(index))]
    places = [index.place_of_lane(lane, begin) for begin in begins]
    return sorted({place.position for place in places if place is not None})


@given(rows, st.integers(0, 4))
def test_every_batch_of_a_lane_lies_in_a_stretch_that_is_named(batches: list[Row], lane: int) -> None:
    index, placed = built(batches)
    named = positions_of_lane(index, lane)
    wanted = [position for position, envelope in placed if envelope.priority_mask >> lane & 1]
    for position in wanted:
        assert any(begin <= position < begin + STRETCH_SIZE_MIN for begin in named)
    assert all(any(begin <= position < begin + STRETCH_SIZE_MIN for position in wanted) for begin in named)


@given(rows)
def test_written_and_loaded_it_is_the_same(batches: list[Row]) -> None:
    index, _ = built(batches)
    loaded = SparseIndex()
    loaded.load(index.columns())
    assert loaded.columns() == index.columns()
    assert loaded.last_place() == index.last_place()


@given(rows, st.integers(0, 10))
def test_closed_columns_are_those_that_no_later_batch_changes(batches: list[Row], more: int) -> None:
    index, _ = built(batches)
    longer, _ = built([*batches, *[(1, 3_000, 1_000, 0)] * more])
    for now, later in zip(index.closed_columns(), longer.columns(), strict=True):
        assert later.startswith(now)


def test_an_entry_costs_seventeen_bytes_and_covers_four_kibibytes() -> None:
    index, placed = built([(1, 400, 0, 0)] * 1_000)
    covered = placed[-1][0] + placed[-1][1].size
    assert index.memory() == (2 * ENTRY_SIZE + 1) * len(index)
    assert index.memory() / (covered / STRETCH_SIZE_MIN) <= 17


def test_an_empty_index_points_to_the_beginning() -> None:
    index = SparseIndex()
    assert index.place_of_offset(5) == index.last_place() == BEGINNING == IndexEntry(0, 0)
    assert index.place_of_time(0) is None


def test_a_jumping_clock_does_not_hide_what_comes_after() -> None:
    index, placed = built([(1, 5_000, 50, 0), (1, 5_000, 10, 0), (1, 5_000, 60, 0)])
    assert index.place_of_time(20) == IndexEntry(0, 0)
    assert index.place_of_time(55) == IndexEntry(2, placed[2][0])
