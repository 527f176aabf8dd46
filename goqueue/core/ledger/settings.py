"""The settings of a ledger, and how long a message waits after a nack that names no delay."""

from dataclasses import dataclass

from goqueue.core.ledger.attempts import Standing

DELAY_FIRST = 1.0
DELAY_MAX = 60.0
_DOUBLINGS_MAX = 16
"""Limit of the exponent: enough for any first delay to reach the longest one."""


def backoff(attempt: int, first: float = DELAY_FIRST, longest: float = DELAY_MAX) -> float:
    """Seconds after this delivery, counted from 1: 1, 2, 4 and so on, 60 at most."""
    assert attempt >= 1
    return float(min(longest, first * 2 ** min(attempt - 1, _DOUBLINGS_MAX)))


@dataclass(frozen=True, slots=True)
class LedgerSettings:
    max_deliveries: int = 3
    """0: a message is redelivered for ever."""
    backoff_first: float = DELAY_FIRST
    backoff_max: float = DELAY_MAX
    key_order: bool = False
    strict_lanes: bool = False
    """The highest lane with work gets everything, the starvation guard apart."""
    has_dead_letters: bool = True
    """Whether messages may be rejected. If not, a reject is a nack with the longest delay."""

    def is_last(self, attempt: int) -> bool:
        """Whether a delivery is the last permitted one."""
        return 0 < self.max_deliveries <= attempt

    def goes_alone(self, standing: Standing) -> bool:
        return standing.lost and self.is_last(standing.attempt)
