"""Checks whether the records of a sound batch agree with its envelope.

A checksum proves that bytes are as they were written, not that the right ones were written. So each record is
parsed here as a reader would. Relative offsets must rise, but they may jump: compaction drops records, and those
that stay keep their offsets.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from crc32c import crc32c

from goqueue.core.records.batch import KNOWN_ATTRIBUTES, Attribute, Envelope, held_attributes, records_of
from goqueue.core.records.inspection import Contents, headers_fault, inspect_records
from goqueue.core.records.record import (
    CHECKSUMMED_FROM,
    DUE_TIME,
    EXPIRES_AT_HEADER,
    FLAGS_FROM_BROKER,
    HEADER,
    HEADER_SIZE,
    HEADERS_LENGTH,
    MAGIC,
    MESSAGE_ID_HEADER,
    TIMESTAMP_MAX,
    VALUE_SIZE_MAX,
    VERSION,
    Flag,
)
from goqueue.errors import InvalidMessage
from goqueue.types import LANE_COUNT, Buffer, Microseconds

UNTOLD = {
    Attribute.HOLDS_DELAYED: "a record is delayed, but the envelope does not say so",
    Attribute.HOLDS_IDS: "a record has a message id, but the envelope does not say so",
    Attribute.HOLDS_EXPIRING: "a record expires, but the envelope does not say so",
    Attribute.HOLDS_FOR_ONE_GROUP: "a record is for one group, but the envelope does not say so",
    Attribute.HOLDS_FIRED: "a record was delayed and fired, but the envelope does not say so",
}


class Header(NamedTuple):
    magic: int
    version: int
    flags: int
    crc: int
    relative_offset: int
    timestamp: Microseconds
    priority: int
    reserved: int
    key_size: int
    value_size: int

    @property
    def record_size(self) -> int:
        return HEADER_SIZE + self.key_size + self.value_size


def fault_in_batch(envelope: Envelope, body: Buffer) -> str | None:
    """What is wrong with a batch whose checksums hold, or None."""
    unknown = envelope.attributes & ~KNOWN_ATTRIBUTES
    if unknown:
        return f"attributes {unknown:#06x} are unknown"
    try:
        records = memoryview(records_of(envelope, body))
    except InvalidMessage as error:
        return error.message
    return None if _is_plainly_sound(envelope, records) else _fault_in_records(envelope, records)


def _is_plainly_sound(envelope: Envelope, records: memoryview) -> bool:
    """By the check that every publish passes, which is many times faster, but knows no gaps and no envelopes."""
    if envelope.record_count != envelope.last_offset_delta + 1:
        return False
    try:
        contents = inspect_records(records, envelope.record_count, FLAGS_FROM_BROKER)
    except InvalidMessage:
        return False
    if held_attributes(contents) & ~envelope.attributes:
        return False
    return (contents.priority_mask, contents.highest_timestamp) == (
        envelope.priority_mask,
        envelope.highest_timestamp,
    )


def _fault_in_records(envelope: Envelope, records: memoryview) -> str | None:
    tally = _Tally()
    position = 0
    for number in range(1, envelope.record_count + 1):
        header = _header_at(records, position)
        if header is None:
            return f"the body ends within record {number} of {envelope.record_count}"
        end = position + header.record_size
        fault = _fault_in_record(header, records[position:end], tally.names) or tally.take(header)
        if fault is not None:
            return f"record {number} of {envelope.record_count} {fault}"
        position = end
    if position != len(records):
        return f"the envelope counts {envelope.record_count} records; they end at byte {position} of {len(records)}"
    return tally.disagreement(envelope)


@dataclass(slots=True)
class _Tally:
    """The sums over all records, gathered one by one: a batch may hold a million."""

    last_offset: int = -1
    mask: int = 0
    highest_timestamp: Microseconds = 0
    flags: int = 0
    names: set[str] = field(default_factory=set)
    """The names of the broker's headers that were found."""

    def take(self, header: Header) -> str | None:
        if header.relative_offset <= self.last_offset:
            return f"has relative offset {header.relative_offset}, behind {self.last_offset}"
        self.last_offset = header.relative_offset
        self.mask |= 1 << header.priority
        self.flags |= header.flags
        if header.timestamp > self.highest_timestamp:
            self.highest_timestamp = header.timestamp
        return None

    def disagreement(self, envelope: Envelope) -> str | None:
        if self.last_offset > envelope.last_offset_delta:
            end = envelope.last_offset_delta
            return f"relative offset {self.last_offset} lies behind {end}, where the envelope ends"
        if self.mask != envelope.priority_mask:
            return (
                f"the envelope's priority mask is {envelope.priority_mask:#04x}, the records' is {self.mask:#04x}"
            )
        if self.highest_timestamp != envelope.highest_timestamp:
            highest = self.highest_timestamp
            return f"the envelope's highest timestamp is {envelope.highest_timestamp}, the records' is {highest}"
        untold = held_attributes(self._contents()) & ~envelope.attributes
        return next((text for bit, text in UNTOLD.items() if untold & bit), None)

    def _contents(self) -> Contents:
        has_id, expires = MESSAGE_ID_HEADER in self.names, EXPIRES_AT_HEADER in self.names
        return Contents(self.mask, self.highest_timestamp, self.flags, has_id, expires)


def _header_at(records: memoryview, position: int) -> Header | None:
    """The header of a record that the body holds whole, or None."""
    if len(records) - position < HEADER_SIZE:
        return None
    header = Header._make(HEADER.unpack_from(records, position))
    return header if position + header.record_size <= len(records) else None


def _fault_in_record(header: Header, record: memoryview, names: set[str]) -> str | None:
    if header.magic != MAGIC:
        return f"begins with {header.magic:#06x} instead of 'GQ'"
    if header.version != VERSION:
        return f"has version {header.version}, which is unknown"
    if header.flags & ~FLAGS_FROM_BROKER:
        return f"has flags {header.flags & ~FLAGS_FROM_BROKER:#04x}, which are unknown"
    if crc32c(record[CHECKSUMMED_FROM:]) != header.crc:
        return "does not match its checksum"
    if header.timestamp > TIMESTAMP_MAX:
        return f"has timestamp {header.timestamp}, beyond {TIMESTAMP_MAX} µs"
    if header.priority >= LANE_COUNT or header.reserved:
        return f"has priority {header.priority}, which is not one of 0 to {LANE_COUNT - 1}"
    return _fault_in_section(record[HEADER_SIZE + header.key_size :], header.flags, names)


def _fault_in_section(section: memoryview, flags: int, names: set[str]) -> str | None:
    if flags & Flag.DELAYED:
        if len(section) < DUE_TIME.size:
            return "is flagged as delayed, but has no due time"
        section = section[DUE_TIME.size :]
    if flags & Flag.HEADERS:
        if len(section) < HEADERS_LENGTH.size:
            return "is flagged as having headers, but has none"
        end = HEADERS_LENGTH.size + HEADERS_LENGTH.unpack_from(section)[0]
        if end > len(section):
            return "has headers that do not fit into it"
        fault = headers_fault(section[HEADERS_LENGTH.size : end], FLAGS_FROM_BROKER, names)
        if fault is not None:
            return f"has headers that are no good: {fault.message}"
        section = section[end:]
    if flags & Flag.TOMBSTONE and len(section):
        return "is a tombstone, but has a value"
    return "has a value beyond the limit" if len(section) > VALUE_SIZE_MAX else None
