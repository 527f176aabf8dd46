"""Of each lane its own records, in batches that hold nothing else, however the records are made."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.ledger.shares import LANES
from goqueue.core.offsetset import Run
from goqueue.core.records.record import Flag, Record, encode_record
from goqueue.core.slices.batchindex import BatchIndexes
from goqueue.core.slices.deliverable import Reader
from goqueue.core.slices.lanestretch import LaneStretch, WantedRecords, cut_lane
from goqueue.types import Buffer
from tests.client.reading.test_message import sealed
from tests.storage.logs import records_in

READER = Reader("billing", 0)
ANYTHING = 10_000
batches = st.lists(
    st.tuples(st.lists(st.sampled_from(LANES), min_size=1, max_size=30), st.booleans()), min_size=1, max_size=5
)


def built(rows: Sequence[tuple[Sequence[int], bool]]) -> tuple[bytes, list[int]]:
    """Batches whose records are all alike, or are not; and the lane of each offset, from 100 on."""
    data, lanes = b"", list[int]()
    for row, is_uniform in rows:
        body = [
            encode_record(number, 0, b"value" if is_uniform else b"v" * (number % 3), priority=lane)
            for number, lane in enumerate(row)
        ]
        data += sealed(*body, base_offset=100 + len(lanes))
        lanes += row
    return data, lanes


def cut(data: bytes, end: int, lane: int, start: int = 0, count_max: int = ANYTHING) -> LaneStretch:
    return cut_lane(data, end, WantedRecords(lane, start, count_max), READER, BatchIndexes())


def shown(parts: Sequence[Buffer]) -> list[Record]:
    return [record for part in parts for record in records_in(part)]


@given(batches, st.sampled_from(LANES), st.integers(95, 150), st.integers(1, 40))
def test_the_first_so_many_of_a_lane_are_found_and_nothing_else(
    rows: list[tuple[list[int], bool]], lane: int, start: int, count_max: int
) -> None:
    data, lanes = built(rows)
    end = 100 + len(lanes)
    expected = [100 + at for at, each in enumerate(lanes) if each == lane and 100 + at >= start]
    found = cut(data, end, lane, start).first(start, count_max)
    assert list(found.offsets.offsets()) == expected[:count_max]
    held = shown(found.parts)
    assert {record.priority for record in held} <= {lane}
    assert {record.offset for record in held} >= set(expected[:count_max])
    later = [offset for offset in expected if offset < found.scanned_to]
    assert later == expected[:count_max], "all of the lane before it was looked at"
    if len(expected) < count_max:
        assert found.scanned_to == max(start, end)


@given(batches, st.sampled_from(LANES), st.lists(st.integers(1, 20), min_size=1))
def test_what_is_cut_once_is_handed_out_in_portions_of_any_size(
    rows: list[tuple[list[int], bool]], lane: int, portions: list[int]
) -> None:
    """G4: each of the lane once, in order, and batches are sound whichever records they are left with."""
    data, lanes = built(rows)
    stretch = cut(data, 100 + len(lanes), lane)
    place, offsets, values = 0, list[int](), dict[int, bytes]()
    for count_max in [*portions, ANYTHING]:
        found = stretch.first(place, count_max)
        assert len(found.offsets) == min(count_max, len(stretch) - len(offsets))
        offsets += found.offsets.offsets()
        values |= {record.offset: record.value for record in shown(found.parts)}
        place = found.scanned_to
    assert offsets == [100 + at for at, each in enumerate(lanes) if each == lane]
    everything = {record.offset: record.value for record in records_in(data)}
    assert values == {offset: everything[offset] for offset in offsets}
    assert place == stretch.end


@given(batches)
def test_lane_by_lane_each_record_is_shown_once(rows: list[tuple[list[int], bool]]) -> None:
    data, lanes = built(rows)
    indexes = BatchIndexes()
    found = [cut_lane(data, 0, WantedRecords(lane, 0, 1), READER, indexes).first(0, ANYTHING) for lane in LANES]
    offsets = [record.offset for each in found for record in shown(each.parts)]
    assert sorted(offsets) == [100 + at for at in range(len(lanes))]


FOR_SOME = [
    encode_record(0, 0, b"a", priority=0),
    encode_record(1, 0, b"b", priority=0, due=5),
    encode_record(2, 0, b"c", priority=0, headers={"goqueue-for-group": b"audit"}, flags=Flag.FOR_ONE_GROUP),
    encode_record(3, 0, b"d", priority=3),
    encode_record(4, 0, b"e", priority=0),
]


def test_what_is_hidden_or_meant_for_others_is_passed_over() -> None:
    stretch = cut(sealed(*FOR_SOME, base_offset=10), 15, 0)
    found = stretch.first(0, ANYTHING)
    assert list(found.offsets.offsets()) == [10, 14]
    assert [record.value for record in shown(found.parts)] == [b"a", b"e"]
    assert not stretch.is_for_all


def test_of_batches_that_are_not_for_everybody_no_more_is_cut_than_is_wanted() -> None:
    plain = sealed(encode_record(0, 0, b"p", priority=0), encode_record(1, 0, b"p", priority=3), base_offset=0)
    data = plain + sealed(*FOR_SOME, base_offset=2) + sealed(*FOR_SOME, base_offset=7)
    stretches = [cut(data, 12, 0, count_max=wanted) for wanted in range(1, 6)]
    assert [(each.end, len(each)) for each in stretches] == [(2, 1), (7, 3), (7, 3), (12, 5), (12, 5)]
    assert stretches[0].is_for_all, "it ends before those that are not"


def test_a_batch_that_compaction_has_thinned_is_cut_by_its_offsets() -> None:
    records = [encode_record(number, 0, b"v" * number, priority=number % 2) for number in range(10)]
    [thinned] = BatchIndexes().cut_down(sealed(*records, base_offset=20), [Run(20, 20), Run(23, 25), Run(28, 29)])
    stretch = cut(bytes(thinned), 30, 1)
    first, rest = stretch.first(20, 2), stretch.first(26, 5)
    assert list(first.offsets.offsets()) == [23, 25]
    assert [record.offset for record in shown(first.parts)] == [23, 25]
    assert [record.offset for record in shown(rest.parts)] == list(rest.offsets.offsets()) == [29]
    assert stretch.is_for_all


def test_a_batch_of_one_lane_stays_whole_and_holds_on_to_nothing_else_that_was_read() -> None:
    row = [
        sealed(*[encode_record(at, 0, b"v", priority=lane) for at in range(9)], base_offset=9 * lane)
        for lane in LANES
    ]
    [part] = cut(b"".join(row), 45, 3).first(29, 2).parts
    assert isinstance(part, memoryview)
    assert part == row[3]
    assert part.obj == row[3], "and not all that was read"


def test_a_packed_batch_is_unpacked_where_it_has_to_be_cut() -> None:
    data = sealed(*[encode_record(number, 0, b"value", priority=number % 2) for number in range(20)], zstd=True)
    found = cut(data, 20, 1).first(0, 3)
    assert [record.offset for record in shown(found.parts)] == [1, 3, 5]
