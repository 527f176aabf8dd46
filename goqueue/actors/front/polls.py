"""The long polls of one connection, and the limits on what they ask at once.

When the broker goes away, polls that wait end at once: nothing was done for them, and the client asks again
elsewhere. The part of a poll that takes messages runs `undisturbed`, and the broker waits for it.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import trio

from goqueue.net.wire.errors import GoingAway, TooManyRequests

READS_MAX = 2
"""Limit of fetches and receives of one connection that read at once."""
QUESTIONS_MAX = 16_384
"""Limit of partitions that the requests of one connection ask at once; each may wait long, in a task of its own."""


class Polls:
    def __init__(self) -> None:
        self.reads = trio.CapacityLimiter(READS_MAX)
        self._questions = 0
        self._waiting: dict[trio.CancelScope, None] = {}
        self._is_leaving = False

    def send_away(self) -> None:
        """End all polls that wait now, and those that would from now on."""
        self._is_leaving = True
        for poll in list(self._waiting):
            poll.cancel()

    @contextmanager
    def asking(self, count: int) -> Iterator[trio.CancelScope]:
        """While a request asks `count` partitions. `TooManyRequests` beyond the limit, `GoingAway` if sent away."""
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
