"""The topics by name, as requests of the wire want them: by UUID. What is known is kept until it proves wrong."""

from collections.abc import Awaitable, Callable
from random import Random
from typing import NamedTuple, TypeAlias, cast

from goqueue.core.sending.partitioner import Partitioner
from goqueue.errors import UnknownPartition
from goqueue.net.wire.kinds import Answer, Request
from goqueue.net.wire.messages import DescribeTopics, TopicDescription, Topics

KNOWN_MAX = 4_096

Ask: TypeAlias = Callable[[Request], Awaitable[Answer]]


class NamedTopic(NamedTuple):
    name: str
    uuid: bytes
    partitions: int

    def check_partition(self, partition: int) -> int:
        if not 0 <= partition < self.partitions:
            raise UnknownPartition(
                f"topic {self.name} has partitions 0 to {self.partitions - 1}, not {partition}", partition=partition
            )
        return partition


class TopicNames:
    """`forget` a topic whose UUID or partitions were refused, and ask again."""

    def __init__(self) -> None:
        self._known: dict[str, NamedTopic] = {}
        self._names: dict[bytes, str] = {}
        self._partitioners: dict[bytes, Partitioner] = {}

    async def find(self, name: str, ask: Ask) -> NamedTopic:
        known = self._known.get(name)
        if known is None:
            [topic] = cast(Topics, await ask(DescribeTopics((name,)))).topics
            known = self.note(topic)
        return known

    def partitioner(self, topic: NamedTopic, random: Random) -> Partitioner:
        """One for all requests, so that messages without a key go round the partitions."""
        found = self._partitioners.get(topic.uuid)
        if found is None:
            found = self._partitioners[topic.uuid] = Partitioner(topic.partitions, random.randrange(2**31))
        elif found.partitions != topic.partitions:
            found.resize(topic.partitions)
        return found

    def note(self, topic: TopicDescription) -> NamedTopic:
        if len(self._known) >= KNOWN_MAX:
            self._known.clear()
            self._names.clear()
            self._partitioners.clear()
        known = self._known[topic.name] = NamedTopic(topic.name, topic.uuid, len(topic.partitions))
        self._names[topic.uuid] = topic.name
        return known

    def forget(self, name: str) -> None:
        known = self._known.pop(name, None)
        if known is not None:
            self._names.pop(known.uuid, None)
            self._partitioners.pop(known.uuid, None)
