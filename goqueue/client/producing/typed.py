"""A producer of objects: `async with client.producer("orders", schema=Order) as producer`.

It is a producer whose values are encoded on their way, and nothing else: all that holds for a producer of bytes
holds for it.
"""

import inspect
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Generic, TypeVar, Unpack

from goqueue.client.link.caller import Caller
from goqueue.client.producing.options import SendOptions, takes_send_options
from goqueue.client.producing.producer import Producer
from goqueue.client.reading.message import Published
from goqueue.client.schemas.outgoing import Outgoing
from goqueue.client.schemas.registry import SchemaQuestions
from goqueue.client.schemas.source import RegisteredSchema
from goqueue.errors import PublishFailed
from goqueue.types import Seconds

ValueT = TypeVar("ValueT")
MethodT = TypeVar("MethodT", bound=Callable[..., Any])


class TypedProducer(Generic[ValueT]):
    """Made by `client.producer` with a `schema`; enter it to send. That registers the schema, or looks for it."""

    def __init__(self, client: Caller, producer: Producer, topic: str, outgoing: Outgoing) -> None:
        self._client = client
        self._topic = topic
        self.producer = producer
        self.outgoing = outgoing

    async def __aenter__(self) -> "TypedProducer[ValueT]":
        await self.begin()
        await self.producer.__aenter__()
        return self

    async def begin(self) -> None:
        """A topic that is not there is refused before anything is registered for it."""
        await self._client.topic(self._topic)
        await self.outgoing.begin(SchemaQuestions(self._client))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self.producer.__aexit__(kind, error, trace)

    @property
    def schema(self) -> RegisteredSchema:
        """The version of the subject `{topic}-value` that its messages name."""
        return self.outgoing.schema

    @takes_send_options
    async def send(
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
        out = self.outgoing
        return await self.producer.send(out.encoded(value), key=key, timeout=timeout, **out.named(options))

    @takes_send_options
    def send_nowait(
        self, value: ValueT | None, *, key: bytes | None = None, **options: Unpack[SendOptions]
    ) -> None:
        """Queue one object; `flush` waits for it and raises its failure. `BufferFull` when there is no room."""
        out = self.outgoing
        self.producer.send_nowait(out.encoded(value), key=key, **out.named(options))

    @takes_send_options
    async def send_many(
        self,
        values: Sequence[ValueT | None],
        keys: Sequence[bytes | None] | None = None,
        *,
        timeout: Seconds | None = None,
        **options: Unpack[SendOptions],
    ) -> Sequence[Published]:
        """Send many and wait for all: one Published per object, in order. `PublishFailed` when some are refused."""
        encoded, named = self.outgoing.all_encoded(values), self.outgoing.named(options)
        try:
            return await self.producer.send_many(encoded.values, keys, timeout=timeout, **named)
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
        out = self.outgoing
        self.producer.send_many_nowait(out.all_sound(values), keys, **out.named(options))

    async def flush(self) -> None:
        """Return when everything sent so far is settled; `PublishFailed` if some queued messages failed."""
        await self.producer.flush()


def takes_producer_options(method: MethodT) -> MethodT:
    """Programs that look at the signature of `client.producer` see each option, not `**options`."""
    signature = inspect.signature(method)
    own = list(signature.parameters.values())
    declared = list(inspect.signature(Producer).parameters.values())[2:]
    shown = [each for each in own if each.kind is not inspect.Parameter.VAR_KEYWORD]
    method.__signature__ = signature.replace(parameters=[*shown, *declared])  # type: ignore[attr-defined]
    return method
