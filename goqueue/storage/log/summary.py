"""The summary of a segment, which is known without reading it, and its format.

A sealed segment has its summary in `{base}.seal`; that of the growing one is part of the recovery point. Both are a
fixed head and a msgpack tail, each with its CRC:

     0 "GQS"   3 version=1   4 CRC32C of the head without this field
     8 base offset          16 end offset           24 size of the log file
    32 records              40 highest timestamp    48 first append time    56 last append time
    64 index entries (4)    68 CRC32C of .index (4) 72 CRC32C of .timeindex (4)
    76 length of the tail   80 CRC32C of the tail   84 priority mask (1)    85 about delays (1)    86 damaged (1)
    87 holds ids (1)        88 reserved (8)
    96 tail: {"lanes": a byte per index entry, "epochs": [[leader epoch, first offset], …],
              "producers": […], or nil when they are in the file `producers`,
              "forgotten_to": the highest id of a producer that was forgotten,
              "damage": [[position, end position, offset, end offset], …]}

The head is all that a start reads of a sealed segment; the tail is read when it is needed. A seal whose size
differs from its log file's is void, and the segment is scanned: that is how a crash between two renames heals.
"""

from dataclasses import dataclass, field, replace
from struct import Struct
from typing import Any

import msgpack
from crc32c import crc32c

from goqueue.core.log.producers import SEQUENCES, ProducerStates, WrittenBatch
from goqueue.core.records.batch import ABOUT_DELAYS, HOLDS_IDS, Envelope
from goqueue.types import Buffer, Microseconds, Offset

HEAD = Struct(">3sBIQQQQQQQIIIIIBBBB8x")
HEAD_SIZE = HEAD.size
MAGIC = b"GQS"
VERSION = 1


@dataclass(slots=True)
class Summary:
    base_offset: Offset
    end_offset: Offset
    size: int = 0
    records: int = 0
    highest_timestamp: Microseconds = 0
    first_append_time: Microseconds = 0
    last_append_time: Microseconds = 0
    priority_mask: int = 0
    holds_delayed: bool = False
    """It holds delayed messages, or records that end a delay."""
    damaged: bool = False
    holds_ids: bool = False

    def note(self, envelope: Envelope) -> None:
        """Add a batch that was appended."""
        if not self.size:
            self.first_append_time = envelope.append_time
        self.end_offset = envelope.end_offset
        self.size += envelope.size
        self.records += envelope.record_count
        if envelope.highest_timestamp > self.highest_timestamp:
            self.highest_timestamp = envelope.highest_timestamp
        self.last_append_time = envelope.append_time
        self.priority_mask |= envelope.priority_mask
        if envelope.attributes:
            self.holds_delayed |= bool(envelope.attributes & ABOUT_DELAYS)
            self.holds_ids |= bool(envelope.attributes & HOLDS_IDS)


@dataclass(slots=True)
class IndexMark:
    """The number of index entries that belong to a summary, and the checksums of the index files."""

    entries: int = 0
    places_crc: int = 0
    times_crc: int = 0


@dataclass(slots=True)
class History:
    """The state at the end of a segment: its lane index and damage, the log's epochs and producers."""

    lanes: bytes = b""
    damage: list[tuple[int, int, Offset, Offset]] = field(default_factory=list)
    epochs: list[tuple[int, Offset]] = field(default_factory=list)
    producers: ProducerStates | None = field(default_factory=ProducerStates)
    """None when they are too many for a seal: they are in a file of their own."""

    def of_log(self) -> "History":
        """The log's part; lanes and damage belong to one segment alone. Both share the producers."""
        return History(epochs=list(self.epochs), producers=self.producers)

    def sealed(self, producers_max: int) -> "History":
        """A copy for a seal; without producers if there are more than `producers_max`."""
        few = self.few_producers(producers_max)
        return replace(self, epochs=list(self.epochs), producers=None if few is None else few.copy())

    def few_producers(self, producers_max: int) -> ProducerStates | None:
        """None when there are more than `producers_max`."""
        states = self.producers
        return states if states is not None and len(states) <= producers_max else None

    def forget(self, log_start: Offset, append_time: Microseconds) -> None:
        """Drop epochs that ended before the log begins, and producers that have long been silent."""
        ended = sum(first <= log_start for _, first in self.epochs[1:])
        del self.epochs[:ended]
        if self.producers is not None:
            self.producers.forget_silent(append_time)

    def note(self, envelope: Envelope) -> None:
        if not self.epochs or self.epochs[-1][0] != envelope.leader_epoch:
            self.epochs.append((envelope.leader_epoch, envelope.base_offset))
        if envelope.producer_id and self.producers is not None:
            self.producers.note(*producer_note(envelope))


def producer_note(envelope: Envelope) -> tuple[int, int, WrittenBatch, Microseconds]:
    """Producer, epoch, batch and append time, as `ProducerStates` takes them."""
    last = (envelope.base_sequence + envelope.last_offset_delta) % SEQUENCES
    batch = WrittenBatch(envelope.base_sequence, last, envelope.base_offset)
    return envelope.producer_id, envelope.producer_epoch, batch, envelope.append_time


def encode_summary(summary: Summary, mark: IndexMark, history: History) -> bytes:
    tail: bytes = msgpack.packb(
        {
            "lanes": history.lanes,
            "epochs": history.epochs,
            "producers": None if history.producers is None else history.producers.snapshot(),
            "forgotten_to": 0 if history.producers is None else history.producers.forgotten_to,
            "damage": history.damage,
        }
    )
    return _encode_head(summary, mark, tail) + tail


def _encode_head(summary: Summary, mark: IndexMark, tail: bytes) -> bytes:
    head = bytearray(
        HEAD.pack(
            MAGIC,
            VERSION,
            0,
            summary.base_offset,
            summary.end_offset,
            summary.size,
            summary.records,
            summary.highest_timestamp,
            summary.first_append_time,
            summary.last_append_time,
            mark.entries,
            mark.places_crc,
            mark.times_crc,
            len(tail),
            crc32c(tail),
            summary.priority_mask,
            summary.holds_delayed,
            summary.damaged,
            summary.holds_ids,
        )
    )
    head[4:8] = _head_crc(head).to_bytes(4, "big")
    return bytes(head)


def _head_crc(head: Buffer) -> int:
    view = memoryview(head)
    return crc32c(view[8:HEAD_SIZE], crc32c(view[:4]))


def sound_version(head: Buffer) -> int | None:
    """The version of a head that matches its checksum, known or not."""
    if len(head) < HEAD_SIZE or bytes(head[:3]) != MAGIC:
        return None
    return head[3] if _head_crc(head).to_bytes(4, "big") == bytes(head[4:8]) else None


@dataclass(frozen=True, slots=True)
class SummaryHead:
    summary: Summary
    mark: IndexMark
    tail_size: int
    tail_crc: int


def decode_head(data: Buffer) -> SummaryHead | None:
    """The head, or None when it is not sound."""
    if sound_version(data) != VERSION:
        return None
    _, _, _, base, end, size, records, highest, first, last, *rest = HEAD.unpack_from(data)
    entries, places_crc, times_crc, tail_size, tail_crc, mask, *facts = rest
    summary = Summary(base, end, size, records, highest, first, last, mask, *map(bool, facts))
    return SummaryHead(summary, IndexMark(entries, places_crc, times_crc), tail_size, tail_crc)


def decode_history(head: SummaryHead, tail: Buffer) -> History | None:
    """The tail, or None when it is not sound."""
    if len(tail) != head.tail_size or crc32c(tail) != head.tail_crc:
        return None
    fields: dict[str, Any] = msgpack.unpackb(tail)
    return History(
        lanes=fields["lanes"],
        damage=[(begin, end, offset, end_offset) for begin, end, offset, end_offset in fields["damage"]],
        epochs=[(epoch, offset) for epoch, offset in fields["epochs"]],
        producers=_producers(fields["producers"], fields.get("forgotten_to", 0)),
    )


def _producers(snapshot: list[Any] | None, forgotten_to: int) -> ProducerStates | None:
    return None if snapshot is None else ProducerStates.restored(snapshot, forgotten_to)
