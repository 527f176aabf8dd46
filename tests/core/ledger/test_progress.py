"""Progress of a group in its lanes: a prefix for each, and exceptions that stay small."""

import msgpack

from goqueue.core.ledger.progress import LaneProgress
from goqueue.core.offsetset import OffsetSet, Run

CRITICAL, NORMAL = 0, 2
MILLION = 1_000_000


def test_what_is_consumed_ahead_of_a_slow_lane_takes_a_bit_each_and_then_nothing() -> None:
    """ "Unbounded sets of consumed offsets": one lane stands still, another is through with half a million."""
    lanes = LaneProgress()
    for begin in range(0, MILLION, 4_096):
        half = OffsetSet.of(range(begin, min(begin + 4_096, MILLION), 2))
        lanes.look_into(CRITICAL, half, begin + 4_096)
        lanes.settle_all(half)
    assert (lanes.committed, lanes.next_fresh) == (1, 0)
    assert lanes.count_fresh(MILLION) == MILLION // 2
    assert len(msgpack.packb(lanes.to_plain())) < MILLION // 8 * 1.02
    for lane in range(1, 5):
        lanes.look_into(lane, OffsetSet(), MILLION)
    assert lanes.committed == MILLION
    assert len(msgpack.packb(lanes.to_plain())) < 40


def test_one_cursor_is_not_enough() -> None:
    """What a higher lane has passed is not passed by the others."""
    lanes = LaneProgress(10)
    lanes.look_into(CRITICAL, OffsetSet([Run(50, 50)]), 100)
    assert lanes.fresh == [100, 10, 10, 10, 10]
    assert lanes.committed == 10
    lanes.look_over(NORMAL, [Run(10, 20)], 21)
    assert lanes.fresh == [100, 21, 21, 21, 21]
    lanes.settle(10, 20)
    assert lanes.committed == 21
    assert lanes.count_unsettled(60) == 39


def test_a_log_that_lost_its_end_takes_lanes_back() -> None:
    lanes = LaneProgress()
    lanes.look_into(CRITICAL, OffsetSet([Run(5, 5), Run(50, 60)]), 100)
    lanes.cut_back(55)
    assert (lanes.fresh, lanes.committed) == ([55, 0, 0, 0, 0], 0)
    assert list(lanes.open.runs()) == list(lanes.ahead.runs()) == [Run(5, 5), Run(50, 54)]
    lanes.pass_to(51)
    assert (lanes.fresh, lanes.committed) == ([55, 51, 51, 51, 51], 51)
    assert list(lanes.open.runs()) == [Run(51, 54)]
