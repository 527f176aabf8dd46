"""Decides what a consumer requests next: from which partitions, how many messages, and for how long.

A receive is sent only when a call waits for messages, or a prefetch is due, and there is credit for them. A
partition has one receive at a time, unless a call comes that cannot wait as long as that one: a partition that is
assigned while a receive for the others waits is asked at once, by itself.

For a program that takes a batch, settles it and takes the next, the next one is prefetched. Its receive is sent
before the batch that has come is parsed, and while a call waits for a large batch, the one behind it is prefetched,
too. So broker and client work at the same time. The prefetch is at most one batch, or what a program that takes a
few messages at a time works through in a moment.

A message that is delivered alone must be the only one: until everything in flight is settled and every receive is
answered, no other is sent. A partition that answers with an error rests for a second, or until there is a new
assignment; the others are asked meanwhile.

    call, want_* ─► next ─► sent ─► arrived ─┐     Events; `next` decides and changes nothing. `next_deadline` says
                     ▲        └───► ended ───┤     when to ask it again though nothing has happened.
                     └───────────────────────┘
"""

import math
from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

POLL_SECONDS_MAX = 10.0
MESSAGES_MAX = 10_000
BYTES_MAX = 1024 * 1024
REST_SECONDS = SOON_SECONDS = 1.0
CROWDED_SECONDS = 0.5
"""Limit of a long poll when so many consumers share a connection that its limit of receives is reached."""
SLACK_SECONDS = 0.01
"""An answer that may come this much too late is still awaited."""
QUESTIONS_MAX = 4
"""Limit of receives under way."""

PlaceT = TypeVar("PlaceT", bound=Hashable)


class Holding(NamedTuple):
    """What the consumer holds, and how many messages and bytes may still come."""

    ahead: int
    """Messages in the prefetch."""
    in_flight: int
    """All unsettled messages, the prefetch included."""
    messages_free: int
    bytes_free: int


class WaitingCall(NamedTuple):
    """A call that waits for messages, and hands `at_once` of them to the program at once."""

    messages: int
    at_once: int
    deadline: float


class Arrived(NamedTuple):
    """The size of an answer, before it is parsed."""

    messages: int
    size: int
    is_alone: bool
    """A message came, or waits at the broker, that is delivered alone."""


NOTHING = Arrived(0, 0, is_alone=False)


class Need(NamedTuple):
    """The limits of the next receive: messages, how many of them the program gets at once, and the deadline."""

    messages: int
    at_once: int
    until: float


@dataclass(frozen=True, slots=True, eq=False)
class Question(Generic[PlaceT]):
    """A receive to be sent."""

    places: tuple[PlaceT, ...]
    messages: int
    size: int
    at_once: int
    patience: float
    is_busy: bool
    """The consumer holds messages, or may do so when this is answered."""
    until: float
    """When the broker ends the long poll."""


class ReceiveRequests(Generic[PlaceT]):
    def __init__(self) -> None:
        self.places: tuple[PlaceT, ...] = ()
        """The partitions that it may ask; none while it is not a member."""
        self.calls: dict[object, WaitingCall] = {}
        self._ahead_wanted = 0
        self.steadily_wanted = 0
        self._under_way: dict[Question[PlaceT], bool] = {}
        """The receives under way, in order, and whether one is repeated until it is answered: the order of such an
        answer among others is not known."""
        self._has_backlog = False
        """The last answer had as many messages as requested."""
        self._alone_waits = False
        """A message is held, or waits at the broker, that is delivered alone."""
        self._resting: dict[PlaceT, float] = {}
        """Until when a partition rests."""

    # What is wanted

    def want_ahead(self, count: int) -> None:
        """Prefetch this number of messages once."""
        if not self._under_way:
            self._ahead_wanted = count

    def want_steadily(self, count: int, ahead: int) -> None:
        """From now on prefetch this number of messages whenever a call takes as many; 0 ends it."""
        self.steadily_wanted = count
        if count and not ahead:
            self.want_ahead(count)

    @property
    def is_wanted(self) -> bool:
        """A call waits, or a prefetch is due: else there is nothing to send, and no deadline."""
        return bool(self.calls or self._ahead_wanted)

    # What is sent

    def next(self, now: float, holding: Holding, *, is_crowded: bool = False) -> Question[PlaceT] | None:
        """The receive to be sent now. `is_crowded`: many consumers share the connection."""
        need = self._need(now, holding)
        if need is not None and (question := self._question(need, now, holding, is_crowded=is_crowded)):
            return question
        if not self._wants_behind(holding):
            return None
        beside = self._under_way
        return self._question(self._need_ahead(now), now, holding, is_crowded=is_crowded, beside=beside)

    def next_behind(self, now: float, holding: Holding, arrived: Arrived) -> Question[PlaceT] | None:
        """The receive behind an answer, sent before that is parsed: a call is about to take all of it."""
        is_taken = arrived.messages and any(call.messages >= arrived.messages for call in self.calls.values())
        if not self.steadily_wanted or not is_taken or arrived.is_alone or holding.ahead or self._under_way:
            return None
        return self._question(self._need_ahead(now), now, holding, opening=arrived)

    def sent(self, question: Question[PlaceT], *, repeats: bool) -> None:
        self._under_way[question] = repeats
        self._ahead_wanted = 0

    def _wants_behind(self, holding: Holding) -> bool:
        """While a call waits for a large batch, the one behind it is prefetched.

        Not behind a message that may be delivered alone.
        """
        is_steady = self.steadily_wanted and self._has_backlog and self.calls and not holding.ahead
        return bool(is_steady) and [(each.at_once, repeats) for each, repeats in self._under_way.items()] == [
            (0, False)
        ]

    def _question(
        self,
        need: Need,
        now: float,
        holding: Holding,
        *,
        is_crowded: bool = False,
        beside: Collection[Question[PlaceT]] = (),
        opening: Arrived = NOTHING,
    ) -> Question[PlaceT] | None:
        """Within the credit that is neither promised nor used up by the answer that is being opened."""
        count, size = self._allowance(need, holding, opening)
        places = self._free_places(need, now, beside)
        if not (count and size and places):
            return None
        takes_all = count == holding.messages_free
        patience = min(max(0.0, need.until - now), _patience_max(is_crowded=is_crowded, takes_all=takes_all))
        is_busy = holding.in_flight > 0 or opening.messages > 0 or bool(self._under_way)
        return Question(places, count, size, need.at_once, patience, is_busy, now + patience)

    def _need(self, now: float, holding: Holding) -> Need | None:
        """The need of the waiting calls, until the first of their deadlines; else that of the prefetch."""
        if not self.calls:
            return self._need_ahead(now) if self._ahead_wanted else None
        calls = self.calls.values()
        count = max([call.messages for call in calls]) - holding.ahead
        if count <= 0:
            return None
        return Need(count, max([call.at_once for call in calls]), min([call.deadline for call in calls]))

    def _need_ahead(self, now: float) -> Need:
        """A short poll: a call that waits meanwhile may want messages that no prefetch gets."""
        return Need(self._ahead_wanted or self.steadily_wanted, 0, now + SOON_SECONDS)

    def _allowance(self, need: Need, holding: Holding, opening: Arrived) -> tuple[int, int]:
        """The number of messages and bytes to request: the need, within the credit."""
        if self._must_come_to_rest(holding) or len(self._under_way) >= QUESTIONS_MAX:
            return 0, 0
        count = holding.messages_free - opening.messages - sum([each.messages for each in self._under_way])
        size = holding.bytes_free - opening.size - sum([each.size for each in self._under_way])
        return max(0, min(count, need.messages, MESSAGES_MAX)), max(0, min(size, BYTES_MAX))

    def _must_come_to_rest(self, holding: Holding) -> bool:
        return self._alone_waits and (holding.in_flight > 0 or bool(self._under_way))

    def _free_places(self, need: Need, now: float, beside: Collection[Question[PlaceT]]) -> tuple[PlaceT, ...]:
        """Partitions that do not rest and have no receive under way, unless it may be late or is in `beside`."""
        if not self._resting and not self._under_way:
            return self.places
        asked = {
            place
            for question, repeats in self._under_way.items()
            if question not in beside and (repeats or question.until <= need.until + SLACK_SECONDS)
            for place in question.places
        }
        return tuple([each for each in self.places if each not in asked and self._resting.get(each, now) <= now])

    # What has come

    def arrived(self, question: Question[PlaceT], arrived: Arrived) -> None:
        """The question is answered with this."""
        self._under_way.pop(question, None)
        self._has_backlog = arrived.messages >= question.messages

    def ended(self, question: Question[PlaceT]) -> None:
        """The question has failed, or is answered."""
        self._under_way.pop(question, None)

    def note_alone(self) -> None:
        """A message came, or waits at the broker, that is delivered alone."""
        self._alone_waits = True

    def came_to_rest(self, holding: Holding) -> None:
        """Look whether everything in flight is settled, so that a message may be delivered alone."""
        self._alone_waits = self._must_come_to_rest(holding)

    # Rests

    def rest(self, places: Iterable[PlaceT], now: float) -> None:
        self._resting.update((each, now + REST_SECONDS) for each in places)

    def forget_rests(self) -> None:
        """After a new assignment no partition rests."""
        self._resting.clear()

    def tick(self, now: float) -> None:
        if self._resting:
            self._resting = {each: until for each, until in self._resting.items() if until > now}

    # Deadlines

    def next_deadline(self, holding: Holding) -> float:
        """When a receive may be sent though nothing has happened, or a call is late."""
        return min(min(self._resting.values(), default=math.inf), self.next_late(holding))

    def next_late(self, holding: Holding) -> float:
        """The deadline of a call for which no receive can be sent."""
        if not self.calls or (self._under_way and not self._must_come_to_rest(holding)):
            return math.inf
        return min([call.deadline for call in self.calls.values()])


def _patience_max(*, is_crowded: bool, takes_all: bool) -> float:
    """A receive that takes all credit leaves none for other partitions, and must not wait long."""
    if is_crowded:
        return CROWDED_SECONDS
    return SOON_SECONDS if takes_all else POLL_SECONDS_MAX
