"""The consumer for asyncio: batches cross from the Trio thread, messages do not."""

import asyncio
from collections.abc import MutableMapping
from functools import partial
from types import TracebackType
from typing import Any
from weakref import WeakKeyDictionary

from goqueue.aio.asking import ask, leave, wait_for
from goqueue.aio.callbacks import LoopCalls
from goqueue.aio.forwarding import forwarded
from goqueue.client.consuming.consumer import Consumer as TrioConsumer
from goqueue.client.consuming.delivery import OF_TRIO, DeliveredMessage, LeasedMessage
from goqueue.client.consuming.parcel import Parcel
from goqueue.client.consuming.queue import QueueConsumer
from goqueue.client.streaming.consumer import StreamConsumer
from goqueue.client.working.outside import RunOutside
from goqueue.client.working.rules import Worked, Working
from goqueue.portal.buffer import MessageBuffer
from goqueue.portal.forwarding import like
from goqueue.portal.host import Host
from goqueue.portal.streambuffer import StreamBuffer
from goqueue.types import Seconds


class Consumer:
    """Made by `client.consumer`; enter it to receive. Tasks that share one share its messages."""

    def __init__(self, client: Host[Any], consumer: TrioConsumer, loop: LoopCalls) -> None:
        self._loop = loop
        self._inner = consumer
        self._host = Host("consumer", lambda: consumer, client.thread, within=client)
        self._buffer: MessageBuffer[DeliveredMessage] = MessageBuffer(consumer.next_batch)
        self._at_work: MutableMapping[Any, LeasedMessage] = WeakKeyDictionary()
        self._stream: StreamBuffer[DeliveredMessage] | None = None
        if isinstance(consumer, StreamConsumer):
            self._buffer = self._stream = StreamBuffer(consumer.next_batch)
            consumer.serve_stream(self, OF_TRIO, self._stream)
        elif isinstance(consumer, QueueConsumer):
            consumer.serve(self, OF_TRIO, self._in_hand)

    @property
    def member_id(self) -> str:
        """The name under which the group knows it."""
        return self._inner.member_id

    async def __aenter__(self) -> "Consumer":
        self._loop.run_here()
        await wait_for(self._host.thread, self._host.enter)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._buffer.close(self._host.thread)
        await leave(self._host, failed=kind is not None)

    # Receiving

    async def receive(
        self, max_messages: int = 500, timeout: Seconds = 30, *, visibility_timeout: Seconds | None = None
    ) -> list[DeliveredMessage]:
        """What is there, at least one message; [] after `timeout` seconds. Cancelling it loses nothing."""
        receive = partial(self._inner.receive, max_messages, timeout, visibility_timeout=visibility_timeout)
        parcel = Parcel(self._inner)
        try:
            await ask(self._host, parcel.fill, receive)
        except BaseException:
            self._host.thread.tell(parcel.refuse)
            raise
        return parcel.messages

    def __aiter__(self) -> "Consumer":
        return self

    async def __anext__(self) -> DeliveredMessage:
        if self._stream is not None:
            return await self._next_of(self._stream)
        worker = asyncio.current_task()
        self._at_work.pop(worker, None)
        message = await self._next()
        if self._inner.extends_at_work:
            self._at_work[worker] = message
        return message

    async def _next(self) -> DeliveredMessage:
        while True:
            try:
                message = self._buffer.items.popleft()
            except IndexError:
                await ask(self._host, self._buffer.fill)
            else:
                if message.delivery.holds(message.offset):  # else it was lost while it lay here
                    return message

    async def _next_of(self, stream: "StreamBuffer[DeliveredMessage]") -> DeliveredMessage:
        while (message := stream.take()) is None:
            await ask(self._host, stream.fill)
        return message

    def _in_hand(self) -> list[LeasedMessage]:
        """What lies here and what is worked on. In the Trio thread, while others take and settle."""
        while True:
            try:
                return [*self._buffer.items.copy(), *self._at_work.values()]
            except RuntimeError:  # somebody took one at this moment
                continue

    # Settling

    @like(TrioConsumer.ack)
    async def ack(self, messages: Any, *, wait: bool | None = None) -> None:
        consumer = self._inner
        if not isinstance(consumer, QueueConsumer) or consumer.confirms(wait):
            await ask(self._host, consumer.ack, messages, wait=True)
        else:
            self._host.thread.tell(partial(consumer.send_acks, consumer.checked_acks(messages)))

    nack = forwarded(TrioConsumer.nack)
    reject = forwarded(TrioConsumer.reject)
    fail = forwarded(TrioConsumer.fail)
    release = forwarded(TrioConsumer.release)
    extend = forwarded(TrioConsumer.extend)

    # Streams

    commit = forwarded(TrioConsumer.commit)
    seek = forwarded(TrioConsumer.seek)
    pause = forwarded(TrioConsumer.pause)
    resume = forwarded(TrioConsumer.resume)


async def run_worker(consumer: Consumer, working: Working, run_outside: RunOutside) -> Worked:
    """The rules of a worker, in the Trio thread, with this consumer, which is entered and left for it."""
    inner = consumer._inner
    assert isinstance(inner, QueueConsumer)
    working.attach(inner)
    async with consumer:
        return await ask(consumer._host, working.run, inner, partial(run_outside, consumer._host.thread))
