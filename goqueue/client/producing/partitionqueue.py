"""A sender's state of its partitions: of each a send queue, and what that waits for."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from goqueue.client.link.link import Link
from goqueue.core.sending.chunk import Chunk
from goqueue.core.sending.queue import Gathering, OutBatch, SendQueue
from goqueue.net.wire import messages as wire


@dataclass(eq=False, slots=True)
class PartitionQueue:
    partition: int
    messages: SendQueue
    identity: wire.ProducerReady | None
    paused_until: float = -math.inf
    waits_for_room_of: Link | None = None


class PartitionQueues:
    def __init__(self, gathering: Gathering, identity: wire.ProducerReady) -> None:
        """`identity`: the producer id of each, until its partition forgets it."""
        self._gathering = gathering
        self._identity = identity
        self._queues: dict[int, PartitionQueue] = {}
        self._replaced: list[PartitionQueue] = []
        """Queues of partitions that have another one now: they send what they have, and get nothing more."""

    def __iter__(self) -> Iterator[PartitionQueue]:
        yield from self._queues.values()
        yield from self._replaced

    def of(self, partition: int) -> PartitionQueue:
        queue = self._queues.get(partition)
        if queue is None:
            queue = PartitionQueue(partition, SendQueue(self._gathering), self._identity)
            self._queues[partition] = queue
        return queue

    def adopt(self, partition: int, identity: wire.ProducerReady, batch: OutBatch) -> PartitionQueue:
        """Take over a batch of another producer id. What comes later follows it, under that id."""
        before = self._queues.get(partition)
        self._replaced = [queue for queue in self._replaced if queue.messages]
        if before is not None and before.messages:
            self._replaced.append(before)
        queue = self._queues[partition] = PartitionQueue(partition, SendQueue(self._gathering), identity)
        queue.messages.adopt(batch)
        return queue

    def resume_by(self, moment: float) -> None:
        """Pauses end at this moment at the latest."""
        for queue in self:
            queue.paused_until = min(queue.paused_until, moment)

    def take_all(self) -> list[Chunk]:
        """Empty and drop all send queues: later messages begin new ones, which wait for nothing."""
        chunks = [chunk for queue in self for chunk in queue.messages.drop_all()]
        self._queues.clear()
        self._replaced.clear()
        return chunks
