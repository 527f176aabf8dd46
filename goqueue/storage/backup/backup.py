"""Writing a copy of a broker's data into an empty directory: what a backup and a restore have in common.

    {copy}/incomplete     there from before the first file until after the last: who finds it has half a copy
    {copy}/backup.json    of a backup: what is in it; written when everything else is durable
    {copy}/…              a data directory like any other

Batches are written as they were, byte for byte, through the log itself: offsets, append times, leader epochs and
producers stay, indexes and seals are made anew. The mark is durable before anything else is written and goes when
everything is durable, so that a crash at any step leaves a directory that no broker starts on and no restore takes.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import reduce
from typing import Any
from uuid import UUID

from crc32c import crc32c

from goqueue.config import LogConfig
from goqueue.core.names import METADATA_LOG, SCHEMAS_LOG
from goqueue.core.records.batch import Envelope, seal_envelope
from goqueue.core.topics.metadata import KnownTopic, Metadata, MetadataRecord
from goqueue.environment import DirectoryLock
from goqueue.errors import DirectoryNotEmpty, IncompleteCopy, UnknownFormat
from goqueue.storage.backup.groups import write_ledgers
from goqueue.storage.checkedjson import is_sound, pack
from goqueue.storage.directory.datadirectory import INCOMPLETE, LOCK, Meta, write_meta
from goqueue.storage.directory.folders import TopicFolders
from goqueue.storage.directory.recordlog import write_new, write_pieces
from goqueue.storage.log.growing import CopiedBatch
from goqueue.storage.log.log import Log
from goqueue.storage.log.recoverypoint import empty_at, write_recovery_point
from goqueue.storage.log.volume import Volume
from goqueue.types import Microseconds, Offset

MANIFEST = "backup.json"
MANIFEST_SIZE_MAX = 64 * 1024 * 1024
MANIFEST_FORMAT = 1
SYNC_BYTES = 64 * 1024 * 1024
"""Limit of unsynced bytes of a partition's copy; then it is synced, so that what waits for the disk is bounded."""
GAP_MAX = 2**30
NOT_OURS = frozenset({"lost+found"})
WARNING = b"A copy is being made here, or was cut short. Nothing in this directory may be used; remove it all.\n"


@dataclass(frozen=True, slots=True)
class Lost:
    """Offsets of the original that it could no longer read."""

    offset: Offset
    end_offset: Offset


@dataclass(slots=True)
class CopiedPartition:
    """The contents of a copy of one partition."""

    topic: str
    uuid: str
    partition: int
    leader_epoch: int
    start: Offset
    end: Offset
    records: int = 0
    bytes: int = 0
    lost: list[Lost] = field(default_factory=list)
    ledgers_crc32c: int | None = None
    """Checksum of the snapshot of its groups' ledgers; None when no group has read from it."""


@dataclass(frozen=True, slots=True)
class Manifest:
    taken: Microseconds
    """When the broker said where each partition ends."""
    meta: Meta
    partitions: tuple[CopiedPartition, ...]
    groups_crc32c: int | None = None
    """Checksum of the snapshot of groups in the metadata; None in a backup without groups."""
    schemas_crc32c: int | None = None
    """Checksum of the snapshot of the schema registry; None in a backup without one."""

    def to_json(self) -> dict[str, Any]:
        return {
            "format": MANIFEST_FORMAT,
            "taken": self.taken,
            "cluster": str(self.meta.cluster),
            "node": self.meta.node,
            "groups_crc32c": self.groups_crc32c,
            "schemas_crc32c": self.schemas_crc32c,
            "partitions": [asdict(each) for each in self.partitions],
        }


class DirectoryCopy:
    """A copy that is being made of some partitions: begun by `begin`, and either finished or left as it is."""

    def __init__(self, volume: Volume, path: str, lock: DirectoryLock) -> None:
        self._volume = volume
        self.path = path
        self._lock = lock
        self._folders = TopicFolders(volume, path, lambda _: None)

    @classmethod
    async def begin(cls, volume: Volume, path: str) -> "DirectoryCopy":
        check_empty(volume, path)
        await volume.make_directories(path)
        lock = volume.disk.lock(f"{path}/{LOCK}")
        try:
            check_empty(volume, path, LOCK)
            await volume.replace(path, INCOMPLETE, [WARNING])
        except BaseException:
            lock.release()
            raise
        return cls(volume, path, lock)

    async def partition(self, topic: KnownTopic, copied: CopiedPartition) -> "PartitionCopy":
        await self._folders.sign(topic, copied.partition)
        folder = self._folders.partition(topic, copied.partition)
        return PartitionCopy(self._volume, folder, topic.config.to_log_config(), copied)

    async def leave_out(self, topic: KnownTopic) -> None:
        """Remove the copy of a topic that was deleted meanwhile."""
        folder = self._folders.topic(topic.name)
        for number in self._volume.disk.list(folder):
            for name in self._volume.disk.list(f"{folder}/{number}"):
                self._volume.disk.remove(f"{folder}/{number}/{name}")
            self._volume.disk.remove_directory(f"{folder}/{number}")
        self._volume.disk.remove_directory(folder)
        self._volume.forget_folders(folder)

    async def add_registry(self, pieces: Sequence[bytes], now: Microseconds) -> int | None:
        """The schema registry at the moment of the backup. Returns its checksum; None when there is none."""
        if not pieces:
            return None
        await write_pieces(self._volume, f"{self._folders.topic(SCHEMAS_LOG)}/0", pieces, now)
        return reduce(lambda before, piece: crc32c(piece, before), pieces, 0)

    async def finish(self, metadata: MetadataRecord, meta: Meta, now: Microseconds, about: Manifest | None) -> None:
        """Everything is copied: write the files that say so, in the order that makes a crash harmless."""
        await write_new(self._volume, f"{self._folders.topic(METADATA_LOG)}/0", metadata, now)
        await write_meta(self._volume, self.path, meta)
        if about is not None:
            await self._volume.replace(self.path, MANIFEST, [pack(about.to_json(), indent=1)])
        self._volume.disk.remove(f"{self.path}/{INCOMPLETE}")
        await self._volume.sync(directories=[self.path])

    def release(self) -> None:
        self._lock.release()


def check_empty(volume: Volume, path: str, *allowed: str) -> None:
    """Raises unless the directory is missing, or empty but for what a file system puts there itself."""
    if not volume.disk.exists(path):
        return
    if not volume.disk.is_directory(path):
        raise DirectoryNotEmpty(f"{path} is no directory; choose another place")
    names = set(volume.disk.list(path)) - NOT_OURS - {*allowed}
    if INCOMPLETE in names:
        raise DirectoryNotEmpty(f"{path} holds a copy that was cut short; remove all that is in it")
    if names:
        raise DirectoryNotEmpty(f"{path} holds {min(names)} and is not empty; choose an empty or a new directory")


class PartitionCopy:
    """Takes the batches of one partition, from `copied.start` to `copied.end`, in order."""

    def __init__(self, volume: Volume, folder: str, config: LogConfig, copied: CopiedPartition) -> None:
        self._volume = volume
        self._folder = folder
        self._config = config
        self._log: Log | None = None
        self._last: Envelope | None = None
        """The batch that was written last: the copy ends with it."""
        self._unsynced = 0
        self.copied = copied
        self.position = copied.start
        """The offset that is wanted next."""

    async def add(self, batches: Sequence[CopiedBatch]) -> None:
        """Batches in their order. Those before the start or behind the end are skipped."""
        wanted: list[CopiedBatch] = []
        for batch in batches:
            wanted += self._wanted(batch)
        if not wanted:
            return
        log = self._log or await self._open(wanted[0].envelope.base_offset)
        log.append_copied(wanted)
        self._count(wanted)
        if self._unsynced >= SYNC_BYTES:
            self._unsynced = 0
            await log.checkpoint()

    def _wanted(self, batch: CopiedBatch) -> list[CopiedBatch]:
        """The batches to write for it. Compaction may have let an empty batch swallow its neighbours since."""
        envelope = batch.envelope
        written = self.position if self._last is None else self._last.end_offset
        begin, end = max(envelope.base_offset, written), min(envelope.end_offset, self.copied.end)
        if begin >= end:
            return []
        if not envelope.record_count and (begin, end) != (envelope.base_offset, envelope.end_offset):
            batch = _empty(envelope, begin, end)
        gap = self._gap_before(batch.envelope.base_offset)
        self._last = batch.envelope
        self.position = end
        return [*gap, batch]

    def _gap_before(self, base: Offset) -> list[CopiedBatch]:
        """A log may begin inside a batch, which it holds whole; and its start may have moved meanwhile."""
        if base > self.position or (self._last is not None and base < self._last.end_offset):
            raise IncompleteCopy(
                f"{self._folder}: offset {self.position} is missing, the next batch begins at {base}; "
                "run `goqueue log verify` on the original"
            )
        return [] if self._last is None else _empties(self._last, self._last.end_offset, base)

    def _count(self, batches: Sequence[CopiedBatch]) -> None:
        size = sum(each.envelope.size for each in batches)
        self._unsynced += size
        self.copied.bytes += size
        self.copied.records += sum(each.envelope.record_count for each in batches)

    async def pass_over(self, end_offset: Offset) -> None:
        """The original cannot read the offsets up to `end_offset`; they stay, so empty batches stand for them."""
        end_offset = min(end_offset, self.copied.end)
        self.copied.lost.append(Lost(self.position, end_offset))
        like = self._last or _nothing(self.copied.leader_epoch)
        await self.add(_empties(like, self.position, end_offset))

    def begin_later(self, start: Offset) -> None:
        """Retention or a purge of the original removed what lies before `start` while it was copied."""
        self.copied.start = self.position = min(start, self.copied.end)

    async def finish(self) -> CopiedPartition:
        if self.position < self.copied.end:
            raise IncompleteCopy(f"{self._folder} ends at {self.position}, before offset {self.copied.end}")
        if self._last is not None:  # everything may have gone while it was copied
            await self.add(_empties(self._last, self._last.end_offset, self.copied.end))
        log = self._log or await self._open(self.copied.end)
        log.advance_high_watermark(await log.commit())
        if self.copied.start > log.log_start:
            await log.delete_before(self.copied.start)
        await log.close()
        return self.copied

    async def add_ledgers(self, snapshot: bytes | None) -> None:
        """The progress of groups on it, at the moment at which the copied log ends."""
        if snapshot is not None:
            self.copied.ledgers_crc32c = await write_ledgers(self._volume, self._folder, snapshot)

    async def _open(self, base: Offset) -> Log:
        """An empty log whose next offset is `base`."""
        await write_recovery_point(self._volume, self._folder, empty_at(base, self.copied.leader_epoch))
        self._log = await Log.open(self._volume, self._folder, self._config)
        return self._log

    def abandon(self) -> None:
        if self._log is not None:
            self._log.abandon()


def _nothing(leader_epoch: int) -> Envelope:
    return Envelope(0, 0, 0, 0, leader_epoch, 0, 0, 0, 0, 0, 0, 0, 0, 0)


def _empty(like: Envelope, begin: Offset, end: Offset) -> CopiedBatch:
    """A batch without records for these offsets, as compaction leaves one."""
    envelope = Envelope(
        length=0,
        last_offset_delta=end - begin - 1,
        base_offset=begin,
        record_count=0,
        leader_epoch=like.leader_epoch,
        attributes=0,
        priority_mask=0,
        producer_epoch=0,
        producer_id=0,
        base_sequence=0,
        body_crc=crc32c(b""),
        highest_timestamp=0,
        append_time=like.append_time,
        durable_offset=min(like.durable_offset, begin),
    )
    return CopiedBatch(envelope, seal_envelope(envelope))


def _empties(like: Envelope, begin: Offset, end: Offset) -> list[CopiedBatch]:
    return [_empty(like, each, min(each + GAP_MAX, end)) for each in range(begin, end, GAP_MAX)]


def without(metadata: MetadataRecord, names: set[str]) -> MetadataRecord:
    """The metadata without these topics, which were deleted meanwhile."""
    topics = Metadata()
    topics.apply(metadata)
    for name in names:
        topics.apply(topics.delete_topic(name, by_broker=True))
    return topics.snapshot()


def parse_manifest(path: str, data: bytes) -> Manifest:
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError):
        fields = None
    if not (isinstance(fields, dict) and "crc32c" in fields and is_sound(fields)):
        raise IncompleteCopy(f"{path}/{MANIFEST} is damaged; use another backup")
    found = fields.get("format")
    if found != MANIFEST_FORMAT:
        raise UnknownFormat(f"{path} is a backup of format {found!r}; this goqueue reads {MANIFEST_FORMAT}")
    meta = Meta(UUID(fields["cluster"]), fields["node"])
    partitions = tuple(map(_partition_of, fields["partitions"]))
    return Manifest(fields["taken"], meta, partitions, fields.get("groups_crc32c"), fields.get("schemas_crc32c"))


def _partition_of(fields: dict[str, Any]) -> CopiedPartition:
    return CopiedPartition(**{**fields, "lost": [Lost(**each) for each in fields["lost"]]})
