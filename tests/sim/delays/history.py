"""What clients were told about delayed messages and what they saw, and the guarantees that follow from it (G8).

Every value is published once in a whole run, so a value names its message. When one is due is known to the outside
only within bounds: a delay counts from what the clock showed at a moment between question and answer. A message is
*certain* while nothing has happened that may have taken it, or given its place to another: a purge, a deleted
topic, a power cut that takes what was confirmed with acks=leader. Of one that is not, there is left: not early, not
twice, not changed, and not at all if it was cancelled.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
from typing import NamedTuple

import trio

import goqueue
from goqueue.client.delayed import Delayed
from goqueue.core.delays.events import DELAYED_FROM_HEADER
from goqueue.testing.clock import SimulatedClock
from goqueue.types import Microseconds
from tests.sim.disk.history import Violation

ROUNDING = 2
"""Microseconds: a listing says seconds."""


class RecordedClock(SimulatedClock):
    """Remembers what it showed when."""

    def __init__(self) -> None:
        super().__init__()
        self._skews: list[tuple[float, Microseconds]] = [(0.0, 0)]

    def step(self, microseconds: Microseconds) -> None:
        super().step(microseconds)
        self._skews.append((trio.current_time(), self.skew))

    def highest(self, since: float, until: float) -> Microseconds:
        return max(self.start + skew + round(end * 1_000_000) for _, end, skew in self._stretches(since, until))

    def lowest(self, since: float, until: float) -> Microseconds:
        return min(self.start + skew + round(at * 1_000_000) for at, _, skew in self._stretches(since, until))

    def _stretches(self, since: float, until: float) -> Iterable[tuple[float, float, Microseconds]]:
        ends = [at for at, _ in self._skews[1:]] + [until]
        for (at, skew), end in zip(self._skews, ends, strict=True):
            if end >= since and at <= until:
                yield max(at, since), min(end, until), skew


class Place(NamedTuple):
    topic: str
    partition: int
    offset: int


@dataclass(slots=True)
class Due:
    """A time that a message was given, from a moment on: exactly, or counted from then until it was answered."""

    since: float
    at: Microseconds | None
    delay: Microseconds = 0
    until: float | None = None

    def earliest(self, clock: RecordedClock) -> Microseconds:
        return self.at if self.at is not None else clock.lowest(self.since, self._end()) + self.delay

    def latest(self, clock: RecordedClock) -> Microseconds:
        return self.at if self.at is not None else clock.highest(self.since, self._end()) + self.delay

    def _end(self) -> float:
        return trio.current_time() if self.until is None else self.until


class Cancel(Enum):
    NO = "nobody has"
    PERHAPS = "the answer was lost"
    DONE = "answered True"


@dataclass(slots=True, eq=False)
class Waiting:
    """One delayed message, or with a delay of zero one that is not."""

    value: bytes
    topic: str
    key: bytes | None
    headers: Mapping[str, bytes]
    priority: goqueue.Priority
    acks: goqueue.Acks
    since: float
    dues: list[Due]
    is_plain: bool
    message_id: str | None = None
    """Nobody else has it, unless this one was cancelled."""
    place: Place | None = None
    confirmed_at: float | None = None
    is_refused: bool = False
    is_certain: bool = True
    is_durable: bool = False
    purged_at: float | None = None
    may_come_again: bool = False
    """It was on its way when its topic was made anew: perhaps to both."""
    cancel: Cancel = Cancel.NO
    changed_at: float = 0.0
    """When the last question about it was put or answered."""
    is_busy: bool = False
    seen_at: Place | None = None
    seen_when: float = 0.0
    was_delivered: bool = False
    """As a listing says."""

    @property
    def is_promised(self) -> bool:
        """It has to be delivered, unless it is cancelled."""
        return self.confirmed_at is not None and self.is_certain

    @property
    def has_come(self) -> bool:
        return self.seen_at is not None or self.was_delivered

    def __str__(self) -> str:
        return f"{self.value[:30]!r} at {self.place}, cancelled: {self.cancel.value}, {self.dues}"


@dataclass(slots=True)
class DelayHistory:
    clock: RecordedClock
    partitions: dict[str, int]
    forgetful: frozenset[str]
    """Topics in which messages go before everybody has read them."""
    messages: dict[bytes, Waiting] = field(default_factory=dict)
    by_place: dict[Place, Waiting] = field(default_factory=dict)
    strays: set[Place] = field(default_factory=set)
    """Places about which somebody may have asked and meant another message."""
    purging: dict[str, int] = field(default_factory=dict)

    # What happened

    def publish(self, message: Waiting) -> None:
        self.messages[message.value] = message
        message.is_certain = not self.purging.get(message.topic)
        message.may_come_again = not message.is_certain

    def confirm(self, message: Waiting, published: goqueue.Published) -> None:
        assert published.offset is not None
        now = trio.current_time()
        place = Place(message.topic, published.partition, published.offset)
        message.place, message.confirmed_at = place, now
        message.dues[0].until = now
        if published.repeated:
            raise Violation(f"G11: {message} was taken for a repeat by its id {message.message_id}")
        if message.acks is goqueue.Acks.ALL:
            message.is_durable = True
        if message.is_certain:
            before = self.by_place.get(place)
            if before is not None and before.is_certain:
                raise Violation(f"G3: {message} was confirmed where {before} is")
            self.by_place[place] = message
            message.is_certain = place not in self.strays

    def doubt(self, message: Waiting) -> None:
        """It may be gone, or another may lie there."""
        message.is_certain = False
        if message.place is not None and self.by_place.get(message.place) is message:
            del self.by_place[message.place]
            if message.is_busy:
                self.strays.add(message.place)

    def power_failed(self) -> None:
        for message in self.messages.values():
            if message.acks is goqueue.Acks.LEADER and not message.is_durable:
                self.doubt(message)

    def begin_purge(self, topic: str) -> list[Waiting]:
        """Those that will be gone, if it comes about."""
        self.purging[topic] = self.purging.get(topic, 0) + 1
        concerned = [message for message in self.messages.values() if message.topic == topic]
        known = [message for message in concerned if message.is_promised and message.is_durable]
        for message in concerned:
            self.doubt(message)
            message.purged_at = None  # if the topic is made anew, its place will be another's
            message.may_come_again |= message.confirmed_at is None
        return known

    def end_purge(self, topic: str, purged: Iterable[Waiting]) -> None:
        self.purging[topic] -= 1
        for message in purged:
            message.purged_at = trio.current_time()

    # Changes

    def begin_change(self, message: Waiting) -> None:
        message.is_busy, message.changed_at = True, trio.current_time()

    def end_change(self, message: Waiting) -> None:
        message.is_busy, message.changed_at = False, trio.current_time()

    def cancelled(self, message: Waiting, since: float, *, answer: bool) -> None:
        if not message.is_certain:
            return
        if answer:
            message.is_durable = True
            if message.seen_at is not None and message.seen_when < since:
                raise Violation(f"G8: {message} was seen, and then cancelled")
            message.cancel = Cancel.DONE
        else:
            if message.cancel is Cancel.DONE:
                if message.topic not in self.forgetful:
                    raise Violation(f"G8: {message} was cancelled and cannot be cancelled again")
                return
            self._check_may_have_come(message, "cannot be cancelled")
            message.cancel = Cancel.NO

    def moved(self, message: Waiting, due: Due, since: float, *, answer: bool) -> None:
        due.until = trio.current_time()
        if not message.is_certain:
            return
        if answer:
            message.is_durable = True
            if message.cancel is Cancel.DONE:
                raise Violation(f"G8: {message} was cancelled, and then moved")
            if message.seen_at is not None and message.seen_when < since:
                raise Violation(f"G8: {message} was seen, and then moved")
            message.dues, message.cancel = [due], Cancel.NO
        elif message.cancel is Cancel.NO:  # a repeat is told so when the first, whose answer was lost, was heard
            self._check_may_have_come(message, "cannot be moved")

    def _check_may_have_come(self, message: Waiting, words: str) -> None:
        if message.is_promised and not message.is_plain and not self._may_be_due(message):
            raise Violation(f"G8: {message} {words}, though it is not due")

    def _may_be_due(self, message: Waiting) -> bool:
        now = trio.current_time()
        return any(self.clock.highest(due.since, now) >= due.earliest(self.clock) for due in message.dues)

    # What was seen

    def see(self, message: goqueue.Message) -> None:
        place = Place(message.topic, message.partition, message.offset)
        waiting = self.messages.get(message.value)
        if waiting is None:
            raise Violation(f"G1: {message.value[:30]!r} at {place} was never published")
        if waiting.seen_at is not None:
            if waiting.seen_at != place and not waiting.may_come_again:
                raise Violation(f"G8: {waiting} was delivered at {waiting.seen_at} and at {place}")
            return
        waiting.seen_at, waiting.seen_when = place, trio.current_time()
        if waiting.is_refused or waiting.cancel is Cancel.DONE:
            raise Violation(f"G8: {waiting} was refused or cancelled, and came")
        self._check_content(waiting, message)
        if not waiting.is_plain and self._origin(message) not in self.strays and not self._may_be_due(waiting):
            raise Violation(f"G8: {waiting} came early: it is {self.clock.now()}")

    def _origin(self, message: goqueue.Message) -> Place:
        return Place(message.topic, message.partition, int(message.headers[DELAYED_FROM_HEADER]))

    def _check_content(self, waiting: Waiting, message: goqueue.Message) -> None:
        headers = dict(message.headers)
        origin = headers.pop(DELAYED_FROM_HEADER, None)
        if waiting.is_plain != (origin is None):
            raise Violation(f"G8: {waiting} has the origin {origin!r}")
        place = waiting.place
        is_known = origin is not None and place is not None and waiting.is_durable
        if is_known and self._origin(message) != place:
            raise Violation(f"G8: {waiting} says that it comes from {origin!r} of {message.partition}")
        found = (message.key, headers, message.priority)
        if found != (waiting.key, dict(waiting.headers), waiting.priority):
            raise Violation(f"G8: {waiting} was changed: {found}")

    def check_listing(self, topic: str, since: float, listed: Sequence[Delayed]) -> None:
        """What somebody was told is pending, who asked at `since` about a whole topic."""
        found = {Place(topic, each.partition, each.offset): each for each in listed}
        for place, each in found.items():
            message = self.by_place.get(place)
            if message is not None and message.is_certain:
                self._check_listed(message, each, since)
        for message in [each for each in self.messages.values() if each.topic == topic]:
            if message.place not in found:
                self._check_unlisted(message, since)
            elif message.purged_at is not None and message.purged_at < since and self._is_same(message):
                raise Violation(f"G8: {message} was purged and is pending")

    def _is_same(self, message: Waiting) -> bool:
        """Its place is its own: nobody else was ever told of it."""
        return message.place is not None and message.place not in self.by_place

    def _check_listed(self, message: Waiting, listed: Delayed, since: float) -> None:
        if message.changed_at >= since or message.is_busy or (message.confirmed_at or 0.0) >= since:
            return
        message.is_durable = True
        if message.cancel is Cancel.DONE or (message.seen_at is not None and message.seen_when < since):
            raise Violation(f"G8: {message} is pending, though it was cancelled or seen")
        due = round((listed.due or 0) * 1_000_000)
        fitting = [each for each in message.dues if self._fits(each, due)]
        if not fitting:
            raise Violation(f"G8: {message} is listed with due time {due}")
        if listed.key != message.key or listed.priority is not message.priority:
            raise Violation(f"G8: {message} is listed as {listed}")
        if len(message.dues) == 1 and message.dues[0].at is None:
            message.dues[0].at = due - ROUNDING  # from now on it is known

    def _fits(self, each: Due, due: Microseconds) -> bool:
        return each.earliest(self.clock) - ROUNDING <= due <= each.latest(self.clock) + 2 * ROUNDING

    def _check_unlisted(self, message: Waiting, since: float) -> None:
        """With acks=leader a message is listed once it is durable."""
        is_known = message.is_durable and message.confirmed_at is not None and message.confirmed_at < since
        is_quiet = message.changed_at < since and not message.is_busy and message.cancel is Cancel.NO
        if is_known and is_quiet and not message.has_come:
            self._check_may_have_come(message, "is not listed as pending")

    def note_finished(self, topic: str, listed: Sequence[Delayed]) -> None:
        for each in listed:
            message = self.by_place.get(Place(topic, each.partition, each.offset))
            if message is not None and message.is_certain and each.state == "delivered":
                message.was_delivered |= topic in self.forgetful
                if message.cancel is Cancel.DONE:
                    raise Violation(f"G8: {message} was cancelled and is listed as delivered")

    # What must hold in the end

    def overdue(self) -> list[Waiting]:
        """Promised, due whatever was heard, and not come."""
        return [each for each in self.messages.values() if self._is_overdue(each)]

    def _is_overdue(self, message: Waiting) -> bool:
        if not message.is_promised or message.has_come or message.cancel is not Cancel.NO:
            return False
        if message.is_plain:
            return message.topic not in self.forgetful
        now = self.clock.now()
        return all(due.latest(self.clock) <= now for due in message.dues)

    def check_order(self, died_at: float, started_at: float) -> None:
        """What fell due while the broker was not there came in due order."""
        rows: dict[tuple[str, int], list[Waiting]] = {}
        for message in self.messages.values():
            if message.seen_at is not None and self._fell_due_between(message, died_at, started_at):
                rows.setdefault(message.seen_at[:2], []).append(message)
        for row in rows.values():
            row.sort(key=_offset_seen)
            for one, other in pairwise(row):
                if one.dues[0].earliest(self.clock) > other.dues[0].latest(self.clock) + ROUNDING:
                    raise Violation(f"G8: {one} came before {other}, though it was due later")

    def _fell_due_between(self, message: Waiting, died_at: float, started_at: float) -> bool:
        if message.is_plain or not (message.is_promised and message.is_durable) or len(message.dues) > 1:
            return False
        [due] = message.dues
        if message.changed_at >= died_at or (due.until is not None and due.until >= died_at):
            return False
        was_due_before = self.clock.highest(due.since, died_at) >= due.earliest(self.clock)
        return not was_due_before and due.latest(self.clock) <= self.clock.lowest(started_at, started_at)


def _offset_seen(message: Waiting) -> int:
    return message.seen_at.offset if message.seen_at is not None else -1
