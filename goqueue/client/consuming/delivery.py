"""One delivery of messages from one partition to one consumer, and its messages.

A delivery knows which of its messages are not settled yet: these count as in flight. It keeps its messages and its
runs side by side, so that an ack of exactly the received messages costs one comparison of two lists, and no message
is looked at. A delivery that is partly settled keeps a set of offsets from then on.

Messages, batches and their delivery refer to each other in a circle. It is cut once everything is settled, so that
a busy consumer leaves nothing to the garbage collector.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from goqueue.client.consuming.names import DeliveredNames
from goqueue.client.link.arguments import refusal
from goqueue.client.reading.message import DecodedBatch, FlaggedMessage, Message, Slice
from goqueue.client.schemas.codec import Codec, body_in
from goqueue.core.receipts import receipt_ends, receipt_text
from goqueue.core.records.batch import Envelope
from goqueue.errors import InvalidMessage, SchemaMisfit
from goqueue.net.wire.groups import DeliveryRun, DeliverySet
from goqueue.types import Buffer, Offset, Seconds

if TYPE_CHECKING:
    from goqueue.client.consuming.consumer import Consumer


class Origin(NamedTuple):
    """The source of a delivery, and its nonce, by which the broker knows it."""

    group: str
    topic: str
    uuid: bytes
    partition: int
    nonce: int


class ReceivedDelivery:
    __slots__ = (
        "_unsettled",
        "acked_soon",
        "arrived_at",
        "codec",
        "kept_until",
        "lost",
        "messages",
        "names",
        "origin",
        "owner",
        "priority_mask",
        "size",
        "until",
        "young_until",
    )

    def __init__(self, origin: Origin, names: DeliveredNames, size: int, owner: Any) -> None:
        self.origin = origin
        self.names = names
        self.size = size
        """Bytes of the delivery as it came."""
        self.owner = owner
        """The consumer of the program, on any surface: messages settle themselves with it."""
        self.priority_mask = 0
        """A bit for each priority in its batches."""
        self.messages: list[Any] = []
        """In the order of the delivery; empty once all are settled."""
        self.arrived_at = self.until = self.young_until = 0.0
        """When it came, when its last lease ends, and until when it is handed out without renewing the leases."""
        self.kept_until = 0.0
        """Until then its leases are renewed even after its messages were handed out."""
        self.lost: frozenset[Offset] = frozenset()
        """Messages whose leases ended before they were settled."""
        self.codec: Codec | None = None
        """What makes the bodies of its messages, for a consumer with a schema."""
        self.acked_soon: set[Offset] = set()
        """Messages with an ack that nobody waited for."""
        self._unsettled: set[Offset] | None = None
        """None: all of its messages."""

    def __len__(self) -> int:
        """The number of unsettled messages."""
        return len(self.messages) if self._unsettled is None else len(self._unsettled)

    def attempt_of(self, offset: Offset) -> int:
        return self.names.attempt_of(offset)

    def receipt_of(self, offset: Offset) -> str | None:
        group, topic, _, partition, nonce = self.origin
        return receipt_text(group, topic, partition, offset, self.attempt_of(offset), nonce)

    def receipts_of(self, messages: Iterable["LeasedMessage"]) -> list[tuple[int, str]]:
        """The attempt and the receipt of each of these messages, in fewer steps than one by one."""
        group, topic, _, partition, nonce = self.origin
        offsets = [message.offset for message in messages]
        attempts = list(map(self.names.attempt_of, offsets))
        ends = {each: receipt_ends(group, topic, partition, each, nonce) for each in set(attempts)}
        found = list[tuple[int, str]]()
        for attempt, offset in zip(attempts, offsets, strict=True):
            head, tail = ends[attempt]
            found.append((attempt, f"{head}{offset}{tail}"))
        return found

    def holds(self, offset: Offset) -> bool:
        """Whether the message is not settled."""
        return bool(self.messages) and (self._unsettled is None or offset in self._unsettled)

    @property
    def unsettled(self) -> list[Any] | None:
        """None: all of its messages."""
        if self._unsettled is None:
            return None
        return [message for message in self.messages if message.offset in self._unsettled]

    def lose(self, offsets: Collection[Offset] | None) -> None:
        """Note that the leases of these unsettled messages have ended; None is all. The caller settles them."""
        held = self.messages if offsets is None else [each for each in self.messages if each.offset in offsets]
        self.lost |= {message.offset for message in held if self.holds(message.offset)}

    def settle(self, offsets: Collection[Offset] | None) -> int:
        """These are settled; None is all. Returns how many of them were in flight until now."""
        before = len(self)
        if offsets is None:
            self._unsettled = set()
        elif before:
            if self._unsettled is None:
                self._unsettled = {message.offset for message in self.messages}
            self._unsettled.difference_update(offsets)
        if not self._unsettled:
            self.messages = []  # cuts the circle
        return before - len(self._unsettled or ())


class _DeliveredBatch(DecodedBatch):
    __slots__ = ("delivery",)

    def __init__(self, delivery: ReceivedDelivery, body: bytes) -> None:
        super().__init__(delivery.origin.topic, delivery.origin.partition, body)
        self.delivery = delivery


class LeasedMessage(Message):
    """A message under a lease: the base of the messages of all surfaces."""

    __slots__ = ()

    _batch: _DeliveredBatch

    @property
    def delivery(self) -> ReceivedDelivery:
        return self._batch.delivery

    @property
    def attempt(self) -> int:
        """The number of this delivery of the message, from 1."""
        return self._batch.delivery.attempt_of(self.offset)

    @property
    def receipt(self) -> str | None:
        """The name of this delivery of this message; None in a stream, which has no leases."""
        return self._batch.delivery.receipt_of(self.offset)

    @property
    def body(self) -> Any:
        """The value as an object, for a consumer with a schema. None for a tombstone."""
        raise refusal("messages have a body where the consumer has a schema: client.consumer(…, schema=Order)")


class WithBody(LeasedMessage):
    """Its body is decoded once: before it is handed out, or when the program asks for it."""

    __slots__ = ()

    _body: Any

    @property
    def body(self) -> Any:
        """The value as an object of the consumer's schema. None for a tombstone.

        `SchemaMisfit` when it does not fit, with `topic`, `partition` and `offset` in its details.
        """
        try:
            return self._body
        except AttributeError:
            pass
        try:
            return self.decode_body()
        except SchemaMisfit as error:
            error.message = f"{self.topic}/{self.partition} offset {self.offset}: {error.message}"
            error.args = (error.message,)
            error.details = {"topic": self.topic, "partition": self.partition, "offset": self.offset}
            raise

    def decode_body(self) -> Any:
        codec = self._batch.delivery.codec
        assert codec is not None, "a consumer with a schema has one"
        self._body = None if self.value is None else body_in(codec, self.value)
        return self._body


class DeliveredMessage(LeasedMessage):
    """A message of a consumer. Settle it within its lease: ack, nack, reject or release."""

    __slots__ = ()

    @property
    def _consumer(self) -> "Consumer":
        consumer: Consumer = self._batch.delivery.owner
        return consumer

    async def ack(self, *, wait: bool | None = None) -> None:
        """It is done. With `wait=False` the ack leaves at once, and is not waited for; see `Consumer.ack`."""
        await self._consumer.ack(self, wait=wait)

    async def nack(self, *, delay: Seconds | None = None, reason: str = "") -> None:
        """It failed: try again after `delay` seconds, else after the backoff (1 s, 2 s … 60 s, or as `retry`)."""
        await self._consumer.nack(self, delay=delay, reason=reason)

    async def reject(self, reason: str = "") -> None:
        """It can never succeed: to the dead-letter topic, now."""
        await self._consumer.reject(self, reason)

    async def fail(self, error: BaseException) -> None:
        """It failed with this error: nack with it as the reason, or reject if `never_for` of `retry` names it."""
        await self._consumer.fail(self, error)

    async def release(self) -> None:
        """Give it back at once; this delivery does not count."""
        await self._consumer.release(self)

    async def extend(self, seconds: Seconds) -> None:
        """Let the lease end this number of seconds from now."""
        await self._consumer.extend(self, seconds)


class FlaggedDelivered(DeliveredMessage, FlaggedMessage):
    __slots__ = ()


class _DeliveredWithBody(WithBody, DeliveredMessage):
    __slots__ = ("_body",)


class _FlaggedWithBody(WithBody, FlaggedDelivered):
    __slots__ = ("_body",)


class Kinds(NamedTuple):
    """The classes of a surface's messages, and those of a consumer with a schema."""

    plain: type[LeasedMessage]
    flagged: type[LeasedMessage]
    plain_with_body: type[WithBody]
    flagged_with_body: type[WithBody]

    def of(self, codec: Codec | None) -> tuple[type[LeasedMessage], type[LeasedMessage]]:
        return self[:2] if codec is None else self[2:]


OF_TRIO = Kinds(DeliveredMessage, FlaggedDelivered, _DeliveredWithBody, _FlaggedWithBody)


class DeliveredSlice(Slice):
    def __init__(self, delivery: ReceivedDelivery, data: Buffer, kinds: Kinds) -> None:
        super().__init__(delivery.origin.topic, delivery.origin.partition, data)
        self._plain, self._flagged = kinds.of(delivery.codec)
        self._delivery = delivery

    def _batch_of(self, envelope: Envelope, body: bytes) -> DecodedBatch:
        self._delivery.priority_mask |= envelope.priority_mask
        return _DeliveredBatch(self._delivery, body)


def open_delivery(
    origin: Origin,
    names: DeliveredNames,
    data: Buffer,
    *,
    owner: object,
    kinds: Kinds = OF_TRIO,
    codec: Codec | None = None,
) -> ReceivedDelivery:
    """Opens a delivery of the broker. Its data is batches in the order of the delivery; only the named messages of
    these are delivered."""
    delivery = ReceivedDelivery(origin, names, len(data), owner)
    delivery.codec = codec
    found = DeliveredSlice(delivery, data, kinds)
    first, last = names.bounds
    # The broker decides whether a message has expired: if it was skipped here, it would stay in flight.
    messages: list[Any] = list(found.messages(first, last + 1, now=0))
    if len(messages) != names.count:
        named = set(names.offsets())
        messages = [message for message in messages if message.offset in named]
    delivery.messages = messages
    return delivery


# Portions to settle


class Portion(NamedTuple):
    """Some messages of one delivery, or with None all of it."""

    delivery: ReceivedDelivery
    messages: Sequence[LeasedMessage] | None
    is_named: bool = False
    """Each message is named, though it is the whole delivery: the broker refused to settle it as a whole."""

    @property
    def runs(self) -> tuple[DeliveryRun, ...]:
        return self.delivery.names.runs if self.messages is None else runs_of(self.delivery, self.messages)

    @property
    def sets(self) -> tuple[DeliverySet, ...]:
        """The same for a delivery that came as sets."""
        return self.delivery.names.sets_of(None if self.messages is None else self.offsets)

    @property
    def offsets(self) -> list[Offset] | None:
        return None if self.messages is None else [message.offset for message in self.messages]


def portions_of(messages: Sequence[LeasedMessage]) -> list[Portion]:
    """One for each delivery among them. Messages of a whole delivery in order are not looked at one by one."""
    if len(messages) == 1:
        delivery = delivery_of(messages[0])
        is_whole = len(delivery.messages) == 1 and delivery.messages[0] is messages[0]
        return [Portion(delivery, None if is_whole else list(messages))]
    whole: list[Portion] = []
    others: dict[ReceivedDelivery, list[LeasedMessage]] = {}
    position, count = 0, len(messages)
    while position < count:
        delivery = delivery_of(messages[position])
        all_of_it = delivery.messages
        end = position + len(all_of_it)
        begins = bool(all_of_it) and all_of_it[0] is messages[position]
        if begins and messages[position:end] == all_of_it:
            whole.append(Portion(delivery, None))
            position = end
        else:
            others.setdefault(delivery, []).append(messages[position])
            position += 1
    return [*whole, *(Portion(delivery, some) for delivery, some in others.items())]


def delivery_of(message: object) -> ReceivedDelivery:
    if isinstance(message, LeasedMessage):
        return message.delivery
    raise InvalidMessage(f"{message!r} was not delivered by a group; settle what a consumer handed out")


def runs_of(delivery: ReceivedDelivery, messages: Sequence[LeasedMessage]) -> tuple[DeliveryRun, ...]:
    if len(messages) == 1:
        alone = messages[0].offset
        return (DeliveryRun(alone, alone, delivery.names.attempt_of(alone)),)
    runs: list[DeliveryRun] = []
    first = last = -1
    attempt = 0
    for offset in sorted({message.offset for message in messages}):
        number = delivery.attempt_of(offset)
        if offset != last + 1 or number != attempt or not attempt:
            if attempt:
                runs.append(DeliveryRun(first, last, attempt))
            first, attempt = offset, number
        last = offset
    return (*runs, DeliveryRun(first, last, attempt))
