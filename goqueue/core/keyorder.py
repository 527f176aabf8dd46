"""Which messages a group that keeps the order of keys may hand out: of each key the first that is not settled.

A message is settled when it was acked, or is on its way to the dead-letter topic. Until then the next one of its
key waits, whatever happens to it meanwhile: in flight, waiting for its retry, ready again. Messages without a key
wait for nobody. A key is known by its hash: two keys that share one wait for each other, which breaks nothing.
"""

from bisect import insort
from collections import deque
from collections.abc import Iterable, Iterator

from goqueue.core.ledgerattempts import AttemptRun
from goqueue.core.offsetset import Run
from goqueue.types import Offset

Keyed = tuple[Offset, int]
"""A message with a key, and the hash of that."""


class KeyOrder:
    def __init__(self, keyed: Iterable[Keyed] = ()) -> None:
        self._keys: dict[Offset, int] = {}
        self._rows: dict[int, deque[Offset]] = {}
        """Of each key what is not settled, in order."""
        self.note(keyed)

    def __len__(self) -> int:
        return len(self._keys)

    def note(self, keyed: Iterable[Keyed]) -> None:
        """These are not settled."""
        for offset, key in keyed:
            if offset in self._keys:
                continue
            self._keys[offset] = key
            row = self._rows.setdefault(key, deque())
            if row and offset < row[-1]:
                insort(row, offset)
            else:
                row.append(offset)

    def may_leave(self, offset: Offset) -> bool:
        key = self._keys.get(offset)
        return key is None or self._rows[key][0] == offset

    def those_that_wait(self, fresh: Iterable[Run], keyed: Iterable[Keyed], give_max: int) -> list[Offset]:
        """Of messages that are looked at for the first time, behind all that are known; those too many wait too."""
        keys, begun, waiting = dict(keyed), set[int](), list[Offset]()
        for first, last in fresh:
            for offset in range(first, last + 1):
                key = keys.get(offset)
                if give_max > 0 and (key is None or not (key in self._rows or key in begun)):
                    give_max -= 1
                else:
                    waiting.append(offset)
                if key is not None:
                    begun.add(key)
        return waiting

    def first_of_their_keys(self, runs: Iterable[AttemptRun]) -> Iterator[AttemptRun]:
        """What of these may leave, in order."""
        for run in runs:
            for first, last in joined(filter(self.may_leave, range(run.first, run.last + 1))):
                yield AttemptRun(first, last, run.attempt)

    def longest_row(self) -> tuple[Offset, int] | None:
        """Of the key for which the most wait: the offset of the first, and how many wait for it."""
        row = max(self._rows.values(), key=len, default=None)
        return None if row is None or len(row) == 1 else (row[0], len(row) - 1)

    def settled(self, first: Offset, last: Offset) -> None:
        few = last - first < len(self._keys)
        for offset in range(first, last + 1) if few else [each for each in self._keys if first <= each <= last]:
            key = self._keys.pop(offset, None)
            if key is not None:
                self._take_out(key, offset)

    def _take_out(self, key: int, offset: Offset) -> None:
        row = self._rows[key]
        if row[0] == offset:
            row.popleft()
        else:
            row.remove(offset)
        if not row:
            del self._rows[key]


def joined(offsets: Iterable[Offset]) -> Iterator[Run]:
    """Runs of neighbours, of offsets in order."""
    first = last = None
    for offset in offsets:
        if last is None or first is None or offset != last + 1:
            if first is not None and last is not None:
                yield Run(first, last)
            first = offset
        last = offset
    if first is not None and last is not None:
        yield Run(first, last)
