"""The requests of one connection that may wait long, and what they may ask at once.

Who waits when the broker goes away is sent away at once: nothing was done for it, and it asks again elsewhere. What
must not be broken off, since something is done by it, runs `undisturbed`, and the going waits for that.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import trio

from goqueue.net.wire.errors import GoingAway, TooManyRequests

READS_MAX = 2
"""Fetches and receives of one connection that read at once."""
QUESTIONS_MAX = 16_384
"""Partitions that the requests of one connection ask at once; each may wait long, in a task of its own."""


class Polls:
    def __init__(self) -> None:
        self.reads = trio.CapacityLimiter(READS_MAX)
        self._questions = 0
        self._waiting: dict[trio.CancelScope, None] = {}
        self._is_leaving = False

    def send_away(self) -> None:
        """Everybody who waits now, or would from now on."""
        self._is_leaving = True
        for poll in list(self._waiting):
            poll.cancel()

    @contextmanager
    def asking(self, count: int) -> Iterator[trio.CancelScope]:
        """For as long as a request asks so many. `TooManyRequests` beyond the bound, `GoingAway` when sent away."""
        self._questions += count
        poll = trio.CancelScope()
        try:
            self._check_questions()
            with poll:
                self._may_be_sent_away(poll)
                yield poll
            if poll.cancelled_caught:
                raise GoingAway("this broker is going away; ask again on a new connection")
        finally:
            self._waiting.pop(poll, None)
            self._questions -= count

    @contextmanager
    def undisturbed(self, poll: trio.CancelScope) -> Iterator[None]:
        self._waiting.pop(poll, None)
        try:
            yield
        finally:
            self._may_be_sent_away(poll)

    def _may_be_sent_away(self, poll: trio.CancelScope) -> None:
        self._waiting[poll] = None
        if self._is_leaving:
            poll.cancel()

    def _check_questions(self) -> None:
        if self._questions > QUESTIONS_MAX:
            raise TooManyRequests(
                f"the requests under way ask {self._questions} partitions at once; ask {QUESTIONS_MAX} at most"
            )
