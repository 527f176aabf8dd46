"""Readers at the end of a partition, waiting for more.

A reader waits at an offset until something lies there or its time is up. Each is let go once. The earliest
deadline is found by a heap, and readers at the end are woken all at once, since the end only ever rises.
"""

from heapq import heappop, heappush
from itertools import count
from typing import Generic, TypeVar

from goqueue.types import Offset

Reader = TypeVar("Reader")


class LongPoll(Generic[Reader]):
    def __init__(self) -> None:
        self._waiting: dict[int, tuple[Offset, Reader]] = {}
        self._deadlines: list[tuple[float, int]] = []
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._waiting)

    def wait(self, reader: Reader, offset: Offset, deadline: float) -> None:
        """Hold the reader until the end passes `offset`, or until the deadline."""
        number = next(self._numbers)
        self._waiting[number] = (offset, reader)
        heappush(self._deadlines, (deadline, number))

    def reached(self, end: Offset) -> list[Reader]:
        """The readers for which there is something now, in the order in which they came; they wait no more."""
        ready = [number for number, (offset, _) in self._waiting.items() if offset < end]
        return [self._waiting.pop(number)[1] for number in ready]

    def expired(self, now: float) -> list[Reader]:
        """The readers whose time is up, earliest first; they wait no more."""
        gone = []
        while self._deadlines and self._deadlines[0][0] <= now:
            _, number = heappop(self._deadlines)
            if number in self._waiting:
                gone.append(self._waiting.pop(number)[1])
        return gone

    def all(self) -> list[Reader]:
        """All readers; they wait no more."""
        readers = [reader for _, reader in self._waiting.values()]
        self._waiting.clear()
        return readers

    def next_deadline(self) -> float | None:
        while self._deadlines and self._deadlines[0][1] not in self._waiting:
            heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None
