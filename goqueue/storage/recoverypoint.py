"""The recovery point: what a start may take as known of a log, and so need not look at.

    0 "GQR"   3 version=1   4 CRC32C of what follows   8 msgpack map

It says up to which offset everything was fsynced, where the log begins, the newest leader epoch, and holds the
summary of the growing segment at that offset with the place from which its last, unfinished stretch has to be
scanned. It is replaced as a whole. When it is missing or damaged the growing segment is scanned from its beginning;
nothing is lost.
"""

from dataclasses import dataclass
from typing import Any

import msgpack
from crc32c import crc32c

from goqueue.storage.index import Place
from goqueue.storage.summary import HEAD_SIZE, History, SummaryHead, decode_head, decode_history
from goqueue.storage.volume import Volume
from goqueue.types import Microseconds, Offset

NAME = "recovery-point"
MAGIC_AND_VERSION = b"GQR\x01"
SIZE_MAX = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class RecoveryPoint:
    offset: Offset
    log_start: Offset
    leader_epoch: int
    append_time: Microseconds
    compacted_to: Offset
    scan_from: Place
    growing: bytes
    """The growing segment's summary, as in a seal; empty when there is none."""

    def growing_head(self) -> SummaryHead | None:
        return decode_head(self.growing)

    def growing_history(self, head: SummaryHead) -> History | None:
        return decode_history(head, self.growing[HEAD_SIZE:])


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
    await volume.replace(directory, NAME, [MAGIC_AND_VERSION, crc32c(packed).to_bytes(4, "big"), packed])


async def read_recovery_point(volume: Volume, directory: str) -> RecoveryPoint | None:
    """The recovery point, or None when there is no sound one."""
    try:
        data = await volume.read_whole(f"{directory}/{NAME}", SIZE_MAX)
    except FileNotFoundError:
        return None
    if data[:4] != MAGIC_AND_VERSION or crc32c(data[8:]).to_bytes(4, "big") != data[4:8]:
        return None
    fields: dict[str, Any] = msgpack.unpackb(data[8:])
    return RecoveryPoint(**{**fields, "scan_from": Place(*fields["scan_from"])})
