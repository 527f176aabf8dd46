"""What one `send`, `send_nowait` or `send_many` waits for: a Published or an error for each of its messages."""

from collections.abc import Sequence
from itertools import repeat
from typing import TypeAlias

import trio

from goqueue.errors import GoQueueError
from goqueue.net.message import Published
from goqueue.types import Offset

Result: TypeAlias = Published | GoQueueError
FAILURES_MAX = 1_000
"""Of messages that nobody waits for: those beyond are counted by the log alone."""


class Outcome:
    __slots__ = ("_done", "_unheard", "has_failed", "remaining", "results", "since")

    def __init__(self, count: int, since: float, unheard: list[GoQueueError] | None = None) -> None:
        """`unheard` gets the errors, for when nobody waits for this one."""
        self.results: list[Result | None] = [None] * count
        self.remaining = count
        self.has_failed = False
        self.since = since
        """When it began to wait, in Trio's time."""
        self._unheard = unheard
        self._done: trio.Event | None = None

    @property
    def is_settled(self) -> bool:
        return self.remaining == 0

    async def wait(self) -> None:
        if self.remaining:
            self._done = self._done or trio.Event()
            await self._done.wait()

    def confirm(self, places: Sequence[int], topic: str, partition: int, base_offset: Offset | None) -> int:
        """These messages are written, one after the other from this offset on. How many that settles."""
        count = len(places)
        if count == 1:
            return self.settle(places[0], Published(topic, partition, base_offset))
        offsets = repeat(None, count) if base_offset is None else range(base_offset, base_offset + count)
        # Thousands at once: made without a call of ours for each.
        published = map(tuple.__new__, repeat(Published), zip(repeat(topic), repeat(partition), offsets))
        if isinstance(places, range) and not self.has_failed:
            self.results[places.start : places.stop] = published
            return self._note_settled(count)
        return sum(map(self.settle, places, published))

    def fail(self, places: Sequence[int], error: GoQueueError) -> int:
        return sum(self.settle(place, error) for place in places)

    def settle(self, place: int, result: Result) -> int:
        """1, or 0 when its waiting is over already: the first word holds."""
        if self.results[place] is not None:
            return 0
        self.results[place] = result
        if isinstance(result, GoQueueError):
            self.has_failed = True
            if self._unheard is not None and len(self._unheard) < FAILURES_MAX:
                self._unheard.append(result)
        return self._note_settled(1)

    def give_up(self, error: GoQueueError) -> int:
        """Whatever is not settled has failed so."""
        return self.fail([place for place, result in enumerate(self.results) if result is None], error)

    def _note_settled(self, count: int) -> int:
        self.remaining -= count
        if not self.remaining and self._done is not None:
            self._done.set()
        return count
