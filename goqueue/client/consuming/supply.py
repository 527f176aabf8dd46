"""Messages for the handlers of a worker: prefetched, and begun when they are handed out.

The broker is told which messages begin, in a frame that the socket has before the handler runs. So what was only
held when a worker dies was no delivery, and a handler that kills its process is always counted. Acks of earlier
messages travel in the same frame.

How many are held is decided in core/receiving/pace.py. Their leases are renewed like those of every prefetch.
"""

import math
from collections.abc import Callable
from typing import Any

import trio

from goqueue.client.consuming.delivery import LeasedMessage, Portion, portions_of
from goqueue.client.consuming.leases import Leases
from goqueue.client.consuming.receiving import Receiving
from goqueue.client.consuming.settling import Settling
from goqueue.client.consuming.stock import Stock
from goqueue.client.consuming.unconfirmed import BEGIN, Unconfirmed
from goqueue.client.link.caller import Caller
from goqueue.client.link.link import Link
from goqueue.core.receiving.pace import HELD_SECONDS_MAX, Pace


class Supply:
    def __init__(
        self,
        client: Caller,
        *,
        stock: Stock,
        receiving: Receiving,
        leases: Leases,
        settling: Settling,
        unconfirmed: Unconfirmed,
        check_open: Callable[[], None],
        release: Callable[[list[Portion]], None],
        pace: Pace,
    ) -> None:
        self._client = client
        self._stock = stock
        self._receiving = receiving
        self._leases = leases
        self._settling = settling
        self._unconfirmed = unconfirmed
        self._check_open = check_open
        self._release = release
        self.pace = pace
        self._told: list[Any] = []
        """Messages that begin as soon as the socket has the frame that says so."""

    async def take(self, room: int) -> list[Any]:
        """Wait for messages; at most so many that begin now."""
        while not (messages := self.take_now(room, trio.current_time())):
            if self._told:
                return await self._handed_over()
            if not await self._is_at_hand(room):
                await self._receiving.something(room + self.pace.ahead, room, math.inf)
            elif not self._can_tell(self._client.link):
                return await self._take_confirmed(room)
        return messages

    def take_now(self, room: int, now: float) -> list[Any]:
        """At most so many messages that begin now; none when something has to be waited for first."""
        self._check_open()
        link = self._client.link
        if self._told or not self._stock.ahead or link is None or not self._can_tell(link):
            return []
        if self._stock.old_ahead(room, now):
            return []
        messages = self._stock.take(room)
        self._leases.keep(messages, now)
        self._prefetch()
        self._unconfirmed.begin(messages)
        if self._settling.post_now(link):
            return messages
        self._told = messages
        return []

    def ack(self, message: LeasedMessage) -> None:
        """With the frame in which the next messages begin, or with that of `post_soon`."""
        self._unconfirmed.ack((message,))

    def post_soon(self) -> None:
        self._unconfirmed.post_soon()

    def _can_tell(self, link: Link | None) -> bool:
        return link is not None and link.has_settlement_room and link.hand_over()

    async def _handed_over(self) -> list[Any]:
        """If the connection is lost meanwhile, it is said again on the next one."""
        link = self._client.link
        if link is not None:
            await link.flushed()
        messages, self._told = self._told, []
        return messages

    async def _is_at_hand(self, room: int) -> bool:
        """Whether messages can be handed out, under leases that have just begun."""
        while old := self._stock.old_ahead(room, trio.current_time()):
            await self._leases.refresh(old)
        self._check_open()
        return bool(self._stock.ahead)

    async def _take_confirmed(self, room: int) -> list[Any]:
        """The connection takes nothing now, or there is none: the messages begin when the broker knows of it."""
        messages = self._stock.take(room)
        try:
            await self._settling.say(BEGIN, portions_of(messages))
        except BaseException:
            self._stock.put_back(messages)
            raise
        messages = [message for message in messages if message.delivery.holds(message.offset)]
        self._leases.keep(messages, trio.current_time())
        return messages

    def _prefetch(self) -> None:
        wanted, held = self.pace.ahead, len(self._stock.ahead)
        if held <= wanted // 2:
            self._receiving.want_ahead(wanted - held)

    # Slow handlers

    @property
    def overdue_at(self) -> float:
        """When the messages that are held have to go back."""
        ahead = self._stock.ahead
        return ahead[0].delivery.arrived_at + HELD_SECONDS_MAX if ahead else math.inf

    def give_back_overdue(self) -> None:
        """Another member may be able to begin them."""
        if self.overdue_at <= trio.current_time():
            self.pace.was_too_fast()
            self.give_back()

    def give_back(self) -> None:
        """All that is held, uncounted."""
        self._release(portions_of(self._stock.take(len(self._stock.ahead))))
