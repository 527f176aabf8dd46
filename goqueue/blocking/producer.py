"""The producer with `with`, and calls that wait by themselves."""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from goqueue.blocking.asking import ask
from goqueue.client.link.moments import Moment
from goqueue.client.producing.producer import Producer as TrioProducer
from goqueue.client.reading.message import Published
from goqueue.portal.host import Host
from goqueue.portal.waiting import ask_now, leave, wait_for
from goqueue.types import Priority


class Producer:
    """Made by `client.producer`; enter it to send."""

    def __init__(self, client: Host[Any], producer: TrioProducer) -> None:
        self._producer = producer
        self._host = Host("producer", lambda: producer, client.thread, within=client, farewell=TrioProducer.flush)

    def __enter__(self) -> "Producer":
        wait_for(self._host.thread, self._host.enter)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        leave(self._host, failed=kind is not None)

    def send(
        self,
        value: bytes,
        *,
        key: bytes | None = None,
        headers: Mapping[str, bytes] | None = None,
        priority: Priority | int | str = Priority.NORMAL,
        partition: int | None = None,
        delay: float | None = None,
        deliver_at: Moment | None = None,
        ttl: float | None = None,
        message_id: bytes | str | None = None,
    ) -> Published:
        """Send one message and wait until it is confirmed."""
        return ask(
            self._host,
            self._producer.send,
            value,
            key=key,
            headers=headers,
            priority=priority,
            partition=partition,
            delay=delay,
            deliver_at=deliver_at,
            ttl=ttl,
            message_id=message_id,
        )

    def send_nowait(
        self,
        value: bytes,
        *,
        key: bytes | None = None,
        headers: Mapping[str, bytes] | None = None,
        priority: Priority | int | str = Priority.NORMAL,
        partition: int | None = None,
        delay: float | None = None,
        deliver_at: Moment | None = None,
        ttl: float | None = None,
        message_id: bytes | str | None = None,
    ) -> None:
        """Queue one message; `flush` waits for it and tells of its failure. `BufferFull` when there is no room."""
        ask_now(
            self._host,
            self._producer.send_nowait,
            value,
            key=key,
            headers=headers,
            priority=priority,
            partition=partition,
            delay=delay,
            deliver_at=deliver_at,
            ttl=ttl,
            message_id=message_id,
        )

    def send_many(
        self,
        values: Sequence[bytes],
        keys: Sequence[bytes | None] | None = None,
        *,
        headers: Mapping[str, bytes] | None = None,
        priority: Priority | int | str = Priority.NORMAL,
        partition: int | None = None,
        delay: float | None = None,
        deliver_at: Moment | None = None,
        ttl: float | None = None,
        message_id: bytes | str | None = None,
    ) -> Sequence[Published]:
        """Send many and wait for all: one Published per value, in order. Not atomic: see `PublishFailed`.

        `message_id` names the call: each message is known by it and its number.
        """
        return ask(
            self._host,
            self._producer.send_many,
            values,
            keys,
            headers=headers,
            priority=priority,
            partition=partition,
            delay=delay,
            deliver_at=deliver_at,
            ttl=ttl,
            message_id=message_id,
        )

    def send_many_nowait(
        self,
        values: Sequence[bytes],
        keys: Sequence[bytes | None] | None = None,
        *,
        headers: Mapping[str, bytes] | None = None,
        priority: Priority | int | str = Priority.NORMAL,
        partition: int | None = None,
        delay: float | None = None,
        deliver_at: Moment | None = None,
        ttl: float | None = None,
        message_id: bytes | str | None = None,
    ) -> None:
        """Queue many; `flush` waits for them and tells of failures. When one of them is refused, or there is no
        room for all (`BufferFull`), none is queued. `message_id` names the call, as in `send_many`.
        """
        ask_now(
            self._host,
            self._producer.send_many_nowait,
            values,
            keys,
            headers=headers,
            priority=priority,
            partition=partition,
            delay=delay,
            deliver_at=deliver_at,
            ttl=ttl,
            message_id=message_id,
        )

    def flush(self) -> None:
        """Return when everything sent so far is settled; `PublishFailed` if some of what was queued failed."""
        ask(self._host, self._producer.flush)
