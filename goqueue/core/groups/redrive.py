"""Deciding about dead letters: which of them, where to, and why there were none.

The destination is journaled with each chosen letter.
"""

from collections import Counter
from collections.abc import Set
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple

from goqueue.core.groups.deadletter import Story
from goqueue.core.ledger.deadletters import Destination
from goqueue.core.names import check_group_name, check_letters_of, check_publishable
from goqueue.core.why.words import counted, listed, span, verb
from goqueue.errors import ProtocolError
from goqueue.types import Microseconds, Offset


def check_redrive(
    topic: str, group: str | None, to: str | None, *, all_groups: bool, per_second: int | None
) -> None:
    check_dismissal(topic, group)
    if to is not None:
        check_publishable(to)
        if all_groups:
            raise ProtocolError("a redrive goes to another topic or to all groups of this one, not both")
    if per_second == 0:
        raise ProtocolError("per_second is 0, at which nothing is ever sent; leave it out for no limit")


def check_dismissal(topic: str, group: str | None) -> None:
    check_letters_of(topic)
    if group is not None:
        check_group_name(group)


def wanted_destination(to: str | None, all_groups: bool) -> Destination:
    """Another topic is for everybody."""
    return Destination(to, all_groups or to is not None)


def destination_in(reason: str) -> Destination:
    """Journals before 2026-11-18 have the destination as the reason: group, all, or to:{topic}."""
    if reason.startswith("to:"):
        return Destination(reason.removeprefix("to:"), True)
    return Destination(None, reason == "all")


class Passed(Enum):
    """Why a letter is not chosen."""

    OTHER_GROUP = auto()
    NOT_MATCHING = auto()
    NO_LETTER = auto()
    NO_TOPIC = auto()
    NO_GROUP = auto()


class Receivers(NamedTuple):
    """The topics and groups that there are."""

    topics: Set[str]
    groups: Set[str]


@dataclass(frozen=True, slots=True)
class LetterChoice:
    """Chooses the letters that fit everything that is given."""

    group: str | None = None
    offsets: Set[Offset] | None = None
    reason: str | None = None

    def judge(self, offset: Offset, story: Story | None) -> Passed | None:
        """None: it is chosen. A message that a program published has neither a group nor a reason."""
        if self.group is not None and (story is None or story.group != self.group):
            return Passed.OTHER_GROUP if story else Passed.NO_LETTER
        if self.offsets is not None and offset not in self.offsets:
            return Passed.NOT_MATCHING
        if self.reason is not None and (story is None or self.reason not in story.reason):
            return Passed.NOT_MATCHING
        return None


@dataclass(frozen=True, slots=True)
class RedriveChoice:
    """Chooses among letters that the broker made, and whose topic and group exist."""

    destination: Destination
    which: LetterChoice
    receivers: Receivers

    def judge(self, offset: Offset, story: Story | None) -> Passed | None:
        return self.which.judge(offset, story) or self._judge_way(story)

    def _judge_way(self, story: Story | None) -> Passed | None:
        if story is None:
            return Passed.NO_LETTER
        if self.destination.topic_for(story.topic) not in self.receivers.topics:
            return Passed.NO_TOPIC
        group = self.destination.group_for(story.group)
        return None if group is None or group in self.receivers.groups else Passed.NO_GROUP


# What is said afterwards


@dataclass(frozen=True, slots=True)
class LetterCounts:
    """The messages of a dead-letter topic, or of a partition of it, by state."""

    waiting: int = 0
    redriven: int = 0
    dismissed: int = 0
    redriven_at: Microseconds | None = None
    """When the last of them was; None: there is none, or it is no longer known."""
    dismissed_at: Microseconds | None = None
    is_doubtful: bool = False
    """The broker lost what it knew of some: they wait, and may have been decided upon before."""

    def __add__(self, other: "LetterCounts") -> "LetterCounts":
        return LetterCounts(
            self.waiting + other.waiting,
            self.redriven + other.redriven,
            self.dismissed + other.dismissed,
            latest(self.redriven_at, other.redriven_at),
            latest(self.dismissed_at, other.dismissed_at),
            self.is_doubtful or other.is_doubtful,
        )

    @property
    def decided(self) -> int:
        return self.redriven + self.dismissed

    @property
    def total(self) -> int:
        return self.waiting + self.decided


def latest(one: Microseconds | None, other: Microseconds | None) -> Microseconds | None:
    return max((each for each in (one, other) if each is not None), default=None)


@dataclass(slots=True)
class PassedLetters:
    """The letters that were looked at and not chosen, by reason."""

    counts: Counter[Passed] = field(default_factory=Counter)
    groups: set[str] = field(default_factory=set)
    """Some of the other groups that they belong to."""

    def note(self, why: Passed, story: Story | None) -> None:
        self.counts[why] += 1
        if why is Passed.OTHER_GROUP and story is not None and len(self.groups) < GROUPS_SHOWN:
            self.groups.add(story.group)


GROUPS_SHOWN = 4
"""The number of other groups that are kept: one more than a sentence names."""


def why_none(passed: PassedLetters, there: LetterCounts, now: Microseconds) -> str:
    """Why nothing was chosen, as one sentence. `there` is what was there to choose from."""
    looked_at = passed.counts.total()
    if looked_at:
        reasons = "; ".join(_reason(why, passed.counts[why], passed.groups) for why in Passed if passed.counts[why])
        leaves_some = there.decided and looked_at <= there.waiting
        others = f"; others were not: {_decided(there, now)}" if leaves_some else ""
        return f"{counted(looked_at, 'dead letter')} {verb(looked_at, 'was', 'were')} looked at: {reasons}{others}"
    if not there.total:
        return "there are no dead letters"
    return f"no dead letter waits: {_decided(there, now)}" if not there.waiting else "none was asked for"


def _reason(why: Passed, count: int, groups: Set[str]) -> str:
    match why:
        case Passed.OTHER_GROUP:
            return f"{count:,} {verb(count, 'belong')} to another group ({listed(sorted(groups))})"
        case Passed.NOT_MATCHING:
            return f"{count:,} {verb(count, 'does', 'do')} not match what was chosen"
        case Passed.NO_LETTER:
            return f"{count:,} {verb(count, 'was', 'were')} published by a program, not given up by a group"
        case Passed.NO_TOPIC:
            return f"the topic that {count:,} {verb(count, 'is', 'are')} to go to does not exist"
        case Passed.NO_GROUP:
            return f"the group that gave {count:,} up does not exist; choose all groups, or another topic"


def _decided(there: LetterCounts, now: Microseconds) -> str:
    said = [
        f"{count:,} {verb(count, 'was', 'were')} {word}{_when(at, now)}"
        for count, word, at in (
            (there.redriven, "sent back", there.redriven_at),
            (there.dismissed, "dismissed", there.dismissed_at),
        )
        if count
    ]
    return " and ".join(said)


def _when(at: Microseconds | None, now: Microseconds) -> str:
    return "" if at is None else f", last {span((now - at) / 1_000_000)} ago"
