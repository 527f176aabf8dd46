"""A partition as a child of its supervisor, and the settings that it is given."""

from dataclasses import dataclass

from goqueue.actors.partition.requests import Configure
from goqueue.core.log.admission import Admission
from goqueue.core.topics.metadata import KnownTopic


@dataclass(frozen=True, eq=False, slots=True)
class PartitionChild:
    """A partition as a child of its supervisor."""

    topic: KnownTopic
    number: int

    @property
    def name(self) -> str:
        return f"{self.topic.name}/{self.number} {self.topic.uuid}"


def settings_of(topic: KnownTopic) -> Configure:
    return Configure(topic.config.to_log_config(), Admission.of(topic.config, topic.partitions))
