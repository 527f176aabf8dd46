"""The bounds of a session, and what is held to them: loads and long polls.

When the broker goes away, polls that wait end at once: nothing was done for them, and the client asks again
elsewhere. The part of a poll that takes messages runs `undisturbed`, and the broker waits for it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import trio

from goqueue.net.wire.errors import GoingAway, TooManyRequests


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much one session may have under way. Beyond the first two, no more requests of it are taken."""

    batch_bytes_max: int = 64 * 1024 * 1024
    """Limit of batches that are not answered yet."""
    settling_runs_max: int = 65_536
    """Limit of runs and commits that are being settled."""
    members_max: int = 1_024
    reads_max: int = 2
    """Limit of fetches and receives that read at once."""
    questions_max: int = 16_384
    """Limit of partitions that are asked at once; each may wait long, in a task of its own."""


class RequestLoad:
    """The amount of requests that are not answered yet. Adding more than the limit waits."""

    __slots__ = ("_most", "_waiting", "amount")

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting = trio.lowlevel.ParkingLot()
        self.amount = 0

    def add_at_once(self, more: int) -> bool:
        """False if there is no room. A request larger than the limit has room when it is alone."""
        if self.amount and self.amount + more > self._most:
            return False
        self.amount += more
        return True

    async def add(self, more: int) -> None:
        while not self.add_at_once(more):
            await self._waiting.park()

    def remove(self, amount: int) -> None:
        self.amount -= amount
        if self._waiting:
            self._waiting.unpark_all()


class Slots:
    """A limit of requests at once; others wait in order. A slot belongs to a request, which may have no task."""

    __slots__ = ("_free", "_waiting")

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting = trio.lowlevel.ParkingLot()

    def take_at_once(self) -> bool:
        if not self._free:
            return False
        self._free -= 1
        return True

    def give_back(self) -> None:
        """To the one that waits longest, if one does."""
        if self._waiting:
            self._waiting.unpark()
        else:
            self._free += 1

    async def __aenter__(self) -> None:
        if not self.take_at_once():
            await self._waiting.park()

    async def __aexit__(self, *_: object) -> None:
        self.give_back()


class Polls:
    def __init__(self, bounds: Bounds) -> None:
        self.reads = Slots(bounds.reads_max)
        self._questions = 0
        self._questions_max = bounds.questions_max
        self._waiting: dict[trio.CancelScope, None] = {}
        self.is_leaving = False

    def send_away(self) -> None:
        """End all polls that wait now, and those that would from now on."""
        self.is_leaving = True
        self.end()

    def end(self) -> None:
        """End all polls that wait now. What one is just taking is still answered."""
        for poll in list(self._waiting):
            poll.cancel()

    def admit(self, count: int) -> bool:
        """Whether a request that does not wait may ask `count` partitions: only those that wait are counted."""
        return not self.is_leaving and self._questions + count <= self._questions_max

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
        if self.is_leaving:
            poll.cancel()

    def _check_questions(self) -> None:
        if self._questions > self._questions_max:
            asked, most = self._questions, self._questions_max
            raise TooManyRequests(f"the requests under way ask {asked} partitions at once; ask {most} at most")
