"""The producer with `with`, and calls that wait by themselves."""

from types import TracebackType
from typing import Any

from goqueue.blocking.asking import ask
from goqueue.blocking.forwarding import forwarded
from goqueue.client.producing.intake import Intake
from goqueue.client.producing.producer import Producer as TrioProducer
from goqueue.client.producing.shortcut import Shortcut
from goqueue.client.reading.message import Published
from goqueue.core.records.jsonvalue import json_bytes
from goqueue.portal.forwarding import forwarded_now, like
from goqueue.portal.host import Host
from goqueue.portal.waiting import ask_now, leave, wait_for
from goqueue.types import Seconds


class Producer:
    """Made by `client.producer`; enter it to send."""

    def __init__(self, client: Host[Any], producer: TrioProducer, shortcut: Shortcut) -> None:
        self._inner = producer
        self._shortcut = shortcut
        self._host = Host("producer", lambda: producer, client.thread, within=client, farewell=TrioProducer.flush)
        self._intake = Intake(self._host, lambda _: producer, producer.send_as)

    def __enter__(self) -> "Producer":
        wait_for(self._host.thread, self._host.enter)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        leave(self._host, failed=kind is not None)

    @like(TrioProducer.send)
    def send(
        self, value: bytes | None, *, key: bytes | None = None, timeout: Seconds | None = None, **options: Any
    ) -> Published:
        if timeout is not None:
            return ask(self._host, self._inner.send, value, key=key, timeout=timeout, **options)
        return self._shortcut.send(self._inner, self._intake, value, key, options) or wait_for(
            self._host.thread, lambda call: self._intake.put(call, None, value, key, options)
        )

    @like(TrioProducer.send_json)
    def send_json(self, value: Any, **options: Any) -> Published:
        return self.send(json_bytes(value), **options)

    @like(TrioProducer.send_nowait)
    def send_nowait(self, value: bytes | None, *, key: bytes | None = None, **options: Any) -> None:
        if not self._intake.put_nowait(self._inner, value, key, options):
            ask_now(self._host, self._inner.send_nowait, value, key=key, **options)
        elif self._intake.is_behind:
            ask_now(self._host, self._intake.take_all)

    send_many = forwarded(TrioProducer.send_many)
    send_many_nowait = forwarded_now(TrioProducer.send_many_nowait)

    @like(TrioProducer.flush)
    def flush(self) -> None:
        self._shortcut.settle()
        ask(self._host, self._inner.flush)
