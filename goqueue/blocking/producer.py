"""The producer with `with`, and calls that wait by themselves."""

from types import TracebackType
from typing import Any

from goqueue.blocking.forwarding import forwarded
from goqueue.client.producing.producer import Producer as TrioProducer
from goqueue.portal.forwarding import forwarded_now
from goqueue.portal.host import Host
from goqueue.portal.waiting import leave, wait_for


class Producer:
    """Made by `client.producer`; enter it to send."""

    def __init__(self, client: Host[Any], producer: TrioProducer) -> None:
        self._inner = producer
        self._host = Host("producer", lambda: producer, client.thread, within=client, farewell=TrioProducer.flush)

    def __enter__(self) -> "Producer":
        wait_for(self._host.thread, self._host.enter)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        leave(self._host, failed=kind is not None)

    send = forwarded(TrioProducer.send)
    send_nowait = forwarded_now(TrioProducer.send_nowait)
    send_many = forwarded(TrioProducer.send_many)
    send_many_nowait = forwarded_now(TrioProducer.send_many_nowait)
    flush = forwarded(TrioProducer.flush)
