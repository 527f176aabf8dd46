"""The messages of the protocol about dead letters. `topic` is always the one that they came from."""

from typing import Annotated, NamedTuple

from goqueue.net.wire.fields import U32, U63, Many, Name, Prose, Range
from goqueue.net.wire.registry import kind

LETTERS_MAX = 4_096
"""Limit of the offsets that are asked about at once."""


@kind(66, "Redriven")
class Redrive(NamedTuple):
    """Send dead letters back, each once: to the group that gave them up, to all groups, or to another topic.

    Only those that wait and fit all that is given.
    """

    topic: Name
    group: Name | None = None
    partition: U32 | None = None
    offsets: Annotated[tuple[U63, ...], Many] | None = None
    """In the dead-letter topic."""
    reason: Prose | None = None
    """A part of the reason why they were given up."""
    to: Name | None = None
    all_groups: bool = False
    messages_max: U32 | None = None
    per_second: U32 | None = None
    dry_run: bool = False
    again: bool = False
    """Also those that were sent back or dismissed before."""


@kind(67)
class Redriven(NamedTuple):
    """The number of dead letters that were sent, or would be, and of those that wait afterwards."""

    redriven: U63
    remaining: U63
    redriven_in_all: U63 = 0
    dismissed_in_all: U63 = 0
    why: Prose = ""
    """Why none was sent; else empty."""


@kind(74, "Dismissed")
class Dismiss(NamedTuple):
    """Dismiss dead letters that wait and fit all that is given: they stay in the log and are not sent back."""

    topic: Name
    group: Name | None = None
    partition: U32 | None = None
    offsets: Annotated[tuple[U63, ...], Many] | None = None
    reason: Prose | None = None
    note: Prose = ""
    messages_max: U32 | None = None
    dry_run: bool = False


@kind(75)
class Dismissed(NamedTuple):
    """The number of dead letters that were dismissed, or would be, and of those that wait afterwards."""

    dismissed: U63
    remaining: U63
    redriven_in_all: U63
    dismissed_in_all: U63
    why: Prose
    """Why none was dismissed; else empty."""


@kind(76, "LettersCounted")
class CountLetters(NamedTuple):
    """How many dead letters a topic has, by state."""

    topic: Name


class LetterCount(NamedTuple):
    """Times are µs since 1970; nil where there is none, or where it is no longer known."""

    waiting: U63
    redriven: U63
    dismissed: U63
    redriven_at: U63 | None
    dismissed_at: U63 | None
    is_doubtful: bool


@kind(77)
class LettersCounted(NamedTuple):
    """One entry for each partition of the dead-letter topic; none while that topic is not there."""

    partitions: Annotated[tuple[LetterCount, ...], Many]


@kind(78, "LetterDecisions")
class FindDecisions(NamedTuple):
    """What was decided about the dead letters at so many offsets of a partition, from `first` on."""

    topic: Name
    partition: U32
    first: U63
    count_max: Annotated[int, Range(1, LETTERS_MAX)]


class OffsetRun(NamedTuple):
    first: U63
    last: U63


class LetterDecision(NamedTuple):
    """`verdict` is 1 redriven, 2 dismissed, 3 put back into the dead-letter topic, as its destination was gone."""

    verdict: Annotated[int, Range(1, 3)]
    at: U63 | None
    to: Name | None
    all_groups: bool
    note: Prose
    letters: Annotated[tuple[OffsetRun, ...], Many]


@kind(79)
class LetterDecisions(NamedTuple):
    """All other dead letters wait. Offsets that are no messages may be among those that do not."""

    decisions: Annotated[tuple[LetterDecision, ...], Many]
