"""The producer: many messages at once, each confirmed, in order, and written once.

This is the interface for programs; `sender.py` sends the messages. Content is checked here before it enters the
buffer, by the same code as for `client.publish`.
"""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from types import TracebackType
from typing import Any, Unpack

import trio

from goqueue.client.link.arguments import check_flag, check_milliseconds, check_seconds_between, check_whole
from goqueue.client.link.caller import Caller
from goqueue.client.link.topics import Topic
from goqueue.client.producing.content import acks_of, all_sound, check_content
from goqueue.client.producing.options import SendOptions, SendPlan, name_of, send_options, takes_send_options
from goqueue.client.producing.outcome import AnyOutcome, Outcome
from goqueue.client.producing.sender import NOBODY, Sender
from goqueue.client.producing.timelimit import TIMEOUT_SECONDS_MIN, TimeLimit
from goqueue.client.reading.message import Published
from goqueue.core.records.jsonvalue import json_bytes
from goqueue.core.sending.chunk import Chunk
from goqueue.core.sending.partitioner import partition_of_key
from goqueue.core.sending.queue import BATCH_BYTES, BATCH_MESSAGES, Gathering, OutBatch
from goqueue.errors import BufferFull, Closed, GoQueueError, InvalidMessage, PublishFailed, UnknownPartition
from goqueue.net.wire import messages as wire
from goqueue.nursery import PlainNursery
from goqueue.types import Acks, Priority, Seconds

BUFFER_MESSAGES = 100_000
DELIVERY_SECONDS_MAX = 120.0


class Producer:
    """Made by `client.producer`; enter it to send."""

    def __init__(
        self,
        client: Caller,
        topic: str,
        *,
        acks: Acks | int | str = Acks.ALL,
        linger_ms: float | timedelta = 5,
        batch_messages: int = BATCH_MESSAGES,
        batch_bytes: int = BATCH_BYTES,
        buffer_messages: int = BUFFER_MESSAGES,
        delivery_timeout: Seconds = DELIVERY_SECONDS_MAX,
        idempotent: bool = True,
    ) -> None:
        self._client = client
        self._name = topic
        self._acks = acks_of(acks)
        self._gathering = Gathering(
            check_whole("batch_messages", batch_messages, 1),
            check_whole("batch_bytes", batch_bytes, 1),
            check_milliseconds("linger_ms", linger_ms),
        )
        self._buffer_messages = check_whole("buffer_messages", buffer_messages, 1)
        self._delivery_timeout = check_seconds_between(
            "delivery_timeout", delivery_timeout, TIMEOUT_SECONDS_MIN, math.inf
        )
        self._is_idempotent = check_flag("idempotent", idempotent) and self._acks is not Acks.NONE
        """A batch without an answer cannot be repeated: with acks=none a gap would never be closed."""
        self._unheard: list[GoQueueError] = []
        self._nursery = PlainNursery()
        self._open_sender: Sender | None = None

    async def __aenter__(self) -> "Producer":
        sender = await self.open()
        tasks = await self._nursery.__aenter__()
        tasks.start_soon(sender.run)
        return self

    async def open(self) -> Sender:
        """The sender of its messages; the caller has to run it.

        The broker draws part of a producer id at random, so it also says where messages without a key begin.
        """
        topic = await self._client.topic(self._name)
        identity = await self._client.call(wire.InitProducer(0, 0), wire.ProducerReady)
        self._open_sender = Sender(
            self._client,
            topic,
            self._acks,
            self._gathering,
            delivery_timeout=self._delivery_timeout,
            identity=identity if self._is_idempotent else NOBODY,
            first_partition=identity.producer_id,
        )
        return self._open_sender

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        failure: PublishFailed | None = None
        if kind is None:
            try:
                await self.flush()
            except PublishFailed as told:
                failure = told
            except BaseException as interruption:  # cancelled: the nursery must still be left
                await self._leave(interruption)
                raise
        swallowed = await self._leave(error)
        if failure is not None:
            raise failure
        return swallowed

    async def _leave(self, error: BaseException | None) -> bool | None:
        self._sender.close()
        self._sender.stop()
        if error is None:
            return await self._nursery.__aexit__(None, None, None)
        return await self._nursery.__aexit__(type(error), error, error.__traceback__)

    @property
    def is_idle(self) -> bool:
        return not self._sender.unsettled

    def stop(self) -> None:
        """Stop without waiting, for a producer that was not entered."""
        self._sender.close()
        self._sender.stop()

    async def retire(self) -> None:
        """Stop once it is idle, so that no message is lost."""
        while not self.is_idle:
            with suppress(PublishFailed):
                await self.flush()
        self.stop()

    @property
    def _sender(self) -> Sender:
        if self._open_sender is None:
            raise Closed("the producer is not open; enter it with `async with`")
        return self._open_sender

    # For the program

    @takes_send_options
    async def send(
        self,
        value: bytes | None,
        *,
        key: bytes | None = None,
        timeout: Seconds | None = None,
        **options: Unpack[SendOptions],
    ) -> Published:
        """Send one message and wait until it is confirmed. None is a tombstone: it deletes its key.

        It gives up after `timeout` seconds, and after the producer's `delivery_timeout` at the latest.
        """
        return await self.send_within(None if timeout is None else TimeLimit(timeout), value, key, options)

    async def send_within(
        self, limit: TimeLimit | None, value: bytes | None, key: bytes | None, options: Mapping[str, Any]
    ) -> Published:
        check_content(value, key, options.get("headers"))
        plan, sender = self._plan(options), self._sender
        if plan.partition is not None or sender.is_closed or sender.unsettled >= self._buffer_messages:
            await self._make_ready(1, plan.partition, limit)
        outcome = Outcome(1, trio.current_time())
        sender.add(self._chunk(outcome, plan, [value], [key] if key else None))
        await (outcome.wait() if limit is None else limit.settled(sender, outcome))
        result = outcome.result
        if isinstance(result, GoQueueError):
            raise result
        return result

    @takes_send_options
    async def send_json(
        self,
        value: Any,
        *,
        key: bytes | None = None,
        timeout: Seconds | None = None,
        **options: Unpack[SendOptions],
    ) -> Published:
        """Send a value as compact JSON in UTF-8, and wait until it is confirmed. `message.json()` gives it back."""
        return await self.send(json_bytes(value), key=key, timeout=timeout, **options)

    @takes_send_options
    def send_nowait(self, value: bytes | None, *, key: bytes | None = None, **options: Unpack[SendOptions]) -> None:
        """Queue one message; `flush` waits for it and raises its failure. `BufferFull` when there is no room."""
        check_content(value, key, options.get("headers"))
        plan = self._plan(options)
        self._check_open()
        self._sender.check_partition(plan.partition)
        if self._sender.unsettled >= self._buffer_messages:
            raise BufferFull(f"{self._sender.unsettled} messages wait in the buffer; use send, or flush")
        outcome = Outcome(1, trio.current_time(), self._unheard)
        self._sender.add(self._chunk(outcome, plan, [value], [key] if key else None))

    @takes_send_options
    async def send_many(
        self,
        values: Sequence[bytes | None],
        keys: Sequence[bytes | None] | None = None,
        *,
        timeout: Seconds | None = None,
        **options: Unpack[SendOptions],
    ) -> Sequence[Published]:
        """Send many and wait for all: one Published per value, in order. Not atomic: see `PublishFailed`.

        `message_id` names the call: each message is known by it and its number. `timeout` is as for `send`.
        """
        limit, plan = None if timeout is None else TimeLimit(timeout), self._plan(options)
        _check_lists(values, keys)
        await self._make_ready(len(values), plan.partition, limit)
        outcome = Outcome(len(values), trio.current_time())
        chunk = self._chunk(outcome, plan, values, keys)
        if values and not all_sound(values, keys or (), plan.content.headers):
            chunk = _only_sound(chunk, keys, outcome)
        if len(chunk):
            self._sender.add(chunk)
        await (outcome.wait() if limit is None else limit.settled(self._sender, outcome))
        if outcome.has_failed:
            raise PublishFailed(outcome.results)
        return outcome.confirmations if values else []

    @takes_send_options
    def send_many_nowait(
        self,
        values: Sequence[bytes | None],
        keys: Sequence[bytes | None] | None = None,
        **options: Unpack[SendOptions],
    ) -> None:
        """Queue many; `flush` waits for them and raises failures. When one of them is refused, or there is no room
        for all (`BufferFull`), none is queued. `message_id` names the call, as in `send_many`.
        """
        self._queue(self._plan(options), values, keys)

    def _send_mixed_nowait(
        self,
        values: Sequence[bytes | None],
        keys: Sequence[bytes | None] | None,
        priorities: Sequence[Priority],
        **options: Unpack[SendOptions],
    ) -> None:
        """As `send_many_nowait`, with a priority for each. For goqueue's own programs."""
        self._queue(self._plan(options), values, keys, priorities)

    def _queue(
        self,
        plan: SendPlan,
        values: Sequence[bytes | None],
        keys: Sequence[bytes | None] | None,
        priorities: Sequence[Priority] | None = None,
    ) -> None:
        _check_lists(values, keys)
        _check_all(values, keys, plan.content.headers)
        self._check_open()
        sender = self._sender
        sender.check_partition(plan.partition)
        if sender.unsettled and sender.unsettled + len(values) > self._buffer_messages:
            raise BufferFull(f"{sender.unsettled} messages wait in the buffer; use send_many, or flush")
        if values:
            outcome = Outcome(len(values), trio.current_time(), self._unheard)
            chunk = self._chunk(outcome, plan, values, keys)
            chunk.priorities = priorities
            sender.add(chunk)

    async def flush(self) -> None:
        """Return when everything sent so far is settled; `PublishFailed` if some queued messages failed."""
        sender = self._sender
        while sender.unsettled:
            await sender.wait_for_some()
        await trio.lowlevel.checkpoint()
        if self._unheard:
            failed, self._unheard[:] = list(self._unheard), []
            raise PublishFailed(failed)

    # For messages from other threads, which are checked. `room` and `check_partition` may be called there.

    @property
    def room(self) -> int:
        """The number of messages that the buffer has room for; 0 while it is not open."""
        sender = self._open_sender
        return 0 if sender is None or sender.is_closed else self._buffer_messages - sender.unsettled

    @property
    def acks(self) -> Acks:
        return self._acks

    @property
    def idle_topic(self) -> Topic | None:
        """Its topic, if no message waits or is under way, and each may be repeated. Other threads may look."""
        sender = self._open_sender
        if sender is None or sender.is_closed or not (sender.is_idle and self._is_idempotent):
            return None
        return sender.topic

    def adopt(self, partition: int, identity: wire.ProducerReady, batch: OutBatch) -> None:
        """Go on with a message that was sent by other means, and whose answer did not come."""
        self._sender.adopt(partition, identity, batch)

    def refresh_if_old(self) -> None:
        """Ask for the topic, if nobody has for a while."""
        if self._open_sender is not None and not self._open_sender.is_closed:
            self._open_sender.refresh_if_old()

    def check_partition(self, partition: int | None) -> None:
        """`UnknownPartition` if the topic has no such partition, as far as is known."""
        self._sender.check_partition(partition)

    def has_room_for(self, count: int, options: Mapping[str, Any]) -> bool:
        """Whether so many may be taken now; a partition that is not known yet has to be asked for."""
        if self.room < count:
            return False
        try:
            self.check_partition(options.get("partition"))
        except UnknownPartition:
            return False
        return True

    def take(
        self,
        outcome: AnyOutcome,
        values: Sequence[bytes | None],
        keys: Sequence[bytes | None],
        options: Mapping[str, Any],
    ) -> None:
        self._sender.add(self._chunk(outcome, self._plan(options), values, keys))

    async def send_as(
        self, _target: object, value: bytes | None, key: bytes | None, options: Mapping[str, Any]
    ) -> Published:
        """Wait for room, or for a partition to be known."""
        return await self.send(value, key=key, **options)

    def take_queued(
        self, values: Sequence[bytes | None], keys: Sequence[bytes | None], options: Mapping[str, Any]
    ) -> None:
        """Messages for which nobody waits, as those of `send_nowait`: `flush` tells their errors."""
        outcome = Outcome(len(values), trio.current_time(), self._unheard)
        try:
            self.check_partition(options.get("partition"))
        except UnknownPartition as error:  # the topic was made anew, with fewer
            outcome.give_up(error)
        else:
            self.take(outcome, values, keys, options)

    # Into the sender

    def _check_open(self) -> None:
        if self._sender.is_closed:
            raise Closed("the producer is closed")

    async def _make_ready(self, count: int, partition: int | None, limit: TimeLimit | None) -> None:
        waiting = self._until_ready(count, partition)
        await (waiting if limit is None else limit.room(self._sender, waiting))

    async def _until_ready(self, count: int, partition: int | None) -> None:
        """Wait for room in the buffer. An unknown partition may have been added since."""
        self._check_open()
        sender = self._sender
        try:
            sender.check_partition(partition)
        except UnknownPartition:
            await sender.refresh()
            self._check_open()
            sender.check_partition(partition)
        while sender.unsettled and sender.unsettled + count > self._buffer_messages:
            await sender.wait_for_some()
            self._check_open()

    def _plan(self, options: Mapping[str, Any]) -> SendPlan:
        return send_options(self._client.clock.now(), **options)

    def _chunk(
        self,
        outcome: AnyOutcome,
        plan: SendPlan,
        values: Sequence[bytes | None],
        keys: Sequence[bytes | None] | None,
    ) -> Chunk:
        ids, (content, partition, name) = None, plan
        keys = keys if keys and any(keys) else None
        if name is not None:
            ids = [name] if len(values) == 1 else [name_of(b"%s/%d" % (name, n)) or b"" for n in range(len(values))]
            if keys is None and partition is None:
                partition = partition_of_key(name, len(self._sender.topic.partitions))  # as its first one
        return Chunk(outcome, content, values, range(len(values)), keys, ids, partition)


def _check_lists(values: Sequence[bytes | None], keys: Sequence[bytes | None] | None) -> None:
    _check_list("values", values)
    if keys is not None:
        _check_list("keys", keys)
    if keys is not None and len(keys) != len(values):
        raise InvalidMessage(f"there are {len(values)} values and {len(keys)} keys; give one for each, or none")


def _check_list(name: str, given: object) -> None:
    if type(given) is list:
        return  # almost always
    if not isinstance(given, Sequence) or isinstance(given, str | bytes | bytearray | memoryview):
        raise InvalidMessage(f"{name} are a list of bytes, not {type(given).__name__}; put them into a list")


def _check_all(values: Sequence[bytes | None], keys: Sequence[bytes | None] | None, headers: object) -> None:
    """The first bad message raises, with its `number` in the error's details."""
    if not values or all_sound(values, keys or (), headers):
        return
    for number, value in enumerate(values):
        try:
            check_content(value, keys and keys[number], headers)
        except InvalidMessage as error:
            error.details["number"] = number
            raise


def _only_sound(chunk: Chunk, keys: Sequence[bytes | None] | None, outcome: Outcome) -> Chunk:
    """Without bad messages; these fail alone. `keys` as they were given: a chunk of empty ones has none."""
    bad = set()
    for number, value in enumerate(chunk.values):
        try:
            check_content(value, keys and keys[number], chunk.content.headers)
        except InvalidMessage as error:
            outcome.settle(number, error)
            bad.add(number)
    return chunk.without(bad)
