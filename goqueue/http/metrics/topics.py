"""Metrics of topics and their partitions. On the way, each partition shows its groups."""

from dataclasses import dataclass

from goqueue.actors.delays.pending import DelayedMessages
from goqueue.actors.node.broker import Broker
from goqueue.actors.partition.board import PartitionBoard
from goqueue.actors.topics.board import TopicsBoard
from goqueue.core.topics.metadata import KnownTopic
from goqueue.http.metrics import families as f
from goqueue.http.metrics.groups import GroupsWalk
from goqueue.http.metrics.samples import Samples, label
from goqueue.storage.log.log import Log
from goqueue.storage.slices import Slices


@dataclass(frozen=True, slots=True)
class TopicsWalk:
    broker: Broker
    samples: Samples
    slices: Slices

    async def collect(self, groups: GroupsWalk) -> None:
        board = self.broker.topics.board
        if not isinstance(board, TopicsBoard):
            return
        topics = board.topics()
        await self._collect_counters({topic.name for topic in topics})
        groups.begin()
        for topic in topics:
            await self._collect_partitions(board, topic, groups)

    async def _collect_counters(self, there: set[str]) -> None:
        statistics, samples = self.broker.statistics, self.samples
        survey = await statistics.volume.logs.survey(self.slices)
        damaged: dict[str, int] = {}
        for directory, ranges in survey.damage.items():
            topic = directory.split("/")[-2]
            damaged[topic] = damaged.get(topic, 0) + len(ranges)
        for topic in sorted(there):
            labels = label("topic", topic)
            written = survey.by_topic.get(topic)
            samples.put(f.PUBLISHED, written.records if written else 0, labels)
            samples.put(f.PUBLISHED_BATCHES, written.batches if written else 0, labels)
            samples.put(f.PUBLISHED_BYTES, written.bytes if written else 0, labels)
            samples.put(f.DAMAGED, damaged.get(topic, 0), labels)
            delays = statistics.delays.of.get(topic)
            if delays is not None:
                samples.put(f.DELAY_PENDING, delays.pending, labels)
                samples.put(f.DELAY_FIRED, delays.fired, labels)
                samples.put(f.DELAY_CANCELLED, delays.cancelled, labels)
                samples.put(f.DELAY_RESCHEDULED, delays.rescheduled, labels)
                samples.put(f.DELAY_EXPIRED, delays.expired, labels)
            await self.slices.step()

    async def _collect_partitions(self, board: TopicsBoard, topic: KnownTopic, groups: GroupsWalk) -> None:
        labels, overdue = label("topic", topic.name), 0
        for number in topic.numbers:
            shown = board.shown(topic, number)
            if isinstance(shown, PartitionBoard):
                self._collect_log(shown.log, labels, label("partition", number))
                overdue += await self._overdue(shown.delays)
                await groups.note(shown.ledgers, self.samples, self.slices)
            await self.slices.step()
        self.samples.put(f.DELAY_OVERDUE, overdue, labels)

    def _collect_log(self, log: Log, labels: str, partition: str) -> None:
        put, end = self.samples.put_split, log.end_offset
        put(f.LOG_BYTES, log.size, labels, partition)
        put(f.LOG_SEGMENTS, log.segments, labels, partition)
        put(f.LOG_START, log.log_start, labels, partition)
        put(f.LOG_END, end, labels, partition)
        put(f.STABLE_LAG, end - log.high_watermark, labels, partition)

    async def _overdue(self, delayed: DelayedMessages) -> int:
        if not delayed.pending:
            return 0
        total, now = 0, self.broker.environment.clock.now()
        for count in delayed.delays.dues.counts_until(now):
            total += count
            await self.slices.step()
        return total
