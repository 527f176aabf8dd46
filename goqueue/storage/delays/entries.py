"""The file format of a partition's delay index, and the replay of such a file.

A header, then entries:

     0 "GQD"   3 version=1   4 CRC32C of the version and of everything behind this field   8 zero (8)

     0 at: the offset of the log's record that caused it     8 offset of the delayed original
    16 time: when it is due, or when it ended
    24 state: 0 mark, 1 pending, 2 delivered, 3 cancelled, 4 expired, 5 hidden (1)
    25 carried over by a compaction: 0 or 1 (1)             26 zero (2)
    28 CRC32C of the 28 bytes before it, lowest byte first (4)

Entries are written in the order of the log. So an entry says that everything in the log below its `at` is applied,
and every sound prefix of the file is true and says up to which offset. A mark says only that. An entry that a
compaction carried over does not say it; the mark behind the last of them does. A pending entry for an offset that
is already pending gives it another due time; a delay that has ended stays ended.

A compaction also carries over the offsets that are never delivered: all originals, and the records that move or
cancel one. A hidden entry names 64 offsets from its `offset` on by the bits of its `time`, the lowest first. For
entries that are not carried over, the entries themselves name these offsets: the original, and the move or cancel.

Since the checksum ends an entry with its lowest byte first, the CRC32C of a whole sound entry is always the same
number, and so is that of n sound entries in sequence. So one call checks a piece of the file, and only an unsound
piece is checked entry by entry: a million entries take milliseconds.
"""

import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress, islice
from operator import le, not_
from struct import Struct

from crc32c import crc32c

from goqueue.core.delays.pending import DelayChange, DelayState
from goqueue.core.offsetset import OffsetSet
from goqueue.errors import UnknownFormat
from goqueue.types import Microseconds, Offset

MAGIC = b"GQD"
VERSION = 1
HEADER_SIZE = 16
ENTRY_SIZE = 32
PIECE_SIZE = 4_096 * ENTRY_SIZE

_HEADER = Struct(">3sBI8s")
_BODY = Struct(">QQQBB2x")
_CHECKSUM = Struct("<I")
_ENTRY = Struct(">QQQBB2x4s")
_STATE, _CARRIED = 24, 25


_KNOWN = bytes(DelayState)
_IS_PENDING = bytes(state == DelayState.PENDING for state in range(256))
_IS_CANCELLED = bytes(state == DelayState.CANCELLED for state in range(256))
_IS_HIDDEN = bytes(state == DelayState.HIDDEN for state in range(256))
_NOT_ENDED = bytes((DelayState.MARK, DelayState.PENDING, DelayState.HIDDEN))
_HAS_ENDED = bytes(state not in _NOT_ENDED for state in range(256))


def encode_header() -> bytes:
    rest = bytes(8)
    return _HEADER.pack(MAGIC, VERSION, crc32c(rest, crc32c(bytes([VERSION]))), rest)


def is_header(data: bytes) -> bool:
    """Whether the header is sound. A sound header of another version is an error: a newer goqueue wrote it."""
    if len(data) < HEADER_SIZE:
        return False
    magic, version, checksum, rest = _HEADER.unpack_from(data)
    if magic != MAGIC or crc32c(rest, crc32c(bytes([version]))) != checksum:
        return False
    if version != VERSION:
        raise UnknownFormat(f"delay index version {version} is unknown; use the goqueue that wrote it")
    return True


def encode_entries(entries: Iterable[DelayChange], *, is_carried: bool = False) -> bytes:
    bodies = [_BODY.pack(at, offset, time, state, is_carried) for state, offset, time, at in entries]
    return b"".join([part for body in bodies for part in (body, _CHECKSUM.pack(crc32c(body)))])


def encode_mark(applied_to: Offset) -> bytes:
    return encode_entries([DelayChange(DelayState.MARK, 0, 0, applied_to)])


def encode_hidden(words: Iterable[tuple[Offset, int]]) -> bytes:
    return encode_entries(
        [DelayChange(DelayState.HIDDEN, base, word, base) for base, word in words], is_carried=True
    )


def decode_entries(piece: bytes, count: int) -> Iterator[tuple[DelayChange, bool]]:
    """The first `count` entries of a piece, which must be sound, and whether each was carried over."""
    for at, offset, time, state, is_carried, _ in _ENTRY.iter_unpack(piece[: count * ENTRY_SIZE]):
        yield DelayChange(DelayState(state), offset, time, at), bool(is_carried)


_SOUND = encode_mark(0)
_SOUND_CRC = crc32c(_SOUND)


def _sound_count(piece: bytes) -> int:
    """The number of entries before the first unsound one."""
    count = len(piece) // ENTRY_SIZE
    if crc32c(piece[: count * ENTRY_SIZE]) == crc32c(_SOUND * count):
        return count
    places = range(0, count * ENTRY_SIZE, ENTRY_SIZE)
    crcs = (crc32c(piece[place : place + ENTRY_SIZE]) for place in places)
    return next((number for number, crc in enumerate(crcs) if crc != _SOUND_CRC), count)


class _Columns:
    """A piece of sound entries, taken apart at the speed of C."""

    def __init__(self, piece: bytes) -> None:
        words = array("Q", piece)
        if sys.byteorder == "little":
            words.byteswap()
        self.ats, self.offsets, self.times = words[0::4], words[1::4], words[2::4]
        self.states, self.carried = piece[_STATE::ENTRY_SIZE], piece[_CARRIED::ENTRY_SIZE]

        self.claims = array("Q", compress(self.ats, map(not_, self.carried))) if any(self.carried) else self.ats

    def select(self, column: "array[int]", table: bytes) -> "array[int]":
        """The column of those entries whose state the table names."""
        selectors = self.states.translate(table)
        return array("Q", compress(column, selectors)) if 0 in selectors else column


class DelayReplay:
    """The state that the sound beginning of a file describes, read piece by piece."""

    def __init__(self) -> None:
        self.applied_to: Offset | None = None
        """Everything in the log below it is applied; None while no entry says so."""
        self.log_end_min: Offset = 0
        """The lowest end offset that the log can have."""
        self.count = 0
        self._offsets, self._dues = array("Q"), array("Q")
        """Offsets and first due times of all that became pending, in that order."""
        self._moved: dict[Offset, Microseconds] = {}
        self._begun, self._over, self._hidden = OffsetSet(), OffsetSet(), OffsetSet()
        self._ended: array[int] = array("Q")
        self._ended_times, self._ended_ats, self._ended_states = array("Q"), array("Q"), bytearray()

    def take(self, piece: bytes) -> bool:
        """Whether the piece is whole entries, all sound and in order. From the first bad one on it is ignored."""
        sound = _sound_count(piece)
        columns = _Columns(piece[: sound * ENTRY_SIZE])
        count = self._count_in_order(columns)
        if count < sound:
            columns = _Columns(piece[: count * ENTRY_SIZE])
        self._apply(columns)
        self.count += count
        return count * ENTRY_SIZE == len(piece)

    def _count_in_order(self, columns: _Columns) -> int:
        """Entries that do not follow those before them belong to an older file, and were left by a crash."""
        claims, last, count = columns.claims, self.applied_to or 0, len(columns.ats)
        if not claims or (claims[0] >= last and all(map(le, claims, islice(claims, 1, None)))):
            return count
        for number, (at, is_carried) in enumerate(zip(columns.ats, columns.carried, strict=True)):
            if not is_carried:
                if at < last:
                    return number
                last = at
        return count

    def _apply(self, columns: _Columns) -> None:
        if columns.states.translate(None, _KNOWN):
            raise UnknownFormat("a delay index has entries of an unknown kind; use the goqueue that wrote it")
        self._note_pending(columns.select(columns.offsets, _IS_PENDING), columns.select(columns.times, _IS_PENDING))
        ended = columns.select(columns.offsets, _HAS_ENDED)
        self._over.update(OffsetSet.of(ended))
        self._ended += ended
        self._ended_times += columns.select(columns.times, _HAS_ENDED)
        self._ended_ats += columns.select(columns.ats, _HAS_ENDED)
        self._ended_states += columns.states.translate(None, _NOT_ENDED)
        self._note_hidden(columns)
        if claims := columns.claims:
            self.applied_to = claims[-1]
            is_mark = columns.states[-1] == DelayState.MARK  # only those that come first are carried over
            self.log_end_min = claims[-1] if is_mark else claims[-1] + 1

    def _note_hidden(self, columns: _Columns) -> None:
        """Besides the originals: the records that moved or cancelled one, and those that were carried over."""
        said_at = columns.select(columns.ats, _IS_PENDING)
        if said_at != columns.select(columns.offsets, _IS_PENDING):  # else each is the original itself
            self._hidden.update(OffsetSet.of(said_at))
        self._hidden.update(OffsetSet.of(columns.select(columns.ats, _IS_CANCELLED)))
        bases, words = columns.select(columns.offsets, _IS_HIDDEN), columns.select(columns.times, _IS_HIDDEN)
        for base, word in zip(bases, words, strict=True):
            self._hidden.add_mask(base, word)

    def _note_pending(self, offsets: "array[int]", dues: "array[int]") -> None:
        """For a message that was rescheduled, the last due time counts."""
        new = OffsetSet.of(offsets)
        if len(new) == len(offsets) and not len(self._begun.common(new)):
            self._offsets += offsets
            self._dues += dues
            self._begun.update(new)
            return
        for offset, due in zip(offsets, dues, strict=True):
            if self._begun.add(offset, offset):
                self._offsets.append(offset)
                self._dues.append(due)
            else:
                self._moved[offset] = due

    def pending(self) -> OffsetSet:
        return self._begun.without(self._over)

    def hidden(self) -> OffsetSet:
        """The offsets that are never delivered."""
        found = self._hidden.copy()
        found.update(self._begun)
        found.update(self._over)
        return found

    def pending_pieces(self, size: int) -> Iterator[tuple["array[int]", "array[int]"]]:
        """Offsets and due times of what is pending, in the order in which it became pending, `size` at a time."""
        pending, moved = self.pending(), self._moved
        for begin in range(0, len(self._offsets), size):
            offsets, dues = self._offsets[begin : begin + size], self._dues[begin : begin + size]
            if moved:
                dues = array("Q", map(moved.get, offsets, dues))
            if self._ended:
                stays = [offset in pending for offset in offsets]
                offsets, dues = array("Q", compress(offsets, stays)), array("Q", compress(dues, stays))
            yield offsets, dues

    def newest_ended(self, count_max: int) -> list[DelayChange]:
        """The last delays that have ended, in the order of the log, each once."""
        columns: list[Sequence[int]] = [self._ended_states, self._ended, self._ended_times, self._ended_ats]
        rows = zip(*(column[-count_max:] for column in columns), strict=True)
        entries = [DelayChange(DelayState(state), offset, time, at) for state, offset, time, at in rows]
        return list({entry.offset: entry for entry in entries}.values())
