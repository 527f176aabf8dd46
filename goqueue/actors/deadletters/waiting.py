"""How many dead letters wait, from the boards of their partitions: probes ask every few seconds, and call nobody.

A log with gaps has to be read to be counted. Such a count is kept for a minute, or until the log ends elsewhere.
"""

from uuid import UUID

import trio

from goqueue.actors.deadletters.inbox import count_letters, has_gaps
from goqueue.actors.partition.board import PartitionBoard
from goqueue.actors.topics.board import TopicsBoard
from goqueue.core.names import DEAD_LETTER_SUFFIX
from goqueue.environment import WallClock
from goqueue.storage.slices import Slices
from goqueue.types import Offset

KEPT_SECONDS = 60.0


class WaitingLetters:
    def __init__(self) -> None:
        self._kept: dict[tuple[UUID, int], tuple[Offset, float, int]] = {}
        """Counts of logs with gaps: the end, until when the count is good, and the count."""

    async def count(self, topics: TopicsBoard, clock: WallClock, slices: Slices) -> dict[str, int]:
        """By the topic of which they are, where there are any. Partitions that cannot be looked at are left out."""
        waiting: dict[str, int] = {}
        for topic in topics.topics():
            if not topic.name.endswith(DEAD_LETTER_SUFFIX):
                continue
            count = 0
            for number in topic.numbers:
                if isinstance(board := topics.shown(topic, number), PartitionBoard):
                    count += await self._count((topic.uuid, number), board, clock, slices)
            if count:
                waiting[topic.name.removesuffix(DEAD_LETTER_SUFFIX)] = count
        self._forget(trio.current_time())
        return waiting

    async def _count(self, place: tuple[UUID, int], board: PartitionBoard, clock: WallClock, slices: Slices) -> int:
        await slices.step()
        if not has_gaps(board.log):
            return (await count_letters(board, slices, clock.now())).waiting
        end, until, count = self._kept.get(place, (-1, 0.0, 0))
        if end == board.log.high_watermark and trio.current_time() < until:
            return count
        end = board.log.high_watermark
        count = (await count_letters(board, slices, clock.now())).waiting
        self._kept[place] = end, trio.current_time() + KEPT_SECONDS, count
        return count

    def _forget(self, now: float) -> None:
        self._kept = {place: kept for place, kept in self._kept.items() if kept[1] > now}
