"""Reading the schema registry from its files without changing them: beside a broker, and when they are damaged."""

from dataclasses import dataclass, field

from goqueue.core.schemas.registry import SchemaRegistry
from goqueue.errors import UnknownFormat
from goqueue.storage.directory.recordlog import has_beginning, unpacked
from goqueue.storage.log.volume import Volume
from goqueue.storage.snapshotlog.reading import read_records
from goqueue.storage.snapshotlog.snapshotlog import LostRecords


@dataclass(slots=True)
class ReadRegistry:
    registry: SchemaRegistry = field(default_factory=SchemaRegistry)
    faults: list[str] = field(default_factory=list)
    """The parts that could not be read. The records before and after them count."""
    refused: list[object] = field(default_factory=list)
    """Records that can be read and not applied."""
    lost: int = 0
    """Records that cannot be read."""
    has_beginning: bool = True
    """The first record, which may be a snapshot of everything, can be read."""
    end_offset: int = 0
    """The offset behind the last record that is known of."""


async def read_registry(volume: Volume, folder: str) -> ReadRegistry:
    """The registry in the folder of its partition; empty if there is no folder."""
    found = await read_records(volume, folder)
    result = ReadRegistry(faults=list(found.reports))
    gaps = [item for item in found.items if isinstance(item, LostRecords)]
    result.lost = sum(gap.end_offset - gap.offset for gap in gaps)
    result.end_offset = found.end
    result.has_beginning = has_beginning(found.items)
    for record in unpacked(item for item in found.items if isinstance(item, bytes)):
        try:
            result.registry.apply(record)
        except UnknownFormat as error:
            result.faults.append(error.message)
            result.refused.append(record)
    return result
