"""Reading a backup to restore it, without changing anything in it.

Everything is checked by its checksums and compared with the manifest. A broker may have served the backup since it
was made: that does no harm as long as nothing was written to it or removed from it.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgpack
from crc32c import crc32c

from goqueue.core.metadata.metadata import BrokerMetadata
from goqueue.core.records.batch import ENVELOPE_SIZE
from goqueue.core.schemas.registry import SchemaRegistry
from goqueue.core.topics.metadata import Metadata
from goqueue.errors import DamagedData, IncompleteCopy, UnknownFormat
from goqueue.storage.backup.backup import MANIFEST, MANIFEST_SIZE_MAX, CopiedPartition, Manifest, parse_manifest
from goqueue.storage.backup.groups import groups_in, read_journal, read_ledgers
from goqueue.storage.directory.datadirectory import INCOMPLETE
from goqueue.storage.directory.folders import LOGS
from goqueue.storage.directory.pieces import PIECE_BYTES
from goqueue.storage.directory.recordlog import joined, unpacked
from goqueue.storage.directory.storedschemas import SCHEMAS
from goqueue.storage.directory.topiclist import LIST
from goqueue.storage.journals.groups import GROUPS, IMPORTED, REGISTRY
from goqueue.storage.log.growing import CopiedBatch
from goqueue.storage.log.recovery import SEGMENT_NAME
from goqueue.storage.log.scan import Damage, FoundBatch, Scanner
from goqueue.storage.log.segment import LOG, segment_stem
from goqueue.storage.log.volume import Volume
from goqueue.storage.snapshotlog.reading import read_records
from goqueue.types import Offset


class BackupSource:
    def __init__(self, volume: Volume, path: str) -> None:
        self._volume = volume
        self.path = path

    async def manifest(self) -> Manifest:
        """What the backup says it holds; `IncompleteCopy` if it was cut short."""
        disk = self._volume.disk
        if not disk.is_directory(self.path):
            raise UnknownFormat(f"there is no directory {self.path}; give one that `goqueue backup` made")
        if disk.exists(f"{self.path}/{INCOMPLETE}"):
            raise IncompleteCopy(f"the backup in {self.path} is under way or was cut short; use another one")
        if not disk.exists(f"{self.path}/{MANIFEST}"):
            raise UnknownFormat(f"{self.path} has no {MANIFEST}; give a directory that `goqueue backup` made")
        data = await self._volume.read_whole(f"{self.path}/{MANIFEST}", MANIFEST_SIZE_MAX)
        return parse_manifest(self.path, data)

    async def metadata(self, manifest: Manifest) -> Metadata:
        """The topics, which must be those of the manifest."""
        metadata = BrokerMetadata()
        for record in await self._records():
            metadata.apply(record)
        topics = metadata.topics
        held = {(topic.name, str(topic.uuid), number) for topic in topics for number in topic.numbers}
        if held != {(each.topic, each.uuid, each.partition) for each in manifest.partitions}:
            raise IncompleteCopy(f"{self.path} has other topics than when it was made; use another backup")
        return topics

    async def groups(self, manifest: Manifest) -> bytes | None:
        """The snapshot of the groups that was written when the backup was made; None in one without groups."""
        checksum = manifest.groups_crc32c
        if checksum is None:
            return None
        found = (groups_in(record, checksum) for record in await self._records())
        return next((each for each in found if each is not None), None) or await self._old_register(checksum)

    async def registry(self, manifest: Manifest) -> list[bytes]:
        """The snapshot of the schema registry that was written when the backup was made, in pieces; none in one
        without it. Entries that a broker wrote behind it are not restored."""
        if manifest.schemas_crc32c is None:
            return []
        folder = f"{self.path}/{SCHEMAS}/0"
        found = await read_records(self._volume, folder)
        for record in joined(item for item in found.items if isinstance(item, bytes)):
            if crc32c(record) == manifest.schemas_crc32c:
                SchemaRegistry().apply(msgpack.unpackb(record))  # a start would refuse what cannot be applied
                return [record[at : at + PIECE_BYTES] for at in range(0, len(record), PIECE_BYTES)]
        raise IncompleteCopy(f"{folder} is not as it was when the backup was made; use another backup")

    async def _old_register(self, checksum: int) -> bytes | None:
        """From a backup that an earlier version made; a broker may have served it since, and imported the file."""
        path = f"{self.path}/{GROUPS}/{REGISTRY}"
        imported = not self._volume.disk.exists(path) and self._volume.disk.exists(path + IMPORTED)
        return await read_journal(self._volume, path + IMPORTED if imported else path, checksum)

    async def _records(self) -> list[object]:
        folder = f"{self.path}/{LIST}/0"
        found = await read_records(self._volume, folder)
        if found.reports:
            raise IncompleteCopy(f"{found.reports[0]}; use another backup")
        return list(unpacked(item for item in found.items if isinstance(item, bytes)))

    async def batches(self, copied: CopiedPartition) -> AsyncGenerator[list[CopiedBatch], None]:
        """The batches of one partition, from the one that holds its start; there must be none behind its end."""
        folder = f"{self.path}/{LOGS}/{copied.topic}/{copied.partition}"
        async with aclosing(self._batches(folder, copied.start)) as rows:
            async for batches in rows:
                if batches[-1].envelope.end_offset > copied.end:
                    raise IncompleteCopy(f"{folder} was written to since the backup was made; use another backup")
                yield batches

    async def ledgers(self, copied: CopiedPartition) -> bytes | None:
        folder = f"{self.path}/{LOGS}/{copied.topic}/{copied.partition}"
        return await read_ledgers(self._volume, folder, copied.ledgers_crc32c)

    async def _batches(self, folder: str, start: Offset) -> AsyncGenerator[list[CopiedBatch], None]:
        for base in self._bases(folder, start):
            with self._volume.reader(f"{folder}/{segment_stem(base)}{LOG}") as file:
                scanner = Scanner(file, position=0, offset=base, size=file.size())
                while items := await scanner.next():
                    batches = [_sound(item) for item in items]
                    if batches[-1].envelope.end_offset > start:
                        yield batches

    def _bases(self, folder: str, start: Offset) -> list[Offset]:
        names = self._volume.disk.list(folder) if self._volume.disk.is_directory(folder) else []
        bases = [int(name.removesuffix(LOG)) for name in names if SEGMENT_NAME.fullmatch(name)]
        first = max((base for base in bases if base <= start), default=0)
        return sorted(base for base in bases if base >= first)


def _sound(item: FoundBatch | Damage) -> CopiedBatch:
    if isinstance(item, Damage):
        end = max(item.end_offset, item.offset + 1)
        raise DamagedData(item.path, item.position, item.end_position, item.offset, end)
    begin, end = item.body_at - ENVELOPE_SIZE, item.body_at + item.envelope.length
    return CopiedBatch(item.envelope, item.window[begin:end])
