"""The consumer with `with` and `for`: batches cross from the Trio thread, messages do not."""

from collections.abc import MutableMapping
from contextvars import ContextVar
from functools import partial
from types import TracebackType
from typing import Any
from weakref import WeakKeyDictionary

from goqueue.blocking.asking import ask
from goqueue.blocking.forwarding import forwarded
from goqueue.blocking.message import OF_THREADS, DeliveredMessage
from goqueue.client.consuming.consumer import Consumer as TrioConsumer
from goqueue.client.consuming.delivery import LeasedMessage
from goqueue.client.consuming.parcel import Parcel
from goqueue.client.consuming.queue import QueueConsumer
from goqueue.client.streaming.consumer import StreamConsumer
from goqueue.client.working.outside import RunOutside
from goqueue.client.working.rules import Worked, Working
from goqueue.portal.buffer import MessageBuffer
from goqueue.portal.forwarding import like
from goqueue.portal.host import Host
from goqueue.portal.streambuffer import StreamBuffer
from goqueue.portal.waiting import leave, wait_for
from goqueue.types import Seconds


class _Worker:
    """Stands for a thread, and is gone when that has ended."""


_worker: ContextVar[_Worker | None] = ContextVar("goqueue_worker", default=None)


def _this_worker() -> _Worker:
    worker = _worker.get()
    if worker is None:
        worker = _Worker()
        _worker.set(worker)
    return worker


class Consumer:
    """Made by `client.consumer`; enter it to receive. Threads that share one share its messages."""

    def __init__(self, client: Host[Any], consumer: TrioConsumer) -> None:
        self._inner = consumer
        self._host = Host("consumer", lambda: consumer, client.thread, within=client)
        self._buffer: MessageBuffer[Any] = MessageBuffer(consumer.next_batch)
        self._at_work: MutableMapping[_Worker, LeasedMessage] = WeakKeyDictionary()
        self._stream: StreamBuffer[Any] | None = None
        if isinstance(consumer, StreamConsumer):
            self._buffer = self._stream = StreamBuffer(consumer.next_batch)
            consumer.serve_stream(self, OF_THREADS, self._stream)
        elif isinstance(consumer, QueueConsumer):
            consumer.serve(self, OF_THREADS, self._in_hand)

    @property
    def member_id(self) -> str:
        """The name under which the group knows it."""
        return self._inner.member_id

    def __enter__(self) -> "Consumer":
        wait_for(self._host.thread, self._host.enter)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._buffer.close(self._host.thread)
        leave(self._host, failed=kind is not None)

    # Receiving

    def receive(
        self, max_messages: int = 500, timeout: Seconds = 30, *, visibility_timeout: Seconds | None = None
    ) -> list[DeliveredMessage]:
        """What is there, at least one message; [] after `timeout` seconds. Cancelling it loses nothing."""
        receive = partial(self._inner.receive, max_messages, timeout, visibility_timeout=visibility_timeout)
        parcel = Parcel(self._inner)
        try:
            ask(self._host, parcel.fill, receive)
        except BaseException:
            self._host.thread.tell(parcel.refuse)
            raise
        return parcel.messages

    def __iter__(self) -> "Consumer":
        return self

    def __next__(self) -> DeliveredMessage:
        if self._stream is not None:
            return self._next_of(self._stream)
        worker = _this_worker()
        self._at_work.pop(worker, None)
        message = self._next()
        if self._inner.extends_at_work:
            self._at_work[worker] = message
        return message

    def _next(self) -> DeliveredMessage:
        while True:
            try:
                message: DeliveredMessage = self._buffer.items.popleft()
            except IndexError:
                ask(self._host, self._buffer.fill)
            else:
                if message.delivery.holds(message.offset):  # else it was lost while it lay here
                    return message

    def _next_of(self, stream: "StreamBuffer[Any]") -> DeliveredMessage:
        while (message := stream.take()) is None:
            ask(self._host, stream.fill)
        taken: DeliveredMessage = message
        return taken

    def _in_hand(self) -> list[LeasedMessage]:
        """What lies here and what is worked on. In the Trio thread, while others take and settle."""
        while True:
            try:
                return [*self._buffer.items.copy(), *self._at_work.values()]
            except RuntimeError:  # somebody took one at this moment
                continue

    # Settling

    @like(TrioConsumer.ack)
    def ack(self, messages: Any, *, wait: bool | None = None) -> None:
        consumer = self._inner
        if not isinstance(consumer, QueueConsumer) or consumer.confirms(wait):
            ask(self._host, consumer.ack, messages, wait=True)
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


def run_worker(consumer: Consumer, working: Working, run_outside: RunOutside) -> Worked:
    """The rules of a worker, in the Trio thread, with this consumer, which is entered and left for it."""
    inner = consumer._inner
    assert isinstance(inner, QueueConsumer)
    working.attach(inner)
    with consumer:
        return ask(consumer._host, working.run, inner, partial(run_outside, consumer._host.thread))
