"""A request to settle is decided by the ledger; a reject depends on whether the ledger has dead letters."""

import pytest

from goqueue.core.ledger.attempts import AttemptRun
from goqueue.core.ledger.deadletters import Destination
from goqueue.core.ledger.entries import (
    Acked,
    Entry,
    Expired,
    Extended,
    Nacked,
    Rejected,
    Released,
    Repaired,
    leaves,
)
from goqueue.core.ledger.ledger import VISIBILITY_SECONDS
from goqueue.core.ledger.settings import LedgerSettings
from goqueue.core.ledger.settlements import Action
from goqueue.core.offsetset import Run
from goqueue.errors import StaleReceipt
from tests.core.ledger.parts import Asked
from tests.core.ledger.test_delivering import Desk

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
