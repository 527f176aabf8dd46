"""When a message was first handed out, however long ago (SPEC §6: `goqueue-dlq-first-delivery`)."""

from goqueue.core.ledger.firstdeliveries import FirstDeliveries
from goqueue.core.ledger.progress import LaneProgress
from goqueue.core.offsetset import Run


def test_a_run_is_split_where_another_delivery_began() -> None:
    firsts = FirstDeliveries()
    for start, wall in ((0, 100), (5, 101), (9, 101)):
        firsts.note(start, wall)
    pieces = [(Run(3, 4), 100), (Run(5, 8), 101), (Run(9, 20), 101)]
    assert list(firsts.split(Run(3, 20))) == pieces
    assert list(firsts.split(Run(4, 4))) == [(Run(4, 4), 100)]


def test_what_is_done_is_let_go_and_what_is_not_is_still_known() -> None:
    """One message that is never settled does not keep a hundred thousand deliveries in memory."""
    firsts, lane = FirstDeliveries(), LaneProgress()
    for offset in range(100_000):
        firsts.note(offset, 1_000 + offset)
        lane.look_over(2, [Run(offset, offset)], offset + 1)
        if offset not in (7, 50_000):
            lane.settle(offset, offset)
        if firsts.have_grown:
            firsts.tidy(lane.open, lane.next_fresh)
    assert len(firsts._starts) < 1_024
    assert firsts.to_plain(lane.open, lane.next_fresh) == [[7, 50_000], [1_007, 51_000]]
    for offset in (7, 50_000):
        assert list(firsts.split(Run(offset, offset))) == [(Run(offset, offset), 1_000 + offset)]
