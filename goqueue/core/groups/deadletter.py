"""A dead letter: the message that a group gave up, with headers that say where it comes from and why.

    goqueue-dlq-topic            the topic it comes from
    goqueue-dlq-partition        its number, in digits
    goqueue-dlq-offset           in digits
    goqueue-dlq-group            which group gave up
    goqueue-dlq-attempts         how often it was handed out, in digits
    goqueue-dlq-first-delivery   µs since 1970, in digits
    goqueue-dlq-last-delivery    likewise
    goqueue-dlq-reason           a sentence; cut so that the broker's headers stay within their 4 KiB

Key, value, the program's own headers, priority and timestamp stay. The broker's headers of the original do not hold
for the copy: an id would make it a repeat, an expiry would hide it, a fired delay is another partition's.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import msgpack

from goqueue.core.records.record import (
    BROKER_HEADER_PREFIX,
    BROKER_HEADERS_SIZE_MAX,
    Flag,
    Record,
    decode_records,
    encode_record,
)
from goqueue.core.slices.deliverable import FOR_GROUP_HEADER
from goqueue.types import Buffer, Microseconds, Offset

PREFIX = f"{BROKER_HEADER_PREFIX}dlq-"
TOPIC, PARTITION, OFFSET, GROUP = f"{PREFIX}topic", f"{PREFIX}partition", f"{PREFIX}offset", f"{PREFIX}group"
ATTEMPTS, REASON = f"{PREFIX}attempts", f"{PREFIX}reason"
FIRST_DELIVERY, LAST_DELIVERY = f"{PREFIX}first-delivery", f"{PREFIX}last-delivery"

_ROOM = BROKER_HEADERS_SIZE_MAX - 16
"""Limit of the broker's headers, packed, reason included; the rest is for how msgpack writes lengths."""


@dataclass(frozen=True, slots=True)
class Story:
    """How a message came to be a dead letter."""

    topic: str
    partition: int
    offset: Offset
    group: str
    attempts: int
    first_delivery: Microseconds
    last_delivery: Microseconds
    reason: str

    def to_headers(self) -> dict[str, bytes]:
        headers = {
            TOPIC: self.topic.encode(),
            PARTITION: b"%d" % self.partition,
            OFFSET: b"%d" % self.offset,
            GROUP: self.group.encode(),
            ATTEMPTS: b"%d" % self.attempts,
            FIRST_DELIVERY: b"%d" % self.first_delivery,
            LAST_DELIVERY: b"%d" % self.last_delivery,
            REASON: b"",
        }
        room = _ROOM - len(msgpack.packb(headers))
        headers[REASON] = _cut(self.reason, room)
        return headers

    @classmethod
    def from_headers(cls, headers: Mapping[str, bytes]) -> "Story | None":
        """None when the broker did not make it: a program may publish to the topic too."""
        try:
            return cls(
                topic=headers[TOPIC].decode(),
                partition=int(headers[PARTITION]),
                offset=int(headers[OFFSET]),
                group=headers[GROUP].decode(),
                attempts=int(headers[ATTEMPTS]),
                first_delivery=int(headers[FIRST_DELIVERY]),
                last_delivery=int(headers[LAST_DELIVERY]),
                reason=headers[REASON].decode(),
            )
        except (KeyError, ValueError):
            return None


def dead_letter(record: Buffer, story: Story, relative_offset: int) -> bytes:
    """The copy of a record for the dead-letter topic, with this offset in its batch."""
    original = one_record(record)
    return _copy(original, relative_offset, own_headers(original) | story.to_headers(), 0)


def redriven(record: Buffer, group: str | None, relative_offset: int) -> bytes:
    """The copy of a dead letter for a redrive: for one group, or for all readers of the topic."""
    letter = one_record(record)
    if group is None:
        return _copy(letter, relative_offset, own_headers(letter), 0)
    headers = own_headers(letter) | {FOR_GROUP_HEADER: group.encode()}
    return _copy(letter, relative_offset, headers, int(Flag.FOR_ONE_GROUP))


def one_record(record: Buffer) -> Record:
    return next(decode_records(record, 1, 0))


def own_headers(record: Record) -> dict[str, bytes]:
    """The headers that the program gave the message."""
    return {name: value for name, value in record.headers.items() if not name.startswith(BROKER_HEADER_PREFIX)}


def _copy(record: Record, relative_offset: int, headers: Mapping[str, bytes], flags: int) -> bytes:
    return encode_record(
        relative_offset,
        record.timestamp,
        record.value,
        key=record.key,
        headers=headers,
        priority=record.priority,
        flags=flags | int(record.flags & Flag.TOMBSTONE),
    )


def _cut(reason: str, room: int) -> bytes:
    """As much of it as fits, whole characters only."""
    return reason.encode(errors="replace")[: max(0, room)].decode(errors="ignore").encode()
