"""The groups in a copy: their register, and beside each log its ledgers; all of the moment at which the logs end.

Not later than the logs: a ledger would know of acks behind the end of the copied log and, worse, that a dead letter
arrived which the copied dead-letter topic lacks. Not earlier: acks of that time would be lost, and the dead-letter
topic would have numbers that the ledger gives out again for other messages, which would be taken for repeats.

At one moment they are what a kill of the broker leaves, and groups are made to start from that: no ack from before
is lost, nothing is skipped, each dead letter arrives once (G5). The copied logs end at what readers saw. A group
that was to begin behind that end is cut back to it when the partition opens.

A copied journal is a single frame, the snapshot. Only that is the backup's: what a broker that was started on the
backup has written behind it is not restored.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgpack
from crc32c import crc32c

from goqueue.core.topics.metadata import MetadataRecord
from goqueue.errors import IncompleteCopy, UnknownFormat
from goqueue.storage.journals.file import FrameKind, decode_frame, encode_frame
from goqueue.storage.journals.journal import JOURNAL_SIZE_MAX
from goqueue.storage.log.volume import Volume

FIELD = "groups"
"""Beside the topics, as they travel to whoever makes a backup: [register, [[topic, partition, ledgers] …]]."""


@dataclass(frozen=True, slots=True)
class GroupsThen:
    """The groups at the moment of a backup, each journal by the snapshot that stands for it."""

    registry: bytes | None
    """None of a broker that does not say."""
    ledgers: dict[tuple[str, int], bytes]
    """By topic and partition; of those that a group has read from."""


def pack_with(metadata: MetadataRecord, groups: GroupsThen) -> bytes:
    ledgers = [[*place, snapshot] for place, snapshot in groups.ledgers.items()]
    packed: bytes = msgpack.packb({**metadata, FIELD: [groups.registry, ledgers]})
    return packed


def unpack(data: bytes) -> tuple[MetadataRecord, GroupsThen]:
    metadata = msgpack.unpackb(data)
    try:
        registry, ledgers, *_ = metadata.pop(FIELD, (None, ()))
        return metadata, GroupsThen(registry, _by_place(ledgers))
    except (TypeError, ValueError, AttributeError) as error:
        raise UnknownFormat("the broker tells its groups in another way; back up with its own goqueue") from error


def _by_place(ledgers: Iterable[Any]) -> dict[tuple[str, int], bytes]:
    return {(topic, partition): snapshot for topic, partition, snapshot, *_ in ledgers}


async def write_journal(volume: Volume, directory: str, name: str, snapshot: bytes) -> int:
    """A journal that begins with this snapshot, durably. The checksum by which a restore knows it again."""
    await volume.make_directories(directory)
    await volume.replace(directory, name, [encode_frame(FrameKind.SNAPSHOT, 0, 1, snapshot)])
    return crc32c(snapshot)


async def read_journal(volume: Volume, path: str, checksum: int | None) -> bytes | None:
    """The snapshot that was written there under this checksum; None when none was."""
    if checksum is None:
        return None
    data = await volume.read_whole(path, JOURNAL_SIZE_MAX) if volume.disk.exists(path) else b""
    frame = decode_frame(data, 0)
    if frame is None or frame.kind is not FrameKind.SNAPSHOT or crc32c(frame.payload) != checksum:
        raise IncompleteCopy(f"{path} is not as it was when the backup was made; use another backup")
    return frame.payload
