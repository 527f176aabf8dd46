"""Dead letters for a client: what there is, what became of it, and the requests that decide about it."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

from goqueue.client.delayed import PagePosition, checked_position
from goqueue.client.link.arguments import (
    check_any_partition,
    check_flag,
    check_offset,
    check_text,
    check_whole,
    refusal,
)
from goqueue.client.link.topics import Topic
from goqueue.client.reading.message import Message, append_time_of
from goqueue.core.groups.deadletter import Story
from goqueue.core.groups.redrive import LetterChoice
from goqueue.core.names import check_group_name, check_letters_of, check_publishable, dead_letter_topic
from goqueue.errors import UnknownPartition, UnknownTopic
from goqueue.net.wire import letters as wire
from goqueue.net.wire.fields import LIST_COUNT_MAX, PROSE_SIZE_MAX
from goqueue.net.wire.kinds import Answer, Request
from goqueue.types import Microseconds, Offset

AnswerT = TypeVar("AnswerT", bound=Answer)
_MILLION = 1_000_000
COUNT_MAX = 2**32 - 1
"""Maximum of a number of messages on the wire."""
WAITING, REDRIVEN, DISMISSED = "waiting", "redriven", "dismissed"
STATES = (WAITING, REDRIVEN, DISMISSED)
PUT_BACK = 3
"""The verdict of a letter whose destination was gone."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message of a dead-letter topic, and what was decided about it. Partition and offset, there, name it."""

    topic: str
    """The topic that it came from."""
    partition: int
    offset: Offset
    state: str
    """"waiting", "redriven" or "dismissed"."""
    died_at: float
    """When it came to the dead-letter topic, in seconds."""
    decided_at: float | None
    """When its redrive or dismissal began; None while it waits, or when that is no longer known."""
    sent_to: str | None
    """The topic that it was sent to; else None."""
    for_all_groups: bool
    """It was sent to all groups of that topic, not only to the one that gave it up."""
    note: str
    """What was said when it was dismissed."""
    group: str | None
    """The group that gave it up; None: a program published it there."""
    attempts: int
    reason: str
    first_delivery: float | None
    last_delivery: float | None
    origin_partition: int | None
    origin_offset: Offset | None
    """Where the message lies in its topic."""
    message: Message
    """Key, value, headers and priority are those of the message that was given up."""


class DeadLetterPage(list[DeadLetter]):
    """Some dead letters, in the order of partitions and offsets; `next` leads to the following page."""

    def __init__(self, letters: Iterable[DeadLetter], following: PagePosition | None) -> None:
        super().__init__(letters)
        self.next = following
        """Pass it as `after`; None after the last page."""


@dataclass(frozen=True, slots=True)
class DeadLetterCounts:
    """The number of dead letters of a topic, by state."""

    waiting: int
    redriven: int
    dismissed: int
    redriven_at: float | None
    """When the last of them was, in seconds; None: there is none, or it is no longer known."""
    dismissed_at: float | None
    is_doubtful: bool
    """The broker lost what it knew of some: they count as waiting, and may have been sent back or dismissed."""

    @property
    def total(self) -> int:
        return self.waiting + self.redriven + self.dismissed


@dataclass(frozen=True, slots=True)
class Redriven:
    """The number of dead letters that were sent back, or would be, and of those that wait afterwards."""

    redriven: int
    remaining: int
    redriven_in_all: int = 0
    """Those that were sent back at any time."""
    dismissed_in_all: int = 0
    why: str = ""
    """Why none was sent back; else empty."""


@dataclass(frozen=True, slots=True)
class Dismissed:
    """The number of dead letters that were dismissed, or would be, and of those that wait afterwards."""

    dismissed: int
    remaining: int
    redriven_in_all: int = 0
    dismissed_in_all: int = 0
    why: str = ""
    """Why none was dismissed; else empty."""


# Requests, checked before they are sent


def redriving(
    topic: object,
    *,
    to: object,
    all_groups: object,
    max_messages: object,
    per_second: object,
    dry_run: object,
    again: object,
    **which: object,
) -> wire.Redrive:
    if to is not None and all_groups is True:
        raise refusal("a redrive goes to another topic or to all groups of this one; give to or all_groups")
    return wire.Redrive(
        check_letters_of(topic),
        *_selection(**which),
        None if to is None else check_publishable(to),
        check_flag("all_groups", all_groups),
        None if max_messages is None else check_whole("max_messages", max_messages, 0, COUNT_MAX),
        None if per_second is None else check_whole("per_second", per_second, 1, COUNT_MAX),
        check_flag("dry_run", dry_run),
        check_flag("again", again),
    )


def dismissing(
    topic: object, *, note: object, max_messages: object, dry_run: object, **which: object
) -> wire.Dismiss:
    return wire.Dismiss(
        check_letters_of(topic),
        *_selection(**which),
        check_text("note", note, PROSE_SIZE_MAX),
        None if max_messages is None else check_whole("max_messages", max_messages, 0, COUNT_MAX),
        check_flag("dry_run", dry_run),
    )


def _selection(
    *, group: object, partition: object, offsets: object, reason: object
) -> tuple[str | None, int | None, tuple[Offset, ...] | None, str | None]:
    return (
        None if group is None else check_group_name(group),
        None if partition is None else check_any_partition(partition),
        None if offsets is None else _checked_offsets(offsets),
        None if reason is None else check_text("reason", reason, PROSE_SIZE_MAX),
    )


def _checked_offsets(offsets: object) -> tuple[Offset, ...]:
    if not isinstance(offsets, Iterable) or isinstance(offsets, str | bytes):
        raise refusal(f"offsets is a list of offsets, not {type(offsets).__name__}")
    checked = tuple(check_offset("offsets", each) for each in offsets)
    if len(checked) > LIST_COUNT_MAX:
        raise refusal(f"there are {len(checked):,} offsets; give {LIST_COUNT_MAX:,} at most at a time")
    return checked


# Listing


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which letters a page shows."""

    topic: str
    which: LetterChoice
    partition: int | None
    state: str | None

    def takes(self, letter: DeadLetter, story: Story | None) -> bool:
        return self.state in (None, letter.state) and self.which.judge(letter.offset, story) is None


def wanted_letters(topic: object, *, state: object, **which: object) -> Wanted:
    if state is not None and state not in STATES:
        raise refusal(f'state={state!r} must be "waiting", "redriven" or "dismissed"')
    group, partition, offsets, reason = _selection(**which)
    choice = LetterChoice(group, None if offsets is None else frozenset(offsets), reason)
    return Wanted(check_letters_of(topic), choice, partition, None if state is None else str(state))


class LetterAsker(Protocol):
    """Whoever has the broker's answers: a client, or the HTTP gateway."""

    async def call(self, request: Request, kind: type[AnswerT]) -> AnswerT: ...

    async def topic(self, name: str) -> Topic: ...


ReadStretch: TypeAlias = Callable[[str, int, Offset, Offset], Awaitable[list[Message]]]
"""The messages of a topic and a partition from one offset to before another."""


async def page_of(
    asker: LetterAsker, read: ReadStretch, wanted: Wanted, after: tuple[int, Offset] | None, limit: object
) -> DeadLetterPage:
    most = check_whole("limit", limit, 1, 1_000_000)
    begin = PagePosition(0, 0) if after is None else checked_position(after)
    topic = await _topic_of(asker, wanted.topic)
    found = list[DeadLetter]()
    for window in () if topic is None else _windows(topic, wanted, begin):
        found += await _letters_in(asker, read, wanted, window)
        if len(found) > most:
            last = found[most - 1]
            return DeadLetterPage(found[:most], PagePosition(last.partition, last.offset))
    return DeadLetterPage(found, None)


class _Window(NamedTuple):
    partition: int
    at: Offset
    end: Offset


def _windows(topic: Topic, wanted: Wanted, begin: PagePosition) -> Iterator[_Window]:
    """A few offsets at a time."""
    if wanted.partition is not None and wanted.partition >= len(topic.partitions):
        raise UnknownPartition(f"topic {topic.name} has partitions 0 to {len(topic.partitions) - 1}")
    for each in topic.partitions:
        if each.number >= begin.partition and wanted.partition in (None, each.number):
            if each.error is not None:
                raise each.error
            first = max(each.start, begin.offset if each.number == begin.partition else 0)
            for at in range(first, each.end, wire.LETTERS_MAX):
                yield _Window(each.number, at, min(at + wire.LETTERS_MAX, each.end))


async def _topic_of(asker: LetterAsker, name: str) -> Topic | None:
    """None: the topic has no dead letters yet. `UnknownTopic` when the topic itself is missing, too."""
    try:
        return await asker.topic(dead_letter_topic(name))
    except UnknownTopic:
        await asker.topic(name)
        return None


async def _letters_in(asker: LetterAsker, read: ReadStretch, wanted: Wanted, window: "_Window") -> list[DeadLetter]:
    """The letters of a few offsets. Where none can be wanted, nothing is read."""
    partition, at, end = window
    asked = wire.FindDecisions(wanted.topic, partition, at, end - at)
    decided = _by_offset((await asker.call(asked, wire.LetterDecisions)).decisions, at, end)
    states = {_state_of(decided.get(offset)) for offset in range(at, end)}
    if wanted.state is not None and wanted.state not in states:
        return []
    found = list[DeadLetter]()
    for message in await read(dead_letter_topic(wanted.topic), partition, at, end):
        story = Story.from_headers(message.headers)
        letter = _letter(wanted.topic, message, story, decided.get(message.offset))
        if wanted.takes(letter, story):
            found.append(letter)
    return found


def _by_offset(
    decisions: Sequence[wire.LetterDecision], at: Offset, end: Offset
) -> dict[Offset, wire.LetterDecision]:
    return {
        offset: decision
        for decision in decisions
        for first, last in decision.letters
        for offset in range(max(first, at), min(last + 1, end))
    }


def _state_of(decision: wire.LetterDecision | None) -> str:
    if decision is None:
        return WAITING
    return DISMISSED if decision.verdict == 2 else REDRIVEN


def _letter(topic: str, message: Message, story: Story | None, decision: wire.LetterDecision | None) -> DeadLetter:
    return DeadLetter(
        topic,
        message.partition,
        message.offset,
        _state_of(decision),
        append_time_of(message) / _MILLION,
        _seconds(decision.at if decision else None),
        _sent_to(topic, message, decision),
        decision is not None and decision.all_groups,
        decision.note if decision else "",
        story.group if story else None,
        story.attempts if story else 0,
        story.reason if story else "",
        _seconds(story.first_delivery if story else None),
        _seconds(story.last_delivery if story else None),
        story.partition if story else None,
        story.offset if story else None,
        message,
    )


def _sent_to(topic: str, message: Message, decision: wire.LetterDecision | None) -> str | None:
    if decision is None or _state_of(decision) != REDRIVEN:
        return None
    return message.topic if decision.verdict == PUT_BACK else decision.to or topic


def counts_of(partitions: Sequence[wire.LetterCount]) -> DeadLetterCounts:
    def last(times: Iterable[int | None]) -> float | None:
        return _seconds(max((each for each in times if each is not None), default=None))

    return DeadLetterCounts(
        sum(each.waiting for each in partitions),
        sum(each.redriven for each in partitions),
        sum(each.dismissed for each in partitions),
        last(each.redriven_at for each in partitions),
        last(each.dismissed_at for each in partitions),
        any(each.is_doubtful for each in partitions),
    )


def _seconds(time: Microseconds | None) -> float | None:
    return None if time is None else time / _MILLION
