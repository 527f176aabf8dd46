"""The recovery point: the state of a log that a start can rely on, without a scan.

    0 "GQR"   3 version=1   4 CRC32C of everything else   8 msgpack map

It holds the offset below which everything was fsynced, the start of the log, the newest leader epoch, and the
summary of the growing segment at that offset with the position from which its last, unfinished stretch has to be
scanned. It is replaced as a whole. When it is missing or damaged the growing segment is scanned from its beginning;
nothing is lost.
"""

from dataclasses import dataclass
from typing import Any

import msgpack
from crc32c import crc32c

from goqueue.storage.log.index import BEGINNING, IndexEntry
from goqueue.storage.log.summary import HEAD_SIZE, History, SummaryHead, decode_head, decode_history
from goqueue.storage.log.volume import Volume
from goqueue.types import Microseconds, Offset

NAME = "recovery-point"
MAGIC = b"GQR"
VERSION = 1
_MAGIC_AND_VERSION = MAGIC + bytes([VERSION])
SIZE_MAX = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class RecoveryPoint:
    offset: Offset
    log_start: Offset
    leader_epoch: int
    append_time: Microseconds
    compacted_to: Offset
    scan_from: IndexEntry
    growing: bytes
    """The growing segment's summary, as in a seal; empty when there is none."""

    def growing_head(self) -> SummaryHead | None:
        return decode_head(self.growing)

    def growing_history(self, head: SummaryHead) -> History | None:
        return decode_history(head, self.growing[HEAD_SIZE:])


def empty_at(offset: Offset, leader_epoch: int = 0) -> RecoveryPoint:
    """The recovery point of a log without segments that begins and goes on at this offset."""
    return RecoveryPoint(
        offset=offset,
        log_start=offset,
        leader_epoch=leader_epoch,
        append_time=0,
        compacted_to=0,
        scan_from=BEGINNING,
        growing=b"",
    )


async def write_recovery_point(volume: Volume, directory: str, point: RecoveryPoint) -> None:
    packed = msgpack.packb(
        {
            "offset": point.offset,
            "log_start": point.log_start,
            "leader_epoch": point.leader_epoch,
            "append_time": point.append_time,
            "compacted_to": point.compacted_to,
            "scan_from": list(point.scan_from),
            "growing": point.growing,
        }
    )
    await volume.replace(directory, NAME, [_MAGIC_AND_VERSION, _crc(_MAGIC_AND_VERSION, packed), packed])


async def read_recovery_point(volume: Volume, directory: str) -> RecoveryPoint | None:
    """The recovery point, or None when there is no sound one."""
    try:
        data = await volume.read_whole(f"{directory}/{NAME}", SIZE_MAX)
    except FileNotFoundError:
        return None
    if sound_version(data) != VERSION:
        return None
    fields: dict[str, Any] = msgpack.unpackb(data[8:])
    return RecoveryPoint(**{**fields, "scan_from": IndexEntry(*fields["scan_from"])})


def sound_version(data: bytes) -> int | None:
    """The version of a recovery point that matches its checksum, known or not."""
    if data[:3] != MAGIC or len(data) < 8 or _crc(data[:4], data[8:]) != data[4:8]:
        return None
    return data[3]


def _crc(magic_and_version: bytes, packed: bytes) -> bytes:
    return crc32c(packed, crc32c(magic_and_version)).to_bytes(4, "big")
