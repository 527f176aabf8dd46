"""Messages of a reader, which decode themselves on first use."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, repeat
from struct import Struct
from typing import Any, NamedTuple

import msgpack

from goqueue.core.records.batch import ENVELOPE_SIZE, Attribute, Envelope, body_is_sound, parse_envelope, records_of
from goqueue.core.records.columns import Shape, offsets_of, shape_of, values_of
from goqueue.core.records.jsonvalue import value_of_json
from goqueue.core.records.record import (
    DUE_TIME,
    EXPIRES_AT,
    EXPIRES_AT_HEADER,
    HEADER_SIZE,
    HEADERS_LENGTH,
    MESSAGE_ID_HEADER,
    Flag,
)
from goqueue.errors import CorruptMessage, InvalidMessage
from goqueue.types import Buffer, Microseconds, Offset, Priority

# Plain numbers, since an IntFlag is slow to compare.
HIDDEN = int(Flag.CONTROL | Flag.DELAYED)
"""Flags of records that are no messages: readers skip them."""
_DELAYED, _HEADERS, _TOMBSTONE = int(Flag.DELAYED), int(Flag.HEADERS), int(Flag.TOMBSTONE)
_HOLDS_EXPIRING = int(Attribute.HOLDS_EXPIRING)
_PREFIXED = _DELAYED | _HEADERS
"""Flags of records whose value section holds more than the value."""
_NOT_SHOWN = (MESSAGE_ID_HEADER, EXPIRES_AT_HEADER)
_TIMESTAMP, _PRIORITY_AT, _FLAGS_AT = Struct(">16xQ"), 24, 3
_KEY_SIZE = Struct(">26xH")
_STAMP = Struct(">16xQBxH")
_BOUNDS = Struct(">3xB4xQ10xHI")
"""Parts of a record's header: flags, relative offset, size of the key, size of the value section."""


class Published(NamedTuple):
    """The topic, partition and offset of a published message. A repeat equals its first: they are one message."""

    topic: str
    partition: int
    offset: Offset | None

    @property
    def repeated(self) -> bool:
        """True when nothing was written: an earlier message has the same `message_id`, and this is its offset.

        A message that the client itself sends again, as after a lost connection, is no repeat.
        """
        return False


class RepeatedPublished(Published):
    __slots__ = ()

    @property
    def repeated(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, repeated=True)".replace(type(self).__name__, Published.__name__, 1)


class DecodedBatch:
    """The state that the messages of a batch share."""

    __slots__ = ("append_time", "body", "partition", "topic")

    def __init__(self, topic: str, partition: int, body: bytes, append_time: Microseconds = 0) -> None:
        self.topic = topic
        self.partition = partition
        self.body = body
        self.append_time = append_time


class Message:
    """Holds offset and value; everything else stays in the bytes of the batch until it is read.

    The value is cut out at once, since every program reads it: a property would cost twice as much as the cut.
    """

    __slots__ = ("_batch", "_position", "offset", "value")

    value: bytes | Any
    """None for a tombstone. Its type is not `bytes | None`, since most programs meet no tombstones."""

    def __init__(self, batch: DecodedBatch, offset: Offset, position: int, value: bytes) -> None:
        """The record begins at `position` in its batch; `value` is its value section."""
        self._batch = batch
        self.offset = offset
        self._position = position
        self.value = value

    def __repr__(self) -> str:
        value = "a tombstone" if self.value is None else f"{len(self.value)} bytes"
        return f"<Message {self.topic}/{self.partition} offset {self.offset}, {value}>"

    @property
    def topic(self) -> str:
        return self._batch.topic

    @property
    def partition(self) -> int:
        return self._batch.partition

    @property
    def timestamp(self) -> float:
        return float(_TIMESTAMP.unpack_from(self._batch.body, self._position)[0] / 1_000_000)

    @property
    def priority(self) -> Priority:
        return Priority(self._batch.body[self._position + _PRIORITY_AT])

    def json(self) -> Any:
        """The value, which is JSON; None for a tombstone. `InvalidMessage` when it is no JSON."""
        value = self.value
        if value is None:
            return None
        try:
            return value_of_json(value)
        except ValueError as error:
            fault = str(error)
        place = {"topic": self.topic, "partition": self.partition, "offset": self.offset}
        raise InvalidMessage(f"{self.topic}/{self.partition} offset {self.offset} is no JSON: {fault}", **place)

    @property
    def attempt(self) -> int:
        """0: no group has delivered it."""
        return 0

    @property
    def receipt(self) -> str | None:
        return None

    @property
    def key(self) -> bytes | None:
        begin = self._position + HEADER_SIZE
        return self._batch.body[begin : begin + _KEY_SIZE.unpack_from(self._batch.body, self._position)[0]] or None

    @property
    def headers(self) -> Mapping[str, bytes]:
        return {}

    def has_expired(self, now: Microseconds) -> bool:  # noqa: ARG002
        return False


def stamp_of(message: Message) -> tuple[Microseconds, int, int]:
    """Its timestamp, the number of its priority, and the size of its key, read in one step: for those who look at
    all three of every message."""
    return _STAMP.unpack_from(message._batch.body, message._position)


def append_time_of(message: Message) -> Microseconds:
    """When the broker wrote a message that a reader has read."""
    return message._batch.append_time


class FlaggedMessage(Message):
    """A message whose value section holds more than the value."""

    __slots__ = ("_headers", "_packed_headers")

    def __init__(self, batch: DecodedBatch, offset: Offset, position: int, value: bytes) -> None:
        begin, end = _packed_headers_in(batch.body[position + _FLAGS_AT], value)
        super().__init__(batch, offset, position, value[end:])
        self._packed_headers = value[begin:end]

    @property
    def headers(self) -> Mapping[str, bytes]:
        try:
            return self._headers
        except AttributeError:
            everything = self._all_headers().items()
            self._headers: Mapping[str, bytes] = {name: each for name, each in everything if name not in _NOT_SHOWN}
            return self._headers

    def has_expired(self, now: Microseconds) -> bool:
        expiry = self._all_headers().get(EXPIRES_AT_HEADER)
        return expiry is not None and EXPIRES_AT.unpack(expiry)[0] <= now

    def _all_headers(self) -> dict[str, bytes]:
        return msgpack.unpackb(self._packed_headers) if self._packed_headers else {}


def _packed_headers_in(flags: int, value_section: bytes) -> tuple[int, int]:
    """The beginning and the end of the packed headers; the value begins at their end."""
    position = DUE_TIME.size if flags & _DELAYED else 0
    if not flags & _HEADERS:
        return position, position
    begin = position + HEADERS_LENGTH.size
    return begin, begin + HEADERS_LENGTH.unpack_from(value_section, position)[0]


def sound_batches(topic: str, partition: int, view: memoryview) -> list[tuple[int, Envelope]]:
    """The position and envelope of each batch. `CorruptMessage` unless all bytes from the broker are sound."""
    found, position = list[tuple[int, Envelope]](), 0
    while position < len(view):
        envelope = parse_envelope(view, position)
        stored = view[position + ENVELOPE_SIZE : position + envelope.size] if envelope else view[:0]
        if envelope is None or not body_is_sound(envelope, stored):
            raise CorruptMessage(f"what was read of {topic}/{partition} changed on its way; read it again")
        found.append((position, envelope))
        position += envelope.size
    return found


class Slice:
    """Batches from the broker, all checked before the first message is handed out."""

    _plain: type[Message] = Message
    _flagged: type[Message] = FlaggedMessage

    def __init__(self, topic: str, partition: int, data: Buffer) -> None:
        self.topic, self.partition = topic, partition
        view = memoryview(data)
        self._batches = [
            (envelope, view[position + ENVELOPE_SIZE : position + envelope.size])
            for position, envelope in sound_batches(topic, partition, view)
        ]

    def messages(self, start: Offset, end: Offset | None, now: Microseconds) -> Iterator[Message]:
        """The messages from `start` up to `end` that have not expired by now."""
        # Chained, not delegated: a message passes through one generator only.
        return chain.from_iterable(self._messages_in(*batch, start, end, now) for batch in self._batches)

    def _messages_in(
        self, envelope: Envelope, stored: memoryview, start: Offset, end: Offset | None, now: Microseconds
    ) -> Iterator[Message]:
        end = envelope.end_offset if end is None else min(end, envelope.end_offset)
        found = self._messages_of(envelope, stored, max(start, envelope.base_offset), end)
        if envelope.attributes & _HOLDS_EXPIRING:
            found = (message for message in found if not message.has_expired(now))
        return found

    def _batch_of(self, envelope: Envelope, body: bytes) -> DecodedBatch:
        return DecodedBatch(self.topic, self.partition, body, envelope.append_time)

    def _messages_of(self, envelope: Envelope, stored: memoryview, start: Offset, end: Offset) -> Iterator[Message]:
        if start >= end:
            return iter(())
        body = bytes(records_of(envelope, stored))
        count = envelope.record_count
        shape = shape_of(body, count)
        if shape is None:
            return self._walk(envelope, body, start, end)
        if count == envelope.last_offset_delta + 1:
            return self._uniform_messages(envelope, body, shape, range(start, end), start - envelope.base_offset)
        return self._some_of_one_shape(envelope, body, shape, start, end)

    def _some_of_one_shape(
        self, envelope: Envelope, body: bytes, shape: Shape, start: Offset, end: Offset
    ) -> Iterator[Message]:
        """The messages of a batch that was cut down: records of one shape, with gaps between their offsets."""
        relative = offsets_of(body, envelope.record_count, shape)
        if relative is None:
            return self._walk(envelope, body, start, end)
        base = envelope.base_offset
        begin, after = bisect_left(relative, start - base), bisect_left(relative, end - base)
        offsets = [base + each for each in relative[begin:after]]
        return self._uniform_messages(envelope, body, shape, offsets, begin)

    def _uniform_messages(
        self, envelope: Envelope, body: bytes, shape: Shape, offsets: Sequence[Offset], passed: int
    ) -> Iterator[Message]:
        """The messages of records of one shape, after `passed` skipped ones: no step of Python for each."""
        begin, end = passed * shape.size, (passed + len(offsets)) * shape.size
        values = values_of(body[begin:end], len(offsets), shape)
        return map(
            self._plain, repeat(self._batch_of(envelope, body)), offsets, range(begin, end, shape.size), values
        )

    def _walk(self, envelope: Envelope, body: bytes, start: Offset, end: Offset) -> Iterator[Message]:
        batch, plain = self._batch_of(envelope, body), self._plain
        base, position, bounds = envelope.base_offset, 0, _BOUNDS.unpack_from
        for _ in range(envelope.record_count):
            flags, relative_offset, key_size, value_size = bounds(body, position)
            offset, begin = base + relative_offset, position + HEADER_SIZE + key_size
            if offset >= end:
                return
            after = begin + value_size
            if not flags and offset >= start:
                yield plain(batch, offset, position, body[begin:after])
            elif not flags & HIDDEN and offset >= start:
                kind = self._flagged if flags & _PREFIXED else plain
                message = kind(batch, offset, position, body[begin:after])
                if flags & _TOMBSTONE:
                    message.value = None
                yield message
            position = after
