"""The producer for asyncio."""

from types import TracebackType
from typing import Any

from goqueue.aio.asking import leave, wait_for
from goqueue.aio.forwarding import forwarded
from goqueue.client.producing.producer import Producer as TrioProducer
from goqueue.portal.forwarding import forwarded_now
from goqueue.portal.host import Host


class Producer:
    """Made by `client.producer`; enter it to send."""

    def __init__(self, client: Host[Any], producer: TrioProducer) -> None:
        self._inner = producer
        self._host = Host("producer", lambda: producer, client.thread, within=client, farewell=TrioProducer.flush)

    async def __aenter__(self) -> "Producer":
        await wait_for(self._host.thread, self._host.enter)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await leave(self._host, failed=kind is not None)

    send = forwarded(TrioProducer.send)
    send_nowait = forwarded_now(TrioProducer.send_nowait)
    send_many = forwarded(TrioProducer.send_many)
    send_many_nowait = forwarded_now(TrioProducer.send_many_nowait)
    flush = forwarded(TrioProducer.flush)
