"""A request to settle is decided by the ledger; a reject depends on whether the ledger has dead letters."""

from collections.abc import Callable

import pytest

from goqueue.core.ledger.attempts import AttemptRun
from goqueue.core.ledger.deadletters import Destination
from goqueue.core.ledger.entries import (
    Acked,
    Begun,
    Entry,
    Expired,
    Extended,
    Nacked,
    Rejected,
    Released,
    Repaired,
    leaves,
)
from goqueue.core.ledger.ledger import VISIBILITY_SECONDS, Ledger
from goqueue.core.ledger.settings import LedgerSettings
from goqueue.core.ledger.settlements import RUNS_TOGETHER_MAX, Action, decided_together
from goqueue.core.offsetset import Run
from goqueue.errors import StaleReceipt
from tests.core.ledger.parts import Asked
from tests.core.ledger.test_delivering import Desk, run

BOTH = (AttemptRun(0, 1, 1),)


def settled(desk: Desk, asked: Asked) -> object:
    return desk.ledger.settle(desk.now, asked)


def out(*, has_dead_letters: bool = True) -> tuple[Desk, int]:
    """Two messages are out; the nonce."""
    desk = Desk()
    desk.ledger.settings = LedgerSettings(max_deliveries=0, has_dead_letters=has_dead_letters)
    return desk, desk.receive(2)


def test_each_action_has_its_entry() -> None:
    desk, nonce = out()
    backoff = desk.ledger.nack(desk.now, nonce, BOTH, None, "later")
    one = (AttemptRun(0, 0, 1),)
    assert settled(desk, Asked(nonce, Action.ACK, one)) == (Acked(nonce, one), ())
    assert settled(desk, Asked(nonce, Action.ACK, BOTH)) == (Acked(nonce, None), ())
    assert settled(desk, Asked(nonce, Action.ACK, whole=2)) == (Acked(nonce, None), ())
    assert settled(desk, Asked(nonce, Action.NACK, BOTH, reason="later")) == backoff
    assert settled(desk, Asked(nonce, Action.REJECT, BOTH, reason="bad")) == (Rejected(nonce, BOTH, "bad"), ())
    assert settled(desk, Asked(nonce, Action.RELEASE, BOTH)) == (Released(nonce, BOTH), ())
    assert settled(desk, Asked(nonce, Action.EXTEND, BOTH, delay=7)) == (Extended(nonce, None, 7.0), ())
    assert settled(desk, Asked(nonce, Action.EXTEND)) == (Extended(nonce, None, VISIBILITY_SECONDS), ())


@pytest.mark.parametrize("asked", [Asked(9, Action.ACK, whole=2), Asked(9, Action.EXTEND)])
def test_what_names_no_messages_is_refused_as_a_whole(asked: Asked) -> None:
    """G6"""
    desk, _ = out()
    with pytest.raises(StaleReceipt, match="delivery 000000000009"):
        settled(desk, asked)


def test_among_dead_letters_a_reject_is_a_nack_with_the_longest_delay() -> None:
    desk, nonce = out(has_dead_letters=False)
    entry, stale = desk.ledger.settle(desk.now, Asked(nonce, Action.REJECT, BOTH, reason="hopeless"))
    assert isinstance(entry, Nacked)
    assert ([(retry.delay, retry.runs) for retry in entry.retries], entry.reason) == ([(60.0, BOTH)], "hopeless")
    assert (stale, leaves(entry)) == ((), False)


@pytest.mark.parametrize("has_dead_letters", [True, False])
def test_a_stale_receipt_is_named_whatever_a_reject_means(has_dead_letters: bool) -> None:
    desk, nonce = out(has_dead_letters=has_dead_letters)
    assert settled(desk, Asked(nonce + 1, Action.REJECT, BOTH)) == (None, BOTH)


@pytest.mark.parametrize(
    ("entry", "is_leaving"),
    [
        (Rejected(1, BOTH, "bad"), True),
        (Repaired(0, 1, ()), True),
        (Nacked(1, (), BOTH, ""), True),
        (Nacked(1, (), (), ""), False),
        (Expired(1, BOTH, "too often"), True),
        (Expired(1, BOTH, None), False),
        (Acked(1, BOTH), False),
    ],
)
def test_entries_that_make_dead_letters_are_told_from_others(entry: Entry, is_leaving: bool) -> None:
    assert leaves(entry) is is_leaving


def test_a_destination_stays_with_a_letter_until_it_has_arrived() -> None:
    """Also over a snapshot, while it waits and in the transfer. Letters of other destinations are other runs."""
    desk, elsewhere = Desk(), Destination("hospital", True)
    nonce = desk.receive(2)
    for offset, to in ((0, elsewhere), (1, None)):
        entry, _ = desk.ledger.settle(
            desk.now, Asked(nonce, Action.REJECT, (AttemptRun(offset, offset, 1),), reason="x", to=to)
        )
        assert entry is not None
        desk.ledger.apply(entry, desk.now)
    waiting = desk.ledger.copy(desk.now).next_dead_letters(10)
    assert [dead.to for dead in waiting] == [elsewhere, None]
    desk.ledger.apply(desk.ledger.begin_transfer(0, [Run(0, 0)]), desk.now)
    under_way = desk.ledger.copy(desk.now).transfer_under_way
    assert under_way is not None
    assert [dead.to for dead in under_way.runs] == [elsewhere]


# Begun, or held ahead


def replaced(desk: Desk) -> None:
    for entry in desk.ledger.expire_member("ann"):
        desk.write(entry)


@pytest.mark.parametrize("lose", [lambda desk: desk.pass_time(30), replaced], ids=["lease", "replaced"])
def test_what_was_not_begun_when_its_delivery_ended_comes_again_uncounted(lose: Callable[[Desk], None]) -> None:
    """A member that prefetches dies: its handlers have seen 1 and 2, and nothing else."""
    desk = Desk()
    nonce = desk.receive(5, tells_begun=True)
    assert desk.begin(nonce, run(1, 2)) == ()
    assert desk.ledger.count_not_begun() == 3
    desk.extend(nonce, run(2, 3))
    lose(desk)
    assert desk.plan().again == (run(0), run(1, 2, attempt=2), run(3, 4))


def test_what_is_never_begun_never_becomes_a_dead_letter() -> None:
    desk = Desk(max_deliveries=1)
    for _ in range(5):
        desk.receive(2, count=2, tells_begun=True)
        desk.pass_time(30)
    assert desk.counts() == {"ready_again": 2}
    desk.begin(desk.receive(tells_begun=True), run(1))
    desk.pass_time(30)
    assert desk.counts() == {"ready_again": 1, "leaving": 1}
    [letter] = desk.ledger.next_dead_letters(9)
    assert (letter.first, letter.attempts, letter.reason) == (1, 1, "not settled within 30 s, delivery 1 of 1")


def test_a_poison_message_that_is_held_ahead_stays_alone_on_its_last_delivery() -> None:
    desk = Desk(max_deliveries=2)
    desk.receive(2)
    desk.pass_time(30)
    for _ in range(3):
        desk.receive(tells_begun=True)
        assert desk.counts() == {"in_flight": 1, "ready_again": 1}
        desk.pass_time(30)
    desk.begin(desk.receive(tells_begun=True), run(0, attempt=2))
    desk.pass_time(30)
    assert desk.counts() == {"ready_again": 1, "leaving": 1}


def test_a_settlement_says_that_it_was_begun() -> None:
    desk = Desk()
    nonce = desk.receive(4, tells_begun=True)
    desk.nack(nonce, run(0), delay=0)
    desk.ack(nonce, run(1))
    desk.reject(nonce, run(2))
    desk.release(nonce, run(3))
    assert desk.counts() == {"ready_again": 2, "leaving": 1}
    assert desk.plan().again == (run(0, attempt=2), run(3))


def test_only_what_is_in_flight_under_that_delivery_and_attempt_begins() -> None:
    """G6"""
    desk = Desk()
    nonce = desk.receive(4, tells_begun=True)
    desk.ack(nonce, run(0))
    assert desk.begin(nonce, run(0, 2), run(3, attempt=2)) == (run(0), run(3, attempt=2))
    assert desk.begin(nonce + 1, run(1)) == (run(1),)
    desk.now += 30
    assert desk.begin(nonce, run(1)) == (run(1),), "its lease has ended, though nobody has looked yet"


def test_what_changes_nothing_has_no_entry() -> None:
    desk = Desk()
    nonce, counted = desk.receive(4, tells_begun=True), desk.receive(2)
    desk.begin(nonce, run(1, 2))
    assert settled(desk, Asked(nonce, Action.BEGIN, (run(1, 2),))) == (None, ())
    assert settled(desk, Asked(nonce, Action.BEGIN, (run(0, 3),))) == (Begun(nonce, (run(0), run(3))), ())
    assert settled(desk, Asked(counted, Action.BEGIN, (run(4, 5),))) == (None, ()), "it counts anyway"


def test_a_snapshot_without_what_was_begun_is_of_a_time_when_everything_counted() -> None:
    desk = Desk()
    desk.receive(2)
    plain = desk.ledger.snapshot(desk.now)
    [delivery] = plain[3][0]
    assert len(delivery) == 7, "so it was written before there were begun messages"
    desk.ledger = Ledger.restore(plain, desk.ledger.settings, desk.now)
    desk.pass_time(30)
    assert desk.plan().again == (run(0, 1, attempt=2),)


# Decided together


def acked(first: int, last: int | None = None, nonce: int = 1) -> Asked:
    return Asked(nonce, Action.ACK, (run(first, last),))


def begun(first: int, nonce: int = 1) -> Asked:
    return Asked(nonce, Action.BEGIN, (run(first),))


def portions(*asked: Asked) -> list[int]:
    return [len(portion) for portion in decided_together(asked, lambda request: request)]


def test_settlements_of_different_messages_are_decided_together() -> None:
    messages = [(offset, nonce) for nonce in (1, 2) for offset in range(9)]
    words = [word for offset, nonce in messages for word in (begun(offset, nonce), acked(offset, nonce=nonce))]
    assert portions(*words) == [36]
    others = Asked(1, Action.NACK, (run(1),)), Asked(1, Action.EXTEND, (run(2),))
    assert portions(acked(0), acked(0, nonce=2), *others) == [4]


def test_what_is_settled_is_looked_at_anew_by_what_comes_behind() -> None:
    assert portions(acked(0, 3), acked(3, 4)) == [1, 1]
    assert portions(acked(0), begun(0)) == [1, 1]
    assert portions(Asked(1, Action.EXTEND, (run(0),)), acked(0)) == [1, 1]
    assert portions(begun(0), begun(1), acked(0), acked(1), begun(1), acked(2)) == [4, 2]


def test_what_names_no_messages_shares_no_write_with_others_of_its_delivery() -> None:
    whole, extend = Asked(1, Action.ACK, whole=9), Asked(1, Action.EXTEND)
    assert portions(acked(0), whole, acked(1)) == portions(acked(0), extend, acked(1)) == [1, 1, 1]
    assert portions(acked(0, nonce=2), whole, extend, acked(1, nonce=2)) == [2, 2]


def test_forged_runs_cost_nothing_and_the_runs_of_one_write_are_bounded() -> None:
    """G14"""
    forged = acked(0, 2**60)
    assert portions(forged, acked(5), Asked(1, Action.ACK, (AttemptRun(9, 3, 1),)), begun(1)) == [1, 1, 1, 1]
    few, many = (tuple(run(2 * n) for n in range(size)) for size in (RUNS_TOGETHER_MAX // 2, 2 * RUNS_TOGETHER_MAX))
    assert portions(*[Asked(nonce, Action.ACK, few) for nonce in range(5)]) == [2, 2, 1]
    assert portions(*[Asked(nonce, Action.ACK, many) for nonce in range(2)]) == [1, 1]
