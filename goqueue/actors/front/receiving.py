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
    outcomes: list[Outcome] = [each if isinstance(each, GoQueueError) else NOTHING for each in places]
    for number in share.order:
        place = places[number]
        if isinstance(place, ActorRef) and not share.is_full(trio.current_time()):
            outcomes[number] = await _take_from(number, place, question, share)
    return outcomes


async def _take_from(number: int, partition: ActorRef, question: Question, share: ReceiveShare) -> Outcome:
    taken, asked = NOTHING, question(share.rest())
    try:
        with trio.move_on_after(FURTHER_SECONDS_MAX if share.served else math.inf):
            taken = await partition.call(asked)
    except GoQueueError as error:
        return error
    if not taken.size or share.admit(number, taken.size, len(taken.data), is_alone=taken.is_alone):
        return taken
    with suppress(GoQueueError):  # else its lease ends by itself
        await partition.call(SettleRuns(asked.group, taken.nonce, Action.RELEASE, taken.all_runs))
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
