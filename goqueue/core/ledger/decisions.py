"""What was decided about dead letters, in the ledger of the group that redrives them.

A letter waits until somebody decides. It is sent back or dismissed; then it is done for this group, and stays in
the log. The ledger alone says that it is done, not what became of it: that is kept here, as sets of offsets.
Letters of one decision share its time, destination and note.

A letter that is done and of which nothing is known here was sent back by an earlier version of the broker, or long
ago: the details of the oldest decisions are given up beyond `DECISIONS_MAX`. What it was is never forgotten.
"""

from collections.abc import Iterator
from enum import IntEnum
from typing import Any, NamedTuple

from goqueue.core.ledger.deadletters import Destination
from goqueue.core.offsetset import OffsetSet
from goqueue.types import Microseconds, Offset

DECISIONS_MAX = 1_000
"""Limit of the decisions on a partition whose time, destination and note are kept."""


class Verdict(IntEnum):
    """The numbers are written in snapshots."""

    REDRIVEN = 1
    DISMISSED = 2
    RETURNED = 3
    """Its destination was deleted meanwhile: a copy was appended to the dead-letter topic, and waits there."""


class Decision(NamedTuple):
    verdict: Verdict
    at: Microseconds | None = None
    """When its redrive or dismissal began; None: no longer known."""
    to: Destination | None = None
    note: str = ""

    def to_plain(self) -> list[Any]:
        return [int(self.verdict), self.at, self.to and list(self.to), self.note]

    @classmethod
    def from_plain(cls, plain: Any) -> "Decision":
        verdict, at, to, note, *_ = plain
        return cls(Verdict(verdict), at, Destination.from_plain(to), note)


REDRIVEN_SOMETIME = Decision(Verdict.REDRIVEN)


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
