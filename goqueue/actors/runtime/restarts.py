"""When a child is restarted, with which others, and when a supervisor gives up. Plain rules, no waiting."""

from collections import deque
from enum import Enum

from goqueue.errors import LogStopped
from goqueue.nursery import errors_in


class Strategy(Enum):
    ONE_FOR_ONE = "one_for_one"
    """Only the one that crashed."""
    REST_FOR_ONE = "rest_for_one"
    """The one that crashed and those started after it, since these may build on it."""


class NeverRestart(Exception):
    """The base of errors after which memory or disk are not to be trusted: a broken invariant.

    A restarted actor would build on wrong state. The error goes up through every supervisor, the node stops and
    recovers from disk.
    """


class TooManyRestarts(Exception):
    """A supervisor gave up on a child; the last crash is the cause."""


def never_restarts(error: BaseException | None) -> bool:
    """Whether this crash must stop the node. A stopped log does: what its last fsync wrote is unknown."""
    return error is not None and any(isinstance(fault, NeverRestart | LogStopped) for fault in errors_in(error))


class RestartBudget:
    """At most `restarts_max` restarts within any `window_seconds`."""

    def __init__(self, restarts_max: int, window_seconds: float) -> None:
        self.restarts_max = restarts_max
        self.window_seconds = window_seconds
        self._times: deque[float] = deque()

    def spend(self, now: float) -> bool:
        """Take one restart; False if there is none left."""
        while self._times and self._times[0] <= now - self.window_seconds:
            self._times.popleft()
        if len(self._times) >= self.restarts_max:
            return False
        self._times.append(now)
        return True
