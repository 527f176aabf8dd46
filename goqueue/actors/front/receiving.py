"""One receive from many partitions: answered as soon as one of them has something.

All are asked at once to say when they have something, and those that do are asked in turn for it, each for what is
left of the messages and bytes that the member wants. Waiting takes no lease: what is there is asked for when there
is room for the answer. Where all are likely to have something, or there is no time to wait, nobody is asked twice.

What is taken is under a lease and cannot be dropped, as a fetch may drop what does not fit. So nobody is asked any
more once the bytes or messages are used up, and behind a message that is handed out alone. A batch that would make
the answer too large to be sent is given back, uncounted.
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
"""Of deliveries from several partitions in one answer; a batch alone may have twice that."""
FURTHER_SECONDS_MAX = 0.05
"""So long others are waited for once something was taken: its lease runs already."""
PAUSE_SECONDS = 0.01
"""Before somebody who was told of something, and did not find it, asks again: others may be faster every time."""
NOTHING = Taken(0, (), b"", is_alone=False, alone_waits=False)

Place: TypeAlias = ActorRef | GoQueueError
"""A partition, or why there is none."""
Outcome: TypeAlias = Taken | GoQueueError


@dataclass(frozen=True, slots=True)
class Wish:
    """What a member wants, of all partitions together."""

    group: str
    member: str
    generation: int
    messages_max: int
    bytes_max: int
    visibility: float
    is_busy: bool
    lasts_max: int
    """So many may be on their last permitted delivery: with 0 it asks ahead of its need."""
    instance: int = 0
    seconds_max: float = math.inf
    """So long it is gone on to further partitions, once something was taken."""


async def take_what_is_there(
    places: Sequence[Place], wish: Wish, first: int = 0, asked: Container[int] | None = None
) -> "Takings":
    """Those from `first` on are asked before the others; with `asked`, only these."""
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
    """One for each place, in order."""
    is_full: bool
    """Of some there may be more."""


class _Hand:
    """What has been taken so far, and what is left to take."""

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
        with suppress(GoQueueError):  # then its lease ends by itself
            await partition.call(SettleRuns(self._wish.group, taken.nonce, Action.RELEASE, taken.all_runs))
        return NOTHING


def leads_on(outcome: Outcome) -> bool:
    """Whether there is something to tell: messages, an error, or that the member is to settle what it holds."""
    return isinstance(outcome, GoQueueError) or bool(outcome.size) or outcome.alone_waits


async def await_deliverable(places: Sequence[Place], question: AwaitDeliverable) -> set[int]:
    """Those that may have something, or an error to tell, as soon as there are any; all, at the deadline."""
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
                note(number)  # who takes next will hear it
            else:
                replies.append(reply)
                reply.then(lambda _, number=number: note(number))  # type: ignore[misc]
        await some_are.wait()
    finally:
        for reply in replies:
            reply.forget()
    return found
