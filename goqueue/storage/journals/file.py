"""The file format of a journal, and the replay of such a file.

A file is a sequence of frames:

     0 "GQJ"   3 version=1   4 CRC32C of everything behind it, and of the version
     8 length of the payload (4)     12 kind: 0 entries, 1 snapshot, 2 mark (1)     13 zero (3)
    16 number                        24 durable: everything below this number was fsynced when this was written
    32 payload

One append is one frame, so that a crash or a full disk leaves all of it or nothing. Its payload is a sequence of
entries, each with its length (4) before it, and its number is that of the first. Entries are numbered without a
gap over the life of the journal. A mark takes a number like an entry and carries only its claim. The owner writes
one when it has committed and has nothing else to write, and an orderly close leaves one behind. A snapshot has the
number of the last entry that it replaces. A file begins with a snapshot, or with a mark when there was nothing yet;
either was durable before the file got its name. Until then it is called `….new`, and all damage in it is a torn
tail.

Damage is a torn tail when neither a sound frame behind it nor the claim beside the file (claim.py) says that
it was durable, and the file's first frame is sound; else it is rot. A file that ends below the claim lost its end.
A replay returns every sound entry, and the ranges that are lost. The owner of the journal decides what they mean,
since a lost vote and a lost acknowledgement are not the same.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from goqueue.errors import UnknownFormat
from goqueue.types import Buffer

HEAD = Struct(">3sBIIB3xQQ")
HEAD_SIZE = HEAD.size
LENGTH = Struct(">I")
MAGIC = b"GQJ"
VERSION = 1
NEW = ".new"
"""Suffix of a file without a commit: nothing in it was promised yet."""


class FrameKind(IntEnum):
    ENTRIES = 0
    SNAPSHOT = 1
    MARK = 2


KINDS = frozenset(FrameKind)


class JournalFrame(NamedTuple):
    kind: FrameKind
    number: int
    durable: int
    payload: bytes

    @property
    def size(self) -> int:
        return HEAD_SIZE + len(self.payload)


@dataclass(frozen=True, slots=True)
class LostEntries:
    """A range that was durable and is no longer sound: bytes of the file, and numbers of entries."""

    position: int
    end_position: int
    first: int
    next: int

    def __str__(self) -> str:
        entries = f"lost entries {self.first} to {self.next - 1}" if self.next > self.first else "is damaged"
        if self.position == self.end_position:
            return f"{entries}, which were durable and are not there from byte {self.position} on"
        return f"{entries}: bytes {self.position} to {self.end_position} were durable and are not sound any more"


@dataclass(slots=True)
class Replay:
    """The contents of a journal when it was opened."""

    snapshot: bytes | None = None
    entries: list[bytes] = field(default_factory=list)
    lost: list[LostEntries] = field(default_factory=list)
    next_number: int = 0
    sound_size: int = 0
    """Where the next frame is written."""
    torn_size: int = 0
    """Bytes behind it that are cut off: a tail that was never durable."""
    content_end: int = 0
    """The number after the last entry: only marks follow it."""
    ends_with_claim: bool = False
    """The last frame claims all entries before it."""
    reports: list[str] = field(default_factory=list)
    """What was lost or cut, and where the copy lies; for the owner to log."""

    def follows(self, frame: JournalFrame) -> bool:
        return self.sound_size == 0 or frame.number == self.next_number

    def take(self, frame: JournalFrame) -> None:
        self.next_number = frame.number + 1
        if frame.kind is FrameKind.SNAPSHOT:
            self.snapshot = frame.payload
        elif frame.kind is FrameKind.ENTRIES:
            entries = unpack_entries(frame.payload)
            self.entries += entries
            self.next_number = frame.number + len(entries)
        if frame.kind is not FrameKind.MARK:
            self.content_end = self.next_number
        self.ends_with_claim = frame.kind is not FrameKind.ENTRIES
        self.sound_size += frame.size

    def lose(self, end_position: int, next_number: int) -> None:
        self.lost.append(LostEntries(self.sound_size, end_position, self.next_number, next_number))
        self.sound_size, self.next_number = end_position, next_number
        self.content_end = next_number
        self.ends_with_claim = False


def pack_entries(entries: Sequence[bytes]) -> bytes:
    return b"".join(part for entry in entries for part in (LENGTH.pack(len(entry)), entry))


def unpack_entries(payload: bytes) -> list[bytes]:
    entries = []
    position = 0
    while position < len(payload):
        begin = position + LENGTH.size
        position = begin + LENGTH.unpack_from(payload, position)[0]
        entries.append(payload[begin:position])
    return entries


def encode_frame(kind: FrameKind, number: int, durable: int, payload: bytes = b"") -> bytes:
    head = HEAD.pack(MAGIC, VERSION, 0, len(payload), kind, number, durable)
    crc = crc32c(payload, crc32c(head[8:], crc32c(head[3:4])))
    return b"".join((head[:4], crc.to_bytes(4, "big"), head[8:], payload))


def decode_frame(data: Buffer, position: int) -> JournalFrame | None:
    """The frame at this position, or None when it is not sound."""
    if len(data) - position < HEAD_SIZE:
        return None
    magic, version, crc, length, kind, number, durable = HEAD.unpack_from(data, position)
    end = position + HEAD_SIZE + length
    view = memoryview(data)
    if magic != MAGIC or end > len(data) or crc32c(view[position + 8 : end], crc32c(bytes([version]))) != crc:
        return None
    if version != VERSION or kind not in KINDS:
        raise UnknownFormat(f"journal version {version}, kind {kind} is unknown; use the goqueue that wrote it")
    return JournalFrame(FrameKind(kind), number, durable, bytes(view[position + HEAD_SIZE : end]))


def replay(data: Buffer, *, claim: int = 0, is_new: bool = False) -> Replay:
    """Everything sound in a journal's file; in a new file, up to the first damage.

    `claim` is the number in the claim beside the file: every entry below it was durable.
    """
    found = Replay()
    if not data and not is_new:
        found.lose(0, max(1, claim))
    while found.sound_size < len(data):
        frame = decode_frame(data, found.sound_size)
        if frame is not None and found.follows(frame):
            found.take(frame)
            continue
        if is_new:
            break
        behind = _look_behind(data, found, claim)
        if found.sound_size and behind.claim <= found.next_number:
            break
        found.lose(behind.position, behind.number)
    if found.next_number < claim and not is_new:
        found.lose(len(data), claim)
    found.torn_size = len(data) - found.sound_size
    return found


class Behind(NamedTuple):
    """The first sound frame behind damage: its position and number; and the number below which all was durable."""

    position: int
    number: int
    claim: int


def _look_behind(data: Buffer, found: Replay, claim: int) -> Behind:
    first: tuple[int, int] | None = None
    for position, frame in _sound_frames(data, found.sound_size):
        if frame.number > found.next_number:
            first = first or (position, frame.number)
            claim = max(claim, frame.durable)
    return Behind(*(first or (len(data), max(found.next_number + 1, claim))), claim)


def _sound_frames(data: Buffer, position: int) -> Iterator[tuple[int, JournalFrame]]:
    raw = bytes(data)
    while (position := raw.find(MAGIC, position)) >= 0:
        frame = decode_frame(raw, position)
        if frame is not None:
            yield position, frame
        position += frame.size if frame is not None else 1
