"""Messages of one call that go to one partition: gathered, cut, encoded and settled together.

A call that sends a thousand messages costs little more than one that sends one, because nothing here is made for
each message: values stay in the caller's order in one sequence, and `places` are their indexes in the call. Records
are encoded when their batch is sent, since the checksum of a record covers its offset in the batch.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, repeat
from struct import Struct
from typing import cast

import msgpack
from crc32c import crc32c

from goqueue.core.records.record import (
    DUE_TIME,
    EXPIRES_AT,
    EXPIRES_AT_HEADER,
    HEADER_SIZE,
    HEADERS_LENGTH,
    MAGIC,
    MESSAGE_ID_HEADER,
    VERSION,
    Flag,
)
from goqueue.types import Microseconds, Priority

_HEAD, _TAIL = Struct(">II"), Struct(">QQBBHI")
_PLAIN_WORD = MAGIC << 16 | VERSION << 8
_HAS_HEADERS, _TOMBSTONE, _DELAYED = int(Flag.HEADERS), int(Flag.TOMBSTONE), int(Flag.DELAYED)


# Neither is frozen, though they never change: that would double the cost of making one for each lone message.


@dataclass(slots=True, eq=False)
class Content:
    """What all messages of a call have in common."""

    timestamp: Microseconds
    headers: Mapping[str, bytes] | None = None
    priority: int = Priority.NORMAL
    expires_at: Microseconds | None = None
    due: int | None = None
    """When they are to be delivered, as records say it; None: at once."""


@dataclass(slots=True, eq=False)
class Chunk:
    call: object
    """The call that is told what became of them."""
    content: Content
    values: Sequence[bytes | None]
    """None is a tombstone, which has a key."""
    places: Sequence[int]
    """The indexes of these messages in the call."""
    keys: Sequence[bytes | None] | None = None
    """None: none of them has a key."""
    ids: Sequence[bytes] | None = None
    """The message id of each, so that a repeat is noticed; None: they have none."""
    partition: int | None = None
    """The partition that the caller chose; None: the partitioner chooses."""
    priorities: Sequence[int] | None = None
    """The priority of each; None: that of the content."""
    since: float = 0.0
    """When they were added to their send queue."""

    def __len__(self) -> int:
        return len(self.values)

    @property
    def size(self) -> int:
        """The number of bytes to send, headers apart."""
        keys = sum(len(key) for key in self.keys if key) if self.keys else 0
        return HEADER_SIZE * len(self.values) + sum(map(len, filter(None, self.values))) + keys

    def cut(self, bytes_max: int, count_max: int) -> "tuple[Chunk, Chunk]":
        """The messages that fit, at least one, and the rest."""
        count = size = 0
        for number, value in enumerate(self.values):
            size += HEADER_SIZE + len(value or b"") + len((self.keys and self.keys[number]) or b"")
            if count and (size > bytes_max or count >= count_max):
                break
            count += 1
        return self._sliced(slice(None, count)), self._sliced(slice(count, None))

    def shares(self, count: int) -> "list[Chunk]":
        """Cut into this many runs of neighbours, of equal length or one apart."""
        ends = [number * len(self) // count for number in range(count + 1)]
        return [self._sliced(slice(begin, end)) for begin, end in pairwise(ends)]

    def picked(self, numbers: Sequence[int]) -> "Chunk":
        """Only the messages with these numbers."""
        return replace(
            self,
            values=[self.values[number] for number in numbers],
            places=[self.places[number] for number in numbers],
            keys=self.keys and [self.keys[number] for number in numbers],
            ids=self.ids and [self.ids[number] for number in numbers],
            priorities=self.priorities and [self.priorities[number] for number in numbers],
        )

    def without(self, numbers: Collection[int]) -> "Chunk":
        return self.picked([number for number in range(len(self)) if number not in numbers])

    def _sliced(self, part: slice) -> "Chunk":
        return replace(
            self,
            values=self.values[part],
            places=self.places[part],
            keys=self.keys and self.keys[part],
            ids=self.ids and self.ids[part],
            priorities=self.priorities and self.priorities[part],
        )

    def encode(self, first: int, out: list[bytes]) -> None:
        """Append the records' bytes; `first` is the offset of the first in its batch."""
        if self.ids is not None:
            self._encode_each(first, map(self._packed_headers, self.ids), out)
            return
        packed = self._packed_headers()
        if self.keys is None and self.priorities is None and not packed and self.content.due is None:
            self._encode_plain(first, out)
        else:
            self._encode_each(first, repeat(packed, len(self.values)), out)

    def _encode_plain(self, first: int, out: list[bytes]) -> None:
        """The way of most messages: two bytes objects for each, one call for each of their parts."""
        pack_head, pack_tail, add = _HEAD.pack, _TAIL.pack, out.append
        timestamp, priority = self.content.timestamp, self.content.priority
        for number, value in enumerate(cast(Sequence[bytes], self.values), first):
            checksummed = pack_tail(number, timestamp, priority, 0, 0, len(value)) + value
            add(pack_head(_PLAIN_WORD, crc32c(checksummed)))
            add(checksummed)

    def _encode_each(self, first: int, headers: Iterable[bytes], out: list[bytes]) -> None:
        """`headers` are the packed ones of each; either all have some or none has."""
        content, count = self.content, len(self.values)
        timestamp, due = content.timestamp, b""
        word = _PLAIN_WORD | (_HAS_HEADERS if self._have_headers else 0)
        if content.due is not None:
            word, due = word | _DELAYED, DUE_TIME.pack(content.due)
        keys = [key or b"" for key in self.keys or [None] * count]
        priorities = self.priorities or [content.priority] * count
        records = zip(keys, self.values, priorities, headers, strict=True)
        for number, (key, value, priority, packed) in enumerate(records, first):
            prefix = due + packed
            value_size = len(prefix) + (len(value) if value else 0)
            tail = _TAIL.pack(number, timestamp, priority, 0, len(key), value_size)
            checksummed = tail + key + prefix + (value or b"")
            flags = _TOMBSTONE if value is None else 0
            out.append(_HEAD.pack(word | flags, crc32c(checksummed)))
            out.append(checksummed)

    @property
    def _have_headers(self) -> bool:
        return self.ids is not None or bool(self.content.headers) or self.content.expires_at is not None

    def _packed_headers(self, message_id: bytes | None = None) -> bytes:
        headers = dict(self.content.headers or {})
        if message_id is not None:
            headers[MESSAGE_ID_HEADER] = message_id
        if self.content.expires_at is not None:
            headers[EXPIRES_AT_HEADER] = EXPIRES_AT.pack(self.content.expires_at)
        if not headers:
            return b""
        packed: bytes = msgpack.packb(headers)
        return HEADERS_LENGTH.pack(len(packed)) + packed
