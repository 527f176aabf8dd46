"""Reading the list of topics and groups from its files without changing them: beside a broker, and when damaged."""

from dataclasses import dataclass, field

from goqueue.core.metadata.metadata import BrokerMetadata
from goqueue.core.names import METADATA_LOG
from goqueue.errors import UnknownFormat
from goqueue.storage.directory.folders import LOGS
from goqueue.storage.directory.recordlog import unpacked
from goqueue.storage.log.volume import Volume
from goqueue.storage.snapshotlog.reading import read_records

LIST = f"{LOGS}/{METADATA_LOG}"
"""Below the data directory; its one partition is 0."""


@dataclass(slots=True)
class TopicList:
    metadata: BrokerMetadata = field(default_factory=BrokerMetadata)
    faults: list[str] = field(default_factory=list)
    """The parts that could not be read. The records before and after them count."""
    refused: list[str] = field(default_factory=list)
    """Why a start refuses records that can be read; without those that only miss what was lost before them."""


async def read_topic_list(volume: Volume, folder: str) -> TopicList:
    """The list in the folder of its partition; empty if there is no folder."""
    found = await read_records(volume, folder)
    result = TopicList(faults=list(found.reports))
    values = (item for item in found.items if isinstance(item, bytes))
    for record in unpacked(values):
        try:
            result.metadata.apply(record)
        except UnknownFormat as error:
            result.faults.append(error.message)
            if not found.reports:
                result.refused.append(error.message)
    return result
