"""What a reject does depends on where it is said, and by whom."""

import pytest

from goqueue.actors.delivery.requests import SettleRuns
from goqueue.actors.delivery.settling import leaves, settled
from goqueue.core.ledger.attempts import AttemptRun
from goqueue.core.ledger.entries import Nacked, Rejected
from goqueue.core.ledger.handout import LaneScan, Recipient, Scanned
from goqueue.core.ledger.ledger import Ledger
from goqueue.core.ledger.settings import LedgerSettings
from goqueue.core.ledger.settlements import Action
from goqueue.core.offsetset import Run
from goqueue.types import Priority

NONCE = 7
BOTH = (AttemptRun(0, 1, 1),)


@pytest.fixture
def ledger() -> Ledger:
    """Two messages are out."""
    ledger = Ledger(LedgerSettings(max_deliveries=0))
    ledger.apply(ledger.begin(0), 0.0)
    plan, scan = ledger.plan(0.0, "ann", 2, is_busy=False), LaneScan(Priority.NORMAL, 2, (), [Run(0, 1)])
    (entry,) = ledger.hand_out(0.0, Recipient(0, "ann", NONCE, 30.0), plan, Scanned([scan])).entries
    ledger.apply(entry, 0.0)
    return ledger


def test_among_dead_letters_it_is_a_nack_with_the_longest_delay(ledger: Ledger) -> None:
    message = SettleRuns("billing", NONCE, Action.REJECT, BOTH, reason="hopeless")
    entry, stale = settled(ledger, 1.0, message, "orders.dlq")
    assert isinstance(entry, Nacked)
    assert ([(retry.delay, retry.runs) for retry in entry.retries], entry.reason) == ([(60.0, BOTH)], "hopeless")
    assert (stale, leaves(entry)) == ((), False)


@pytest.mark.parametrize(("group", "topic"), [("billing", "orders"), ("__redrive", "orders.dlq")])
def test_elsewhere_and_for_the_broker_that_sends_them_back_they_leave(
    ledger: Ledger, group: str, topic: str
) -> None:
    entry, stale = settled(ledger, 1.0, SettleRuns(group, NONCE, Action.REJECT, BOTH, reason="bad"), topic)
    assert entry == Rejected(NONCE, BOTH, "bad")
    assert (stale, leaves(entry)) == ((), True)


def test_a_stale_receipt_is_named_there_too(ledger: Ledger) -> None:
    message = SettleRuns("billing", NONCE + 1, Action.REJECT, BOTH)
    assert settled(ledger, 1.0, message, "orders.dlq") == (None, BOTH)
