"""Finds the records of many batches with NumPy in a few passes, whatever their sizes.

A record begins with three bytes that are always the same. All positions of these bytes are found, and in a batch
with as many of them as records they are the records. If there are more, a value holds these bytes, too, and the
batch is walked record by record, by their lengths. So nothing is ever guessed.

A batch has been checked by its CRC; that its records are sound was checked when the broker took it.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from goqueue.core.records.record import HEADER_SIZE, MAGIC, VERSION, walk_records
from goqueue.spark.json.arrow import Longs, Truths
from goqueue.types import Buffer

HEAD = np.dtype(
    {
        "names": ["flags", "relative_offset", "timestamp", "priority", "key_size", "value_size"],
        "formats": ["u1", ">i8", ">i8", "u1", ">u2", ">u4"],
        "offsets": [3, 8, 16, 24, 26, 28],
        "itemsize": HEADER_SIZE,
    }
)
_FIRST, _SECOND, _THIRD = *MAGIC.to_bytes(2, "big"), VERSION


class Bodies(NamedTuple):
    """Uncompressed records of batches in one piece of memory, with or without gaps between the batches."""

    data: Buffer
    starts: Longs
    ends: Longs
    counts: Longs


class FoundRecords(NamedTuple):
    positions: Longs
    """The position of each record, in order; as many for each batch as its envelope counts."""
    heads: npt.NDArray[np.void]
    """Their headers, as `HEAD`."""


def find_records(bodies: Bodies) -> FoundRecords:
    positions = _starts_in(bodies.data)
    firsts, afters = np.searchsorted(positions, bodies.starts), np.searchsorted(positions, bodies.ends)
    is_plain: Truths = afters - firsts == bodies.counts
    if not is_plain.all() or len(positions) > bodies.counts.sum():
        pieces = [
            positions[first:after] if plain else _walked(bodies, number)
            for number, (first, after, plain) in enumerate(zip(firsts, afters, is_plain, strict=True))
        ]
        positions = np.concatenate(pieces)
    return FoundRecords(positions, heads_at(bodies.data, positions))


def heads_at(data: Buffer, positions: Longs) -> npt.NDArray[np.void]:
    """Copies of the headers at these positions: selected from overlapping views at every byte, as plain bytes
    first, since fields would be copied one by one.
    """
    places = max(0, len(data) - HEADER_SIZE + 1)
    if not places:
        return np.empty(0, HEAD)
    return np.ndarray(places, f"V{HEADER_SIZE}", data, strides=(1,))[positions].view(HEAD)


def _starts_in(data: Buffer) -> Longs:
    """Each position with the first bytes of a record and room for a header.

    One pass over all bytes, for the second one, since a Q is rarer in text than a G and in numbers than a 1.
    """
    every = np.frombuffer(data, np.uint8)
    places = max(0, len(every) - HEADER_SIZE + 1)
    found = np.flatnonzero(every[1 : places + 1] == _SECOND)
    is_start: Truths = (every[found] == _FIRST) & (every[found + 2] == _THIRD)
    return found[is_start]


def _walked(bodies: Bodies, number: int) -> Longs:
    start, end, count = (int(each[number]) for each in bodies[1:])
    body = memoryview(bodies.data)[start:end]
    return start + np.fromiter((place.position for place in walk_records(body, count)), np.int64, count)
