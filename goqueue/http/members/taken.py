"""What a poll has taken of the partitions of a queue, until its answer leaves.

Deliveries are batches, and are not cut to the bytes that a poll wants: the messages that do not fit are given back
before it is answered.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from goqueue.client.consuming.delivery import LeasedMessage, ReceivedDelivery, runs_of
from goqueue.core.ledger.settlements import Action
from goqueue.core.offsetset import OffsetSet
from goqueue.core.records.batch import ZSTD, parse_envelope
from goqueue.errors import GoQueueError
from goqueue.http.members.holding import DeliveryKey
from goqueue.http.members.seats import Seat
from goqueue.http.messages.reading import size_of
from goqueue.net.wire.groups import Settle, SettleDelivery
from goqueue.types import Buffer


class TakenPortion(NamedTuple):
    """Some messages of a delivery."""

    delivery: ReceivedDelivery
    messages: Sequence[LeasedMessage]

    @property
    def offsets(self) -> OffsetSet:
        if len(self.messages) == self.delivery.names.count:
            return OffsetSet((run.first, run.last) for run in self.delivery.names.runs)
        return OffsetSet.of(message.offset for message in self.messages)

    @property
    def size(self) -> int:
        return self.delivery.size * len(self.messages) // len(self.delivery.messages)


@dataclass(slots=True)
class TakenDeliveries:
    seat: Seat
    request_id: str
    size_max: int
    size: int = 0
    """Bytes of keys, values and headers that were taken."""
    kept: list[TakenPortion] = field(default_factory=list)
    _beyond: list[TakenPortion] = field(default_factory=list)

    def add(self, delivery: ReceivedDelivery, data: Buffer) -> None:
        fitting = self._count_fitting(delivery.messages, data)
        kept, beyond = delivery.messages[:fitting], delivery.messages[fitting:]
        if kept:
            self.kept.append(TakenPortion(delivery, kept))
        if beyond:
            self.size = max(self.size, self.size_max)
            self._beyond.append(TakenPortion(delivery, beyond))

    def _count_fitting(self, messages: Sequence[LeasedMessage], data: Buffer) -> int:
        """At least one message is answered, whatever its size."""
        if len(data) <= self.size_max - self.size and not _is_compressed(data):
            self.size += len(data)
            return len(messages)
        for number, message in enumerate(messages):
            size = size_of(message)
            if size > self.size_max - self.size and (number or self.kept):
                return number
            self.size += size
        return len(messages)

    async def give_back_rest(self) -> None:
        """The messages that did not fit."""
        beyond, self._beyond = self._beyond, []
        await self._release(beyond)

    async def give_back(self) -> None:
        """Nobody gets what was taken."""
        kept, self.kept = self.kept, []
        for each in kept:
            self.seat.holding.settle(_key_of(each.delivery), each.offsets)
        await self._release(kept)

    def hold(self, until: float) -> None:
        """The member gets what was taken, and holds it from now on."""
        for each in () if self.seat.is_closed else self.kept:
            self.seat.holding.add(_key_of(each.delivery), each.offsets, each.size, until)

    async def _release(self, portions: Sequence[TakenPortion]) -> None:
        if portions:
            named = tuple(map(_released, portions))
            with suppress(GoQueueError):  # else the leases end by themselves
                await self.seat.ask(Settle(self.seat.group, named), self.request_id)


def _key_of(delivery: ReceivedDelivery) -> DeliveryKey:
    group, topic, _, partition, nonce = delivery.origin
    return DeliveryKey(group, topic, partition, nonce)


def _released(portion: TakenPortion) -> SettleDelivery:
    _, _, uuid, partition, nonce = portion.delivery.origin
    runs = runs_of(portion.delivery, portion.messages)
    return SettleDelivery(uuid, partition, nonce, Action.RELEASE, runs, None, "", 0, ())


def _is_compressed(data: Buffer) -> bool:
    """Then it says little about the size of the messages."""
    view, position = memoryview(data), 0
    while (envelope := parse_envelope(view, position)) is not None:
        if envelope.attributes & ZSTD:
            return True
        position += envelope.size
    return False
