"""The sparse index of a segment: finds offsets, times and lanes, with one entry for each stretch of 4 KiB.

A stretch is a run of whole batches of at least 4 KiB. The index keeps 16 bytes for each, in two columns:

    places:  first offset relative to the segment's base (32 bits) | position in the file (32 bits)
    times:   highest timestamp from the segment's start to this stretch's end (56 bits) | priority mask (8 bits)

The second is a running maximum, so it never falls however clocks jump, and the first stretch whose maximum reaches
a time holds the first record of that time or later. A mask says which lanes have records in the stretch; in memory
the masks are a byte array of their own, so that the next stretch of a lane is found without a step of Python for
each. An index only says where a search begins: it is rebuilt from the log when missing or damaged, and reads return
the same.
"""

import re
import sys
from array import array
from bisect import bisect_left, bisect_right
from typing import NamedTuple

from goqueue.core.records.batch import Envelope
from goqueue.types import Microseconds

STRETCH_SIZE_MIN = 4_096
ENTRY_SIZE = 8
_LOW_32 = 0xFFFF_FFFF
_HOLDS = [
    re.compile(b"[" + b"".join(re.escape(bytes([mask])) for mask in range(256) if mask >> lane & 1) + b"]")
    for lane in range(8)
]
"""By lane: a pattern that matches any mask with this lane."""


class IndexColumns(NamedTuple):
    """The index as it is written: offset index and time index (8 bytes an entry), lane index (1 byte an entry)."""

    places: bytes
    times: bytes
    lanes: bytes


class IndexEntry(NamedTuple):
    """The beginning of a stretch."""

    relative_offset: int
    position: int


BEGINNING = IndexEntry(0, 0)


class SparseIndex:
    __slots__ = ("_lanes", "_places", "_times")

    def __init__(self) -> None:
        self._places = array("Q")
        self._times = array("Q")
        self._lanes = bytearray()

    def __len__(self) -> int:
        return len(self._places)

    def memory(self) -> int:
        """Bytes held."""
        return ENTRY_SIZE * (len(self._places) + len(self._times)) + len(self._lanes)

    def note(self, base_offset: int, position: int, envelope: Envelope) -> None:
        """Add the batch at this position; calls come in the order of positions."""
        time = envelope.highest_timestamp
        if not self._places or position - (self._places[-1] & _LOW_32) >= STRETCH_SIZE_MIN:
            highest = self._times[-1] if self._times else 0
            self._places.append((envelope.base_offset - base_offset) << 32 | position)
            self._times.append(max(highest, time))
            self._lanes.append(envelope.priority_mask)
        else:
            self._times[-1] = max(self._times[-1], time)
            self._lanes[-1] |= envelope.priority_mask

    def place_of_offset(self, relative_offset: int) -> IndexEntry:
        """The beginning of the stretch that may hold this offset."""
        entry = bisect_right(self._places, relative_offset << 32 | _LOW_32) - 1
        return self.place(entry) if entry >= 0 else BEGINNING

    def stretch_size(self, place: IndexEntry) -> int:
        """The size of the stretch that begins there; for the last one, which may still grow, the minimum."""
        following = bisect_right(self._places, place.relative_offset << 32 | _LOW_32)
        if following == len(self):
            return STRETCH_SIZE_MIN
        return (self._places[following] & _LOW_32) - place.position

    def place_of_time(self, time: Microseconds) -> IndexEntry | None:
        """The beginning of the first stretch with a timestamp of this time or later."""
        entry = bisect_left(self._times, time)
        return self.place(entry) if entry < len(self) else None

    def place_of_lane(self, lane: int, relative_offset: int = 0) -> IndexEntry | None:
        """The beginning of the first stretch with records of this lane, from the stretch of this offset on."""
        begin = bisect_right(self._places, relative_offset << 32 | _LOW_32) - 1
        found = _HOLDS[lane].search(self._lanes, max(0, begin))
        return None if found is None else self.place(found.start())

    def last_place(self) -> IndexEntry:
        return self.place(len(self) - 1) if len(self) else BEGINNING

    def place(self, entry: int) -> IndexEntry:
        """The beginning of the stretch of this number."""
        return IndexEntry(self._places[entry] >> 32, self._places[entry] & _LOW_32)

    def closed_columns(self, first: int = 0) -> IndexColumns:
        """Entries from `first` on that no later batch can change: all but the last."""
        return self._columns(first, max(first, len(self) - 1))

    def columns(self) -> IndexColumns:
        return self._columns(0, len(self))

    def _columns(self, first: int, last: int) -> IndexColumns:
        return IndexColumns(
            places=_big_endian(self._places[first:last]),
            times=_big_endian(self._times[first:last]),
            lanes=bytes(self._lanes[first:last]),
        )

    def load(self, columns: IndexColumns) -> None:
        self._places, self._times = _native(columns.places), _native(columns.times)
        self._lanes = bytearray(columns.lanes)


def _big_endian(values: "array[int]") -> bytes:
    values = values[:]
    if sys.byteorder == "little":
        values.byteswap()
    return values.tobytes()


def _native(raw: bytes) -> "array[int]":
    values = array("Q")
    values.frombytes(raw)
    if sys.byteorder == "little":
        values.byteswap()
    return values
