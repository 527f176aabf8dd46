"""Messages on their way to the dead-letter topic: a queue in offset order, and the transfer under way.

At most one transfer is under way. Its sequence is journaled before the append, so that after a crash the same
messages are sent again under the same sequence, and the producer's memory tells whether they are there already:
each arrives exactly once (G5). The transfer stays as it is until it is over, whatever becomes of its messages
here: retention, a cut or a reset only take from it the right to settle them.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from operator import attrgetter
from typing import Any, NamedTuple

from goqueue.core.offsetset import OffsetSet, Run
from goqueue.types import Microseconds, Offset

_last = attrgetter("last")


class Destination(NamedTuple):
    """Where a redrive sends a dead letter, instead of to a dead-letter topic."""

    topic: str | None = None
    """None: the topic that the letter came from, to the same partition."""
    is_for_all: bool = False
    """Whether all groups get it, or only the one that gave it up."""

    def topic_for(self, origin: str) -> str:
        return self.topic or origin

    def group_for(self, group: str) -> str | None:
        """The only group that is to get it; None: all groups."""
        return None if self.is_for_all else group

    @classmethod
    def from_plain(cls, plain: Any) -> "Destination | None":
        return None if plain is None else cls(*plain)


class DeadRun(NamedTuple):
    """Neighbouring messages that were given up with the same attempts, times, reason and destination."""

    first: Offset
    last: Offset
    attempts: int
    first_delivery: Microseconds
    last_delivery: Microseconds
    reason: str
    to: Destination | None = None
    """None: the dead-letter topic."""

    def to_plain(self) -> list[Any]:
        return list(self[:-1]) if self.to is None else list(self)

    @classmethod
    def from_plain(cls, plain: Any) -> "DeadRun":
        return cls(*plain[:6], *map(Destination.from_plain, plain[6:]))

    @property
    def size(self) -> int:
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True)
class DeadLetterTransfer:
    sequence: int
    runs: tuple[DeadRun, ...]

    @property
    def size(self) -> int:
        return sum(run.size for run in self.runs)


class DeadLetterQueue:
    def __init__(self) -> None:
        self._leaving: list[DeadRun] = []
        self._leaving_count = 0
        self.under_way: DeadLetterTransfer | None = None
        self._to_settle = OffsetSet()

    @property
    def leaving_count(self) -> int:
        return self._leaving_count

    @property
    def transfer_count(self) -> int:
        """The number of messages in the transfer that hold the committed offset."""
        return len(self._to_settle)

    def count_in_transfer(self, first: Offset, last: Offset) -> int:
        return self._to_settle.count(first, last)

    def next(self, count_max: int) -> tuple[DeadRun, ...]:
        """The first waiting messages, at most `count_max`."""
        found, room = list[DeadRun](), count_max
        for run in self._leaving[: max(0, count_max)]:
            if room <= 0:
                break
            found.append(run._replace(last=min(run.last, run.first + room - 1)))
            room -= found[-1].size
        return tuple(found)

    def leaving(self) -> list[DeadRun]:
        return self._leaving

    def count_leaving(self, run: Run) -> int:
        """How many messages of this run wait."""
        return sum(piece.size for piece in self._find(run))

    def add(self, run: DeadRun) -> None:
        self._leaving.insert(bisect_left(self._leaving, run.last, key=_last), run)
        self._leaving_count += run.size

    def take(self, first: Offset, last: Offset) -> list[DeadRun]:
        """Remove and return the waiting messages of this range."""
        found = self._find(Run(first, last))
        if not found:
            return []
        begin = bisect_left(self._leaving, first, key=_last)
        touched = self._leaving[begin : begin + len(found)]
        outside = (touched[0]._replace(last=first - 1), touched[-1]._replace(first=last + 1))
        self._leaving[begin : begin + len(found)] = [run for run in outside if run.size > 0]
        self._leaving_count -= sum(run.size for run in found)
        return found

    def _find(self, wanted: Run) -> list[DeadRun]:
        found = list[DeadRun]()
        place = bisect_left(self._leaving, wanted.first, key=_last)
        while place < len(self._leaving) and self._leaving[place].first <= wanted.last:
            run = self._leaving[place]
            found.append(run._replace(first=max(run.first, wanted.first), last=min(run.last, wanted.last)))
            place += 1
        return found

    def begin(self, sequence: int, runs: Iterable[Run]) -> None:
        assert self.under_way is None, "one transfer at a time"
        taken = [dead for run in runs for dead in self.take(*run)]
        self.under_way = DeadLetterTransfer(sequence, tuple(taken))
        self._to_settle = OffsetSet(Run(dead.first, dead.last) for dead in taken)

    def end(self) -> list[Run]:
        """The transfer is over; returns the messages that are done now."""
        settled = list(self._to_settle.runs())
        self.under_way, self._to_settle = None, OffsetSet()
        return settled

    def let_go(self, first: Offset, last: Offset) -> None:
        """These messages are no longer this group's: those that wait are not sent, and those in the transfer settle
        nothing."""
        self.take(first, last)
        self._to_settle.discard(first, last)

    def hand_over(self, first: Offset, last: Offset) -> OffsetSet:
        """The messages of the transfer in this range, for the caller to settle."""
        taken = self._to_settle.common(OffsetSet([(first, last)]))
        self._to_settle.discard(first, last)
        return taken

    def runs(self) -> Iterator[Run]:
        """The waiting messages, and those of the transfer that hold the committed offset."""
        yield from (Run(run.first, run.last) for run in self._leaving)
        yield from self._to_settle.runs()

    def to_plain(self) -> list[Any]:
        under_way = self.under_way and [self.under_way.sequence, [run.to_plain() for run in self.under_way.runs]]
        return [[run.to_plain() for run in self._leaving], under_way, self._to_settle.to_plain()]

    @classmethod
    def from_plain(cls, plain: Any) -> "DeadLetterQueue":
        dead_letters = cls()
        leaving, under_way, to_settle = plain
        for run in leaving:
            dead_letters.add(DeadRun.from_plain(run))
        if under_way is not None:
            runs = tuple(map(DeadRun.from_plain, under_way[1]))
            dead_letters.under_way = DeadLetterTransfer(under_way[0], runs)
        dead_letters._to_settle = OffsetSet.from_plain(to_settle)
        return dead_letters


# What became of dead letters, in the ledger of the group that redrives them. A letter waits until somebody decides.
# It is sent back or dismissed; then it is done for this group, and stays in the log. The ledger alone says that it
# is done, not what became of it. If nothing is known here of a letter that is done, it was sent back by an earlier
# version.


DECISIONS_MAX = 1_000
"""Limit of the decisions on a partition whose time, destination and note are kept."""


class LetterVerdict(IntEnum):
    """The numbers are written in snapshots."""

    REDRIVEN = 1
    DISMISSED = 2
    RETURNED = 3
    """Its destination was deleted meanwhile: a copy was appended to the dead-letter topic, and waits there."""


class Decision(NamedTuple):
    verdict: LetterVerdict
    at: Microseconds | None = None
    """When its redrive or dismissal began; None: no longer known."""
    to: Destination | None = None
    note: str = ""

    def to_plain(self) -> list[Any]:
        return [int(self.verdict), self.at, self.to and list(self.to), self.note]

    @classmethod
    def from_plain(cls, plain: Any) -> "Decision":
        verdict, at, to, note, *_ = plain
        return cls(LetterVerdict(verdict), at, Destination.from_plain(to), note)


REDRIVEN_SOMETIME = Decision(LetterVerdict.REDRIVEN)


class Decisions:
    __slots__ = ("_made",)

    def __init__(self) -> None:
        self._made: dict[Decision, OffsetSet] = {}
        """The oldest first. A letter is in one of them at most."""

    def note(self, decision: Decision, letters: OffsetSet) -> None:
        """It replaces what was decided about these letters before."""
        if not letters:
            return
        self._remove(letters)
        self._made.setdefault(decision, OffsetSet()).update(letters)
        while len(self._made) > DECISIONS_MAX:
            self._give_up_details()

    def note_missing(self, letters: OffsetSet) -> None:
        """These were decided upon, and stay so until something else is decided."""
        rest = letters.copy()
        for decided in self._made.values():
            rest.remove(decided)
        self.note(REDRIVEN_SOMETIME, rest)

    def _give_up_details(self) -> None:
        oldest = next(each for each in self._made if each != Decision(each.verdict))
        letters = self._made.pop(oldest)
        self._made.setdefault(Decision(oldest.verdict), OffsetSet()).update(letters)

    def _remove(self, letters: OffsetSet) -> None:
        for decided in self._made.values():
            decided.remove(letters)
        self._drop_empty()

    def forget(self, first: Offset, last: Offset) -> None:
        """The log no longer has these."""
        for decided in self._made.values():
            decided.discard(first, last)
        self._drop_empty()

    def _drop_empty(self) -> None:
        if not all(self._made.values()):
            self._made = {decision: letters for decision, letters in self._made.items() if letters}

    def begin_below(self, offset: Offset) -> bool:
        """Whether something is known of a letter below this offset."""
        return any((letters.first or 0) < offset for letters in self._made.values())

    def items(self) -> Iterator[tuple[Decision, OffsetSet]]:
        yield from self._made.items()

    def to_plain(self) -> list[Any]:
        return [[decision.to_plain(), letters.to_plain()] for decision, letters in self._made.items()]

    @classmethod
    def from_plain(cls, plain: Any) -> "Decisions":
        decisions = cls()
        for decision, letters, *_ in plain:
            decisions._made[Decision.from_plain(decision)] = OffsetSet.from_plain(letters)
        return decisions
