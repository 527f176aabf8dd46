"""A producer of objects for threads: they are encoded in the thread that sends them."""

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Generic, Unpack

from goqueue.blocking.asking import ask
from goqueue.blocking.producer import Producer
from goqueue.client.producing.options import SendOptions, takes_send_options
from goqueue.client.producing.typed import TypedProducer as TrioTypedProducer
from goqueue.client.producing.typed import ValueT
from goqueue.client.reading.message import Published
from goqueue.client.schemas.source import RegisteredSchema
from goqueue.errors import PublishFailed
from goqueue.portal.host import Host
from goqueue.types import Seconds


class TypedProducer(Generic[ValueT]):
    """Made by `client.producer` with a `schema`; enter it to send. That registers the schema, or looks for it."""

    def __init__(self, client: Host[Any], producer: Producer, inner: TrioTypedProducer[ValueT]) -> None:
        self._client = client
        self._producer = producer
        self._inner = inner
        self._outgoing = inner.outgoing

    def __enter__(self) -> "TypedProducer[ValueT]":
        ask(self._client, self._inner.begin)
        self._producer.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._producer.__exit__(kind, error, trace)

    @property
    def schema(self) -> RegisteredSchema:
        """The version of the subject `{topic}-value` that its messages name."""
        return self._outgoing.schema

    @takes_send_options
    def send(
        self,
        value: ValueT | None,
        *,
        key: bytes | None = None,
        timeout: Seconds | None = None,
        **options: Unpack[SendOptions],
    ) -> Published:
        """Send one object and wait until it is confirmed. None is a tombstone: it deletes its key.

        `SchemaMisfit` when it is no such object, `SchemaRefused` when the broker refuses it.
        """
        out = self._outgoing
        return self._producer.send(out.encoded(value), key=key, timeout=timeout, **out.named(options))

    @takes_send_options
    def send_nowait(
        self, value: ValueT | None, *, key: bytes | None = None, **options: Unpack[SendOptions]
    ) -> None:
        """Queue one object; `flush` waits for it and raises its failure. `BufferFull` when there is no room."""
        out = self._outgoing
        self._producer.send_nowait(out.encoded(value), key=key, **out.named(options))

    @takes_send_options
    def send_many(
        self,
        values: Sequence[ValueT | None],
        keys: Sequence[bytes | None] | None = None,
        *,
        timeout: Seconds | None = None,
        **options: Unpack[SendOptions],
    ) -> Sequence[Published]:
        """Send many and wait for all: one Published per object, in order. `PublishFailed` when some are refused."""
        encoded, named = self._outgoing.all_encoded(values), self._outgoing.named(options)
        try:
            return self._producer.send_many(encoded.values, keys, timeout=timeout, **named)
        except PublishFailed as failure:
            failed = encoded.failure(failure)
        raise failed

    @takes_send_options
    def send_many_nowait(
        self,
        values: Sequence[ValueT | None],
        keys: Sequence[bytes | None] | None = None,
        **options: Unpack[SendOptions],
    ) -> None:
        """Queue many; `flush` waits for them and raises failures. When one of them is refused, or there is no room
        for all (`BufferFull`), none is queued."""
        out = self._outgoing
        self._producer.send_many_nowait(out.all_sound(values), keys, **out.named(options))

    def flush(self) -> None:
        """Return when everything sent so far is settled; `PublishFailed` if some queued messages failed."""
        self._producer.flush()
