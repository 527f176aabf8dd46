"""A consumer in queue mode: messages under leases, settled one by one.

Tasks run beside the program: one stays a member (membership.py), one asks for messages (receiving.py), one
renews leases (leases.py), one says again what could not be settled at once (unconfirmed.py), one gives back what a
program that has become slow does not take (steady.py), and one says why nothing comes, when that takes long
(explaining.py). What they bring lies in the stock (stock.py), from which
`receive` and `async for` hand out. So a call may be cancelled at any time: it owns nothing.

The lease of a message begins when it is handed out: one that has waited is extended first, and dropped when it was
lost. However the block is left, what was not settled is given back at once, and its delivery does not count.
"""

import logging
import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import trio

from goqueue.client.consuming.consumer import (
    GRACE_SECONDS,
    ITERATION_AHEAD,
    Consumer,
    ConsumerState,
    Settled,
    check_receive,
)
from goqueue.client.consuming.delivery import (
    OF_TRIO,
    DeliveredMessage,
    Kinds,
    LeasedMessage,
    Portion,
    ReceivedDelivery,
    delivery_of,
    open_delivery,
    portions_of,
)
from goqueue.client.consuming.explaining import Explaining
from goqueue.client.consuming.leases import Leases
from goqueue.client.consuming.membership import Membership
from goqueue.client.consuming.misfits import Misfits
from goqueue.client.consuming.options import REJECT, ConsumerOptions, check_seconds
from goqueue.client.consuming.reasons import checked_reason, reason_of
from goqueue.client.consuming.receiving import Receiving
from goqueue.client.consuming.settling import Settling, Word
from goqueue.client.consuming.steady import SteadyPrefetch
from goqueue.client.consuming.stock import Stock, leased_seconds
from goqueue.client.consuming.supply import Supply
from goqueue.client.consuming.unconfirmed import Unconfirmed
from goqueue.client.link.caller import Caller
from goqueue.core.ledger.settlements import Action
from goqueue.core.receiving.pace import Pace
from goqueue.errors import Closed, GoQueueError, InvalidMessage, StaleReceipt
from goqueue.types import Seconds

logger = logging.getLogger("goqueue.client")

EXTEND_SECONDS_MIN = 0.001


class QueueConsumer(Consumer):
    def __init__(self, client: Caller, options: ConsumerOptions) -> None:
        super().__init__(client, options)
        self._stock = Stock(options.max_in_flight, options.max_in_flight_bytes)
        self._settling = Settling(client, options.group, self._stock)
        self._leases = Leases(self._stock, self._settling, options.visibility_seconds)
        self._receiving = Receiving(client, options.group, options.visibility_seconds, self._stock)
        self._receiving.give_back = self._give_back
        self._membership = Membership(client, options, self._note_assignment, self._receiving.fail)
        self._explaining = Explaining(client, options.group, self.member_id, self._receiving.quiet)
        self._unconfirmed = Unconfirmed(self._settling, options.on_ack_error)
        self._misfits = Misfits(self._settling, client.spawn, self._receiving.look_again)
        if self._codec is not None and options.misfits == REJECT:
            self._stock.sift = self._misfits.sift
        self._open_delivery = partial(open_delivery, owner=self, kinds=OF_TRIO, codec=self._codec)
        self._steady = SteadyPrefetch(self._stock, self._receiving, self._release_soon)

    def supply(self, pace: Pace) -> Supply:
        """For a worker, before it is entered: the broker is told which messages begin."""
        self._receiving.tells_begun = True
        return Supply(
            self._client,
            stock=self._stock,
            receiving=self._receiving,
            leases=self._leases,
            settling=self._settling,
            unconfirmed=self._unconfirmed,
            check_open=self._check_receives,
            release=self._release_soon,
            pace=pace,
        )

    def serve(self, owner: object, kinds: Kinds, in_hand: Callable[[], Iterable[LeasedMessage]]) -> None:
        """For another surface: whose messages these are, of which classes, and what it has in its hands."""
        self._open_delivery = partial(open_delivery, owner=owner, kinds=kinds, codec=self._codec)
        self._leases.elsewhere = in_hand

    async def _run(self) -> None:
        with self._scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._membership.run)
                nursery.start_soon(self._receiving.run, self._membership, self._open_delivery)
                nursery.start_soon(self._leases.run)
                nursery.start_soon(self._unconfirmed.run)
                nursery.start_soon(self._explaining.run)
                nursery.start_soon(self._explaining.tell_left_out, self._membership)
                nursery.start_soon(self._steady.run)

    async def _leave(self) -> None:
        """Whatever cannot be given back comes again when its lease ends, so it is not tried for long."""
        self._state = ConsumerState.CLOSED
        self._receiving.fail(self._closed())
        with self._leaving():
            await self._unconfirmed.flush()
            await self._misfits.flush()
            self._scope.cancel()
            with suppress(GoQueueError):
                await self._settling.say(Word(Action.RELEASE), self._stock.unsettled())
            with suppress(GoQueueError):
                await self._membership.leave()
        self._scope.cancel()
        if lost := self._unconfirmed.count:
            logger.warning(
                "group %s: the acks of %d messages were not confirmed in time; they may come again",
                self._options.group,
                lost,
            )
        self._stock.drop(list(self._stock.deliveries))

    def _check_at_end(self) -> None:
        self._unconfirmed.check()

    # Receiving

    async def receive(
        self, max_messages: int = 500, timeout: Seconds = 30, *, visibility_timeout: Seconds | None = None
    ) -> list[DeliveredMessage]:
        """What is there, at least one message; [] after `timeout` seconds. Cancelling it loses nothing."""
        self._check_open()
        seconds, visibility = check_receive(max_messages, timeout, visibility_timeout)
        deadline = trio.current_time() + seconds
        with trio.move_on_at(deadline + GRACE_SECONDS):
            while await self._has_come(max_messages, deadline):
                messages = await self._handed_out(max_messages, visibility)
                if messages:  # else another task was quicker
                    return messages
        return []

    async def _has_come(self, count: int, deadline: float) -> bool:
        """Wait for messages to hand out, so many at most; False when there are none at the deadline."""
        while not await self._is_at_hand(count):
            await self._receiving.something(count, count, deadline)
            if trio.current_time() >= deadline and not self._stock.ahead:
                return False
        if len(self._stock.ahead) < count and 0 < self._receiving.steadily_wanted < count:
            await self._receiving.something(count, count, trio.current_time())
        return True

    async def next_batch(self) -> list[DeliveredMessage]:
        """What an iteration would hand out one by one, for a surface that does so itself."""
        while not await self._is_at_hand(ITERATION_AHEAD):
            await self._receiving.something(ITERATION_AHEAD, 1, math.inf)
        return self._stock.take(ITERATION_AHEAD)

    def take_back(self, messages: Sequence[LeasedMessage]) -> None:
        """They reached nobody, and wait for the next call."""
        self._stock.put_back(messages)

    async def __anext__(self) -> DeliveredMessage:
        worker, now = trio.lowlevel.current_task(), trio.current_time()
        self._check_receives()
        if not self._stock.ahead or self._stock.old_ahead(1, now):
            self._leases.end_work(worker)
            while not await self._is_at_hand(1):
                await self._receiving.something(ITERATION_AHEAD, 1, math.inf)
            now = trio.current_time()
        message: DeliveredMessage = self._stock.ahead.popleft()
        if self.extends_at_work:
            self._leases.begin_work(worker, message, now)
        if len(self._stock.ahead) <= ITERATION_AHEAD // 2:
            self._receiving.want_ahead(ITERATION_AHEAD - len(self._stock.ahead))
        return message

    @property
    def extends_at_work(self) -> bool:
        """Whether the message that the body of a loop works on keeps its lease."""
        return self._options.auto_extend is not False

    async def _is_at_hand(self, count_max: int) -> bool:
        """Whether messages can be handed out, under leases that have just begun."""
        self._check_receives()
        while old := self._stock.old_ahead(count_max, trio.current_time()):
            await self._leases.refresh(old)
            self._check_receives()
        return bool(self._stock.ahead)

    async def _handed_out(self, count_max: int, visibility: float | None) -> list[DeliveredMessage]:
        messages: list[DeliveredMessage] = self._stock.take(count_max)
        if not messages:
            return []
        self._steady.taken(len(messages), count_max)
        if self._options.auto_extend:
            self._leases.keep(messages, trio.current_time())
        elif visibility is not None:
            await self._begin_leases(messages, visibility)
        return messages

    async def _begin_leases(self, messages: list[DeliveredMessage], seconds: float) -> None:
        try:
            await self.extend(messages, leased_seconds(seconds))
        except StaleReceipt:
            messages[:] = [message for message in messages if message.delivery.holds(message.offset)]
        except BaseException:
            self.take_back(messages)
            raise

    # Partitions that come and go

    def _note_assignment(self) -> None:
        self._receiving.forget_rests()
        self._give_back()

    def _give_back(self) -> None:
        """What waits here of partitions that others have: the program has not seen it."""
        self._release_soon(self._stock.take_foreign(set(self._membership.assignment)))

    def _release_soon(self, portions: list[Portion]) -> None:
        if portions:
            self._client.spawn(self._release, portions)

    async def _release(self, portions: list[Portion]) -> None:
        with suppress(GoQueueError):  # then it comes again when its lease ends
            await self._settling.say(Word(Action.RELEASE), portions)

    async def flush_acks(self) -> None:
        """Wait until every ack that was not waited for is decided."""
        await self._unconfirmed.flush()

    # Settling

    async def ack(self, messages: Settled, *, wait: bool | None = None) -> None:
        """They are done. `StaleReceipt` names those whose leases had ended; the others are settled.

        With `wait=False` the ack leaves at once and is not waited for: an error goes to `on_ack_error`, else to the
        next call or the end of the consumer. Without `wait` the consumer's `confirm_acks` decides.
        """
        if self.confirms(wait):
            await self._say(Word(Action.ACK), messages)
            return
        self.ack_soon(messages)
        if self._unconfirmed.is_full:
            await trio.lowlevel.checkpoint()

    def ack_soon(self, messages: Settled) -> None:
        """Ack without waiting. Raises the error of an earlier one."""
        self.send_acks(self.checked_acks(messages))

    def checked_acks(self, messages: Settled) -> list[LeasedMessage]:
        """From any thread: what may be acked without waiting. Raises the error of an earlier ack."""
        self._check_open()
        self._unconfirmed.check()
        return [self._checked(each) for each in as_messages(messages)]

    def send_acks(self, messages: Sequence[LeasedMessage]) -> None:
        self._unconfirmed.ack(messages)
        self._unconfirmed.post_soon()

    def confirms(self, wait: bool | None) -> bool:
        """Whether an ack is waited for, given its own `wait`."""
        return self._options.confirm_acks if wait is None else wait

    async def nack(self, messages: Settled, *, delay: Seconds | None = None, reason: str = "") -> None:
        """They failed: try again after `delay` seconds, else after the backoff (1 s, 2 s … 60 s, or as `retry`)."""
        delay_ms = None if delay is None else round(1000 * check_seconds("delay", delay))
        await self._say(Word(Action.NACK, delay_ms, checked_reason(reason)), messages)

    async def reject(self, messages: Settled, reason: str = "") -> None:
        """They can never succeed: to the dead-letter topic, now."""
        await self._say(Word(Action.REJECT, None, checked_reason(reason)), messages)

    def is_final(self, error: BaseException) -> bool:
        """Whether its messages are not tried again after this error."""
        retry = self._options.retry
        return retry is not None and retry.is_final(error)

    async def fail(self, messages: Settled, error: BaseException) -> None:
        """They failed with this error: nack with it as the reason, or reject if `never_for` of `retry` names it."""
        if not isinstance(error, BaseException):
            raise InvalidMessage(f"{error!r} is no exception; give the one that was caught, or nack with a reason")
        settle = self.reject if self.is_final(error) else self.nack
        await settle(messages, reason=reason_of(error))

    async def release(self, messages: Settled) -> None:
        """Give them back at once; this delivery does not count."""
        await self._say(Word(Action.RELEASE), messages)

    async def extend(self, messages: Settled, seconds: Seconds) -> None:
        """Their leases end so many seconds from now."""
        length = check_seconds("seconds", seconds, EXTEND_SECONDS_MIN)
        word, until = Word(Action.EXTEND, round(1000 * length)), trio.current_time() + length
        for portion in await self._say(word, messages):
            portion.delivery.until = max(portion.delivery.until, until)

    async def _say(self, word: Word, messages: Settled) -> list[Portion]:
        self._check_open()
        self._unconfirmed.check()
        portions = portions_of(as_messages(messages))
        for portion in portions:
            self._check_mine(portion.delivery)
        outcome = await self._settling.say(word, portions)
        self._receiving.look_again()
        outcome.check()
        return portions

    def _checked(self, message: object) -> LeasedMessage:
        delivery = delivery_of(message)
        self._check_mine(delivery)
        return message  # type: ignore[return-value]  # only leased messages have a delivery

    def _check_mine(self, delivery: ReceivedDelivery) -> None:
        if delivery.origin.group != self._options.group:
            raise InvalidMessage(f"a message of group {delivery.origin.group} is settled by its consumer")

    def _check_receives(self) -> None:
        """What was handed out before another consumer took this one's place may be settled, and is stale."""
        self._check_open()
        self._unconfirmed.check()
        if self._membership.fenced is not None:
            raise self._membership.fenced

    def _closed(self) -> Closed:
        return Closed("the consumer is closed, and what it had not settled was given back")


def as_messages(messages: object) -> list[Any]:
    if isinstance(messages, LeasedMessage):
        return [messages]
    if isinstance(messages, str | bytes) or not isinstance(messages, Iterable):
        raise InvalidMessage(f"{messages!r} was not delivered by a group; settle what a consumer handed out")
    return list(messages)
