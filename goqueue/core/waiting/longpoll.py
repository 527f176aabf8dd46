"""Readers at the end of a partition, waiting for more.

A reader waits at an offset until something lies there or its time is up. Each is let go once. Readers at
the end are woken all at once, since the end only ever rises.
"""

from itertools import count
from typing import Generic, TypeVar

from goqueue.core.deadlines import Deadlines
from goqueue.types import Offset

Reader = TypeVar("Reader")


class LongPoll(Generic[Reader]):
    def __init__(self) -> None:
        self._waiting: dict[int, tuple[Offset, Reader]] = {}
        self._deadlines: Deadlines[int] = Deadlines()
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._waiting)

    def wait(self, reader: Reader, offset: Offset, deadline: float) -> None:
        """Hold the reader until the end passes `offset`, or until the deadline."""
        number = next(self._numbers)
        self._waiting[number] = (offset, reader)
        self._deadlines.note(number, deadline)

    def reached(self, end: Offset) -> list[Reader]:
        """The readers for which there is something now, in the order in which they came; they wait no more."""
        ready = [number for number, (offset, _) in self._waiting.items() if offset < end]
        for number in ready:
            self._deadlines.drop(number)
        return [self._waiting.pop(number)[1] for number in ready]

    def expired(self, now: float) -> list[Reader]:
        """The readers whose time is up, earliest first; they wait no more."""
        return [self._waiting.pop(number)[1] for number in self._deadlines.take_passed(now)]

    def all(self) -> list[Reader]:
        """All readers; they wait no more."""
        readers = [reader for _, reader in self._waiting.values()]
        self._waiting.clear()
        self._deadlines.clear()
        return readers

    def next_deadline(self) -> float | None:
        return self._deadlines.next()
