"""The janitor: has each partition apply retention and compaction, and empties `deleted/`.

For retention by acks it looks up which groups read a topic. The ends of the partitions are noted first: a group
that begins after the look-up is promised only what is published behind them.

It asks one partition after the other, so that only one works on its old segments at a time, and a topic that is
deleted meanwhile does no harm. The files of deleted topics are removed one by one, with pauses. Once there is room
again, the janitor makes the reserve anew that a delete has used up.
"""

import logging
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TypeAlias
from uuid import UUID

import trio

from goqueue.actors.delivery.requests import TopicReader, TopicReaders
from goqueue.actors.metadata.requests import ReadRegister
from goqueue.actors.partition.board import PartitionBoard
from goqueue.actors.partition.requests import Maintain
from goqueue.actors.runtime.actor import Actor
from goqueue.actors.runtime.ref import ActorRef
from goqueue.actors.statistics.refusallog import RefusalLog
from goqueue.actors.topics.board import TopicsBoard, topics_board
from goqueue.actors.topics.requests import FindPartition
from goqueue.core.groups.registry import KnownGroup
from goqueue.core.names import REDRIVE
from goqueue.core.topics.metadata import KnownTopic
from goqueue.errors import GoQueueError
from goqueue.storage.directory.disposal import Disposal
from goqueue.storage.log.volume import Volume
from goqueue.types import Offset

logger = logging.getLogger("goqueue.janitor")

ROUND_SECONDS = 60.0
DISPOSAL_SECONDS = 5.0
"""The time between two looks into `deleted/`."""
PAUSE_SECONDS = 0.001
"""The pause after each removed file, so that others can run."""

Place: TypeAlias = tuple[UUID, int]
"""A partition of a topic."""


class Janitor(Actor):
    def __init__(
        self, topics: ActorRef, register: ActorRef, volume: Volume, data: str, refusals: RefusalLog | None = None
    ) -> None:
        self._topics = topics
        self._register = register
        self._refusals = refusals
        self._reserve = volume.reserve
        self._disposal = Disposal(volume, data, partial(trio.sleep, PAUSE_SECONDS))
        self.rounds = 0

    async def start(self) -> None:
        self.background(self._go_round_for_ever, endless=True)
        self.background(self._empty_for_ever, endless=True)

    async def _empty_for_ever(self) -> None:
        while True:
            await trio.sleep(DISPOSAL_SECONDS)
            for name, error in (await self._disposal.empty()).items():
                logger.warning("deleted/%s cannot be removed: %s; remove it by hand", name, error.message)
            await self._reserve.refill()

    async def _go_round_for_ever(self) -> None:
        while True:
            await trio.sleep(ROUND_SECONDS)
            if self._refusals is not None:
                self._refusals.tell()
            board = await topics_board(self._topics)
            topics = board.topics()
            readers = await self._readers(_ends(board, topics))
            for topic in topics:
                await self._tidy(topic, readers)
            self.rounds += 1

    async def _readers(self, ends: Mapping[Place, Offset]) -> dict[Place, TopicReaders]:
        """Nothing while the register cannot be read: then nothing goes by acks."""
        try:
            groups = await self._register.call(ReadRegister()) if ends else ()
        except GoQueueError:
            return {}
        known = {uuid: _readers_of(uuid, groups) for uuid, _ in ends}
        return {place: TopicReaders(known[place[0]], end) for place, end in ends.items()}

    async def _tidy(self, topic: KnownTopic, readers: Mapping[Place, TopicReaders]) -> None:
        compact = topic.config.cleanup == "compact"
        for number in topic.numbers:
            try:
                ref = await self._topics.call(FindPartition(topic.uuid, number))
                await ref.call(Maintain(compact=compact, readers=readers.get((topic.uuid, number))))
            except GoQueueError:
                continue  # deleted, restarting, or no room: the next round tries again


def _ends(board: TopicsBoard, topics: Iterable[KnownTopic]) -> dict[Place, Offset]:
    """The ends of the partitions whose messages go by acks. One that is being started waits for the next round."""
    places = [(topic, number) for topic in topics if topic.config.retention == "acked" for number in topic.numbers]
    shown = [((topic.uuid, number), board.shown(topic, number)) for topic, number in places]
    return {place: partition.log.end_offset for place, partition in shown if isinstance(partition, PartitionBoard)}


def _readers_of(topic: UUID, groups: Iterable[KnownGroup]) -> frozenset[TopicReader]:
    """All groups that have begun to read the topic, with or without members. A redrive is no reader."""
    reading = (group for group in groups if any(seen.uuid == topic for seen in group.topics.values()))
    return frozenset(TopicReader(group.name, group.id) for group in reading if group.name != REDRIVE)
