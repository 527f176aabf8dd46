"""The producer: many messages at once, each confirmed, in order, and there once.

Messages gather in a row for each partition (`core/sendrow.py` has the rules). Each row has a task that sends its
batches one after the other and one for each answer that is awaited. To the broker a row is a producer of its own,
with its own sequence, so a lost answer is repeated without doubling anything.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple

import trio

from goqueue.core.batch import Attribute, compress
from goqueue.core.partitioner import Partitioner
from goqueue.core.record import HEADER_SIZE, encode_record
from goqueue.core.sendrow import Gathering, OutBatch, SendRow
from goqueue.errors import (
    ActorDied,
    BatchRefused,
    BufferFull,
    Closed,
    DeliveryTimeout,
    GoQueueError,
    InvalidMessage,
    OutcomeUnknown,
    OutOfOrderSequence,
    PublishFailed,
    UnknownProducer,
)
from goqueue.net import messages as wire
from goqueue.net.content import all_sound, check_content, priority_of
from goqueue.net.errors import ConnectionLost
from goqueue.net.failures import error_of
from goqueue.net.link import Pending
from goqueue.net.message import Published
from goqueue.nursery import PlainNursery
from goqueue.types import Acks, Microseconds, Priority

if TYPE_CHECKING:
    from goqueue.net.client import Client, Topic

logger = logging.getLogger("goqueue.producer")

BUFFER_MESSAGES = 100_000
DELIVERY_SECONDS_MAX = 120.0
PAUSE_SECONDS = 0.05


class Call:
    """What one `send` or `send_many` waits for."""

    __slots__ = ("done", "remaining", "results")

    def __init__(self, count: int) -> None:
        self.results: list[Published | GoQueueError | None] = [None] * count
        self.remaining = count
        self.done = trio.Event()

    def settle(self, index: int, result: Published | GoQueueError) -> None:
        self.results[index] = result
        self.remaining -= 1
        if not self.remaining:
            self.done.set()


class Entry(NamedTuple):
    call: Call
    place: int
    timestamp: Microseconds
    value: bytes
    key: bytes | None
    headers: Mapping[str, bytes] | None
    priority: Priority


@dataclass(eq=False, slots=True)
class Row:
    partition: int
    messages: SendRow[Entry]
    wake: trio.Event = field(default_factory=trio.Event)
    identity: wire.ProducerReady | None = None


class Producer:
    """Made by `client.producer`; enter it to send."""

    def __init__(
        self,
        client: "Client",
        topic: str,
        *,
        acks: Acks | str = Acks.ALL,
        linger_ms: float = 5,
        batch_messages: int = 100,
        batch_bytes: int = 64 * 1024,
        buffer_messages: int = BUFFER_MESSAGES,
        delivery_timeout: float = DELIVERY_SECONDS_MAX,
    ) -> None:
        self._client = client
        self._name = topic
        self._acks = Acks[acks.upper()] if isinstance(acks, str) else acks
        self._gathering = Gathering(batch_messages, batch_bytes, linger_ms / 1_000)
        self._buffer_messages = buffer_messages
        self._delivery_timeout = delivery_timeout
        self._clock = client.clock
        self._topic: Topic | None = None
        self._rows: dict[int, Row] = {}
        self._unsettled = 0
        self._settled_some = trio.Event()
        self._is_closed = False
        self._nursery = PlainNursery()

    async def __aenter__(self) -> "Producer":
        self._topic = await self._client.topic(self._name)
        self._partitioner = Partitioner(len(self._topic.partitions))
        self._tasks = await self._nursery.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        if kind is None:
            with trio.move_on_after(self._delivery_timeout):
                await self.flush()
        self._is_closed = True
        dropped = [entry for row in self._rows.values() for entry in row.messages.drop_all()]
        for entry in dropped:
            entry.call.settle(entry.place, Closed("the producer was closed before this was sent"))
        if dropped:
            logger.warning("%d messages to %s were dropped unsent", len(dropped), self._name)
        self._tasks.cancel_scope.cancel()
        return await self._nursery.__aexit__(kind, error, trace)

    # For the program

    async def send(
        self,
        value: bytes,
        *,
        key: bytes | None = None,
        headers: Mapping[str, bytes] | None = None,
        priority: Priority | int | str = Priority.NORMAL,
        partition: int | None = None,
    ) -> Published:
        """Send one message and wait until it is confirmed."""
        await self._wait_for_room(1)
        call = self._enqueue([value], [key], headers, priority, partition)
        await self._wait_for(call)
        [result] = call.results
        if isinstance(result, GoQueueError):
            raise result
        assert result is not None
        return result

    def send_nowait(
        self,
        value: bytes,
        *,
        key: bytes | None = None,
        headers: Mapping[str, bytes] | None = None,
        priority: Priority | int | str = Priority.NORMAL,
        partition: int | None = None,
    ) -> None:
        """Queue one message; `flush` waits for it. `BufferFull` when there is no room."""
        if self._unsettled >= self._buffer_messages:
            raise BufferFull(f"{self._unsettled} messages wait in the buffer; use send, or flush")
        check_content(value, key, headers)
        self._enqueue([value], [key], headers, priority, partition)

    async def send_many(
        self,
        values: Sequence[bytes],
        keys: Sequence[bytes | None] | None = None,
        *,
        headers: Mapping[str, bytes] | None = None,
        priority: Priority | int | str = Priority.NORMAL,
        partition: int | None = None,
    ) -> list[Published]:
        """Send many and wait for all: one Published per value, in order. Not atomic: see `PublishFailed`."""
        if not values:
            return []
        await self._wait_for_room(len(values))
        call = self._enqueue(values, keys or [None] * len(values), headers, priority, partition)
        await self._wait_for(call)
        if any(isinstance(result, GoQueueError) for result in call.results):
            raise PublishFailed(call.results)
        return call.results  # type: ignore[return-value]  # every one is settled, and none is an error

    async def flush(self) -> None:
        """Return when everything sent so far is settled."""
        while self._unsettled:
            self._settled_some = trio.Event()
            await self._settled_some.wait()

    # Into the rows

    async def _wait_for_room(self, count: int) -> None:
        while self._unsettled and self._unsettled + count > self._buffer_messages:
            self._settled_some = trio.Event()
            await self._settled_some.wait()

    def _enqueue(
        self,
        values: Sequence[bytes],
        keys: Sequence[bytes | None],
        headers: Mapping[str, bytes] | None,
        priority: Priority | int | str,
        partition: int | None,
    ) -> Call:
        self._check_open()
        rank = priority_of(priority)
        call, now, time = Call(len(values)), self._clock.now(), trio.current_time()
        chosen = self._partitioner.choose_all(keys, partition)
        is_sound = all_sound(values, keys, headers)
        for index, (value, key, number) in enumerate(zip(values, keys, chosen, strict=True)):
            self._unsettled += 1
            if not is_sound:
                try:
                    check_content(value, key, headers)
                except InvalidMessage as error:
                    call.settle(index, error)
                    self._note_settled(1)
                    continue
            row = self._rows.get(number) or self._new_row(number)
            size = HEADER_SIZE + len(value) + (len(key) if key else 0)
            row.messages.add(Entry(call, index, now, value, key, headers, rank), size, time)
            row.wake.set()
        return call

    def _new_row(self, number: int) -> Row:
        row = self._rows[number] = Row(number, SendRow(self._gathering))
        self._tasks.start_soon(self._send_row, row)
        return row

    def _check_open(self) -> None:
        if self._is_closed or self._topic is None:
            raise Closed("the producer is closed")

    async def _wait_for(self, call: Call) -> None:
        with trio.move_on_after(self._delivery_timeout):
            await call.done.wait()
        if not call.done.is_set():
            raise DeliveryTimeout(
                f"not confirmed within {self._delivery_timeout:g} s; what is under way may still be written"
            )

    # Out of the rows

    async def _send_row(self, row: Row) -> None:
        while True:
            batch = row.messages.next_batch(trio.current_time())
            if batch is not None:
                await self._send(row, batch)
                continue
            deadline = row.messages.next_deadline(trio.current_time())
            with trio.CancelScope(deadline=trio.current_time() + 3_600 if deadline is None else deadline):
                await row.wake.wait()
            row.wake = trio.Event()

    async def _send(self, row: Row, batch: OutBatch[Entry]) -> None:
        try:
            if row.identity is None:
                row.identity = await self._client.call(wire.InitProducer(0, 0), wire.ProducerReady)
            pending = await self._client.post(wire.Produce(self._acks, (self._encoded(row, batch),)))
        except GoQueueError as error:
            await self._not_sent(row, batch, error)
        else:
            self._tasks.start_soon(self._await_answer, row, batch, batch.attempt, pending)

    async def _not_sent(self, row: Row, batch: OutBatch[Entry], error: GoQueueError) -> None:
        if error.retryable:
            row.messages.not_written(batch)
            await trio.sleep(PAUSE_SECONDS)
        else:
            self._fail(row, batch, error)

    def _encoded(self, row: Row, batch: OutBatch[Entry]) -> wire.ProduceBatch:
        assert self._topic is not None
        assert row.identity is not None
        body = b"".join(
            encode_record(
                number, each.timestamp, each.value, key=each.key, headers=each.headers, priority=each.priority
            )
            for number, each in enumerate(batch.entries)
        )
        attributes = 0
        if self._topic.config["compression"] == "zstd":
            body, attributes = compress(body), int(Attribute.ZSTD)
        who, uuid, count = row.identity, self._topic.uuid.bytes, len(batch.entries)
        return wire.ProduceBatch(
            uuid, row.partition, 0, who.producer_id, who.epoch, batch.sequence, attributes, count, body
        )

    async def _await_answer(self, row: Row, batch: OutBatch[Entry], attempt: int, pending: Pending) -> None:
        outcome = await _outcome(pending)
        if row.messages.awaits(batch, attempt):
            if isinstance(outcome, wire.ProducedBatch):
                self._confirm(row, batch, outcome.base_offset)
            elif isinstance(outcome, ConnectionLost | ActorDied):
                row.messages.unanswered(batch)
            else:
                await self._take_refusal(row, batch, outcome)
        row.wake.set()

    def _confirm(self, row: Row, batch: OutBatch[Entry], base_offset: int | None) -> None:
        row.messages.confirmed(batch)
        for number, entry in enumerate(batch.entries):
            offset = None if base_offset is None else base_offset + number
            entry.call.settle(entry.place, Published(self._name, row.partition, offset))
        self._note_settled(len(batch.entries))

    async def _take_refusal(self, row: Row, batch: OutBatch[Entry], error: GoQueueError) -> None:
        lost = isinstance(error, UnknownProducer) or (
            isinstance(error, OutOfOrderSequence) and row.messages.is_oldest(batch)
        )
        if lost:
            self._begin_anew(row)
        elif isinstance(error, BatchRefused):
            errors = {bad.index: bad.error for bad in error.records}
            refused = [batch.entries[index] for index in sorted(errors)]
            row.messages.refused(batch, errors.keys())
            for entry, index in zip(refused, sorted(errors), strict=True):
                entry.call.settle(entry.place, errors[index])
            self._note_settled(len(refused))
        elif isinstance(error, OutOfOrderSequence):
            row.messages.not_written(batch)  # behind one that was refused
        else:
            await self._not_sent(row, batch, error)

    def _begin_anew(self, row: Row) -> None:
        row.identity = None
        error = OutcomeUnknown("the broker has forgotten this producer; the message may have been written or not")
        self._settle_all(row.messages.forgotten(), error)

    def _fail(self, row: Row, batch: OutBatch[Entry], error: GoQueueError) -> None:
        self._settle_all(row.messages.refused(batch, range(len(batch.entries))), error)

    def _settle_all(self, entries: Iterable[Entry], error: GoQueueError) -> None:
        for entry in entries:
            entry.call.settle(entry.place, error)
            self._note_settled(1)

    def _note_settled(self, count: int) -> None:
        self._unsettled -= count
        self._settled_some.set()


async def _outcome(pending: Pending) -> wire.ProducedBatch | GoQueueError:
    try:
        answer = await pending.wait()
    except GoQueueError as error:
        return error
    assert isinstance(answer, wire.Produced)
    [produced] = answer.batches
    return produced if produced.error is None else error_of(produced.error)
