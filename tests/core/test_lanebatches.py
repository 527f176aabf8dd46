"""Of each lane its own records, in batches that hold nothing else, however the records are made."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.batchindex import BatchIndexes
from goqueue.core.deliverable import Reader
from goqueue.core.lanebatches import Wanted, find_in_lane
from goqueue.core.lanes import LANES
from goqueue.core.record import Flag, encode_record
from tests.net.test_message import sealed
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


@given(batches, st.sampled_from(LANES), st.integers(95, 150), st.integers(1, 40))
def test_the_first_so_many_of_a_lane_are_found_and_nothing_else(
    rows: list[tuple[list[int], bool]], lane: int, start: int, count_max: int
) -> None:
    data, lanes = built(rows)
    expected = [100 + at for at, each in enumerate(lanes) if each == lane and 100 + at >= start]
    found = find_in_lane(data, Wanted(lane, start, count_max), READER, BatchIndexes())
    assert list(found.offsets.offsets()) == expected[:count_max]
    assert len(found.offsets) <= count_max
    held = [record for part in found.parts for record in records_in(part)]
    assert {record.priority for record in held} <= {lane}
    assert {record.offset for record in held} >= set(expected[:count_max])
    later = [offset for offset in expected if offset < found.scanned_to]
    assert later == expected[:count_max], "all of the lane before it was looked at"
    if len(expected) < count_max:
        assert found.scanned_to == max(start, 100 + len(lanes))


@given(batches)
def test_lane_by_lane_each_record_is_shown_once(rows: list[tuple[list[int], bool]]) -> None:
    data, lanes = built(rows)
    indexes = BatchIndexes()
    found = [find_in_lane(data, Wanted(lane, 0, ANYTHING), READER, indexes) for lane in LANES]
    shown = [record.offset for each in found for part in each.parts for record in records_in(part)]
    assert sorted(shown) == [100 + at for at in range(len(lanes))]


def test_what_is_hidden_or_meant_for_others_is_passed_over() -> None:
    body = [
        encode_record(0, 0, b"a", priority=0),
        encode_record(1, 0, b"b", priority=0, due=5),
        encode_record(2, 0, b"c", priority=0, headers={"goqueue-for-group": b"audit"}, flags=Flag.FOR_ONE_GROUP),
        encode_record(3, 0, b"d", priority=3),
        encode_record(4, 0, b"e", priority=0),
    ]
    data = sealed(*body, base_offset=10)
    found = find_in_lane(data, Wanted(0, 0, ANYTHING), READER, BatchIndexes())
    assert list(found.offsets.offsets()) == [10, 14]
    assert [record.value for part in found.parts for record in records_in(part)] == [b"a", b"e"]


def test_a_packed_batch_is_unpacked_where_it_has_to_be_cut() -> None:
    data = sealed(*[encode_record(number, 0, b"value", priority=number % 2) for number in range(20)], zstd=True)
    found = find_in_lane(data, Wanted(1, 0, 3), READER, BatchIndexes())
    assert [record.offset for part in found.parts for record in records_in(part)] == [1, 3, 5]
    assert found.scanned_to == 6
