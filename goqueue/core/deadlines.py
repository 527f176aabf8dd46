"""Deadlines of many keys, and which of them have passed.

A heap orders the deadlines. To move or drop one leaves its entry in the heap: an outdated entry is passed over, and
removed when it comes to the top. When most entries are outdated, the heap is built anew, so it never holds more
than twice the keys and a few. Keys with the same deadline pass in the order in which they were
noted, and are never compared.
"""

from collections.abc import Hashable, Iterator
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

OUTDATED_MAX = 64
"""Outdated entries that are kept however few keys there are, so that a small heap is seldom built anew."""

Key = TypeVar("Key", bound=Hashable)
Entry = tuple[float, int, Key]
"""Deadline, a number of its own, key."""


class Deadlines(Generic[Key]):
    def __init__(self) -> None:
        self._live: dict[Key, Entry[Key]] = {}
        self._heap: list[Entry[Key]] = []
        self._noted = 0

    def __len__(self) -> int:
        return len(self._live)

    def __iter__(self) -> Iterator[Key]:
        """In the order in which they got their first deadline."""
        return iter(self._live)

    def note(self, key: Key, time: float) -> None:
        """The deadline of this key, in place of the one that it had."""
        self._noted += 1
        entry = self._live[key] = (time, self._noted, key)
        heappush(self._heap, entry)
        if len(self._heap) > 2 * len(self._live) + OUTDATED_MAX:
            self._tidy()

    def note_earlier(self, key: Key, time: float) -> None:
        """Note a deadline unless the key has an earlier one. A deadline that often moves to a later time is so
        cheap, and passes once for nothing."""
        entry = self._live.get(key)
        if entry is None or time < entry[0]:
            self.note(key, time)

    def drop(self, key: Key) -> None:
        """The key has no deadline, or had none."""
        self._live.pop(key, None)
        if len(self._heap) > 2 * len(self._live) + OUTDATED_MAX:
            self._tidy()

    def next(self) -> float | None:
        """The earliest deadline."""
        heap = self._heap
        while heap and self._live.get(heap[0][2]) is not heap[0]:
            heappop(heap)
        return heap[0][0] if heap else None

    def first(self) -> Key | None:
        """The key with the earliest deadline."""
        return None if self.next() is None else self._heap[0][2]

    def passed(self, now: float) -> list[Key]:
        """The keys whose deadline has passed, earliest first; they keep it."""
        return [entry[2] for entry in sorted(self._passed(now))]

    def take_passed(self, now: float) -> list[Key]:
        """The keys whose deadline has passed, earliest first; they have none any more."""
        heap, live, keys = self._heap, self._live, list[Key]()
        while heap and heap[0][0] <= now:
            entry = heappop(heap)
            if live.get(entry[2]) is entry:
                del live[entry[2]]
                keys.append(entry[2])
        return keys

    def _passed(self, now: float) -> Iterator[Entry[Key]]:
        """In a heap nothing below a later entry is earlier."""
        places = [0]
        while places:
            place = places.pop()
            if place < len(self._heap) and (entry := self._heap[place])[0] <= now:
                if self._live.get(entry[2]) is entry:
                    yield entry
                places += (2 * place + 1, 2 * place + 2)

    def _tidy(self) -> None:
        self._heap = list(self._live.values())
        heapify(self._heap)


def earliest(*deadlines: float | None) -> float | None:
    """The earliest of these, each of which may be missing."""
    found = None
    for deadline in deadlines:
        if deadline is not None and (found is None or deadline < found):
            found = deadline
    return found
