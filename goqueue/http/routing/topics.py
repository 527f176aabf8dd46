"""The topics by name, as requests of the wire want them: by UUID. What is known is kept until it proves wrong, or
for a short time: a topic may get more partitions in another way, and keys then go elsewhere."""

from collections.abc import Awaitable, Callable
from random import Random
from typing import NamedTuple, TypeAlias, cast

import trio

from goqueue.core.sending.partitioner import Partitioner
from goqueue.errors import UnknownPartition, UnknownTopic
from goqueue.net.wire.kinds import Answer, Request
from goqueue.net.wire.messages import DescribeTopics, TopicDescription, Topics

KNOWN_MAX = 4_096
KNOWN_SECONDS = 30.0
"""As long as a producer of the client library believes what it knows."""

Ask: TypeAlias = Callable[[Request], Awaitable[Answer]]


class NamedTopic(NamedTuple):
    name: str
    uuid: bytes
    partitions: int
    unusable: tuple[int, ...] = ()
    """The partitions that were lost or could not be opened."""

    def check_partition(self, partition: int) -> int:
        if not 0 <= partition < self.partitions:
            raise UnknownPartition(
                f"topic {self.name} has partitions 0 to {self.partitions - 1}, not {partition}", partition=partition
            )
        return partition


class TopicNames:
    """`forget` a topic whose UUID or partitions were refused, and ask again."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[NamedTopic, float]] = {}
        """With the time of the look."""
        self._partitioners: dict[bytes, Partitioner] = {}

    async def find(self, name: str, ask: Ask) -> NamedTopic:
        known, since = self._known.get(name, (None, 0.0))
        if known is None or trio.current_time() > since + KNOWN_SECONDS:
            return await self.look(name, ask)
        return known

    async def look(self, name: str, ask: Ask) -> NamedTopic:
        """Whatever is known of it."""
        try:
            [topic] = cast(Topics, await ask(DescribeTopics((name,)))).topics
        except UnknownTopic:
            self.forget(name)
            raise
        return self.note(topic)

    def partitioner(self, topic: NamedTopic, random: Random) -> Partitioner:
        """One for all requests, so that messages without a key go round the partitions."""
        found = self._partitioners.get(topic.uuid)
        if found is None:
            found = self._partitioners[topic.uuid] = Partitioner(topic.partitions, random.randrange(2**31))
            found.avoid(topic.unusable)
        return found

    def note(self, topic: TopicDescription) -> NamedTopic:
        if len(self._known) >= KNOWN_MAX:
            self._known.clear()
            self._partitioners.clear()
        before, _ = self._known.get(topic.name, (None, 0.0))
        if before is not None and before.uuid != topic.uuid:
            self.forget(topic.name)
        unusable = tuple([each.partition for each in topic.partitions if each.error is not None])
        known = NamedTopic(topic.name, topic.uuid, len(topic.partitions), unusable)
        if (partitioner := self._partitioners.get(topic.uuid)) is not None and known != before:
            partitioner.resize(known.partitions)
            partitioner.avoid(unusable)
        self._known[topic.name] = known, trio.current_time()
        return known

    def forget(self, name: str) -> None:
        known, _ = self._known.pop(name, (None, 0.0))
        if known is not None:
            self._partitioners.pop(known.uuid, None)
