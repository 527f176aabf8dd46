"""Reading the list of topics from its files without changing them: beside a running broker, and when damaged."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import msgpack

from goqueue.core.names import METADATA_LOG
from goqueue.core.records.batch import records_of
from goqueue.core.records.record import decode_records
from goqueue.core.topics.metadata import Metadata
from goqueue.errors import StorageError, UnknownFormat
from goqueue.storage.directory.folders import LOGS
from goqueue.storage.log.recovery import SEGMENT_NAME
from goqueue.storage.log.recoverypoint import read_recovery_point
from goqueue.storage.log.scan import Damage, FoundBatch, Scanner
from goqueue.storage.log.segment import LOG, segment_stem
from goqueue.storage.log.volume import Volume
from goqueue.types import Offset

LIST = f"{LOGS}/{METADATA_LOG}"
"""Below the data directory; its one partition is 0."""


@dataclass(slots=True)
class TopicList:
    metadata: Metadata = field(default_factory=Metadata)
    faults: list[str] = field(default_factory=list)
    """The parts that could not be read. The records before and after them count."""

    def take(self, found: FoundBatch, start: Offset) -> None:
        for record in _records(found, start):
            try:
                self.metadata.apply(record)
            except UnknownFormat as error:
                self.faults.append(error.message)


async def read_topic_list(volume: Volume, folder: str) -> TopicList:
    """The list of topics in the folder of the list's partition; empty if there is no folder."""
    result = TopicList()
    if not volume.disk.is_directory(folder):
        return result
    point = await read_recovery_point(volume, folder)
    start = point.log_start if point is not None else 0
    for base in _bases(volume, folder, start):
        path = f"{folder}/{segment_stem(base)}{LOG}"
        try:
            await _read_segment(volume, path, base, start, result)
        except (StorageError, FileNotFoundError) as error:
            result.faults.append(f"{path}: {error}")
    return result


async def _read_segment(volume: Volume, path: str, base: Offset, start: Offset, result: TopicList) -> None:
    with volume.reader(path) as file:
        scanner = Scanner(file, position=0, offset=base, size=file.size())
        while items := await scanner.next():
            for item in items:
                if isinstance(item, Damage):
                    result.faults.append(f"bytes {item.position} to {item.end_position} of {path} are damaged")
                else:
                    result.take(item, start)


def _bases(volume: Volume, folder: str, start: Offset) -> list[Offset]:
    names = volume.disk.list(folder)
    bases = sorted(int(name.removesuffix(LOG)) for name in names if SEGMENT_NAME.fullmatch(name))
    first = max((base for base in bases if base <= start), default=0)
    return [base for base in bases if base >= first]


def _records(found: FoundBatch, start: Offset) -> Iterator[object]:
    envelope = found.envelope
    body = records_of(envelope, memoryview(found.window)[found.body_at : found.body_at + envelope.length])
    for record in decode_records(body, envelope.record_count, envelope.base_offset):
        if record.offset >= start:
            yield msgpack.unpackb(record.value)
