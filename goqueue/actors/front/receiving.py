"""One receive from many partitions: answered as soon as one of them has messages.

All partitions are asked at once to report when they have messages, and those that do are asked in turn for a
delivery, each for the rest of the messages and bytes that the member wants. Waiting takes no lease: messages are
taken when there is room for the answer. Where all partitions probably have messages, or there is no time to wait,
they are asked for a delivery at once.

Messages of a delivery have a lease and cannot be dropped, as a fetch may drop what does not fit. So no further
partition is asked once the bytes or messages are used up, or after a message that is delivered alone. A delivery
that would make the answer too large is released, uncounted.
"""

import math
from collections.abc import Container, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import trio

from goqueue.actors.delivery.requests import AwaitDeliverable, SettleRuns, Take, Taken
from goqueue.actors.runtime.messages import Reply
from goqueue.actors.runtime.ref import ActorRef
from goqueue.core.ledger.settlements import Action
from goqueue.errors import GoQueueError

TOGETHER_BYTES_MAX = 16 * 1024 * 1024
"""Limit of deliveries from several partitions in one answer; a single batch may have twice that."""
FURTHER_SECONDS_MAX = 0.05
"""Limit of the wait for each further partition once something was taken: its lease is already running."""
PAUSE_SECONDS = 0.01
"""The pause before a member that was woken and found nothing asks again: others may be faster every time."""
NOTHING = Taken(0, (), b"", is_alone=False, alone_waits=False)

Place: TypeAlias = ActorRef | GoQueueError
"""A partition, or the error for it."""
Outcome: TypeAlias = Taken | GoQueueError


@dataclass(frozen=True, slots=True)
class Wish:
    """The limits of a receive, for all partitions together."""

    group: str
    member: str
    generation: int
    messages_max: int
    bytes_max: int
    visibility: float
    is_busy: bool
    lasts_max: int
    """Limit of messages on their last permitted delivery: 0 for a prefetch."""
    instance: int = 0
    seconds_max: float = math.inf
    """Limit of the time for further partitions, once something was taken."""


async def take_what_is_there(
    places: Sequence[Place], wish: Wish, first: int = 0, asked: Container[int] | None = None
) -> "Takings":
    """Ask the partitions from `first` on before the others; with `asked`, only these."""
    outcomes: list[Outcome] = [each if isinstance(each, GoQueueError) else NOTHING for each in places]
    hand, end = _Hand(wish), trio.current_time() + wish.seconds_max
    for number in (*range(first, len(places)), *range(first)):
        place = places[number]
        if isinstance(place, ActorRef) and not hand.is_full and (asked is None or number in asked):
            outcomes[number] = await hand.take_from(place)
            hand.is_full |= hand.has_some and trio.current_time() >= end
    return Takings(outcomes, hand.is_full)


class Takings(NamedTuple):
    outcomes: list[Outcome]
    """One for each partition, in order."""
    is_full: bool
    """The limits were reached: some partitions may have more."""


class _Hand:
    """The deliveries taken so far, and the rest of the limits."""

    def __init__(self, wish: Wish) -> None:
        self._wish = wish
        self._messages = 0
        self._bytes = 0
        self.is_full = False

    @property
    def has_some(self) -> bool:
        return self._messages > 0

    async def take_from(self, partition: ActorRef) -> Outcome:
        taken = NOTHING
        try:
            with trio.move_on_after(FURTHER_SECONDS_MAX if self._messages else math.inf):
                taken = await partition.call(self._question())
        except GoQueueError as error:
            return error
        if not taken.size:
            return taken
        if self._messages and self._bytes + len(taken.data) > TOGETHER_BYTES_MAX:
            return await self._give_back(partition, taken)
        self._note(taken)
        return taken

    def _question(self) -> Take:
        wish = self._wish
        return Take(
            wish.group,
            wish.member,
            wish.generation,
            wish.messages_max - self._messages,
            wish.bytes_max - self._bytes,
            wish.visibility,
            wish.is_busy or self._messages > 0,
            max(0, wish.lasts_max - self._messages),
            wish.instance,
        )

    def _note(self, taken: Taken) -> None:
        self._messages += taken.size
        self._bytes += len(taken.data)
        is_used_up = self._messages >= self._wish.messages_max or self._bytes >= self._wish.bytes_max
        self.is_full = is_used_up or taken.is_alone

    async def _give_back(self, partition: ActorRef, taken: Taken) -> Outcome:
        self.is_full = True
        with suppress(GoQueueError):  # else its lease ends by itself
            await partition.call(SettleRuns(self._wish.group, taken.nonce, Action.RELEASE, taken.all_runs))
        return NOTHING


def leads_on(outcome: Outcome) -> bool:
    """Whether to answer: with messages, an error, or that the member has to settle what it holds."""
    return isinstance(outcome, GoQueueError) or bool(outcome.size) or outcome.alone_waits


async def await_deliverable(places: Sequence[Place], question: AwaitDeliverable) -> set[int]:
    """The partitions that may have messages or an error, as soon as there are any; at the deadline all."""
    some_are, found = trio.Event(), set[int]()
    replies = list[Reply[None]]()

    def note(number: int) -> None:
        found.add(number)
        some_are.set()

    try:
        for number, place in enumerate(places):
            assert isinstance(place, ActorRef), "an error is told, not waited for"
            try:
                reply = await place.ask(question)
            except GoQueueError:
                note(number)  # the next take will get it
            else:
                replies.append(reply)
                reply.then(lambda _, number=number: note(number))  # type: ignore[misc]
        await some_are.wait()
    finally:
        for reply in replies:
            reply.forget()
    return found
