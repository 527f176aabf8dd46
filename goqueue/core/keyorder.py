"""Which messages a group that keeps the order of keys may hand out: of each key the first that is not settled.

A message is settled when it was acked, or is on its way to the dead-letter topic. Until then the next one of its
key waits, whatever happens to it meanwhile: in flight, waiting for its retry, ready again. Messages without a key
wait for nobody. A key is known by its hash: two keys that share one wait for each other, which breaks nothing.
"""

from bisect import insort
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain

from goqueue.core.ledgerattempts import AttemptRun
from goqueue.core.offsetset import OffsetSet, Run
from goqueue.types import Offset

Keyed = tuple[Offset, int]
"""A message with a key, and the hash of that."""


class KeyOrder:
    def __init__(self, keyed: Iterable[Keyed] = ()) -> None:
        self._keys: dict[Offset, int] = {}
        self._firsts: dict[int, Offset] = {}
        """Of each key the first that is not settled."""
        self._rows: dict[int, deque[Offset]] = {}
        """Those behind it, in order; most keys have none."""
        self.waiting = OffsetSet()
        """All of these."""
        self.note(keyed)

    def __len__(self) -> int:
        return len(self._keys)

    def note(self, keyed: Iterable[Keyed]) -> None:
        """These are not settled."""
        keys, firsts, waiting = self._keys, self._firsts, list[Run]()
        for offset, key in keyed:
            if offset in keys:
                continue
            keys[offset] = key
            if key not in firsts:
                firsts[key] = offset
            else:
                waiting.append(self._put_in_row(offset, key))
        self.waiting.update(OffsetSet(waiting))

    def _put_in_row(self, offset: Offset, key: int) -> Run:
        """Which of its key waits now that did not: this one, unless it was learnt late and is the first."""
        first = self._firsts[key]
        if offset < first:
            self._firsts[key], offset = offset, first
        row = self._rows.setdefault(key, deque())
        if row and offset < row[-1]:
            insort(row, offset)
        else:
            row.append(offset)
        return Run(offset, offset)

    def those_that_wait(self, fresh: Iterable[Run], keyed: Iterable[Keyed], give_max: int) -> list[Offset]:
        """Of messages that are looked at for the first time, behind all that are known; those too many wait too."""
        keys, begun, waiting, firsts = dict(keyed), set[int](), list[Offset](), self._firsts
        for first, last in fresh:
            for offset in range(first, last + 1):
                key = keys.get(offset)
                if give_max > 0 and (key is None or not (key in firsts or key in begun)):
                    give_max -= 1
                else:
                    waiting.append(offset)
                if key is not None:
                    begun.add(key)
        return waiting

    def settled(self, runs: Iterable[Run | AttemptRun]) -> None:
        keys, rows, free = self._keys, self._rows, list[Run]()
        for offset in chain.from_iterable(self._known(run.first, run.last) for run in runs):
            key = keys.pop(offset, None)
            if key in rows:
                free.append(self._take_out(key, offset))
            elif key is not None:
                del self._firsts[key]
        self.waiting.take(OffsetSet(free))

    def _known(self, first: Offset, last: Offset) -> Iterable[Offset]:
        """Of a range however long, as many as there may be something to know of."""
        if last - first < len(self._keys):
            return range(first, last + 1)
        return [offset for offset in self._keys if first <= offset <= last]

    def _take_out(self, key: int, offset: Offset) -> Run:
        """Which of its key waits no more: this one, or the one behind it."""
        row = self._rows[key]
        if self._firsts[key] != offset:
            row.remove(offset)
        else:
            self._firsts[key] = offset = row.popleft()
        if not row:
            del self._rows[key]
        return Run(offset, offset)


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
