"""The settings of a ledger, and how long messages wait after a nack that names no delay.

The wait doubles from the first to the longest. With jitter each wait is shorter by some share, so that messages
that failed together do not come again together. The share is a hash of the delivery, the offset and the attempt:
nothing is drawn here, and the numbers of deliveries are drawn elsewhere. The wait is decided once, and journaled.

A nack of many messages has few different waits: a long run is cut into pieces, and there are so many shares.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from goqueue.core.ledger.attempts import AttemptRun, AttemptRuns, Standing

DELAY_FIRST = 1.0
DELAY_MAX = 60.0
SHARES = PIECES_MAX = 32
_DOUBLINGS_MAX = 32
"""Limit of the exponent: enough for any first delay to reach the longest one."""
_MULTIPLIER, _MASK, _BITS_DROPPED = 0x9E3779B97F4A7C15, 2**64 - 1, 32

Waits: TypeAlias = list[tuple[float, AttemptRuns]]


def backoff(attempt: int, first: float = DELAY_FIRST, longest: float = DELAY_MAX) -> float:
    """Seconds after this delivery, counted from 1: 1, 2, 4 and so on, 60 at most."""
    assert attempt >= 1
    return float(min(longest, first * 2 ** min(attempt - 1, _DOUBLINGS_MAX)))


def waits(nonce: int, runs: Iterable[AttemptRun], first: float, longest: float, jitter: float) -> Waits:
    """The waits of these messages of a delivery, in order of attempts. None is longer than `longest`."""
    found: dict[tuple[int, float], list[AttemptRun]] = {}
    for run in runs:
        delay = backoff(run.attempt, first, longest)
        for piece in _pieces(run) if jitter else (run,):
            shorter = delay * jitter * _share(nonce, piece.first, run.attempt) if jitter else 0.0
            found.setdefault((run.attempt, delay - shorter), []).append(piece)
    return [(delay, tuple(found[attempt, delay])) for attempt, delay in sorted(found)]


def _pieces(run: AttemptRun) -> Iterator[AttemptRun]:
    size = -(-(run.last - run.first + 1) // PIECES_MAX)
    for first in range(run.first, run.last + 1, size):
        yield run._replace(first=first, last=min(run.last, first + size - 1))


def _share(*numbers: int) -> float:
    """From 0 to 1, both included."""
    mixed = 0
    for number in numbers:
        mixed = ((mixed ^ number) * _MULTIPLIER + 1) & _MASK
        mixed ^= mixed >> _BITS_DROPPED
    return (mixed * _MULTIPLIER & _MASK) * SHARES // (_MASK + 1) / (SHARES - 1)


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

    def waits(self, nonce: int, runs: Iterable[AttemptRun]) -> Waits:
        """How long these messages of a delivery wait after a nack that names no delay."""
        return waits(nonce, runs, self.backoff_first, self.backoff_max, self.jitter)

    def is_last(self, attempt: int) -> bool:
        """Whether a delivery is the last permitted one."""
        return 0 < self.max_deliveries <= attempt

    def goes_alone(self, standing: Standing) -> bool:
        return standing.lost and self.is_last(standing.attempt)
