"""The janitor: has each partition apply retention and compaction, and empties `deleted/`.

It asks one partition after the other, so that only one works on its old segments at a time, and a topic that is
deleted meanwhile does no harm. The files of deleted topics are removed one by one, with pauses. Once there is room
again, the janitor makes the reserve anew that a delete has used up.
"""

import logging
from functools import partial

import trio

from goqueue.actors.partition.requests import Maintain
from goqueue.actors.runtime.actor import Actor
from goqueue.actors.runtime.ref import ActorRef
from goqueue.actors.statistics.refusallog import RefusalLog
from goqueue.actors.topics.board import topics_board
from goqueue.actors.topics.requests import FindPartition
from goqueue.core.topics.metadata import KnownTopic
from goqueue.errors import GoQueueError
from goqueue.storage.directory.disposal import Disposal
from goqueue.storage.log.volume import Volume

logger = logging.getLogger("goqueue.janitor")

ROUND_SECONDS = 60.0
DISPOSAL_SECONDS = 5.0
"""The time between two looks into `deleted/`."""
PAUSE_SECONDS = 0.001
"""The pause after each removed file, so that others can run."""


class Janitor(Actor):
    def __init__(self, topics: ActorRef, volume: Volume, data: str, refusals: RefusalLog | None = None) -> None:
        self._topics = topics
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
            for topic in (await topics_board(self._topics)).topics():
                await self._tidy(topic)
            self.rounds += 1

    async def _tidy(self, topic: KnownTopic) -> None:
        compact = topic.config.cleanup == "compact"
        for number in topic.numbers:
            try:
                ref = await self._topics.call(FindPartition(topic.uuid, number))
                await ref.call(Maintain(compact=compact))
            except GoQueueError:
                continue  # deleted, restarting, or no room: the next round tries again
