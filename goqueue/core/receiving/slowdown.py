"""When everything that a worker begins fails, it slows down, so that an outage does not use up attempts.

    WORKING ── so many messages failed in a row ──► PAUSING ── the pause is over ──► TRYING one message
       ▲                                               ▲                                │      │
       │                                               └── twice as long: it failed ────┘      │
       └──────────────────── a handler returned, this one or one begun before ────────────────┘

Messages are counted, not failures: a few poisoned messages that come again and again slow nothing down. What was
begun before a pause may still run, and its failures are no news. Times are arguments.
"""

import math
from collections.abc import Hashable, Iterable
from enum import Enum, auto

FAILURES_MIN = 20
"""Minimum of different messages that fail in a row before a worker slows down; at least two for each slot."""
PAUSE_FIRST, PAUSE_MAX = 1.0, 30.0


class Pulse(Enum):
    WORKING = auto()
    PAUSING = auto()
    TRYING = auto()


class Slowdown:
    def __init__(self, slots: int) -> None:
        self._failures_max = max(FAILURES_MIN, 2 * slots)
        self._failed: set[Hashable] = set()
        self._pulse = Pulse.WORKING
        self._trial: Hashable = None
        self.pause = 0.0
        """Seconds of the latest pause."""
        self.until = -math.inf
        """The end of the latest pause."""

    @property
    def is_slow(self) -> bool:
        return self._pulse is not Pulse.WORKING

    @property
    def failures(self) -> int:
        """The number of messages that failed in a row before it slowed down."""
        return len(self._failed)

    def room(self, now: float, free: int) -> int:
        """How many messages may begin, of so many for which a slot is free."""
        match self._pulse:
            case Pulse.WORKING:
                return free
            case Pulse.PAUSING:
                return min(1, free) if self.until <= now else 0
            case Pulse.TRYING:
                return 0

    def begun(self, messages: Iterable[Hashable]) -> None:
        for message in messages if self._pulse is Pulse.PAUSING else ():
            self._pulse, self._trial = Pulse.TRYING, message
            return

    def failed(self, message: Hashable, now: float) -> bool:
        """Whether it slows down from now on."""
        match self._pulse:
            case Pulse.WORKING:
                self._failed.add(message)
                if len(self._failed) < self._failures_max:
                    return False
                self._pause(now, PAUSE_FIRST)
                return True
            case Pulse.TRYING if message == self._trial:
                self._pause(now, min(PAUSE_MAX, 2 * self.pause))
        return False

    def _pause(self, now: float, seconds: float) -> None:
        self._pulse, self.pause, self.until = Pulse.PAUSING, seconds, now + seconds

    def succeeded(self) -> bool:
        """Whether it was slow until now."""
        was_slow = self.is_slow
        self._failed.clear()
        self._pulse = Pulse.WORKING
        return was_slow
