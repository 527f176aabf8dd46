"""The work of `backup` and `restore`, without input and output."""

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from uuid import UUID

import trio

from goqueue.actors.runtime.concurrently import concurrently
from goqueue.client.client import Client
from goqueue.client.reading.snapshot import Batches, RemovedPiece, piece_at, registry_pieces, take_snapshot
from goqueue.core.topics.metadata import KnownTopic, Metadata, MetadataRecord
from goqueue.environment import Disk
from goqueue.errors import UnknownTopic
from goqueue.net.wire import messages as wire
from goqueue.nursery import PlainNursery
from goqueue.storage.backup.backup import CopiedPartition, DirectoryCopy, Manifest, PartitionCopy, without
from goqueue.storage.backup.groups import add_groups, unpack
from goqueue.storage.backup.source import BackupSource
from goqueue.storage.directory.datadirectory import Meta
from goqueue.storage.log.growing import CopiedBatch
from goqueue.storage.log.volume import Volume
from goqueue.storage.verification.segmentcheck import ScanProgress

WIDTH = 8
"""Maximum number of partitions that are copied at a time."""


@dataclass(slots=True)
class CopyOutcome:
    """The contents of a backup or a restore."""

    manifest: Manifest
    deleted: list[str] = field(default_factory=list)
    """Topics that were deleted while the backup was made; they are not in it."""


@asynccontextmanager
async def mounted(disk: Disk) -> AsyncIterator[Volume]:
    volume = Volume(disk)
    async with PlainNursery() as nursery:
        await nursery.start(volume.run)
        try:
            yield volume
        finally:
            volume.close()
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def _copy_into(volume: Volume, path: str) -> AsyncIterator[DirectoryCopy]:
    copy = await DirectoryCopy.begin(volume, path)
    try:
        yield copy
    finally:
        copy.release()


# Backup


async def back_up(client: Client, disk: Disk, path: str, progress: ScanProgress) -> CopyOutcome:
    """Copy everything that the broker has at this moment into an empty directory."""
    async with mounted(disk) as volume, _copy_into(volume, path) as copy:
        snapshot = await take_snapshot(client)
        return await _Backup(client, copy, snapshot, await registry_pieces(client, snapshot), progress).run()


class _Backup:
    def __init__(
        self,
        client: Client,
        copy: DirectoryCopy,
        snapshot: wire.Snapshot,
        registry: Sequence[bytes],
        progress: ScanProgress,
    ) -> None:
        self._client = client
        self._copy = copy
        self._snapshot = snapshot
        self._registry = registry
        self._progress = progress
        self._metadata: MetadataRecord
        self._metadata, self._groups = unpack(snapshot.metadata)
        self._deleted: set[str] = set()
        self._copied: list[CopiedPartition] = []

    async def run(self) -> CopyOutcome:
        topics = Metadata()
        topics.apply(self._metadata)
        points = [(topics.topic(each.name), point) for each in self._snapshot.topics for point in each.partitions]
        self._progress.begin(sum(point.end - point.start for _, point in points))
        await concurrently(lambda item: self._copy_partition(*item), points, WIDTH)
        for name in self._deleted:
            await self._copy.leave_out(topics.topic(name))
        return await self._finish()

    async def _finish(self) -> CopyOutcome:
        snapshot = self._snapshot
        kept = [each for each in self._copied if each.topic not in self._deleted]
        kept.sort(key=lambda each: (each.topic, each.partition))
        meta = Meta(UUID(bytes=snapshot.cluster), snapshot.node)
        metadata, groups = add_groups(without(self._metadata, self._deleted), self._groups.registry)
        schemas = await self._copy.add_registry(self._registry, snapshot.time)
        manifest = Manifest(snapshot.time, meta, tuple(kept), groups, schemas)
        await self._copy.finish(metadata, manifest.meta, snapshot.time, manifest)
        return CopyOutcome(manifest, sorted(self._deleted))

    async def _copy_partition(self, topic: KnownTopic, point: wire.PartitionPoint) -> None:
        if topic.name in self._deleted:
            return
        about = CopiedPartition(
            topic.name, str(topic.uuid), point.partition, point.leader_epoch, point.start, point.end
        )
        target = await self._copy.partition(topic, about)
        try:
            await self._fill(topic, target)
            # As at the moment of the log's end, neither before nor after it: storage/backup/groups.py says why.
            await target.add_ledgers(self._groups.ledgers.get((topic.name, point.partition)))
            self._copied.append(await target.finish())
        except UnknownTopic:
            self._deleted.add(topic.name)
        finally:
            target.abandon()

    async def _fill(self, topic: KnownTopic, target: PartitionCopy) -> None:
        while target.position < target.copied.end:
            begin = target.position
            piece = await piece_at(self._client, topic.uuid.bytes, target.copied.partition, begin)
            if isinstance(piece, Batches):
                await target.add([CopiedBatch(*each) for each in piece.batches])
            elif isinstance(piece, RemovedPiece):
                target.begin_later(piece.start)
            else:
                await target.pass_over(piece.end_offset)
            self._progress.advance(target.position - begin)


# Restore


async def restore(disk: Disk, backup: str, path: str, progress: ScanProgress) -> CopyOutcome:
    """Copy a backup into an empty directory, checking every batch on the way."""
    async with mounted(disk) as volume:
        source = BackupSource(volume, backup)
        manifest = await source.manifest()
        metadata = await source.metadata(manifest)
        progress.begin(sum(each.end - each.start for each in manifest.partitions))
        async with _copy_into(volume, path) as copy:
            for about in manifest.partitions:
                await _restore_partition(source, copy, metadata.topic(about.topic), about, progress)
            record, _ = add_groups(metadata.snapshot(), await source.groups(manifest))
            await copy.add_registry(await source.registry(manifest), manifest.taken)
            await copy.finish(record, manifest.meta, manifest.taken, None)
    return CopyOutcome(manifest)


async def _restore_partition(
    source: BackupSource, copy: DirectoryCopy, topic: KnownTopic, about: CopiedPartition, progress: ScanProgress
) -> None:
    target = await copy.partition(topic, replace(about, records=0, bytes=0))
    try:
        async with aclosing(source.batches(about)) as rows:
            async for batches in rows:
                begin = target.position
                await target.add(batches)
                progress.advance(target.position - begin)
                await trio.lowlevel.checkpoint()
        await target.add_ledgers(await source.ledgers(about))
        await target.finish()
    finally:
        target.abandon()
