"""The prefetch of a program that receives messages, settles them, and receives the next.

After a few such rounds its next batch is prefetched. If its batches are small, several of them are: what it works
through in a twentieth of a second, so that it does not wait for the broker at each message. A program that becomes
slow keeps one batch, and gives back the others after a second, uncounted: other members may have time for them.
Where messages of several priorities come, one batch is all: an urgent message shall not wait behind others here.
"""

from collections.abc import Callable

import trio

from goqueue.client.consuming.delivery import Portion, portions_of
from goqueue.client.consuming.receiving import Receiving
from goqueue.client.consuming.stock import Stock
from goqueue.core.receiving.pace import HELD_SECONDS_MAX, Pace

ROUNDS_MIN = 2
"""Number of rounds in a row in which all but the last batch was settled, before anything is prefetched."""
AHEAD_SECONDS = 0.05
AHEAD_MAX = 16
"""Limit of messages that are prefetched, unless the program asks for larger batches."""
PRIORITIES_SECONDS = 60.0
"""For this long it is remembered that messages of several priorities came."""


class SteadyPrefetch:
    def __init__(self, stock: Stock, receiving: Receiving, release: Callable[[list[Portion]], None]) -> None:
        self._stock = stock
        self._receiving = receiving
        self._release = release
        self._rounds = 0
        self._pace = Pace(1, AHEAD_MAX, AHEAD_SECONDS)
        self._last_taken = 0
        self._taken_at = 0.0
        self._batch = 0
        """The number of messages that the program asked for last."""
        self._has_more = trio.Event()
        self._look_anew_at = 0.0

    def taken(self, count: int, wanted: int) -> None:
        """The program asked for at most `wanted` messages and was given `count`."""
        now = trio.current_time()
        at_work = self._stock.count - len(self._stock.ahead) - count
        if at_work > self._last_taken:
            self._rounds = 0
        else:
            if self._last_taken:
                self._pace.ended((now - self._taken_at) / self._last_taken)
            self._rounds += 1
        self._last_taken, self._taken_at, self._batch = count, now, wanted
        if now >= self._look_anew_at:
            self._look_anew_at = now + PRIORITIES_SECONDS
            self._stock.priority_mask = 0
        ahead = wanted if self._stock.has_several_priorities else max(wanted, self._pace.ahead)
        self._receiving.want_steadily(ahead if self._rounds > ROUNDS_MIN else 0)
        if len(self._stock.ahead) > wanted:
            self._has_more.set()

    async def run(self) -> None:
        """Give back what has been held for too long, but for one batch."""
        while True:
            await self._has_more.wait()
            self._has_more = trio.Event()
            while len(self._stock.ahead) > self._batch:
                overdue_at = self._stock.ahead[0].delivery.arrived_at + HELD_SECONDS_MAX
                if overdue_at > trio.current_time():
                    await trio.sleep_until(overdue_at)
                else:
                    self._pace.was_too_fast()
                    self._release(portions_of(self._stock.take_beyond(self._batch)))
