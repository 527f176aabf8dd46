"""The ledger's entry for a settlement, and its stale receipts (G6)."""

from goqueue.actors.delivery.requests import SettleRuns
from goqueue.core.ledger.attempts import AttemptRuns
from goqueue.core.ledger.entries import Entry, Expired, Nacked, Rejected, Repaired
from goqueue.core.ledger.ledger import Ledger
from goqueue.core.ledger.settlements import Action
from goqueue.core.names import DEAD_LETTER_SUFFIX, is_internal
from goqueue.errors import StaleReceipt

VISIBILITY_SECONDS = 30.0
"""The visibility timeout of an extension that names none."""


def settled(ledger: Ledger, now: float, message: SettleRuns, topic: str) -> tuple[Entry | None, AttemptRuns]:
    """Nothing is changed yet."""
    nonce, runs = message.nonce, message.runs
    match message.action:
        case Action.ACK:
            return _acked_whole(ledger, now, message) if message.whole else ledger.ack(now, nonce, runs)
        case Action.NACK:
            return ledger.nack(now, nonce, runs, message.delay, message.reason)
        case Action.REJECT:
            if _has_no_dead_letters(topic, message.group):
                return ledger.nack(now, nonce, runs, ledger.settings.backoff_max, message.reason)
            return ledger.reject(now, nonce, runs, message.reason)
        case Action.RELEASE:
            return ledger.release(now, nonce, runs)
        case Action.EXTEND:
            return _extended(ledger, now, message)


def _has_no_dead_letters(topic: str, group: str) -> bool:
    """Dead letters have no dead letters: a rejected one stays, and is redelivered late. The broker's own group
    sends them back by rejecting."""
    return topic.endswith(DEAD_LETTER_SUFFIX) and not is_internal(group)


def _acked_whole(ledger: Ledger, now: float, message: SettleRuns) -> tuple[Entry | None, AttemptRuns]:
    entry, is_acked = ledger.ack_whole(now, message.nonce, message.whole)
    if not is_acked:
        raise StaleReceipt(
            f"delivery {message.nonce:012x} is not as it was, or its lease has ended; name its messages by runs"
        )
    return entry, ()


def _extended(ledger: Ledger, now: float, message: SettleRuns) -> tuple[Entry | None, AttemptRuns]:
    visibility = VISIBILITY_SECONDS if message.delay is None else float(message.delay)
    entry, stale = ledger.extend(now, message.nonce, message.runs or None, visibility)
    if entry is None and not message.runs:
        raise StaleReceipt(
            f"nothing of delivery {message.nonce:012x} is out; its lease has ended, or all is settled"
        )
    return entry, stale


def leaves(entry: Entry) -> bool:
    """Whether the entry makes dead letters, or may."""
    match entry:
        case Rejected() | Repaired():
            return True
        case Nacked():
            return bool(entry.leaving)
        case Expired():
            return entry.reason is not None
        case _:
            return False
