"""The sparse index of a segment: where offsets, times and lanes lie, one entry for each stretch of 4 KiB.

A stretch is a run of whole batches of at least 4 KiB. Of each the index keeps 16 bytes in two columns:

    places:  first offset relative to the segment's base (32 bits) | position in the file (32 bits)
    times:   highest timestamp from the segment's start to this stretch's end (56 bits) | priority mask (8 bits)

The second is a running maximum, so it rises however clocks jump, and the first stretch whose maximum reaches a time
holds the first record of that time or later. A mask says which lanes have records in the stretch. An index only
says where to begin to look: it is rebuilt from the log when missing or damaged, and reads stay the same.
"""

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from goqueue.core.batch import Envelope
from goqueue.types import Microseconds

STRETCH_SIZE_MIN = 4_096
ENTRY_SIZE = 8
_LOW_32 = 0xFFFF_FFFF


class IndexColumns(NamedTuple):
    """The index as it is written: offset index, time index (8 bytes an entry), lane index (1 byte)."""

    places: bytes
    times: bytes
    lanes: bytes


class Place(NamedTuple):
    """Where a stretch begins."""

    relative_offset: int
    position: int


BEGINNING = Place(0, 0)


class SparseIndex:
    def __init__(self) -> None:
        self._places = array("Q")
        self._times = array("Q")

    def __len__(self) -> int:
        return len(self._places)

    def memory(self) -> int:
        """Bytes held."""
        return ENTRY_SIZE * (len(self._places) + len(self._times))

    def note(self, base_offset: int, position: int, envelope: Envelope) -> None:
        """A batch lies at this position; notes come in order of position."""
        time = envelope.highest_timestamp << 8
        if not self._places or position - (self._places[-1] & _LOW_32) >= STRETCH_SIZE_MIN:
            highest = self._times[-1] & ~0xFF if self._times else 0
            self._places.append((envelope.base_offset - base_offset) << 32 | position)
            self._times.append(max(highest, time) | envelope.priority_mask)
        else:
            last = self._times[-1]
            self._times[-1] = max(last & ~0xFF, time) | (last & 0xFF) | envelope.priority_mask

    def place_of_offset(self, relative_offset: int) -> Place:
        """Where the stretch begins that holds this offset, if any does."""
        entry = bisect_right(self._places, relative_offset << 32 | _LOW_32) - 1
        return self.place(entry) if entry >= 0 else BEGINNING

    def place_of_time(self, time: Microseconds) -> Place | None:
        """Where the first stretch begins that has a timestamp of this time or later."""
        entry = bisect_left(self._times, time << 8)
        return self.place(entry) if entry < len(self) else None

    def places_of_lane(self, lane: int, from_position: int = 0) -> Iterator[Place]:
        """Where the stretches begin that hold records of this lane."""
        for entry, time in enumerate(self._times):
            place = self.place(entry)
            if time >> lane & 1 and place.position >= from_position:
                yield place

    def last_place(self) -> Place:
        return self.place(len(self) - 1) if len(self) else BEGINNING

    def place(self, entry: int) -> Place:
        """Where the stretch of this number begins."""
        return Place(self._places[entry] >> 32, self._places[entry] & _LOW_32)

    def closed_columns(self, first: int = 0) -> IndexColumns:
        """Entries from `first` on that no later batch can change: all but the last."""
        return self._columns(first, max(first, len(self) - 1))

    def columns(self) -> IndexColumns:
        return self._columns(0, len(self))

    def _columns(self, first: int, last: int) -> IndexColumns:
        times = self._times[first:last]
        return IndexColumns(
            places=_big_endian(self._places[first:last]),
            times=_big_endian(array("Q", (time >> 8 for time in times))),
            lanes=bytes(time & 0xFF for time in times),
        )

    def load(self, columns: IndexColumns) -> None:
        times = _native(columns.times)
        self._places = _native(columns.places)
        self._times = array("Q", (time << 8 | lane for time, lane in zip(times, columns.lanes, strict=True)))


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
