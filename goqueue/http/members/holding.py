"""What members hold: the messages that were handed to each, until they are settled or their visibility is over.

From this the broker is told whether a member is busy, and a member that never settles is stopped at a bound. All
members share an index by delivery, since anybody may settle with a receipt.
"""

from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import trio

from goqueue.client.consuming.options import IN_FLIGHT_BYTES_MAX, IN_FLIGHT_MAX
from goqueue.core.offsetset import OffsetSet
from goqueue.http.server.errors import InFlightFull


class DeliveryKey(NamedTuple):
    group: str
    topic: str
    partition: int
    nonce: int


@dataclass(slots=True)
class HeldDelivery:
    """What is left of a delivery."""

    offsets: OffsetSet
    size: int
    until: float


HolderIndex: TypeAlias = dict[DeliveryKey, "MemberHolding"]


@dataclass(eq=False, slots=True)
class MemberHolding:
    index: HolderIndex
    changed: trio.lowlevel.ParkingLot = field(default_factory=trio.lowlevel.ParkingLot)
    """Whoever waits until something is settled."""
    _held: dict[DeliveryKey, HeldDelivery] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self._held)

    @property
    def count(self) -> int:
        return sum(len(each.offsets) for each in self._held.values())

    def room(self, now: float, count: int) -> tuple[int, int]:
        """The number of messages, up to `count`, and of bytes that the member may still be given."""
        self._expire(now)
        messages = IN_FLIGHT_MAX - self.count
        size = IN_FLIGHT_BYTES_MAX - sum(each.size for each in self._held.values())
        if messages <= 0 or size <= 0:
            raise InFlightFull(
                f"the member holds {self.count:,} messages that are not settled; settle some, or let their"
                f" visibility end ({IN_FLIGHT_MAX:,} messages or {IN_FLIGHT_BYTES_MAX:,} bytes are the most)"
            )
        return min(count, messages), size

    def add(self, key: DeliveryKey, offsets: OffsetSet, size: int, until: float) -> None:
        self._held[key] = HeldDelivery(offsets, size, until)
        self.index[key] = self

    def settle(self, key: DeliveryKey, offsets: OffsetSet) -> None:
        """A repeat changes nothing."""
        held = self._held.get(key)
        if held is None:
            return
        before = len(held.offsets)
        held.offsets.remove(offsets)
        if held.offsets:
            held.size = held.size * len(held.offsets) // before
        else:
            self._drop(key)
        self.changed.unpark_all()

    def extend(self, key: DeliveryKey, offsets: OffsetSet, until: float) -> None:
        """The rest of the delivery may be held for longer than these."""
        held = self._held[key]
        held.until = max(held.until, until) if held.offsets.without(offsets) else until

    def take_over(self, other: "MemberHolding") -> None:
        for key, held in list(other._held.items()):
            other._drop(key)
            self.add(key, held.offsets, held.size, held.until)

    def clear(self) -> None:
        for key in list(self._held):
            self._drop(key)

    def _expire(self, now: float) -> None:
        for key in [key for key, each in self._held.items() if each.until <= now]:
            self._drop(key)

    def _drop(self, key: DeliveryKey) -> None:
        del self._held[key], self.index[key]
