"""What a reader gets: messages that decode themselves on first use."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from struct import Struct
from typing import NamedTuple

import msgpack

from goqueue.core.batch import ENVELOPE_SIZE, Attribute, Envelope, body_is_sound, parse_envelope, records_of
from goqueue.core.record import (
    DUE_TIME,
    EXPIRES_AT,
    EXPIRES_AT_HEADER,
    HEADER,
    HEADER_SIZE,
    HEADERS_LENGTH,
    MESSAGE_ID_HEADER,
    Flag,
)
from goqueue.errors import CorruptMessage
from goqueue.types import Buffer, Microseconds, Offset, Priority

# Plain numbers, since an IntFlag is slow to compare.
HIDDEN = int(Flag.CONTROL | Flag.DELAYED)
"""Records that are no messages: passed over by readers."""
_DELAYED, _HEADERS, _HOLDS_EXPIRING = int(Flag.DELAYED), int(Flag.HEADERS), int(Attribute.HOLDS_EXPIRING)
_BOUNDS = Struct(">3xB4xQ10xHI")
"""Of a record's header: flags, relative offset, size of the key, size of the value section."""


class Published(NamedTuple):
    topic: str
    partition: int
    offset: Offset | None


class _Batch:
    """What the messages of a batch share."""

    __slots__ = ("base_offset", "body", "partition", "topic")

    def __init__(self, topic: str, partition: int, base_offset: Offset, body: Buffer) -> None:
        self.topic = topic
        self.partition = partition
        self.base_offset = base_offset
        self.body = body


class Message:
    """Bytes of a batch until somebody looks: reading without looking costs next to nothing."""

    __slots__ = ("__dict__", "_batch", "_position", "offset")

    def __init__(self, batch: _Batch, offset: Offset, position: int) -> None:
        self._batch = batch
        self.offset = offset
        self._position = position

    def __repr__(self) -> str:
        return f"<Message {self.topic}/{self.partition} offset {self.offset}, {len(self.value)} bytes>"

    @property
    def topic(self) -> str:
        return self._batch.topic

    @property
    def partition(self) -> int:
        return self._batch.partition

    @property
    def timestamp(self) -> float:
        return float(self._head[5] / 1_000_000)

    @property
    def priority(self) -> Priority:
        return Priority(self._head[6])

    @property
    def attempt(self) -> int:
        """0: no group has delivered it."""
        return 0

    @property
    def receipt(self) -> str | None:
        return None

    @cached_property
    def key(self) -> bytes | None:
        begin = self._position + HEADER_SIZE
        return bytes(self._batch.body[begin : begin + self._head[8]]) or None

    @cached_property
    def headers(self) -> Mapping[str, bytes]:
        headers = self._all_headers()
        for name in (MESSAGE_ID_HEADER, EXPIRES_AT_HEADER):
            headers.pop(name, None)
        return headers

    @cached_property
    def value(self) -> bytes:
        head = self._head
        return bytes(self._batch.body[self._headers_at[1] : self._position + HEADER_SIZE + head[8] + head[9]])

    def has_expired(self, now: Microseconds) -> bool:
        expiry = self._all_headers().get(EXPIRES_AT_HEADER)
        return expiry is not None and EXPIRES_AT.unpack(expiry)[0] <= now

    def _all_headers(self) -> dict[str, bytes]:
        begin, end = self._headers_at
        return msgpack.unpackb(self._batch.body[begin:end]) if end > begin else {}

    @cached_property
    def _head(self) -> tuple[int, ...]:
        return HEADER.unpack_from(self._batch.body, self._position)

    @cached_property
    def _headers_at(self) -> tuple[int, int]:
        """Where the packed headers begin and end; the value begins there."""
        position, flags = self._position + HEADER_SIZE + self._head[8], self._head[2]
        if flags & _DELAYED:
            position += DUE_TIME.size
        if not flags & _HEADERS:
            return position, position
        begin = position + HEADERS_LENGTH.size
        return begin, begin + HEADERS_LENGTH.unpack_from(self._batch.body, position)[0]


class Slice:
    """Batches as they came from the broker, found sound as a whole before the first message is given out."""

    def __init__(self, topic: str, partition: int, data: Buffer) -> None:
        self.topic, self.partition = topic, partition
        self._batches: list[tuple[Envelope, memoryview]] = []
        view, position = memoryview(data), 0
        while position < len(view):
            envelope = parse_envelope(view, position)
            stored = view[position + ENVELOPE_SIZE : position + envelope.size] if envelope else view[:0]
            if envelope is None or not body_is_sound(envelope, stored):
                raise CorruptMessage(f"what was read of {topic}/{partition} changed on its way; read it again")
            self._batches.append((envelope, stored))
            position += envelope.size

    def messages(self, start: Offset, end: Offset | None, now: Microseconds) -> Iterator[Message]:
        """Those from `start` on, up to `end`, that have not expired by now."""
        for envelope, stored in self._batches:
            found = self._messages_of(envelope, stored, start)
            if end is not None and envelope.end_offset > end:
                found = (message for message in found if message.offset < end)
            if envelope.attributes & _HOLDS_EXPIRING:
                found = (message for message in found if not message.has_expired(now))
            yield from found

    def _messages_of(self, envelope: Envelope, stored: memoryview, start: Offset) -> Iterator[Message]:
        body = bytes(records_of(envelope, stored))
        batch = _Batch(self.topic, self.partition, envelope.base_offset, body)
        base, position, bounds = envelope.base_offset, 0, _BOUNDS.unpack_from
        for _ in range(envelope.record_count):
            flags, relative_offset, key_size, value_size = bounds(body, position)
            offset = base + relative_offset
            if not flags & HIDDEN and offset >= start:
                yield Message(batch, offset, position)
            position += HEADER_SIZE + key_size + value_size
