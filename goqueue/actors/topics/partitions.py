"""A partition as a child of its supervisor, and its view for others."""

from dataclasses import dataclass

from goqueue.actors.partition.requests import Configure
from goqueue.actors.runtime.messages import Reply
from goqueue.actors.topics.requests import PartitionView
from goqueue.core.log.admission import Admission
from goqueue.core.topics.metadata import KnownTopic
from goqueue.errors import DiskFull, PartitionUnavailable
from goqueue.storage.log.views import LogStatistics


@dataclass(frozen=True, eq=False, slots=True)
class PartitionChild:
    """A partition as a child of its supervisor."""

    topic: KnownTopic
    number: int

    @property
    def name(self) -> str:
        return f"{self.topic.name}/{self.number} {self.topic.uuid}"


async def partition_view(number: int, asked: Reply[LogStatistics]) -> PartitionView:
    try:
        found = await asked.wait()
    except (PartitionUnavailable, DiskFull) as error:
        return PartitionView(number, 0, 0, 0, error)
    return PartitionView(number, found.leader_epoch, found.log_start, found.end_offset, damage=tuple(found.damage))


def settings_of(topic: KnownTopic) -> Configure:
    return Configure(topic.config.to_log_config(), Admission.of(topic.config, topic.partitions))
