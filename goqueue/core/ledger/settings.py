"""The settings of a ledger."""

from collections.abc import Iterable
from dataclasses import dataclass

from goqueue.core.ledger.attempts import AttemptRun, Standing
from goqueue.core.ledger.backoff import DELAY_FIRST, DELAY_MAX, Wait, waits


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

    jitter: float = 0.0
    """By what share of its time a wait may be shorter."""

    def waits(self, nonce: int, runs: Iterable[AttemptRun]) -> list[Wait]:
        """How long these messages of a delivery wait after a nack that names no delay."""
        return waits(nonce, runs, self.backoff_first, self.backoff_max, self.jitter)

    def is_last(self, attempt: int) -> bool:
        """Whether a delivery is the last permitted one."""
        return 0 < self.max_deliveries <= attempt

    def goes_alone(self, standing: Standing) -> bool:
        return standing.lost and self.is_last(standing.attempt)
