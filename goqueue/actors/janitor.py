"""The janitor: goes round the partitions and lets go what has outlived its time.

It asks one partition after the other, so that no more than one works on its old segments at a time, and a topic
that is deleted meanwhile is no matter.
"""

import trio

from goqueue.actors.base import Actor
from goqueue.actors.partition import Maintain
from goqueue.actors.ref import ActorRef
from goqueue.actors.topics import DescribeTopics, FindPartition, TopicView
from goqueue.errors import GoQueueError

ROUND_SECONDS = 60.0


class Janitor(Actor):
    def __init__(self, topics: ActorRef) -> None:
        self._topics = topics
        self.rounds = 0

    async def start(self) -> None:
        self.background(self._go_round_for_ever, endless=True)

    async def _go_round_for_ever(self) -> None:
        while True:
            await trio.sleep(ROUND_SECONDS)
            for topic in await self._topics.call(DescribeTopics()):
                await self._tidy(topic)
            self.rounds += 1

    async def _tidy(self, topic: TopicView) -> None:
        compact = topic.config["cleanup"] == "compact"
        for view in topic.partitions:
            try:
                ref = await self._topics.call(FindPartition(topic.uuid, view.partition))
                await ref.call(Maintain(compact=compact))
            except GoQueueError:
                continue  # deleted, restarting, or no room: the next round comes
