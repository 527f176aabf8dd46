"""A batch: the unit that is sent, written, checked and read as a whole (G2).

An envelope of 96 bytes, written by the broker, then the body: records one after the other, as the client
encoded them, or one zstd frame of them. All integers are big-endian and unsigned.

     0 "GQB"                3 version=1         4 CRC32C of the envelope without this field
     8 length of the body  12 last offset delta
    16 base offset
    24 count of records    28 leader epoch
    32 attributes (2)      34 priority mask (1) 35 zero (1)    36 producer epoch (2)  38 zero (2)
    40 producer id, 0 = none
    48 base sequence       52 CRC32C of the body
    56 highest timestamp, µs
    64 append time, µs, never falling
    72 durable offset: everything below it was fsynced when this batch was written
    80 reserved for transactions
    88 clock lag, µs: by how much the broker's wall clock was behind the append time

Batches follow each other without a gap in bytes or offsets: each begins where the one before ends. When
compaction drops records, those that stay keep their relative offsets and the envelope keeps its range; dropped
batches leave an envelope with no body that covers their range. So a jump in offsets is always damage.
"""

from enum import IntFlag
from struct import Struct
from typing import NamedTuple

import zstandard
from crc32c import crc32c

from goqueue.core.records.inspection import Contents, inspect_records
from goqueue.core.records.record import FLAGS_FROM_CLIENTS, Flag
from goqueue.errors import InvalidMessage, TooLarge, UnknownFormat
from goqueue.types import Buffer, Microseconds, Offset

ENVELOPE = Struct(">3sBIIIQIIHBxHxxQIIQQQ8xQ")
_HEAD, _FIELDS = Struct(">3sBI"), Struct(">IIQIIHBxHxxQIIQQQ8xQ")
ENVELOPE_SIZE = ENVELOPE.size
MAGIC = b"GQB"
VERSION = 1
MAGIC_AND_VERSION = MAGIC + bytes([VERSION])
BODY_SIZE_MAX = 32 * 1024 * 1024
"""Limit of a body, compressed and not; a message of the largest size fits with room for its neighbours."""
COUNT_MAX = 1_000_000
COMPRESSION_LEVEL = 3

_CRC_SEED = crc32c(MAGIC_AND_VERSION)


class Attribute(IntFlag):
    ZSTD = 1
    TRANSACTIONAL = 4
    CONTROL = 8
    HOLDS_DELAYED = 16
    HOLDS_IDS = 32
    HOLDS_EXPIRING = 64
    HOLDS_FOR_ONE_GROUP = 128
    HOLDS_FIRED = 256


KNOWN_ATTRIBUTES = sum(Attribute)
"""A plain number, whose complement has every other bit."""
_COMPUTED = int(
    Attribute.HOLDS_DELAYED
    | Attribute.HOLDS_IDS
    | Attribute.HOLDS_EXPIRING
    | Attribute.HOLDS_FOR_ONE_GROUP
    | Attribute.HOLDS_FIRED
)
ATTRIBUTES_FROM_BROKER = KNOWN_ATTRIBUTES & ~_COMPUTED
ATTRIBUTES_FROM_CLIENTS = int(Attribute.ZSTD)
"""A client does not say what its batch holds: `accept` looks."""


# Plain numbers for what runs for each batch: `&` with an IntFlag costs as much as a checksum.
ZSTD, HOLDS_DELAYED, HOLDS_IDS = int(Attribute.ZSTD), int(Attribute.HOLDS_DELAYED), int(Attribute.HOLDS_IDS)
_DELAYED, _FOR_ONE_GROUP, _FIRED = int(Flag.DELAYED), int(Flag.FOR_ONE_GROUP), int(Flag.FIRED)
ABOUT_DELAYS = int(Attribute.CONTROL | Attribute.HOLDS_DELAYED | Attribute.HOLDS_FIRED)
"""A batch without any of these has nothing to say about delays."""


class Producer(NamedTuple):
    """The producer of a batch, and the batch's position in its sequence. Id 0 is none."""

    id: int
    epoch: int
    base_sequence: int


NO_PRODUCER = Producer(0, 0, 0)


class Envelope(NamedTuple):
    length: int
    last_offset_delta: int
    base_offset: Offset
    record_count: int
    leader_epoch: int
    attributes: int
    priority_mask: int
    producer_epoch: int
    producer_id: int
    base_sequence: int
    body_crc: int
    highest_timestamp: Microseconds
    append_time: Microseconds
    durable_offset: Offset
    clock_lag: Microseconds = 0
    """Above zero after the clock was set back. Older versions wrote zeros here."""

    @property
    def wall_time(self) -> Microseconds:
        """What the broker's clock showed at the append. A relative delay counts from it."""
        return self.append_time - self.clock_lag

    @property
    def end_offset(self) -> Offset:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def size(self) -> int:
        return ENVELOPE_SIZE + self.length


class Batch(NamedTuple):
    """A body that was found good and may be appended. `accept` makes one; records from the log need no second check
    (firing.py)."""

    body: Buffer
    record_count: int
    attributes: int
    priority_mask: int
    highest_timestamp: Microseconds
    producer: Producer

    @property
    def size(self) -> int:
        return ENVELOPE_SIZE + len(self.body)


def accept(
    body: Buffer,
    count: int,
    *,
    attributes: int = 0,
    producer: Producer = NO_PRODUCER,
    allowed_flags: int = FLAGS_FROM_CLIENTS,
) -> Batch:
    """Check what a client sent, sizes before contents; raises `InvalidMessage` or a kind of it (G14)."""
    from_client = allowed_flags == FLAGS_FROM_CLIENTS
    _check_frame(body, count, attributes, ATTRIBUTES_FROM_CLIENTS if from_client else ATTRIBUTES_FROM_BROKER)
    records = decompress(body) if attributes & ZSTD else body
    contents = inspect_records(records, count, allowed_flags)
    attributes |= held_attributes(contents)
    return Batch(body, count, attributes, contents.priority_mask, contents.highest_timestamp, producer)


def held_attributes(contents: Contents) -> int:
    """The attributes that say what kinds of records there are."""
    held = 0
    if contents.flags & _DELAYED:
        held |= Attribute.HOLDS_DELAYED
    if contents.holds_ids:
        held |= Attribute.HOLDS_IDS
    if contents.holds_expiring:
        held |= Attribute.HOLDS_EXPIRING
    if contents.flags & _FOR_ONE_GROUP:
        held |= Attribute.HOLDS_FOR_ONE_GROUP
    if contents.flags & _FIRED:
        held |= Attribute.HOLDS_FIRED
    return held


def _check_frame(body: Buffer, count: int, attributes: int, allowed: int) -> None:
    if len(body) > BODY_SIZE_MAX:
        raise TooLarge(f"the batch has {len(body)} bytes; {BODY_SIZE_MAX} are allowed, send smaller ones")
    if not 0 < count <= COUNT_MAX:
        raise InvalidMessage(f"a batch holds 1 to {COUNT_MAX} records, not {count}")
    if attributes & ~allowed:
        raise InvalidMessage(
            f"batch attributes {attributes & ~allowed:#06x} are the broker's to set, or unknown; leave them out"
        )


def compress(records: Buffer) -> bytes:
    return zstandard.ZstdCompressor(level=COMPRESSION_LEVEL).compress(records)


def decompress(body: Buffer) -> bytes:
    """The records of a zstd frame. A frame that would grow beyond the limit is refused before it grows."""
    try:
        promised = zstandard.frame_content_size(body)
        if promised > BODY_SIZE_MAX:
            raise TooLarge(f"the batch unpacks to {promised} bytes; {BODY_SIZE_MAX} are allowed")
        return zstandard.ZstdDecompressor(max_window_size=BODY_SIZE_MAX).decompress(
            body, max_output_size=BODY_SIZE_MAX, allow_extra_data=False
        )
    except zstandard.ZstdError as error:
        raise InvalidMessage(f"the batch is no zstd frame of at most {BODY_SIZE_MAX} bytes: {error}") from None


def seal_envelope(fields: Envelope) -> bytes:
    """The envelope's bytes, with its CRC."""
    packed = _FIELDS.pack(*fields)
    return _HEAD.pack(MAGIC, VERSION, crc32c(packed, _CRC_SEED)) + packed


def envelope_for(
    batch: Batch,
    base_offset: Offset,
    *,
    leader_epoch: int,
    append_time: Microseconds,
    durable_offset: Offset,
    wall_time: Microseconds | None = None,
) -> Envelope:
    """Without a wall time the clock showed the append time."""
    body, count, attributes, priority_mask, highest_timestamp, producer = batch
    return Envelope(  # by position: for every append, and names take twice as long
        len(body),
        count - 1,
        base_offset,
        count,
        leader_epoch,
        attributes,
        priority_mask,
        producer.epoch,
        producer.id,
        producer.base_sequence,
        crc32c(body),
        highest_timestamp,
        append_time,
        durable_offset,
        0 if wall_time is None else append_time - wall_time,
    )


def parse_envelope(buffer: Buffer, position: int = 0) -> Envelope | None:
    """The envelope at this position, or None when there is no sound one.

    A sound envelope of another version was written by a newer goqueue: `UnknownFormat`, never damage to be cut.
    """
    if len(buffer) - position < ENVELOPE_SIZE:
        return None
    magic, version, crc, *fields = ENVELOPE.unpack_from(buffer, position)
    if magic != MAGIC:
        return None
    seed = _CRC_SEED if version == VERSION else crc32c(MAGIC + bytes([version]))
    if crc32c(memoryview(buffer)[position + 8 : position + ENVELOPE_SIZE], seed) != crc:
        return None
    if version != VERSION:
        raise UnknownFormat(f"batch version {version} is unknown; read it with the goqueue that wrote it")
    return Envelope._make(fields)


def body_is_sound(envelope: Envelope, body: Buffer) -> bool:
    return len(body) == envelope.length and crc32c(body) == envelope.body_crc


def records_of(envelope: Envelope, body: Buffer) -> Buffer:
    """The records of a sound body, unpacked."""
    return decompress(body) if envelope.attributes & ZSTD else body
