"""Publishing one message at a time, confirmed.

Each partition has its own row of publishes: one is under way, the others wait their turn, so that order is kept
and a repeat after a lost answer carries the same sequence. The broker answers such a repeat with the first
offset: however often the connection is lost, a message is there once (G11).
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, TypeVar

import trio

from goqueue.core.partitioner import Partitioner
from goqueue.core.producers import SEQUENCES
from goqueue.core.record import encode_record
from goqueue.environment import WallClock
from goqueue.errors import BatchRefused, DeliveryTimeout, GoQueueError, OutOfOrderSequence, UnknownProducer
from goqueue.net import messages as wire
from goqueue.net.failures import error_of
from goqueue.net.message import Published
from goqueue.types import Acks, Priority

if TYPE_CHECKING:
    from goqueue.net.client import Topic

DELIVERY_SECONDS_MAX = 120.0
REPEAT_SECONDS_MIN, REPEAT_SECONDS_MAX = 0.05, 2.0

AnswerT = TypeVar("AnswerT")


class Caller(Protocol):
    """What publishing needs of its client."""

    async def topic(self, name: str) -> "Topic": ...

    async def call(self, request: wire.Request, kind: type[AnswerT]) -> AnswerT: ...


class _Row:
    """The publishes to one partition. To the broker each row is a producer of its own."""

    def __init__(self) -> None:
        self.turn = trio.Lock()
        self.producer: wire.ProducerReady | None = None
        self.sequence = 0


class Publishing:
    """All that one client publishes to one topic."""

    def __init__(self, client: Caller, clock: WallClock, topic: "Topic") -> None:
        self._client = client
        self._clock = clock
        self.topic = topic
        self._partitioner = Partitioner(len(topic.partitions))
        self._rows: dict[int, _Row] = {}

    def resize(self, topic: "Topic") -> None:
        """The same topic, with more partitions."""
        self.topic = topic
        self._partitioner.resize(len(topic.partitions))

    async def publish(
        self,
        value: bytes,
        *,
        key: bytes | None,
        headers: Mapping[str, bytes] | None,
        priority: Priority,
        partition: int | None,
        acks: Acks,
    ) -> Published:
        number = self._partitioner.choose_all([key], partition)[0]
        record = encode_record(0, self._clock.now(), value, key=key, headers=headers, priority=priority)
        row = self._rows.setdefault(number, _Row())
        with trio.move_on_after(DELIVERY_SECONDS_MAX):
            async with row.turn:
                produced = await self._deliver_or_begin_anew(row, number, record, acks)
                return Published(self.topic.name, number, produced.base_offset)
        raise DeliveryTimeout(f"not confirmed within {DELIVERY_SECONDS_MAX:g} s; it may still be written")

    async def _deliver_or_begin_anew(self, row: _Row, number: int, record: bytes, acks: Acks) -> wire.ProducedBatch:
        try:
            return await self._deliver(row, number, record, acks)
        except BaseException:
            # Given up, and perhaps written: under the same sequence the next message would be taken for a repeat
            # of this one, and be lost.
            row.producer = None
            raise

    async def _deliver(self, row: _Row, number: int, record: bytes, acks: Acks) -> wire.ProducedBatch:
        """Send until it is confirmed or refused for good; every repeat carries the same sequence."""
        pause = REPEAT_SECONDS_MIN
        while True:
            try:
                return await self._send(row, number, record, acks)
            except (UnknownProducer, OutOfOrderSequence):
                # The partition does not know this row any more. A repeat of what it has written would have
                # been answered, so this message is certainly not there.
                row.producer = None
            except GoQueueError as error:
                if not error.retryable:
                    raise
                await trio.sleep(pause)
                pause = min(2 * pause, REPEAT_SECONDS_MAX)

    async def _send(self, row: _Row, number: int, record: bytes, acks: Acks) -> wire.ProducedBatch:
        if row.producer is None:
            row.producer = await self._client.call(wire.InitProducer(0, 0), wire.ProducerReady)
            row.sequence = 0
        who = row.producer
        uuid = self.topic.uuid.bytes
        batch = wire.ProduceBatch(uuid, number, 0, who.producer_id, who.epoch, row.sequence, 0, 1, record)
        [produced] = (await self._client.call(wire.Produce(acks, (batch,)), wire.Produced)).batches
        if produced.error is not None:
            raise _own_error(error_of(produced.error))
        row.sequence = (row.sequence + 1) % SEQUENCES
        return produced


def _own_error(error: GoQueueError) -> GoQueueError:
    """A batch of one is refused for what is wrong with that one."""
    return error.records[0].error if isinstance(error, BatchRefused) and error.records else error
