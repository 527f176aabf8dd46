"""The stock of a consumer: the prefetch, which waits to be handed out, and the unsettled deliveries.

Everything unsettled is in flight, handed out or not, and uses credit. A settlement gives its credit back, and so
does the end of a lease: the message is no longer this consumer's, and a program that forgot it must not stop for
ever.
"""

import math
from collections import deque
from collections.abc import Callable, Collection, Sequence
from itertools import islice
from typing import Any

from goqueue.client.consuming.delivery import Portion, ReceivedDelivery
from goqueue.client.consuming.options import VISIBILITY_SECONDS_MAX
from goqueue.core.receiving.requests import Holding
from goqueue.net.wire.groups import AssignedPartition
from goqueue.types import Offset

SPARE_SHARE, SPARE_SECONDS_MAX = 0.1, 0.5


def spare_seconds(visibility: float) -> float:
    """The time by which a lease at the broker is longer than requested.

    A lease begins when the broker sends the message, which is before the program has it. Within the spare time a
    message is handed out as it is, and still has the requested time; later its lease is renewed first.
    """
    return min(SPARE_SHARE * visibility, SPARE_SECONDS_MAX)


def leased_seconds(visibility: float) -> float:
    """The lease that is requested from the broker, so that the program has no less than the requested time."""
    return min(visibility + spare_seconds(visibility), max(visibility, VISIBILITY_SECONDS_MAX))


class Stock:
    def __init__(self, messages_max: int, bytes_max: int) -> None:
        self._messages_max, self._bytes_max = messages_max, bytes_max
        self.ahead: deque[Any] = deque()
        """The prefetch: messages that are not handed out yet, the next one first."""
        self.deliveries: dict[ReceivedDelivery, None] = {}
        self.count = 0
        """Messages in flight."""
        self.priority_mask = 0
        """A bit for each priority among the batches that came."""
        self.sift: Callable[[list[Any]], list[Any]] | None = None
        """Chooses the messages of a delivery that are handed out; None: all of them."""
        self._bytes = 0
        self._young_until = math.inf
        """Until then all leases of the prefetch are young; later each has to be checked."""

    def add(self, delivery: ReceivedDelivery, now: float, visibility: float) -> None:
        delivery.arrived_at = now
        delivery.until = now + leased_seconds(visibility)
        delivery.young_until = now + spare_seconds(visibility)
        if len(delivery):
            self._young_until = min(self._young_until, delivery.young_until) if self.ahead else delivery.young_until
            self.deliveries[delivery] = None
            self.count += len(delivery)
            self._bytes += delivery.size
            self.priority_mask |= delivery.priority_mask
            self.ahead.extend(delivery.messages if self.sift is None else self.sift(delivery.messages))

    @property
    def is_busy(self) -> bool:
        return self.count > 0

    @property
    def has_several_priorities(self) -> bool:
        return bool(self.priority_mask & (self.priority_mask - 1))

    @property
    def holding(self) -> Holding:
        messages_free = max(0, self._messages_max - self.count)
        return Holding(len(self.ahead), self.count, messages_free, max(0, self._bytes_max - self._bytes))

    def settle(self, delivery: ReceivedDelivery, offsets: Collection[Offset] | None = None) -> None:
        if delivery not in self.deliveries:
            return
        held, whole = len(delivery), len(delivery.messages)
        settled = delivery.settle(offsets)
        self.count -= settled
        # A share of its bytes for each message: they need not be counted one by one.
        self._bytes -= delivery.size * held // whole - delivery.size * (held - settled) // whole
        if settled == held:
            del self.deliveries[delivery]

    def unsettled(self) -> list[Portion]:
        return [Portion(delivery, delivery.unsettled) for delivery in self.deliveries]

    # Handing out

    def take(self, count_max: int) -> list[Any]:
        """The next messages, at most `count_max`."""
        if len(self.ahead) <= count_max:
            taken = list(self.ahead)
            self.ahead.clear()
            return taken
        return [self.ahead.popleft() for _ in range(count_max)]

    def take_beyond(self, count: int) -> list[Any]:
        """Remove and return what is prefetched behind the next `count` messages."""
        return [self.ahead.pop() for _ in range(len(self.ahead) - count)][::-1]

    def put_back(self, messages: Sequence[Any]) -> None:
        """These were not handed out; settled ones are dropped."""
        self.ahead.extendleft(reversed([each for each in messages if each.delivery.holds(each.offset)]))

    def old_ahead(self, count_max: int, now: float) -> list[ReceivedDelivery]:
        """The deliveries among the next messages whose leases are no longer young."""
        if now <= self._young_until:
            return []
        next_ones = {message.delivery: None for message in islice(self.ahead, count_max)}
        return [delivery for delivery in next_ones if now > delivery.young_until]

    def renew(self, delivery: ReceivedDelivery, now: float, visibility: float) -> None:
        delivery.until = max(delivery.until, now + leased_seconds(visibility))
        delivery.young_until = now + spare_seconds(visibility)
        waiting = {message.delivery: None for message in self.ahead}
        self._young_until = min((each.young_until for each in waiting), default=math.inf)

    def drop(self, deliveries: Collection[ReceivedDelivery]) -> None:
        """Drop lost deliveries: other consumers may have them."""
        for delivery in deliveries:
            delivery.lose(None)
            self.settle(delivery)
        self._forget_settled()

    def _forget_settled(self) -> None:
        self.ahead = deque(message for message in self.ahead if message.delivery.holds(message.offset))

    def drop_some(self, delivery: ReceivedDelivery, offsets: Collection[Offset]) -> None:
        delivery.lose(offsets)
        self.settle(delivery, offsets)
        self._forget_settled()

    def take_foreign(self, assigned: Collection[AssignedPartition]) -> list[Portion]:
        """Remove prefetched messages of other partitions than these, and return them."""
        places = {(each.uuid, each.partition) for each in assigned}
        foreign: dict[ReceivedDelivery, list[Any]] = {}
        for message in self.ahead:
            origin = message.delivery.origin
            if (origin.uuid, origin.partition) not in places:
                foreign.setdefault(message.delivery, []).append(message)
        if foreign:
            self.ahead = deque(message for message in self.ahead if message.delivery not in foreign)
        return [Portion(delivery, messages) for delivery, messages in foreign.items()]

    # Leases

    def expire(self, now: float) -> None:
        """Deliveries whose leases were not renewed in time are no longer in flight."""
        ended = [delivery for delivery in self.deliveries if delivery.until <= now]
        if ended:
            self.drop(ended)

    @property
    def next_end(self) -> float:
        """When the first lease ends."""
        return min((delivery.until for delivery in self.deliveries), default=math.inf)
