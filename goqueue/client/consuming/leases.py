"""Leases that the consumer renews by itself, at a third of their time.

- The prefetch: a lease must not run out while a message is in the client's buffer.
- With `auto_extend`, the message that the body of an `async for` works on, until its task asks for the next one or
  it is settled; with `auto_extend=True` also messages from `receive`. Twelve hours at most.

All other leases run out: so a message that a program has forgotten is redelivered.
"""

import logging
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from weakref import WeakKeyDictionary

import trio

from goqueue.client.consuming.delivery import LeasedMessage, Portion, ReceivedDelivery
from goqueue.client.consuming.settling import Settling, Word
from goqueue.client.consuming.stock import Stock, leased_seconds
from goqueue.core.ledger.settlements import Action
from goqueue.errors import GoQueueError

logger = logging.getLogger("goqueue.client")

EXTENDED_SECONDS_MAX = 12 * 3600.0
RENEWALS_IN_A_LEASE = 3


class Leases:
    def __init__(self, stock: Stock, settling: Settling, visibility: float) -> None:
        self._stock = stock
        self._settling = settling
        self._visibility = visibility
        self._at_work: WeakKeyDictionary[Any, tuple[LeasedMessage, float]] = WeakKeyDictionary()
        """By task: its message, and until when its lease is extended. A task that has ended is dropped."""
        self.elsewhere: Callable[[], Iterable[LeasedMessage]] = tuple
        """The messages that another surface holds for its program."""
        self._turn = trio.Lock()

    def begin_work(self, worker: object, message: LeasedMessage, now: float) -> None:
        """In place of the message that it worked on before."""
        self._at_work[worker] = message, now + EXTENDED_SECONDS_MAX

    def end_work(self, worker: object) -> None:
        self._at_work.pop(worker, None)

    def keep(self, messages: Iterable[LeasedMessage], now: float) -> None:
        """Renew the leases of these messages, though they are handed out, until they are settled."""
        until = now + EXTENDED_SECONDS_MAX
        for message in messages:
            message.delivery.kept_until = until

    async def run(self) -> None:
        interval = self._visibility / RENEWALS_IN_A_LEASE
        while True:
            await trio.sleep(interval)
            with trio.move_on_after(self._visibility):
                await self.renew(self._renewable())

    async def refresh(self, old: Iterable[ReceivedDelivery]) -> None:
        """Renew the leases of prefetched deliveries that are about to be handed out; lost ones are dropped."""
        async with self._turn:
            wanted = set(old)
            portions = _portions(message for message in self._stock.ahead if message.delivery in wanted)
            if not await self.renew(portions):
                self._stock.drop([portion.delivery for portion in portions])

    async def renew(self, portions: list[Portion]) -> bool:
        """Whether the broker has renewed them."""
        if not portions:
            return True
        now, leased_ms = trio.current_time(), math.ceil(1000 * leased_seconds(self._visibility))
        try:
            outcome = await self._settling.say(Word(Action.EXTEND, leased_ms), portions)
        except GoQueueError as error:
            logger.warning("%d leases could not be renewed: %s", len(portions), error.message)
            return False
        for portion in portions:
            self._stock.renew(portion.delivery, now, self._visibility)
        return outcome.error is None

    def _renewable(self) -> list[Portion]:
        now = trio.current_time()
        return _portions(each for each in self._kept(now) if each.delivery.holds(each.offset))

    def _kept(self, now: float) -> Iterator[LeasedMessage]:
        yield from self._stock.ahead
        yield from (each for each in self.elsewhere() if now < each.delivery.arrived_at + EXTENDED_SECONDS_MAX)
        yield from (message for message, until in self._at_work.values() if now < until)
        for delivery in self._stock.deliveries:
            if now < delivery.kept_until:
                yield from delivery.messages


def _portions(messages: Iterable[LeasedMessage]) -> list[Portion]:
    by_delivery: dict[ReceivedDelivery, list[LeasedMessage]] = {}
    for message in messages:
        by_delivery.setdefault(message.delivery, []).append(message)
    return [Portion(delivery, some) for delivery, some in by_delivery.items()]
