"""A wall clock that follows Trio's clock, and lies when told to."""

import trio

from goqueue.types import Microseconds

START: Microseconds = 1_767_225_600_000_000  # 1 January 2026


class SimulatedClock:
    """Each node of a simulation may have its own; `skew` is how far it is ahead of the true time."""

    def __init__(self, start: Microseconds = START, skew: Microseconds = 0) -> None:
        self.start = start
        self.skew = skew

    def now(self) -> Microseconds:
        return self.start + self.skew + round(trio.current_time() * 1_000_000)

    def step(self, microseconds: Microseconds) -> None:
        """Jump, forwards or (below zero) backwards, as a corrected clock does."""
        self.skew += microseconds
