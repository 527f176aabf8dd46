"""A group's ledger by example: progress, what is handed out, and what becomes of the log (G4, G5, G7)."""

import pytest

from goqueue.core.ledger.attempts import AttemptRun
from goqueue.core.ledger.entries import Committed, CutBack, Delivered, Entry, PassedOver, Removed, Reset
from goqueue.core.ledger.handout import Recipient
from goqueue.core.ledger.settings import LedgerSettings
from goqueue.core.offsetset import Run
from tests.core.ledger.test_delivering import Desk, run

# Progress


def test_acks_move_the_groups_progress() -> None:
    desk = Desk()
    nonce = desk.receive(5)
    assert desk.ack(nonce, run(0, 2)) == ()
    assert desk.ledger.committed == 3
    assert desk.ack(nonce, run(3, 4)) == ()
    assert (desk.ledger.committed, desk.counts()) == (5, {})


def test_progress_does_not_pass_what_is_not_done() -> None:
    """G5"""
    desk = Desk()
    nonce = desk.receive(5)
    desk.ack(nonce, run(1, 4))
    assert desk.ledger.progress(desk.now).first_unsettled == 0
    desk.ack(nonce, run(0))
    assert desk.ledger.committed == 5
    assert desk.ledger.progress(desk.now).first_unsettled is None


def test_what_is_not_for_delivery_is_passed_over_and_holds_nothing() -> None:
    """G3: hidden, control and compacted records count as done."""
    desk = Desk()
    nonce = desk.hand_out((), [Run(2, 2), Run(5, 6)])
    assert desk.ledger.committed == 2
    desk.ack(nonce, run(2), run(5, 6))
    assert desk.ledger.committed == 7


def test_a_stretch_without_anything_to_hand_out_is_passed_over_too() -> None:
    desk = Desk()
    decided = desk.decide(scanned_to=9)
    assert (decided.entries, decided.gives, decided.counts) == ([PassedOver((), 9, "")], False, None)
    desk.carry_out(decided)
    assert (desk.ledger.committed, desk.ledger.next_fresh) == (9, 9)
    assert desk.decide(scanned_to=9).entries == []


def test_what_was_to_come_again_and_has_left_the_log_is_passed_over() -> None:
    desk = Desk()
    nonce = desk.receive(3)
    desk.release(nonce, run(0))
    desk.nack(nonce, run(1))
    desk.reject(nonce, run(2))
    desk.write(desk.ledger.pass_over([run(0), Run(1, 2)], "compacted"))
    assert (desk.ledger.committed, desk.counts()) == (3, {})


def test_a_group_begins_where_it_is_told() -> None:
    desk = Desk(start=70)
    assert (desk.ledger.committed, desk.plan().fresh_from) == (70, 70)


# Handing out


def test_what_comes_again_comes_before_what_is_fresh_in_offset_order() -> None:
    """G4, O5"""
    desk = Desk()
    nonce = desk.receive(6)
    desk.nack(nonce, run(4), delay=0)
    desk.release(nonce, run(1), run(3))
    plan = desk.plan(5)
    assert plan.again == (run(1), run(3), run(4, attempt=2))
    assert (plan.fresh_from, plan.fresh_max) == (6, 2)
    assert desk.plan(2).again == (run(1), run(3))


def test_a_message_in_flight_is_handed_to_nobody_else() -> None:
    """G7"""
    desk = Desk()
    desk.receive(3, "ann")
    assert (desk.plan(member="bob").again, desk.plan(member="bob").fresh_from) == ((), 3)


@pytest.mark.parametrize(
    ("again", "fresh", "complaint"), [([run(1)], [], "not ready"), ([], [Run(2, 3)], "not fresh")]
)
def test_to_hand_out_what_is_in_flight_is_refused_before_it_is_journaled(
    again: list[AttemptRun], fresh: list[Run], complaint: str
) -> None:
    """G7: in the journal it would stop every replay."""
    desk = Desk()
    desk.receive(3)
    with pytest.raises(AssertionError, match=complaint):
        desk.decide(again, fresh, 4, Recipient(0, "bob", 9, 30.0))


def test_two_groups_hold_one_message_each_by_itself() -> None:
    one, other = Desk(), Desk()
    nonce = one.receive(1)
    one.ack(nonce, run(0))
    assert other.plan().fresh_from == 0
    assert other.ack(nonce, run(0)) == (run(0),)


def test_counts_by_member_are_those_of_what_is_out() -> None:
    desk = Desk()
    nonce = desk.receive(3, "ann")
    desk.receive(2, "bob")
    assert desk.ledger.in_flight_by_member() == {"ann": 3, "bob": 2}
    desk.ack(nonce, run(0, 2))
    assert desk.ledger.in_flight_by_member() == {"bob": 2}


# The log, and operators


def test_what_retention_takes_unacked_is_counted_and_its_receipts_are_stale() -> None:
    """G5"""
    desk = Desk()
    nonce = desk.receive(6)
    desk.ack(nonce, run(1))
    desk.nack(nonce, run(2))
    desk.reject(nonce, run(3))
    desk.write(desk.ledger.removed_below(5))
    assert desk.ledger.progress(desk.now).removed_unacked == 4
    assert (desk.ledger.committed, desk.counts()) == (5, {"in_flight": 1})
    assert desk.ack(nonce, run(0, 5)) == (run(0), run(2, 4))
    assert desk.ledger.removed_below(5) is None


def test_retention_beyond_what_was_looked_at_moves_the_group_on() -> None:
    desk = Desk()
    desk.receive(2)
    desk.write(desk.ledger.removed_below(10))
    assert desk.ledger.progress(desk.now).removed_unacked == 10
    assert (desk.ledger.committed, desk.plan().fresh_from) == (10, 10)


@pytest.mark.parametrize("disturbance", [Removed(1, 0), Reset(0), CutBack(0), Committed(0)], ids=str)
def test_a_transfer_ends_in_good_order_whatever_became_of_its_messages(disturbance: Entry) -> None:
    """After a reset or a cut the offset is another delivery's, or another message's: it is not done."""
    desk = Desk()
    desk.reject(desk.receive(2), run(0))
    desk.write(desk.ledger.begin_transfer(0, desk.ledger.next_dead_letters(1)))
    desk.write(disturbance)
    before = desk.ledger.committed
    desk.write(desk.ledger.transferred(0))
    assert desk.ledger.committed == before
    assert desk.ledger.transfer_under_way is None


def test_a_commit_puts_the_group_where_it_says_forwards_and_backwards() -> None:
    desk = Desk()
    for offset in (7, 3):
        desk.write(desk.ledger.commit(offset))
        assert (desk.ledger.committed, desk.ledger.next_fresh) == (offset, offset)
        assert desk.ledger.commit(offset) is None
    nonce = desk.receive(2)
    assert desk.ledger.commit(3) == Committed(3)  # what is under way would come again
    desk.write(desk.ledger.commit(5))
    assert (desk.counts(), desk.ack(nonce, run(3))) == ({}, (run(3),))


def test_progress_beyond_the_end_of_the_log_is_cut_back() -> None:
    """What is written there later is another message, and must be handed out."""
    desk = Desk()
    nonce = desk.receive(6)
    desk.ack(nonce, run(0, 4))
    assert desk.ledger.cut_back(6) is None
    desk.write(desk.ledger.cut_back(3))
    assert (desk.ledger.committed, desk.plan().fresh_from, desk.counts()) == (3, 3, {})
    assert desk.ack(nonce, run(5)) == (run(5),)
    desk.ack(desk.receive(2), run(3, 4))
    assert desk.ledger.committed == 5


def test_a_reset_forgets_everything_and_old_receipts_are_stale() -> None:
    """Those too that were acked."""
    desk = Desk()
    nonce = desk.receive(4)
    desk.ack(nonce, run(0))
    desk.nack(nonce, run(1))
    desk.reject(nonce, run(2))
    desk.write(desk.ledger.reset(2))
    assert (desk.ledger.committed, desk.plan().fresh_from, desk.counts()) == (2, 2, {})
    assert desk.ack(nonce, run(0, 3)) == (run(0, 3),)
    assert desk.ledger.next_deadline() is None


# Deciding


def test_to_decide_changes_nothing() -> None:
    """Check first, mutate after: what was never journaled has not happened."""
    desk = Desk()
    nonce = desk.receive(4)
    desk.reject(nonce, run(3))
    desk.release(nonce, run(2))
    desk.now += 40
    before = desk.ledger.snapshot(desk.now)
    ledger, now, runs = desk.ledger, desk.now - 15, [run(0, 1)]
    decided = [
        ledger.plan(now, "bob", 5, is_busy=False),
        ledger.ack(now, nonce, runs)[0],
        ledger.nack(now, nonce, runs, None, "")[0],
        ledger.reject(now, nonce, runs, "")[0],
        ledger.release(now, nonce, runs)[0],
        ledger.extend(now, nonce, runs, 5.0)[0],
        ledger.tick(desk.now),
        ledger.release_member(now, "ann"),
        ledger.expire_member("ann"),
        ledger.begin_transfer(0, [Run(3, 3)]),
        ledger.pass_over([Run(2, 3)], ""),
        ledger.removed_below(9),
        ledger.cut_back(1),
        ledger.reset(0),
        desk.decide([run(2)], [Run(4, 5)], 8, Recipient(0, "bob", 9, 5.0)).entries,
    ]
    assert all(decided)
    assert ledger.snapshot(desk.now) == before


def test_a_nonce_names_one_delivery() -> None:
    desk = Desk()
    desk.ack(desk.receive(1), run(0))
    desk.nonce = 0
    with pytest.raises(AssertionError, match="nonce"):
        desk.receive(1)


def test_settings_that_change_hold_for_what_is_decided_from_then_on() -> None:
    desk = Desk(max_deliveries=5)
    nonce = desk.receive(1)
    desk.ledger.settings = LedgerSettings(max_deliveries=1)
    desk.nack(nonce, run(0))
    assert desk.counts() == {"leaving": 1}


def test_an_expiry_of_a_delivery_says_what_becomes_of_each() -> None:
    """Some are on their last delivery and leave, the others come again."""
    desk = Desk(max_deliveries=2)
    nonce = desk.receive(2)
    desk.nack(nonce, run(0), delay=0)
    desk.ack(nonce, run(1))
    desk.hand_out(desk.plan().again, [Run(2, 3)])
    desk.pass_time(30)
    assert desk.counts() == {"leaving": 1, "ready_again": 2}


def test_a_delivery_says_all_that_a_replay_needs() -> None:
    desk = Desk()
    decided = desk.decide((), [Run(1, 2)], 4, Recipient(99, "ann", 5, 30.0))
    assert decided.entries == [Delivered(99, "ann", 5, 30.0, (), (Run(1, 2),), 4, is_alone=False)]
