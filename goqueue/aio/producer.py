"""The producer for asyncio."""

from types import TracebackType
from typing import Any

from goqueue.aio.asking import ask, leave, wait_for
from goqueue.aio.forwarding import forwarded
from goqueue.client.producing.intake import Intake
from goqueue.client.producing.producer import Producer as TrioProducer
from goqueue.client.reading.message import Published
from goqueue.core.records.jsonvalue import json_bytes
from goqueue.portal.forwarding import forwarded_now, like
from goqueue.portal.host import Host
from goqueue.portal.waiting import ask_now
from goqueue.types import Seconds


class Producer:
    """Made by `client.producer`; enter it to send."""

    def __init__(self, client: Host[Any], producer: TrioProducer) -> None:
        self._inner = producer
        self._host = Host("producer", lambda: producer, client.thread, within=client, farewell=TrioProducer.flush)
        self._intake = Intake(self._host, lambda _: producer, producer.send_as)

    async def __aenter__(self) -> "Producer":
        await wait_for(self._host.thread, self._host.enter)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await leave(self._host, failed=kind is not None)

    @like(TrioProducer.send)
    async def send(
        self, value: bytes | None, *, key: bytes | None = None, timeout: Seconds | None = None, **options: Any
    ) -> Published:
        if timeout is not None:
            return await ask(self._host, self._inner.send, value, key=key, timeout=timeout, **options)
        return await wait_for(self._host.thread, lambda call: self._intake.put(call, None, value, key, options))

    @like(TrioProducer.send_json)
    async def send_json(self, value: Any, **options: Any) -> Published:
        return await self.send(json_bytes(value), **options)

    @like(TrioProducer.send_nowait)
    def send_nowait(self, value: bytes | None, *, key: bytes | None = None, **options: Any) -> None:
        if not self._intake.put_nowait(self._inner, value, key, options):
            ask_now(self._host, self._inner.send_nowait, value, key=key, **options)
        elif self._intake.is_behind:
            ask_now(self._host, self._intake.take_all)

    send_many = forwarded(TrioProducer.send_many)
    send_many_nowait = forwarded_now(TrioProducer.send_many_nowait)
    flush = forwarded(TrioProducer.flush)
