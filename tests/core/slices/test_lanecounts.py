"""Messages of each lane are counted from the lane's place on, those apart that are never handed out."""

from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.ledger.shares import LANES
from goqueue.core.offsetset import OffsetSet, Run
from goqueue.core.slices.lanecounts import count_lanes
from tests.core.slices.test_lanestretch import batches, built


@given(batches, st.lists(st.integers(95, 190), min_size=5, max_size=5), st.sets(st.integers(100, 190), max_size=20))
def test_each_lane_has_what_lies_behind_its_place_and_is_not_hidden(
    rows: list[tuple[list[int], bool]], places: list[int], hidden: set[int]
) -> None:
    data, lanes = built(rows)
    counts = [0] * len(LANES)
    count_lanes(data, places, OffsetSet([Run(each, each) for each in sorted(hidden)]), counts)
    seen = [lane for offset, lane in enumerate(lanes, 100) if offset >= places[lane] and offset not in hidden]
    assert counts == [seen.count(lane) for lane in LANES]
