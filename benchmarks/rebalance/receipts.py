"""What a consumer received and when, in a file that a kill does not tear.

All processes of one machine read the same monotonic clock, so times of different ones can be compared.
"""

import os
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import goqueue

LAYOUT = struct.Struct("<dIQd")
"""When it was received, partition, offset, when it was published."""


class Receipt(NamedTuple):
    at: float
    seat: int
    """Whose it is: a seat is a consumer's place in the run, whatever processes take it one after the other."""
    partition: int
    offset: int
    published: float


def note(file: int, at: float, messages: Sequence[goqueue.DeliveredMessage]) -> None:
    """One write: what the system has taken outlives the process."""
    os.write(file, b"".join(LAYOUT.pack(at, each.partition, each.offset, float(each.value)) for each in messages))


def receipts_in(path: Path, seat: int) -> Iterator[Receipt]:
    for at, partition, offset, published in LAYOUT.iter_unpack(path.read_bytes()):
        yield Receipt(at, seat, partition, offset, published)
