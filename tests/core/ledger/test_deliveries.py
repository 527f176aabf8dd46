"""Receipts and leases by example (G6, G7)."""

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from goqueue.core.deadlines import OUTDATED_MAX
from goqueue.core.ledger.attempts import AttemptRun, AttemptRuns
from goqueue.core.ledger.entries import Entry, Nacked, RetryAfter
from goqueue.core.ledger.ledger import Ledger
from goqueue.core.ledger.settings import LedgerSettings
from goqueue.core.ledger.settlements import SETTLED_REMEMBERED
from goqueue.errors import StaleReceipt
from tests.core.ledger.test_delivering import Desk, run
from tests.steps import steps_of

# Receipts


def test_a_receipt_settles_one_delivery_once() -> None:
    """G6: another word about it is refused, and changes nothing."""
    desk = Desk()
    nonce = desk.receive(5)
    words = (desk.nack, desk.release, desk.reject, desk.ack)
    for offset, settle in enumerate(words):
        settle(nonce, run(offset))
    before = desk.ledger.snapshot(desk.now)
    for word in (*words, desk.extend):
        for offset, settle in enumerate(words):
            if word != settle:
                assert word(nonce, run(offset)) == (run(offset),)
    assert desk.ledger.snapshot(desk.now) == before


Repeat: TypeAlias = Callable[[Ledger, float, int, list[AttemptRun]], tuple[Entry | None, AttemptRuns]]
REPEATS: dict[str, Repeat] = {
    "ack": lambda ledger, now, nonce, runs: ledger.ack(now, nonce, runs),
    "nack": lambda ledger, now, nonce, runs: ledger.nack(now, nonce, runs, 7.0, "another reason"),
    "reject": lambda ledger, now, nonce, runs: ledger.reject(now, nonce, runs, "another reason"),
    "release": lambda ledger, now, nonce, runs: ledger.release(now, nonce, runs),
}


@pytest.mark.parametrize("word", sorted(REPEATS))
def test_a_settlement_repeated_after_a_lost_answer_succeeds_and_writes_nothing(word: str) -> None:
    """G6: while others of its delivery are out, when none is, when the message is out again, after a snapshot."""
    desk = Desk()
    nonce = desk.receive(2)
    settle = REPEATS[word]
    for offset in (0, 1):
        getattr(desk, word)(nonce, run(offset))
        assert settle(desk.ledger, desk.now, nonce, [run(0, offset)]) == (None, ())
    assert settle(desk.ledger, desk.now, nonce, [run(0, attempt=2)]) == (None, (run(0, attempt=2),))
    desk.now += 100
    if word in ("nack", "release"):
        desk.receive()
    before = desk.ledger.snapshot(desk.now)
    restored = Ledger.restore(before, LedgerSettings(), desk.now)
    for ledger in (desk.ledger, restored):
        assert settle(ledger, desk.now, nonce, [run(0, 1)]) == (None, ())
        assert ledger.snapshot(desk.now) == before


def test_a_part_of_a_settlement_may_be_a_repeat() -> None:
    desk = Desk()
    nonce = desk.receive(4)
    desk.nack(nonce, run(0, 1))
    desk.ack(nonce, run(2))
    entry, stale = desk.ledger.nack(desk.now, nonce, [run(0, 3)], 5.0, "")
    assert stale == (run(2),)
    assert isinstance(entry, Nacked)
    assert entry.retries == (RetryAfter(5.0, (run(3),)),)


def test_a_release_that_follows_the_farewell_of_its_member_is_a_repeat() -> None:
    desk = Desk()
    nonce = desk.receive(2)
    for entry in desk.ledger.release_member(desk.now, "ann"):
        desk.ledger.apply(entry, desk.now)
    assert desk.ledger.release(desk.now, nonce, [run(0, 1)]) == (None, ())
    assert desk.ledger.ack(desk.now, nonce, [run(0)]) == (None, (run(0),))


def test_what_expired_was_not_settled() -> None:
    desk = Desk()
    nonce = desk.receive(2)
    desk.release(nonce, run(0))
    desk.now += 31
    for entry in desk.ledger.tick(desk.now):
        desk.ledger.apply(entry, desk.now)
    assert desk.ledger.release(desk.now, nonce, [run(0, 1)]) == (None, (run(1),))


def test_a_snapshot_of_before_settlements_were_remembered_is_read() -> None:
    desk = Desk()
    nonces = [desk.receive(2), desk.receive(1)]
    desk.ack(nonces[0], run(0))
    desk.ack(nonces[1], run(2))
    plain: Any = desk.ledger.snapshot(desk.now)
    deliveries = plain[3]
    deliveries[0] = [each[:6] for each in deliveries[0]]
    del deliveries[2:]
    restored = Ledger.restore(plain, LedgerSettings(), desk.now)
    assert restored.ack(desk.now, nonces[0], [run(0)]) == (None, ())
    assert restored.ack(desk.now, nonces[1], [run(2)]) == (None, ())
    assert restored.snapshot(desk.now) == desk.ledger.snapshot(desk.now)


def test_a_receipt_of_an_earlier_delivery_is_stale_though_the_message_is_out_again() -> None:
    """G6"""
    desk = Desk()
    first = desk.receive(1)
    desk.nack(first, run(0), delay=0)
    second = desk.receive()
    assert desk.ack(first, run(0)) == (run(0),)
    assert desk.ack(second, run(0)) == (run(0),)
    assert desk.ack(second, run(0, attempt=2)) == ()


def test_forged_receipts_are_stale_whatever_they_name() -> None:
    """G6, G14"""
    desk = Desk()
    nonce = desk.receive(3)
    for forged in (run(7), run(0, attempt=2), run(0, 2, attempt=0), run(9, 3), run(-9, -1), run(3, 2**62)):
        assert desk.ack(nonce, forged) == (forged,)
    assert desk.ack(nonce + 1, run(0)) == (run(0),)
    assert desk.ack(nonce, run(-2, 5)) == (run(-2, -1), run(3, 5))
    assert desk.ledger.committed == 3


def test_the_good_ones_are_settled_and_the_rest_named() -> None:
    desk = Desk()
    nonce = desk.receive(5)
    desk.nack(nonce, run(2))
    assert desk.ack(nonce, run(0, 4)) == (run(2),)
    assert desk.counts() == {"waiting": 1}


@pytest.mark.parametrize("word", ["ack", "reject"])
def test_a_settlement_is_remembered_for_256_settled_deliveries(word: str) -> None:
    desk = Desk()
    nonces = [desk.receive(1) for _ in range(SETTLED_REMEMBERED + 1)]
    settle = getattr(desk, word)
    for offset, nonce in enumerate(nonces):
        settle(nonce, run(offset))
    assert settle(nonces[0], run(0)) == (run(0),)
    assert settle(nonces[1], run(1)) == ()
    restored = Ledger.restore(desk.ledger.snapshot(desk.now), LedgerSettings(), desk.now)
    assert REPEATS[word](restored, desk.now, nonces[1], [run(1)]) == (None, ())


def test_a_receipt_whose_time_has_come_is_stale_before_anyone_ticked() -> None:
    """G6"""
    desk = Desk()
    nonce = desk.receive(1)
    desk.now += 29.5
    assert desk.ledger.extend(desk.now, nonce, None, 30.0)[0] is not None
    desk.now += 0.5
    for settle in (desk.ack, desk.nack, desk.release, desk.reject, desk.extend):
        assert settle(nonce, run(0)) == (run(0),)
    with pytest.raises(StaleReceipt):
        desk.ledger.extend(desk.now, nonce, None, 30.0)
    assert desk.ledger.release_member(desk.now, "ann") == []
    assert desk.counts() == {"in_flight": 1}


def test_receipts_named_twice_in_one_call_count_once() -> None:
    desk = Desk()
    nonce = desk.receive(3)
    entry, stale = desk.ledger.nack(desk.now, nonce, [run(1), run(0, 2), run(1)], 5.0, "")
    assert stale == ()
    desk.write(entry)
    assert desk.counts() == {"waiting": 3}


# Leases


def test_a_lease_that_ends_hands_the_message_out_again_with_a_receipt_that_is_good() -> None:
    """A redelivery whose receipt reached nobody."""
    desk = Desk()
    desk.receive(2)
    assert desk.ledger.next_deadline() == desk.now + 30
    desk.pass_time(30)
    assert desk.counts() == {"ready_again": 2}
    nonce = desk.receive(member="bob")
    assert desk.ack(nonce, run(0, 1, attempt=2)) == ()
    assert desk.ledger.committed == 2


def test_extending_all_moves_the_one_deadline() -> None:
    desk = Desk()
    nonce = desk.receive(3)
    desk.now += 20
    desk.extend(nonce)
    assert desk.ledger.next_deadline() == desk.now + 30
    desk.pass_time(15)
    assert desk.ack(nonce, run(0, 2)) == ()


def test_extending_a_part_leaves_the_rest_to_its_own_deadline() -> None:
    desk = Desk()
    nonce = desk.receive(3)
    desk.now += 20
    desk.extend(nonce, run(1))
    desk.pass_time(10)
    assert desk.counts() == {"in_flight": 1, "ready_again": 2}
    assert desk.ack(nonce, run(0, 2)) == (run(0), run(2))
    assert desk.ledger.next_deadline() is None


def test_a_lease_can_be_made_shorter() -> None:
    desk = Desk()
    nonce = desk.receive(1)
    desk.extend(nonce, visibility=1.0)
    assert desk.ledger.next_deadline() == desk.now + 1
    desk.pass_time(1)
    assert desk.counts() == {"ready_again": 1}


def test_deadlines_that_were_moved_a_thousand_times_are_not_kept() -> None:
    desk = Desk()
    nonce = desk.receive(2)
    for _ in range(1_000):
        desk.extend(nonce, run(0))
    assert len(desk.ledger._state.deliveries.deadlines._heap) <= 2 * 2 + OUTDATED_MAX


def test_messages_extended_one_by_one_cost_the_same_however_many_there_are() -> None:
    """Each has a lease of its own then; it took as many looks as there are leases to find it."""
    desk = Desk()
    nonce = desk.receive(1_200, count=1_200)
    for offset in range(1_000):
        desk.now += 0.001
        assert desk.extend(nonce, run(offset)) == ()
    few = desk.receive(12, count=12)
    for offset in range(1_200, 1_210):
        desk.extend(few, run(offset))

    def cost(nonce: int, first: int) -> int:
        extending = steps_of(lambda: desk.extend(nonce, run(first)))
        again = steps_of(lambda: desk.extend(nonce, run(first)))
        return extending + again + steps_of(desk.ledger.next_deadline)

    assert cost(nonce, 500) < 2 * cost(few, 1_205)
    assert steps_of(lambda: desk.ack(nonce, run(501))) < 2 * steps_of(lambda: desk.ack(few, run(1_206)))


def test_messages_extended_one_by_one_end_one_by_one_and_settle_together() -> None:
    desk = Desk()
    nonce = desk.receive(200, count=200)
    for offset in range(0, 200, 2):
        desk.now += 0.1
        desk.extend(nonce, run(offset))
    kept = desk.ledger.snapshot(desk.now)
    assert Ledger.restore(kept, LedgerSettings(), desk.now).snapshot(desk.now) == kept
    desk.pass_time(20.05)
    assert desk.counts() == {"in_flight": 100, "ready_again": 100}
    desk.pass_time(1.0)
    assert desk.counts() == {"in_flight": 90, "ready_again": 110}
    assert desk.extend(nonce, run(17), run(18), run(20), run(300)) == (run(17), run(18), run(300))
    assert desk.ack(nonce, run(20, 22), run(198)) == (run(21),)
    desk.ack(nonce, run(0, 199))
    assert desk.counts() == {"ready_again": 110}


def test_single_acks_that_are_decided_together_end_their_delivery_and_its_lease() -> None:
    desk = Desk()
    nonce = desk.receive(2)
    entries = [desk.ledger.ack(desk.now, nonce, [run(offset)])[0] for offset in (1, 0)]
    for entry in entries:
        desk.write(entry)
    assert desk.ledger.delivery(nonce) is None
    assert desk.ledger.next_deadline() is None
    assert desk.ledger.tick(desk.now + 100) == []
    assert desk.ack(nonce, run(0, 1)) == ()


def test_an_entry_that_does_not_fit_the_state_is_a_bug() -> None:
    desk = Desk()
    nonce = desk.receive(3)
    entry, _ = desk.ledger.ack(desk.now, nonce, [run(0, 1)])
    desk.write(entry)
    with pytest.raises(AssertionError, match="were out"):
        desk.write(entry)


def test_expiries_come_in_the_order_of_the_ends_of_their_leases() -> None:
    desk = Desk()
    for visibility in (3.0, 1.0, 2.0):
        desk.receive(1, visibility=visibility)
    desk.now += 5
    assert [entry.nonce for entry in desk.ledger.tick(desk.now)] == [2, 3, 1]


def test_a_member_that_closes_gives_everything_back_uncounted() -> None:
    """What a cancelled long poll was handed goes to somebody else."""
    desk = Desk()
    desk.receive(2, "ann")
    desk.receive(1, "bob")
    for entry in desk.ledger.release_member(desk.now, "ann"):
        desk.write(entry)
    assert desk.plan(member="bob").again == (run(0, 1),)
    assert desk.ledger.in_flight_by_member() == {"bob": 1}


def test_what_a_replaced_consumer_held_is_lost_at_once_and_counts() -> None:
    """What it had settled stays settled, its receipts are stale (G6), and what others hold is theirs."""
    desk = Desk()
    nonce = desk.receive(3, "ann")
    desk.receive(1, "bob")
    desk.ack(nonce, run(1))
    for entry in desk.ledger.expire_member("ann"):
        desk.write(entry)
    assert desk.plan(member="ann").again == (run(0, attempt=2), run(2, attempt=2))
    assert desk.ledger.ack(desk.now, nonce, [run(0), run(2)]) == (None, (run(0), run(2)))
    assert desk.ledger.in_flight_by_member() == {"bob": 1}
    assert desk.ledger.expire_member("ann") == []


def test_a_poison_message_does_not_kill_its_consumer_for_ever() -> None:
    """Its consumer dies and is back at once, again and again: deliveries count, and the last is made alone."""
    desk = Desk()
    for _ in range(2):
        desk.receive(2, "ann")
        for entry in desk.ledger.expire_member("ann"):
            desk.write(entry)
    plan = desk.plan(member="ann")
    assert (plan.is_alone, plan.again) == (True, (run(0, attempt=3),))
    desk.receive(1, "ann")
    [entry] = desk.ledger.expire_member("ann")
    desk.write(entry)
    [dead] = desk.ledger.next_dead_letters(5)
    assert (dead.first, dead.attempts) == (0, 3)
    assert dead.reason == "not settled when another consumer came in the place of this one, delivery 3 of 3"
