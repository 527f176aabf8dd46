"""The background task of a consumer that receives messages.

What to request is decided in core/receiving; this sends it and opens what comes. A call that waits may be cancelled
at any time: the answer goes to the stock for the next call, so no message is lost.
"""

import logging
import math
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeAlias, TypeVar

import trio

from goqueue.client.consuming.delivery import Origin, ReceivedDelivery
from goqueue.client.consuming.membership import Membership
from goqueue.client.consuming.names import DeliveredNames
from goqueue.client.consuming.stock import Stock, leased_seconds
from goqueue.client.link.caller import Caller
from goqueue.client.link.link import Pending
from goqueue.core.receiving.requests import MESSAGES_MAX, Arrived, Question, ReceiveRequests, WaitingCall
from goqueue.core.waiting.idle import IdleTime
from goqueue.errors import Fenced, GoQueueError, StaleGeneration, UnknownGroup, UnknownMember
from goqueue.net.wire.errors import ConnectionLost, GoingAway
from goqueue.net.wire.failures import error_of
from goqueue.net.wire.groups import (
    AssignedPartition,
    Receive,
    Received,
    ReceivedPartition,
    ReceivePartition,
    count_named,
)
from goqueue.types import Buffer

__all__ = ["MESSAGES_MAX", "Receiving", "Waiter"]

logger = logging.getLogger("goqueue.client")

OUTDATED = (StaleGeneration, UnknownMember, UnknownGroup)
"""The membership has changed; a heartbeat brings the newest."""

PlaceQuestion: TypeAlias = Question[AssignedPartition]
AnswerT = TypeVar("AnswerT")
OpenDelivery: TypeAlias = Callable[[Origin, DeliveredNames, Buffer], ReceivedDelivery]


class Waiter:
    """A call that waits for messages."""

    def __init__(self) -> None:
        self.woken = trio.Event()
        self.error: GoQueueError | None = None

    async def wait(self) -> None:
        await self.woken.wait()
        if self.error is not None:
            raise self.error


class UnderWay(NamedTuple):
    """A receive that was sent: its request, and its pending answer; None if `call` repeats it."""

    request: Receive
    pending: Pending | None


def arrived_in(answer: Received) -> Arrived:
    partitions = answer.partitions
    return Arrived(
        sum([count_named(each.runs, each.sets) for each in partitions]),
        sum([len(each.data) for each in partitions]),
        any(each.is_alone or each.alone_waits for each in partitions),
    )


class Asker(NamedTuple):
    """The member, the function that opens deliveries, and the nursery for tasks that await answers."""

    membership: Membership
    opened: OpenDelivery
    nursery: trio.Nursery

    def has(self, partition: AssignedPartition) -> bool:
        return partition in self.membership.assignment


class Receiving:
    def __init__(self, client: Caller, group: str, visibility: float, stock: Stock) -> None:
        self._client = client
        self._group = group
        self._visibility = visibility
        self._stock = stock
        self._requests: ReceiveRequests[AssignedPartition] = ReceiveRequests()
        self._waiters: dict[Waiter, None] = {}
        self.give_back: Callable[[], None] = lambda: None
        """Called when messages have come that are another member's by now."""
        self.tells_begun = False
        """The broker is told which messages are begun: others were no delivery when the connection is lost."""
        self._changed = trio.Event()
        self._under_way: dict[PlaceQuestion, UnderWay] = {}
        self.quiet = IdleTime()

    # Calls

    async def something(self, count: int, at_once: int, deadline: float) -> None:
        """Wait for messages; returns after the next answer, with or without messages."""
        waiter = Waiter()
        self._waiters[waiter] = None
        self._requests.calls[waiter] = WaitingCall(count, at_once, deadline)
        self.look_again()
        self.quiet.begin_wait(trio.current_time())
        try:
            await waiter.wait()
        finally:
            self.quiet.end_wait(trio.current_time())
            self._waiters.pop(waiter, None)
            self._requests.calls.pop(waiter, None)

    @property
    def steadily_wanted(self) -> int:
        return self._requests.steadily_wanted

    def want_ahead(self, count: int) -> None:
        """Prefetch this number of messages once."""
        self._requests.want_ahead(count)
        self.look_again()

    def want_steadily(self, count: int) -> None:
        """From now on prefetch this number of messages whenever a call takes as many; 0 ends it."""
        self._requests.want_steadily(count, len(self._stock.ahead))
        if count:
            self.look_again()

    def look_again(self) -> None:
        """Something has changed: messages were settled, or a call waits."""
        if self._requests.is_wanted:
            self._changed.set()

    def forget_rests(self) -> None:
        """After a new assignment no partition rests."""
        self._requests.forget_rests()
        self.look_again()

    def fail(self, error: GoQueueError) -> None:
        self._wake(error)

    # The task

    async def run(self, membership: Membership, opened: OpenDelivery) -> None:
        async with trio.open_nursery() as nursery:
            asker = Asker(membership, opened, nursery)
            while True:
                question = self._next_question(membership)
                if question is None:
                    await self._wait_for_change()
                else:
                    self._ask(question, asker)

    def _next_question(self, membership: Membership) -> PlaceQuestion | None:
        now = trio.current_time()
        self._stock.expire(now)
        self._requests.places = membership.assignment if membership.is_member else ()
        self._requests.came_to_rest(self._stock.holding)
        link = self._client.link
        is_crowded = link is not None and link.receives_are_many
        return self._requests.next(now, self._stock.holding, is_crowded=is_crowded)

    async def _wait_for_change(self) -> None:
        """Wait for a change by a call, or for a deadline: of a rest, of leases, of a waiting call."""
        if self._requests.next_late(self._stock.holding) <= trio.current_time():
            self._wake()
        if self._requests.is_wanted:
            with trio.move_on_at(min(self._stock.next_end, self._requests.next_deadline(self._stock.holding))):
                await self._changed.wait()
        else:
            await self._changed.wait()
        self._changed = trio.Event()
        self._requests.tick(trio.current_time())

    def _ask(self, question: PlaceQuestion, asker: Asker) -> None:
        """Send at once, if there is a connection with room for it."""
        link, request = self._client.link, self._request(question, asker.membership)
        pending = None if link is None else link.ask_ahead(request)
        self._under_way[question] = asked = UnderWay(request, pending)
        self._requests.sent(question, repeats=pending is None)
        asker.nursery.start_soon(self._await_answer, question, asked, asker)

    def _request(self, question: PlaceQuestion, membership: Membership) -> Receive:
        return Receive(
            self._group,
            membership.member,
            membership.generation,
            math.ceil(1000 * question.patience),  # rounded down to 0, it would be repeated without a pause
            question.messages,
            question.size,
            math.ceil(1000 * leased_seconds(self._visibility)),
            question.is_busy,
            tuple([ReceivePartition(each.uuid, each.partition) for each in question.places]),
            question.at_once,
            membership.instance,
            self.tells_begun,
        )

    async def _await_answer(self, question: PlaceQuestion, asked: UnderWay, asker: Asker) -> None:
        try:
            answer = await self._answer(asked)
        except OUTDATED:
            self._rest(question.places)
        except GoQueueError as error:
            if asked.pending is None or not isinstance(error, ConnectionLost | GoingAway):  # else it is sent anew
                self._rest(question.places)
                self._wake(None if asked.pending is not None and error.retryable else error)
        else:
            self._take_answers(question, answer, asker)
        finally:
            self._under_way.pop(question, None)
            self._requests.ended(question)
            self.look_again()

    async def _answer(self, asked: UnderWay) -> Received:
        if asked.pending is None:
            return await self._client.call(asked.request, Received)
        answer = await asked.pending.wait()
        assert isinstance(answer, Received)
        return answer

    def _take_answers(self, question: PlaceQuestion, answer: Received, asker: Asker) -> None:
        """Take all answers that have come, in the order of arrival: tasks wake in any order."""
        come = [(each, asked.pending) for each, asked in self._under_way.items() if asked.pending is not None]
        for each, pending in sorted(come, key=lambda one: one[1].number):
            if isinstance(pending.outcome, Received):
                self._take_answer(each, pending.outcome, asker)
        if question in self._under_way:  # it was sent by `call`, which repeats
            self._take_answer(question, answer, asker)

    def _take_answer(self, question: PlaceQuestion, answer: Received, asker: Asker) -> None:
        asked, arrived = self._under_way.pop(question), arrived_in(answer)
        self._requests.arrived(question, arrived)
        self._ask_on(arrived, asker)
        for partition, received in zip(question.places, answer.partitions, strict=True):
            self._take_in(asked.request, partition, received, asker)
        self._wake()
        if not all(map(asker.has, question.places)):
            self.give_back()

    def _ask_on(self, arrived: Arrived, asker: Asker) -> None:
        """Prefetch the next batch, if a call is about to take all of this one."""
        if self._client.link is None:
            return
        following = self._requests.next_behind(trio.current_time(), self._stock.holding, arrived)
        if following is not None:
            self._ask(following, asker)

    def _take_in(
        self, request: Receive, partition: AssignedPartition, received: ReceivedPartition, asker: Asker
    ) -> None:
        if received.error is not None:
            self._note_error(partition, error_of(received.error), asker.membership)
            return
        if received.is_alone or (received.alone_waits and request.at_once):
            self._requests.note_alone()
        if not received.runs and not received.sets:
            if received.alone_waits and request.at_once and not (request.is_busy or self._stock.is_busy):
                self._rest([partition])  # a lost answer may have had it: its lease has to end first
            return
        origin = Origin(self._group, partition.topic, partition.uuid, partition.partition, received.nonce)
        try:
            delivery = asker.opened(origin, DeliveredNames(received.runs, received.sets), received.data)
        except GoQueueError as error:
            self._note(partition, error)  # corrupted on its way: the lease ends, and it is redelivered
        else:
            now = trio.current_time()
            self.quiet.arrived(now)
            self._stock.add(delivery, now, self._visibility)

    def _note_error(self, partition: AssignedPartition, error: GoQueueError, membership: Membership) -> None:
        if isinstance(error, Fenced):
            membership.note_fenced(error)
        else:
            self._note(partition, error)

    def _note(self, partition: AssignedPartition, error: GoQueueError) -> None:
        if not isinstance(error, OUTDATED):
            logger.warning("%s/%d gives nothing: %s", partition.topic, partition.partition, error.message)
        self._rest([partition])

    def _rest(self, partitions: Iterable[AssignedPartition]) -> None:
        self._requests.rest(partitions, trio.current_time())

    def _wake(self, error: GoQueueError | None = None) -> None:
        waiters, self._waiters = self._waiters, {}
        self._requests.calls.clear()
        for waiter in waiters:
            waiter.error = error
            waiter.woken.set()
