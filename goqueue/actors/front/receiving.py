"""One receive from many partitions: answered as soon as one of them has messages.

All partitions are asked at once to report when they have messages, and those that do are asked in turn for a
delivery, each for the rest of the messages and bytes that the member wants. Waiting takes no lease: messages are
taken when there is room for the answer. Where all partitions probably have messages, or there is no time to wait,
they are asked for a delivery at once. `core/waiting/turns` decides who is asked, and for how much.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeAlias

import trio

from goqueue.actors.delivery.requests import AwaitDeliverable, SettleRuns, Take, Taken
from goqueue.actors.runtime.messages import Reply
from goqueue.actors.runtime.ref import ActorRef
from goqueue.core.ledger.settlements import Action
from goqueue.core.waiting.turns import ReceiveLimits, ReceiveShare
from goqueue.errors import GoQueueError

FURTHER_SECONDS_MAX = 0.05
"""Limit of the wait for each further partition once something was taken: its lease is already running."""
PAUSE_SECONDS = 0.01
"""The pause before a member that was woken and found nothing asks again: others may be faster every time."""
NOTHING = Taken(0, (), b"", is_alone=False, alone_waits=False)

Place: TypeAlias = ActorRef | GoQueueError
"""A partition, or the error for it."""
Outcome: TypeAlias = Taken | GoQueueError
Question: TypeAlias = Callable[[ReceiveLimits], Take]
"""What a partition is asked for, within what is left of a receive."""


async def take_what_is_there(places: Sequence[Place], question: Question, share: ReceiveShare) -> list[Outcome]:
    """One outcome for each partition, in order."""
    outcomes = none_yet(places)
    await take_on(places, question, share, outcomes)
    return outcomes


def none_yet(places: Sequence[Place]) -> list[Outcome]:
    return [each if isinstance(each, GoQueueError) else NOTHING for each in places]


async def take_on(
    places: Sequence[Place], question: Question, share: ReceiveShare, outcomes: list[Outcome], asked: int = 0
) -> None:
    """The first `asked` partitions of the order were asked before."""
    await _Takes(places, question, share, outcomes, asked).run()


class _Takes:
    """Partitions that are asked for a delivery one after the other, each in the turn of the one before it: only the
    last answer wakes the task that waits for them, and a partition that does not answer in time."""

    def __init__(
        self, places: Sequence[Place], question: Question, share: ReceiveShare, outcomes: list[Outcome], asked: int
    ) -> None:
        self._places = places
        self._question = question
        self._share = share
        self._outcomes = outcomes
        self._numbers = iter(share.order[asked:])
        self._asked = asked
        self._under_way: Reply[Taken] | None = None
        self._crowded: ActorRef | None = None
        """A partition without room in its mailbox."""
        self._number = 0
        self._is_done = False
        self._changed = trio.Event()

    async def run(self) -> None:
        self._ask_next()
        try:
            while not self._is_done:
                await self._wait()
        finally:
            if self._under_way is not None:
                self._under_way.forget()

    async def _wait(self) -> None:
        """Until all have answered. Then nobody waits; a partition that has hung since before is passed over."""
        asked, self._changed = self._asked, trio.Event()
        with trio.move_on_after(FURTHER_SECONDS_MAX if self._share.served else math.inf) as patience:
            if self._crowded is not None:
                await self._ask_when_room(self._crowded)
            await self._changed.wait()
        if patience.cancelled_caught and asked == self._asked:
            if self._under_way is not None:
                self._under_way.forget()
            self._ask_next()

    def _ask_next(self) -> None:
        self._under_way = self._crowded = None
        for number in self._numbers:
            if self._share.is_full(trio.current_time()):
                break
            place = self._places[number]
            if isinstance(place, ActorRef) and self._ask(number, place):
                return
        self._is_done = True
        self._changed.set()

    def _ask(self, number: int, place: ActorRef) -> bool:
        """Returns whether there is an answer to wait for."""
        self._asked, self._number = self._asked + 1, number
        try:
            reply = place.ask_at_once(self._question(self._share.rest()))
        except GoQueueError as error:
            self._outcomes[number] = error
            return False
        if reply is None:
            self._crowded = place
            self._changed.set()
        else:
            self._await(reply)
        return True

    async def _ask_when_room(self, place: ActorRef) -> None:
        try:
            reply = await place.ask(self._question(self._share.rest()))
        except GoQueueError as error:
            self._outcomes[self._number] = error
            self._ask_next()
        else:
            self._crowded = None
            self._await(reply)

    def _await(self, reply: Reply[Taken]) -> None:
        self._under_way = reply
        reply.then(self._took)

    def _took(self, reply: Reply[Taken]) -> None:
        """In the turn of the partition."""
        was_served, outcome, number = bool(self._share.served), reply.outcome, self._number
        assert isinstance(outcome, Taken | GoQueueError), "an actor refuses with typed errors, and its death is one"
        self._outcomes[number] = outcome
        if isinstance(outcome, Taken) and outcome.size:
            if not self._share.admit(number, outcome.size, len(outcome.data), is_alone=outcome.is_alone):
                self._release(number, outcome)
            elif not was_served:
                self._changed.set()  # from now on the task is impatient
        self._ask_next()

    def _release(self, number: int, taken: Taken) -> None:
        self._outcomes[number] = NOTHING
        place, asked = self._places[number], self._question(self._share.rest())
        assert isinstance(place, ActorRef)
        with suppress(GoQueueError):  # else its lease ends by itself
            place.cast(SettleRuns(asked.group, taken.nonce, Action.RELEASE, taken.all_runs))


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
