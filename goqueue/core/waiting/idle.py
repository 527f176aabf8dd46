"""How long a consumer has waited for messages and got none: when is it time to say why?

Only waiting counts. A program that is at work, or does not ask, needs no explanation. An idle spell ends when
something comes; while it lasts, the pauses between two explanations double.
"""

FIRST_SECONDS = 30.0
PAUSE_SECONDS_MAX = 3_600.0


class IdleTime:
    def __init__(self) -> None:
        self._waiters = 0
        self._since = 0.0
        self._before = 0.0
        """The time waited in this spell before the present waiters came."""
        self._due = self._pause = FIRST_SECONDS

    def begin_wait(self, now: float) -> None:
        if not self._waiters:
            self._since = now
        self._waiters += 1

    def end_wait(self, now: float) -> None:
        self._waiters -= 1
        if not self._waiters:
            self._before += now - self._since

    def arrived(self, now: float) -> None:
        """Something has come: another spell begins."""
        self._since, self._before = now, 0.0
        self._due = self._pause = FIRST_SECONDS

    def said(self) -> None:
        """An explanation was given: the next one comes later."""
        self._pause = min(2 * self._pause, PAUSE_SECONDS_MAX)
        self._due += self._pause

    @property
    def is_waiting(self) -> bool:
        return self._waiters > 0

    @property
    def has_begun(self) -> bool:
        """Whether there was a waiter since something came last."""
        return self._waiters > 0 or self._before > 0

    def waited(self, now: float) -> float:
        return self._before + (now - self._since if self._waiters else 0.0)

    def left(self, now: float) -> float:
        """The waiting time that is left until the next explanation."""
        return max(0.0, self._due - self.waited(now))
