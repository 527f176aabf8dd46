"""Readers at the end of a partition, waiting for more.

A reader waits at an offset until something lies there or its time is up. Each is let go once. Readers at
the end are woken all at once, since the end only ever rises.
"""

from collections.abc import Hashable
from typing import Generic, TypeVar

from goqueue.core.deadlines import Deadlines
from goqueue.types import Offset

Reader = TypeVar("Reader", bound=Hashable)


class LongPoll(Generic[Reader]):
    def __init__(self) -> None:
        self._waiting: dict[Reader, Offset] = {}
        self._deadlines: Deadlines[Reader] = Deadlines()

    def __len__(self) -> int:
        return len(self._waiting)

    def wait(self, reader: Reader, offset: Offset, deadline: float) -> None:
        """Hold the reader until the end passes `offset`, or until the deadline."""
        self._waiting[reader] = offset
        self._deadlines.note(reader, deadline)

    def reached(self, end: Offset) -> list[Reader]:
        """The readers for which there is something now, in the order in which they came; they wait no more."""
        ready = [reader for reader, offset in self._waiting.items() if offset < end]
        for reader in ready:
            del self._waiting[reader]
            self._deadlines.drop(reader)
        return ready

    def expired(self, now: float) -> list[Reader]:
        """The readers whose time is up, earliest first; they wait no more."""
        gone = self._deadlines.take_passed(now)
        for reader in gone:
            del self._waiting[reader]
        return gone

    def all(self) -> list[Reader]:
        """All readers; they wait no more."""
        readers = list(self._waiting)
        self._waiting, self._deadlines = {}, Deadlines()
        return readers

    def next_deadline(self) -> float | None:
        return self._deadlines.next() if self._waiting else None
