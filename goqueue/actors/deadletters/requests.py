"""The requests about dead letters."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from goqueue.actors.runtime.messages import Request
from goqueue.core.groups.redrive import LetterCounts
from goqueue.core.ledger.deadletters import Decision
from goqueue.core.offsetset import Run
from goqueue.types import Offset


class LettersDecided(NamedTuple):
    """What a redrive or a dismissal has done."""

    decided: int
    """The number of letters that were decided upon, or would be."""
    waiting: int
    """Those that wait afterwards, or would."""
    redriven: int
    """Those that have been sent back, now or before."""
    dismissed: int
    why: str
    """Why there were none; else empty."""


@dataclass(frozen=True, slots=True)
class RedriveDeadLetters(Request[LettersDecided]):
    """The fields are those of the wire's `Redrive`, in its order."""

    topic: str
    group: str | None
    partition: int | None
    offsets: tuple[Offset, ...] | None
    reason: str | None
    to: str | None
    all_groups: bool
    messages_max: int | None
    per_second: int | None
    dry_run: bool
    again: bool = False


@dataclass(frozen=True, slots=True)
class DismissDeadLetters(Request[LettersDecided]):
    """The fields are those of the wire's `Dismiss`, in its order."""

    topic: str
    group: str | None
    partition: int | None
    offsets: tuple[Offset, ...] | None
    reason: str | None
    note: str
    messages_max: int | None
    dry_run: bool


@dataclass(frozen=True, slots=True)
class CountDeadLetters(Request[Sequence[LetterCounts]]):
    """One entry for each partition of the dead-letter topic; none when it is not there."""

    topic: str


class DecidedLetters(NamedTuple):
    decision: Decision
    letters: tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class FindLetterDecisions(Request[Sequence[DecidedLetters]]):
    """What was decided about the letters from `first` to `last`. All others wait."""

    topic: str
    partition: int
    first: Offset
    last: Offset
