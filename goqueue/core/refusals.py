"""When to log a trouble that goes on: at once, then after 1 s, 2 s, 4 s and so on, 60 s at most.

A trouble that is over and comes back within a minute goes on where the last one stopped. So something that succeeds
and fails in turns does not fill a log either.
"""

from dataclasses import dataclass

FIRST_SECONDS, LONGEST_SECONDS = 1.0, 60.0


@dataclass(frozen=True, slots=True)
class Refusal:
    """The last refusal of a trouble."""

    code: str
    reason: str
    since: float
    """When the trouble began."""

    def __str__(self) -> str:
        return f"{self.reason} ({self.code})"


class Refusals:
    __slots__ = ("_ended", "_interval", "_say_at", "last")

    def __init__(self) -> None:
        self.last: Refusal | None = None
        """None while all goes well."""
        self._say_at, self._interval = 0.0, FIRST_SECONDS
        self._ended: float | None = None

    def note(self, code: str, reason: str, now: float) -> bool:
        """Note another refusal; returns whether to log it now."""
        if self.last is None and (self._ended is None or now - self._ended >= LONGEST_SECONDS):
            self._say_at, self._interval = now, FIRST_SECONDS
        self.last = Refusal(code, reason, now if self.last is None else self.last.since)
        if now < self._say_at:
            return False
        self._say_at = now + self._interval
        self._interval = min(2 * self._interval, LONGEST_SECONDS)
        return True

    def end(self, now: float) -> None:
        """It succeeded."""
        self.last, self._ended = None, now
