"""What a group wants of its ledgers."""

from dataclasses import dataclass

from goqueue.core.ledger.backoff import DELAY_FIRST, DELAY_MAX


@dataclass(frozen=True, slots=True)
class LedgerSettings:
    max_deliveries: int = 3
    """0: a message is handed out again for ever."""
    backoff_first: float = DELAY_FIRST
    backoff_max: float = DELAY_MAX
    key_order: bool = False
    strict_lanes: bool = False
    """The highest lane with work gets everything, the guard apart."""
