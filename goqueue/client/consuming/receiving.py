"""The background task of a consumer that receives messages.

It sends a receive only when a call waits for messages, there is credit for them and the prefetch is empty. A
partition has one receive at a time, unless a call comes that cannot wait as long as that one: a partition that is
assigned while a receive for the others waits is asked at once, by itself.
A call that waits may be cancelled at any time: the answer goes to the stock for the next call, so no message is
lost.

For a program that takes a batch, settles it and takes the next, the next one is prefetched. Its receive is sent
before the batch that has come is parsed, and while a call waits for a large batch, the one behind it is prefetched,
too. So broker and client work at the same time, and the prefetch is at most one batch.

A partition that answers with an error rests for a second, or until there is a new assignment; the others are asked
meanwhile.
"""

import logging
import math
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple, TypeAlias, TypeVar

import trio

from goqueue.client.consuming.delivery import Origin, ReceivedDelivery
from goqueue.client.consuming.membership import Membership
from goqueue.client.consuming.names import DeliveredNames
from goqueue.client.consuming.stock import Stock, leased_seconds
from goqueue.client.link.caller import Caller
from goqueue.client.link.link import Pending
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


class Waiter:
    """A call that waits for messages; it hands `at_once` of them to the program at once."""

    def __init__(self, count: int, at_once: int, deadline: float) -> None:
        self.count, self.at_once, self.deadline = count, at_once, deadline
        self.woken = trio.Event()
        self.error: GoQueueError | None = None

    async def wait(self) -> None:
        await self.woken.wait()
        if self.error is not None:
            raise self.error


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    request: Receive
    partitions: tuple[AssignedPartition, ...]
    """In the order of the request."""
    until: float
    """When the broker ends the long poll."""


class Need(NamedTuple):
    """The limits of the next receive: messages, how many of them the program gets at once, and the deadline."""

    messages: int
    at_once: int
    until: float


class Arrived(NamedTuple):
    """The size of an answer, before it is parsed."""

    messages: int
    size: int
    is_alone: bool


NOTHING = Arrived(0, 0, is_alone=False)


def arrived_in(answer: Received) -> Arrived:
    partitions = answer.partitions
    return Arrived(
        sum(count_named(each.runs, each.sets) for each in partitions),
        sum(len(each.data) for each in partitions),
        any(each.is_alone or each.alone_waits for each in partitions),
    )


logger = logging.getLogger("goqueue.client")

POLL_SECONDS_MAX = 10.0
MESSAGES_MAX = 10_000
BYTES_MAX = 1024 * 1024
REST_SECONDS = SOON_SECONDS = 1.0
CROWDED_SECONDS = 0.5
"""Limit of a long poll when so many consumers share a connection that its limit of receives is reached."""
SLACK_SECONDS = 0.01
"""An answer that may come this much too late is still awaited."""
QUESTIONS_MAX = 4
OUTDATED = (StaleGeneration, UnknownMember, UnknownGroup)
"""The membership has changed; a heartbeat brings the newest."""

AnswerT = TypeVar("AnswerT")
OpenDelivery: TypeAlias = Callable[[Origin, DeliveredNames, Buffer], ReceivedDelivery]


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
        self._waiters: dict[Waiter, None] = {}
        self._ahead_wanted = 0
        self.steadily_wanted = 0
        self.give_back: Callable[[], None] = lambda: None
        """Called when messages have come that are another member's by now."""
        self._opening: Arrived = NOTHING
        self._changed = trio.Event()
        self._under_way: dict[Question, Pending | None] = {}
        """The receives under way, in order; each with its pending answer, or None if `call` repeats it."""
        self._has_backlog = False
        """The last answer had as many messages as requested."""
        self._alone_waits = False
        """A message is held, or waits at the broker, that is delivered alone (see `Received`)."""
        self._resting: dict[AssignedPartition, float] = {}
        """Until when a partition rests."""
        self.quiet = IdleTime()

    # Calls

    async def something(self, count: int, at_once: int, deadline: float) -> None:
        """Wait for messages; returns after the next answer, with or without messages."""
        waiter = Waiter(count, at_once, deadline)
        self._waiters[waiter] = None
        self.look_again()
        self.quiet.begin_wait(trio.current_time())
        try:
            await waiter.wait()
        finally:
            self.quiet.end_wait(trio.current_time())
            self._waiters.pop(waiter, None)

    def want_ahead(self, count: int) -> None:
        """Prefetch this number of messages once."""
        if not self._under_way:
            self._ahead_wanted = count
            self.look_again()

    def want_steadily(self, count: int) -> None:
        """From now on prefetch this number of messages whenever a call takes as many; 0 ends it."""
        self.steadily_wanted = count
        if count and not self._stock.ahead:
            self.want_ahead(count)

    def look_again(self) -> None:
        """Something has changed: messages were settled, or a call waits."""
        if self._is_wanted:
            self._changed.set()

    @property
    def _is_wanted(self) -> bool:
        """A call waits, or a prefetch is due: else there is nothing to send, and no deadline."""
        return bool(self._waiters or self._ahead_wanted)

    def forget_rests(self) -> None:
        """After a new assignment no partition rests."""
        self._resting.clear()
        self.look_again()

    def fail(self, error: GoQueueError) -> None:
        self._wake(error)

    # The task

    async def run(self, membership: Membership, opened: OpenDelivery) -> None:
        async with trio.open_nursery() as nursery:
            asker = Asker(membership, opened, nursery)
            while True:
                question = self._question(membership) or self._question_behind(membership)
                if question is None:
                    await self._wait_for_change()
                else:
                    self._ask(question, asker)

    def _question(self, membership: Membership) -> Question | None:
        now = trio.current_time()
        self._stock.expire(now)
        need = self._need(now)
        return None if need is None else self._question_for(need, membership, now)

    def _question_behind(self, membership: Membership) -> Question | None:
        """While a call waits for a large batch, the one behind it is prefetched.

        Not behind a message that may be delivered alone.
        """
        is_steady = self.steadily_wanted and self._has_backlog and self._waiters and not self._stock.ahead
        is_one_ahead = [(each.request.at_once, self._repeats(each)) for each in self._under_way] == [(0, False)]
        if not is_steady or not is_one_ahead:
            return None
        now = trio.current_time()
        return self._question_for(self._need_ahead(now), membership, now, self._under_way)

    def _question_for(
        self, need: Need, membership: Membership, now: float, beside: Collection[Question] = ()
    ) -> Question | None:
        count, size = self._allowance(need)
        partitions = self._free_partitions(membership, need, now, beside)
        if not (count and size and partitions):
            return None
        patience = min(max(0.0, need.until - now), self._patience_max(is_all=count == self._stock.credit[0]))
        request = Receive(
            self._group,
            membership.member,
            membership.generation,
            math.ceil(1000 * patience),  # rounded down to 0, it would be repeated without a pause
            count,
            size,
            math.ceil(1000 * leased_seconds(self._visibility)),
            self._stock.is_busy or self._opening.messages > 0 or bool(self._under_way),
            tuple(ReceivePartition(each.uuid, each.partition) for each in partitions),
            need.at_once,
            membership.instance,
        )
        return Question(request, partitions, now + patience)

    def _need(self, now: float) -> Need | None:
        """The need of the waiting calls, until the first of their deadlines; else that of the prefetch."""
        if self._waiters:
            count = max(waiter.count for waiter in self._waiters) - len(self._stock.ahead)
            at_once = max(waiter.at_once for waiter in self._waiters)
            return Need(count, at_once, min(waiter.deadline for waiter in self._waiters)) if count > 0 else None
        return self._need_ahead(now) if self._ahead_wanted else None

    def _need_ahead(self, now: float) -> Need:
        """A short poll: a call that waits meanwhile may want messages that no prefetch gets."""
        return Need(self._ahead_wanted or self.steadily_wanted, 0, now + SOON_SECONDS)

    def _allowance(self, need: Need) -> tuple[int, int]:
        """The number of messages and bytes to request: the need, within the credit that is not promised yet."""
        if self._must_come_to_rest or len(self._under_way) >= QUESTIONS_MAX:
            return 0, 0
        count, size = self._stock.credit
        count -= self._opening.messages + sum(each.request.messages_max for each in self._under_way)
        size -= self._opening.size + sum(each.request.bytes_max for each in self._under_way)
        return max(0, min(count, need.messages, MESSAGES_MAX)), max(0, min(size, BYTES_MAX))

    @property
    def _must_come_to_rest(self) -> bool:
        """A message that is delivered alone must be the only one: until everything in flight is settled and every
        receive is answered, no other is sent."""
        self._alone_waits = self._alone_waits and (self._stock.is_busy or bool(self._under_way))
        return self._alone_waits

    def _patience_max(self, is_all: bool) -> float:
        """A receive that takes all credit leaves none for other partitions, and must not wait long."""
        link = self._client.link
        if link is not None and link.receives_are_many:
            return CROWDED_SECONDS
        return SOON_SECONDS if is_all else POLL_SECONDS_MAX

    def _repeats(self, question: Question) -> bool:
        """It was sent by `call`, which repeats: the order of its answer among others is not known."""
        return self._under_way[question] is None

    def _free_partitions(
        self, membership: Membership, need: Need, now: float, beside: Collection[Question]
    ) -> tuple[AssignedPartition, ...]:
        """Partitions that do not rest and have no receive under way, unless it may be late or is in `beside`."""
        if not membership.is_member:
            return ()
        others = [question for question in self._under_way if question not in beside]
        in_time = [each for each in others if each.until <= need.until + SLACK_SECONDS or self._repeats(each)]
        asked = {partition for question in in_time for partition in question.partitions}
        return tuple(
            each for each in membership.assignment if each not in asked and self._resting.get(each, now) <= now
        )

    async def _wait_for_change(self) -> None:
        """Wait for a change by a call, or for a deadline: of a rest, of leases, of a waiting call."""
        if self._next_late <= trio.current_time():
            self._wake()
        if self._is_wanted:
            with trio.move_on_at(min(self._stock.next_end, self._next_rest_end, self._next_late)):
                await self._changed.wait()
        else:
            await self._changed.wait()
        self._changed = trio.Event()
        now = trio.current_time()
        self._resting = {each: until for each, until in self._resting.items() if until > now}

    @property
    def _next_rest_end(self) -> float:
        return min(self._resting.values(), default=math.inf)

    @property
    def _next_late(self) -> float:
        """The deadline of a call for which no receive can be sent."""
        if self._under_way and not self._must_come_to_rest:
            return math.inf
        return min((waiter.deadline for waiter in self._waiters), default=math.inf)

    def _ask(self, question: Question, asker: Asker) -> None:
        """Send at once, if there is a connection with room for it."""
        link = self._client.link
        self._under_way[question] = asked = None if link is None else link.ask_ahead(question.request)
        self._ahead_wanted = 0
        asker.nursery.start_soon(self._await_answer, question, asked, asker)

    async def _await_answer(self, question: Question, asked: Pending | None, asker: Asker) -> None:
        try:
            answer = await self._answer(question.request, asked)
        except OUTDATED:
            self._rest(question.partitions)
        except GoQueueError as error:
            if asked is None or not isinstance(error, ConnectionLost | GoingAway):  # else it is sent anew
                self._rest(question.partitions)
                self._wake(None if asked is not None and error.retryable else error)
        else:
            self._take_answers(question, answer, asker)
        finally:
            self._under_way.pop(question, None)
            self.look_again()

    async def _answer(self, request: Receive, asked: Pending | None) -> Received:
        if asked is None:
            return await self._client.call(request, Received)
        answer = await asked.wait()
        assert isinstance(answer, Received)
        return answer

    def _take_answers(self, question: Question, answer: Received, asker: Asker) -> None:
        """Take all answers that have come, in the order of arrival: tasks wake in any order."""
        come = [(asked.number, each, asked.outcome) for each, asked in self._under_way.items() if asked is not None]
        for _, each, found in sorted(come, key=itemgetter(0)):
            if isinstance(found, Received):
                self._take_answer(each, found, asker)
        if question in self._under_way:  # it was sent by `call`, which repeats
            self._take_answer(question, answer, asker)

    def _take_answer(self, question: Question, answer: Received, asker: Asker) -> None:
        del self._under_way[question]
        self._ask_on(question, answer, asker)
        for partition, received in zip(question.partitions, answer.partitions, strict=True):
            self._take_in(question.request, partition, received, asker)
        self._wake()
        if not all(map(asker.has, question.partitions)):
            self.give_back()

    def _ask_on(self, question: Question, answer: Received, asker: Asker) -> None:
        """Prefetch the next batch, if a call is about to take all of this one."""
        arrived = arrived_in(answer)
        self._has_backlog = arrived.messages >= question.request.messages_max
        is_taken = arrived.messages and any(waiter.count >= arrived.messages for waiter in self._waiters)
        if not self.steadily_wanted or not is_taken or self._client.link is None:
            return
        if arrived.is_alone or self._stock.ahead or self._under_way:
            return
        now, self._opening = trio.current_time(), arrived
        following = self._question_for(self._need_ahead(now), asker.membership, now)
        self._opening = NOTHING
        if following is not None:
            self._ask(following, asker)

    def _take_in(
        self, request: Receive, partition: AssignedPartition, received: ReceivedPartition, asker: Asker
    ) -> None:
        if received.error is not None:
            self._note_error(partition, error_of(received.error), asker.membership)
            return
        if received.is_alone or (received.alone_waits and request.at_once):
            self._alone_waits = True
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
        until = trio.current_time() + REST_SECONDS
        self._resting.update((each, until) for each in partitions)

    def _wake(self, error: GoQueueError | None = None) -> None:
        waiters, self._waiters = self._waiters, {}
        for waiter in waiters:
            waiter.error = error
            waiter.woken.set()
