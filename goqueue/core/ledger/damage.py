"""Messages of a group that the log cannot read: they wait for a repair, or until an operator gives them up.

Their priority is unknown, and even whether they are messages at all, so a range is damaged in all lanes. Each
offset keeps what was known of it, and returns to that state when the log can read it again:

    fresh      never handed out
    again      was to come again: the number of its delivery stays
    letters    was to leave for the dead-letter topic: its reason stays

Each range is named with its file, for people. The offsets themselves are bitmaps: a range costs the same as one
offset.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from goqueue.core.ledger.attempts import Attempts, StandingRun
from goqueue.core.ledger.deadletters import DeadLetterQueue, DeadRun
from goqueue.core.names import check_publishable
from goqueue.core.offsetset import OffsetSet, Run
from goqueue.errors import ProtocolError
from goqueue.types import Microseconds, Offset

NAMES_MAX = 100
"""Limit of the ranges that are named with their file. The messages of further ranges are damaged too, and
counted."""
LATE_TIDY_FROM = 64

Timed = tuple[Run, Microseconds]


def check_skip(topic: str, first: Offset, last: Offset) -> None:
    """Checks which offsets an operator gives up."""
    check_publishable(topic)
    if first > last:
        raise ProtocolError("the first offset lies behind the last; name them in order")


class DamagedRun(NamedTuple):
    """Offsets that one file should hold. `messages` of them are damaged for the group."""

    first: Offset
    last: Offset
    path: str
    messages: int = 0


class RepairedRun(NamedTuple):
    """Offsets that are no longer damaged, by what was known of them."""

    fresh: OffsetSet
    again: list[StandingRun]
    letters: list[DeadRun]

    @property
    def offsets(self) -> OffsetSet:
        found = self.fresh.copy()
        for first, last in held_in(self.again, self.letters):
            found.add(first, last)
        return found


def held_in(again: Iterable[StandingRun], letters: Iterable[DeadRun]) -> Iterator[Run]:
    yield from (run for _, run in again)
    yield from (Run(letter.first, letter.last) for letter in letters)


class Damages:
    def __init__(self) -> None:
        self.fresh = OffsetSet()
        self.again = Attempts()
        self._letters = DeadLetterQueue()
        self._names: list[DamagedRun] = []

    def __len__(self) -> int:
        return len(self.fresh) + len(self.again) + self._letters.leaving_count

    def __bool__(self) -> bool:
        return bool(self.fresh or self.again or self._letters.leaving_count)

    def runs(self) -> Iterator[Run]:
        yield from self.fresh.runs()
        yield from (Run(run.first, run.last) for run in self.again.runs())
        yield from self._letters.runs()

    @property
    def offsets(self) -> OffsetSet:
        return OffsetSet(self.runs())

    def count(self, first: Offset, last: Offset) -> int:
        again = sum(offsets.count(first, last) for offsets in self.again.values())
        return self.fresh.count(first, last) + again + self._letters.count_leaving(Run(first, last))

    def ranges(self) -> tuple[DamagedRun, ...]:
        """The ranges in order, each with the number of its messages."""
        return tuple(each._replace(messages=self.count(each.first, each.last)) for each in self._names)

    def add(self, fresh: OffsetSet, again: Iterable[StandingRun], letters: Iterable[DeadRun]) -> None:
        self.fresh.update(fresh)
        for standing, run in again:
            self.again.add(standing, run)
        for letter in letters:
            self._letters.add(letter)

    def name(self, first: Offset, last: Offset, path: str) -> None:
        """The newest file that is named for a range holds."""
        rest = list[DamagedRun]()
        for each in self._names:
            pieces = (each._replace(last=min(each.last, first - 1)), each._replace(first=max(each.first, last + 1)))
            rest += [piece for piece in pieces if piece.first <= piece.last]
        self._names = _joined(sorted([*rest, DamagedRun(first, last, path)]))[:NAMES_MAX]

    def take(self, first: Offset, last: Offset) -> RepairedRun:
        """Remove and return the damaged offsets of this range."""
        fresh = OffsetSet(self.fresh.runs(first, last))
        self.fresh.discard(first, last)
        taken = RepairedRun(fresh, self.again.take_range(first, last), self._letters.take(first, last))
        self._names = [each for each in self._names if self.count(each.first, each.last)]
        return taken

    def to_plain(self) -> list[Any]:
        names = [list(each[:3]) for each in self._names]
        return [self.fresh.to_plain(), self.again.to_plain(), self._letters.to_plain(), names]

    @classmethod
    def from_plain(cls, plain: Any) -> "Damages":
        damages = cls()
        fresh, again, letters, names, *_ = plain
        damages.fresh = OffsetSet.from_plain(fresh)
        damages.again, damages._letters = Attempts.from_plain(again), DeadLetterQueue.from_plain(letters)
        damages._names = [DamagedRun(first, last, path) for first, last, path, *_ in names]
        return damages


def _joined(names: Iterable[DamagedRun]) -> list[DamagedRun]:
    joined = list[DamagedRun]()
    for each in names:
        if joined and joined[-1].path == each.path and joined[-1].last + 1 >= each.first:
            joined[-1] = joined[-1]._replace(last=max(joined[-1].last, each.last))
        else:
            joined.append(each)
    return joined


class LateDeliveries:
    """When repaired messages were first delivered: later than those around them (firstdeliveries.py)."""

    def __init__(self) -> None:
        self._waiting = OffsetSet()
        self._times: list[tuple[Microseconds, OffsetSet]] = []
        self._tidy_at = LATE_TIDY_FROM

    def wait(self, offsets: OffsetSet) -> None:
        """These are to be delivered for the first time."""
        self._waiting.update(offsets)

    def note(self, handed_out: Iterable[OffsetSet], wall: Microseconds) -> None:
        if self._waiting:
            for offsets in handed_out:
                found = self._waiting.take(offsets)
                self._times += [(wall, found)] if found else []

    def split(self, run: Run, otherwise: Callable[[Run], Iterator[Timed]]) -> Iterator[Timed]:
        """The run in pieces that were first delivered together; `otherwise` answers for those that were not
        late."""
        rest = OffsetSet([run])
        for wall, offsets in self._times:
            yield from ((piece, wall) for piece in rest.take(offsets).runs())
        for piece in rest.runs():
            yield from otherwise(piece)

    def without(self, offsets: OffsetSet) -> OffsetSet:
        """The offsets that were not late."""
        for late in (self._waiting, *(late for _, late in self._times)):
            offsets = offsets.without(late) if late else offsets
        return offsets

    @property
    def have_grown(self) -> bool:
        return len(self._times) >= self._tidy_at

    def tidy(self, held: OffsetSet) -> None:
        """Drop the times of offsets that are not `held`."""
        self._times = self._needed(held)
        self._tidy_at = max(LATE_TIDY_FROM, 2 * len(self._times))

    def forget(self, first: Offset, last: Offset) -> None:
        for offsets in (self._waiting, *(offsets for _, offsets in self._times)):
            offsets.discard(first, last)

    def _needed(self, held: OffsetSet) -> list[tuple[Microseconds, OffsetSet]]:
        common = [(wall, offsets.common(held)) for wall, offsets in self._times]
        return [(wall, offsets) for wall, offsets in common if offsets]

    def to_plain(self, held: OffsetSet) -> list[Any]:
        times = [[wall, offsets.to_plain()] for wall, offsets in self._needed(held)]
        return [self._waiting.common(held).to_plain(), times]

    @classmethod
    def from_plain(cls, plain: Any) -> "LateDeliveries":
        late = cls()
        late._waiting = OffsetSet.from_plain(plain[0])
        late._times = [(wall, OffsetSet.from_plain(offsets)) for wall, offsets in plain[1]]
        return late
