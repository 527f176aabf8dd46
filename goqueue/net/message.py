"""What a reader gets: messages that decode themselves on first use."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

import msgpack

from goqueue.core.batch import ENVELOPE_SIZE, body_is_sound, parse_envelope, records_of
from goqueue.core.record import (
    DUE_TIME,
    HEADER_SIZE,
    HEADERS_LENGTH,
    Flag,
    RecordPlace,
    walk_records,
)
from goqueue.errors import CorruptMessage
from goqueue.types import Buffer, Offset, Priority

HIDDEN = int(Flag.CONTROL | Flag.DELAYED)
"""Records that are no messages: passed over by readers. A plain number, since an IntFlag is slow to compare."""


class Published(NamedTuple):
    topic: str
    partition: int
    offset: Offset | None


class Message:
    """Bytes of a batch until somebody looks: reading without looking costs next to nothing."""

    __slots__ = ("__dict__", "_body", "_place", "offset", "partition", "topic")

    def __init__(
        self, topic: str, partition: int, base_offset: Offset, body: memoryview, place: RecordPlace
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = base_offset + place.relative_offset
        self._body = body
        self._place = place

    def __repr__(self) -> str:
        return f"<Message {self.topic}/{self.partition} offset {self.offset}, {len(self.value)} bytes>"

    @property
    def timestamp(self) -> float:
        return self._place.timestamp / 1_000_000

    @property
    def priority(self) -> Priority:
        return Priority(self._place.priority)

    @property
    def attempt(self) -> int:
        """0: no group has delivered it."""
        return 0

    @property
    def receipt(self) -> str | None:
        return None

    @cached_property
    def key(self) -> bytes | None:
        begin = self._place.position + HEADER_SIZE
        return bytes(self._body[begin : begin + self._place.key_size]) or None

    @cached_property
    def headers(self) -> Mapping[str, bytes]:
        begin, end = self._headers_at
        return msgpack.unpackb(self._body[begin:end]) if end > begin else {}

    @cached_property
    def value(self) -> bytes:
        return bytes(self._body[self._headers_at[1] : self._place.end])

    @cached_property
    def _headers_at(self) -> tuple[int, int]:
        """Where the packed headers begin and end; the value begins there."""
        position = self._place.position + HEADER_SIZE + self._place.key_size
        if self._place.flags & Flag.DELAYED:
            position += DUE_TIME.size
        if not self._place.flags & Flag.HEADERS:
            return position, position
        begin = position + HEADERS_LENGTH.size
        return begin, begin + HEADERS_LENGTH.unpack_from(self._body, position)[0]


def messages_in(topic: str, partition: int, data: Buffer, from_offset: Offset) -> Iterator[Message]:
    """The messages of a slice, from this offset on."""
    view, position = memoryview(data), 0
    while position < len(view):
        envelope = parse_envelope(view, position)
        stored = view[position + ENVELOPE_SIZE : position + envelope.size] if envelope else view[:0]
        if envelope is None or not body_is_sound(envelope, stored):
            raise CorruptMessage(f"what was read of {topic}/{partition} changed on its way; read it again")
        body = memoryview(records_of(envelope, stored))
        for place in walk_records(body, envelope.record_count):
            visible = not place.flags & HIDDEN and envelope.base_offset + place.relative_offset >= from_offset
            if visible:
                yield Message(topic, partition, envelope.base_offset, body, place)
        position += envelope.size
