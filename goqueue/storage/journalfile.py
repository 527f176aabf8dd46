"""How a journal lies in its file, and what can be had back from one.

     0 "GQJ"   3 version=1   4 CRC32C of everything behind it, and of the version
     8 length of the payload (4)     12 kind: 0 entry, 1 snapshot, 2 mark (1)     13 zero (3)
    16 number, rising by one         24 durable: everything below this number was fsynced when this was written
    32 payload

A file begins with a snapshot, or with a mark when there was nothing yet; either was durable before the file got its
name. A mark carries no payload, only its claim; an orderly close leaves one behind.

Damage is a torn tail when no sound entry behind it claims it as durable, and the file's first entry is sound;
else it is rot. Every sound entry is given back with the ranges that are lost: whether that will do is for the
owner of the journal to decide, since a lost vote and a lost acknowledgement are not the same.
"""

from dataclasses import dataclass, field
from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from goqueue.errors import UnknownFormat
from goqueue.types import Buffer

HEAD = Struct(">3sBIIB3xQQ")
HEAD_SIZE = HEAD.size
MAGIC = b"GQJ"
VERSION = 1


class Kind(IntEnum):
    ENTRY = 0
    SNAPSHOT = 1
    MARK = 2


KINDS = frozenset(Kind)


class Entry(NamedTuple):
    kind: Kind
    number: int
    durable: int
    payload: bytes

    @property
    def size(self) -> int:
        return HEAD_SIZE + len(self.payload)


@dataclass(frozen=True, slots=True)
class LostEntries:
    """What was durable once and is not sound any more: bytes of the file, and numbers of entries."""

    position: int
    end_position: int
    first: int
    next: int


@dataclass(slots=True)
class Replay:
    """What a journal held when it was opened."""

    snapshot: bytes | None = None
    entries: list[bytes] = field(default_factory=list)
    lost: list[LostEntries] = field(default_factory=list)
    next_number: int = 0
    sound_size: int = 0
    """Where to go on writing; what lies behind is a torn tail."""

    def take(self, entry: Entry, end: int) -> None:
        if entry.kind is Kind.SNAPSHOT:
            self.snapshot, self.entries = entry.payload, []
        elif entry.kind is Kind.ENTRY:
            self.entries.append(entry.payload)
        self.next_number = entry.number + 1
        self.sound_size = end


def encode_entry(kind: Kind, number: int, durable: int, payload: bytes = b"") -> bytes:
    head = HEAD.pack(MAGIC, VERSION, 0, len(payload), kind, number, durable)
    crc = crc32c(payload, crc32c(head[8:], crc32c(head[3:4])))
    return b"".join((head[:4], crc.to_bytes(4, "big"), head[8:], payload))


def decode_entry(data: Buffer, position: int) -> Entry | None:
    """The entry at this place, or None when there is no sound one."""
    if len(data) - position < HEAD_SIZE:
        return None
    magic, version, crc, length, kind, number, durable = HEAD.unpack_from(data, position)
    end = position + HEAD_SIZE + length
    view = memoryview(data)
    if magic != MAGIC or end > len(data) or crc32c(view[position + 8 : end], crc32c(bytes([version]))) != crc:
        return None
    if version != VERSION or kind not in KINDS:
        raise UnknownFormat(f"journal version {version}, kind {kind} is unknown; use the goqueue that wrote it")
    return Entry(Kind(kind), number, durable, bytes(view[position + HEAD_SIZE : end]))


def replay(data: Buffer) -> Replay:
    """Everything sound in a journal's file."""
    result = Replay()
    position = 0
    while position < len(data):
        entry = decode_entry(data, position)
        if entry is not None:
            position += entry.size
            result.take(entry, position)
            continue
        position, following = _next_sound(data, position, result.next_number)
        was_durable = result.sound_size == 0 or _highest_claim(data, position) > result.next_number
        if not was_durable:
            break
        first, end = result.next_number, following if following is not None else _highest_claim(data, 0)
        result.lost.append(LostEntries(result.sound_size, position, first, max(first, end)))
        result.next_number, result.sound_size = max(first, end), position
    return result


def _next_sound(data: Buffer, position: int, number: int) -> tuple[int, int | None]:
    """The place and number of the next sound entry, or the end of the file."""
    raw = bytes(data)
    at = raw.find(MAGIC, position + 1)
    while at >= 0:
        entry = decode_entry(data, at)
        if entry is not None and entry.number >= number:
            return at, entry.number
        at = raw.find(MAGIC, at + 1)
    return len(data), None


def _highest_claim(data: Buffer, position: int) -> int:
    """The highest number below which a sound entry from here on says that everything was durable."""
    claim = 0
    while position < len(data):
        entry = decode_entry(data, position)
        if entry is None:
            position, _ = _next_sound(data, position, 0)
        else:
            claim = max(claim, entry.durable)
            position += entry.size
    return claim
