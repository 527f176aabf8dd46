"""The groups in a copy: in its metadata, and beside each log their ledgers, all as at the moment when the logs end.

Not later than the logs: a ledger would know of acks behind the end of the copied log and, worse, of the arrival of
a dead letter that the copied dead-letter topic lacks. Not earlier: the acks in between would be lost, and the
ledger would give numbers that the dead-letter topic has to other messages, which would be taken for repeats.

At one moment they are what a kill of the broker leaves, and groups can start from that: no earlier ack is lost,
nothing is skipped, each dead letter arrives once (G5). The copied logs end at the high watermark. A group that was
to begin behind that end is cut back to it when the partition opens.

A copy begins with a snapshot, and only that belongs to the backup: entries that a broker has written behind it,
when it was started on the backup, are not restored. Backups of earlier versions have the ledgers in a journal.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgpack
from crc32c import crc32c

from goqueue.core.metadata.metadata import GROUPS, with_groups
from goqueue.core.topics.metadata import MetadataRecord
from goqueue.errors import IncompleteCopy, UnknownFormat
from goqueue.storage.journals.file import FrameKind, decode_frame
from goqueue.storage.journals.journal import JOURNAL_SIZE_MAX
from goqueue.storage.log.volume import Volume
from goqueue.storage.snapshotlog.ledgers import FOLDER, JOURNAL, wall_of, write_log
from goqueue.storage.snapshotlog.reading import read_records

FIELD = "groups"
"""The field for groups in the metadata that the broker sends: [register, [[topic, partition, ledgers] …]]."""


@dataclass(frozen=True, slots=True)
class GroupsThen:
    """The groups at the moment of a backup, as snapshots."""

    registry: bytes | None
    """None from a broker that does not send its groups."""
    ledgers: dict[tuple[str, int], bytes]
    """By topic and partition, for the partitions that a group has read from."""


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


def add_groups(metadata: MetadataRecord, registry: bytes | None) -> tuple[MetadataRecord, int | None]:
    """The snapshot of topics with that of the groups, and the checksum by which a restore knows the groups."""
    if registry is None:
        return metadata, None
    return with_groups(metadata, msgpack.unpackb(registry)), crc32c(registry)


def groups_in(record: object, checksum: int) -> bytes | None:
    """The groups in a record of the metadata, if they have this checksum."""
    groups = record.get(GROUPS) if isinstance(record, dict) else None
    packed: bytes = msgpack.packb(groups)
    return packed if groups is not None and crc32c(packed) == checksum else None


def _by_place(ledgers: Iterable[Any]) -> dict[tuple[str, int], bytes]:
    return {(topic, partition): snapshot for topic, partition, snapshot, *_ in ledgers}


async def write_ledgers(volume: Volume, partition: str, snapshot: bytes) -> int:
    """Write the ledgers of a partition's groups beside its log. Returns their checksum."""
    await write_log(volume, f"{partition}/{FOLDER}", [snapshot], wall_of(snapshot))
    return crc32c(snapshot)


async def read_ledgers(volume: Volume, partition: str, checksum: int | None) -> bytes | None:
    """The snapshot that was written there with this checksum; None when there is no checksum."""
    if checksum is None or not volume.disk.is_directory(f"{partition}/{FOLDER}"):
        return await read_journal(volume, f"{partition}/{JOURNAL}", checksum)
    found = await read_records(volume, f"{partition}/{FOLDER}")
    first = found.items[0] if found.items else b""
    if isinstance(first, bytes) and crc32c(first) == checksum:
        return first
    raise IncompleteCopy(f"{partition}/{FOLDER} is not as it was when the backup was made; use another backup")


async def read_journal(volume: Volume, path: str, checksum: int | None) -> bytes | None:
    """The snapshot that was written there with this checksum; None when there is no checksum."""
    if checksum is None:
        return None
    data = await volume.read_whole(path, JOURNAL_SIZE_MAX) if volume.disk.exists(path) else b""
    frame = decode_frame(data, 0)
    if frame is None or frame.kind is not FrameKind.SNAPSHOT or crc32c(frame.payload) != checksum:
        raise IncompleteCopy(f"{path} is not as it was when the backup was made; use another backup")
    return frame.payload
