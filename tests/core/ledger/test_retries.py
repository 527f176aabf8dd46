"""Retries, dead letters and last deliveries by example (G5)."""

import pytest

from goqueue.core.ledger.ledger import REASON_LENGTH_MAX, Ledger
from goqueue.core.ledger.settings import LedgerSettings
from goqueue.core.ledger.views import Plan
from goqueue.core.offsetset import Run
from tests.core.ledger.test_delivering import Desk, run

# Retries


def test_a_nack_waits_longer_each_time() -> None:
    desk = Desk(max_deliveries=0)
    nonce = desk.receive(1)
    for attempt, delay in enumerate((1, 2, 4, 8, 16, 32, 60, 60), start=1):
        desk.nack(nonce, run(0, attempt=attempt))
        assert desk.ledger.next_deadline() == desk.now + delay
        desk.pass_time(delay - 0.5)
        assert not desk.ledger.has_ready(desk.now)
        desk.pass_time(0.5)
        nonce = desk.receive()
    assert desk.counts() == {"in_flight": 1}


def test_a_delay_replaces_the_backoff() -> None:
    desk = Desk()
    nonce = desk.receive(1)
    desk.nack(nonce, run(0), delay=7.5)
    assert desk.ledger.next_deadline() == desk.now + 7.5


def test_many_retries_come_due_without_waiting_for_each_other() -> None:
    """A retry worker that slept per message."""
    desk = Desk()
    nonce = desk.receive(10)
    for offset in range(10):
        desk.nack(nonce, run(offset), delay=5)
    desk.pass_time(5)
    assert desk.plan().again == (run(0, 9, attempt=2),)
    assert desk.ledger.next_deadline() is None


def test_release_is_uncounted_however_often() -> None:
    desk = Desk()
    for _ in range(9):
        nonce = desk.receive(0 if desk.nonce else 1)
        assert desk.release(nonce, run(0)) == ()
    assert desk.plan().again == (run(0),)


# Dead letters


def test_the_last_permitted_delivery_that_is_nacked_leaves_with_its_reason() -> None:
    desk = Desk(max_deliveries=2)
    nonce = desk.receive(2)
    desk.nack(nonce, run(0), delay=3, reason="first")
    desk.ack(nonce, run(1))
    desk.pass_time(3)
    desk.nack(desk.receive(), run(0, attempt=2), reason="x" * 2_000)
    (dead,) = desk.ledger.next_dead_letters(10)
    assert dead == (0, 0, 2, 100, 103, "x" * REASON_LENGTH_MAX, None)


def test_a_dead_lettered_offset_holds_progress_until_it_has_arrived_and_no_longer() -> None:
    """G5. It blocked the committed prefix for ever."""
    desk = Desk()
    nonce = desk.receive(3)
    desk.reject(nonce, run(0))
    desk.ack(nonce, run(1, 2))
    assert desk.ledger.committed == 0
    desk.write(desk.ledger.begin_transfer(0, desk.ledger.next_dead_letters(10)))
    assert desk.ledger.committed == 0
    assert desk.plan().fresh_max == 10, "it keeps nobody from the next ones"
    desk.write(desk.ledger.transferred(0))
    assert desk.ledger.committed == 3


def test_a_transfer_under_way_is_had_back_after_a_crash_with_its_sequence() -> None:
    """G5: exactly once, by the memory of the producer that sends it."""
    desk = Desk()
    nonce = desk.receive(3)
    desk.reject(nonce, run(0), reason="bad")
    desk.reject(nonce, run(2), reason="worse")
    in_transfer = desk.ledger.next_dead_letters(10)
    desk.write(desk.ledger.begin_transfer(40, in_transfer))
    restored = Ledger.restore(desk.ledger.snapshot(desk.now), LedgerSettings(), 0.0)
    assert restored.transfer_under_way is not None
    assert (restored.transfer_under_way.sequence, restored.transfer_under_way.runs) == (40, in_transfer)
    assert restored.next_sequence == 42
    with pytest.raises(AssertionError, match="one transfer at a time"):
        restored.begin_transfer(42, [Run(1, 1)])


def test_messages_leave_in_offset_order_each_with_its_own_story() -> None:
    desk = Desk()
    first = desk.receive(2)
    desk.now += 1
    second = desk.receive(2)
    desk.reject(second, run(2, 3), reason="later")
    desk.reject(first, run(0, 1), reason="earlier")
    dead = desk.ledger.next_dead_letters(3)
    assert [(each.first, each.last, each.first_delivery, each.reason) for each in dead] == [
        (0, 1, 100, "earlier"),
        (2, 2, 101, "later"),
    ]


def test_without_a_limit_nothing_is_given_up() -> None:
    desk = Desk(max_deliveries=0)
    desk.receive(2)
    for _ in range(20):
        desk.pass_time(30)
        desk.receive()
    assert desk.counts() == {"in_flight": 2}


# Alone


def test_three_crashes_do_not_dead_letter_what_was_never_seen() -> None:
    """One poison message and nine good ones, and a consumer that dies of it each time."""
    desk, poison, alone = Desk(), 4, list[int]()
    desk.receive(10)
    for _ in range(13):
        desk.pass_time(30)
        plan = desk.plan()
        nonce = desk.receive()
        if plan.is_alone:
            alone += [offset for each in plan.again for offset in range(each.first, each.last + 1)]
            desk.ack(nonce, *(each for each in plan.again if each.first != poison))
    assert alone == list(range(10))
    assert [(dead.first, dead.last) for dead in desk.ledger.next_dead_letters(10)] == [(poison, poison)]
    desk.transfer_next()
    assert desk.ledger.committed == 10


def test_no_more_last_deliveries_are_planned_than_are_seen_at_once() -> None:
    """What waits in a client that dies would be given up unseen."""
    desk = Desk(max_deliveries=2)
    nonce = desk.receive(4)
    desk.nack(nonce, run(0, 1), run(3), delay=0.0)
    desk.release(nonce, run(2))
    assert desk.plan().again == (run(0, 1, attempt=2), run(2), run(3, attempt=2))
    assert desk.plan(lasts_max=1).again == (run(0, attempt=2), run(2))
    assert desk.plan(lasts_max=0).again == (run(2),)
    assert desk.plan(2, lasts_max=9).again == (run(0, 1, attempt=2),)


def test_where_every_delivery_is_the_last_so_are_fresh_ones() -> None:
    desk = Desk(max_deliveries=1)
    assert [desk.plan(lasts_max=most).fresh_max for most in (None, 9, 1, 0)] == [10, 9, 1, 0]


def test_a_message_that_is_delivered_alone_is_never_planned_ahead() -> None:
    plan = lost_until_the_last(3).plan(lasts_max=0)
    assert (plan.again, plan.is_alone, plan.alone_waiting) == ((), False, True)


def lost_until_the_last(count: int) -> Desk:
    """So many messages whose last permitted delivery comes next, and follows an expiry."""
    desk = Desk(max_deliveries=2)
    desk.receive(count)
    desk.pass_time(30)
    return desk


def test_a_last_delivery_after_an_expiry_is_made_alone() -> None:
    desk = lost_until_the_last(3)
    assert desk.plan() == Plan((run(0, attempt=2),), 3, 0, 0, is_alone=True, alone_waiting=False)


def test_a_member_that_holds_others_is_not_given_it_but_told_to_settle() -> None:
    desk = lost_until_the_last(1)
    for plan in (desk.plan(is_busy=True), desk.plan(0, is_busy=False)):
        assert (plan.again, plan.alone_waiting) == ((), True)
    nonce = desk.hand_out((), [Run(1, 1)])
    assert (desk.plan().again, desk.plan().fresh_max, desk.plan().alone_waiting) == ((), 10, True)
    assert desk.plan(member="bob").is_alone
    desk.ack(nonce, run(1))
    assert desk.plan().is_alone


def test_a_member_that_holds_it_is_given_nothing_else() -> None:
    desk = lost_until_the_last(2)
    nonce = desk.receive()
    assert desk.plan() == Plan((), 2, 0, 0, is_alone=False, alone_waiting=True)
    assert desk.plan(member="bob").again == (run(1, attempt=2),)
    with pytest.raises(AssertionError, match="given nothing else"):
        desk.hand_out((), [Run(2, 2)])
    desk.ack(nonce, run(0, attempt=2))
    assert desk.plan().again == (run(1, attempt=2),)


def test_it_is_never_handed_out_with_others() -> None:
    desk = lost_until_the_last(2)
    for again, fresh in (((run(0, 1, attempt=2),), []), ((run(0, attempt=2),), [Run(2, 2)])):
        with pytest.raises(AssertionError):
            desk.hand_out(again, fresh)


def test_expired_alone_it_leaves_and_its_neighbours_do_not() -> None:
    desk = lost_until_the_last(2)
    desk.receive()
    desk.pass_time(30)
    (dead,) = desk.ledger.next_dead_letters(10)
    assert (dead.first, dead.last, dead.reason) == (0, 0, "not settled within 30 s, delivery 2 of 2")
    assert desk.counts() == {"leaving": 1, "ready_again": 1}


def test_after_a_nack_the_last_delivery_is_made_with_others() -> None:
    desk = Desk(max_deliveries=2)
    desk.nack(desk.receive(3), run(0, 2), delay=0)
    assert (desk.plan().again, desk.plan().is_alone) == ((run(0, 2, attempt=2),), False)


def test_a_release_does_not_make_it_alone_and_does_not_make_it_less_so() -> None:
    desk = Desk(max_deliveries=1)
    desk.release(desk.receive(2), run(0, 1))
    assert not desk.plan().is_alone
    desk = lost_until_the_last(1)
    desk.release(desk.receive(), run(0, attempt=2))
    assert desk.plan().is_alone


def test_a_first_delivery_is_not_alone_though_it_is_the_last() -> None:
    desk = Desk(max_deliveries=1)
    assert (desk.plan().fresh_max, desk.plan().is_alone) == (10, False)
    desk.receive(3)
    desk.pass_time(30)
    assert desk.counts() == {"leaving": 3}
