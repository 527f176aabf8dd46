"""Metrics of topics and their partitions. On the way, each partition shows its groups."""

from collections.abc import Sequence
from dataclasses import dataclass

from goqueue.actors.delays.pending import DelayedMessages
from goqueue.actors.node.broker import Broker
from goqueue.actors.partition.board import PartitionBoard
from goqueue.actors.statistics.delays import DelaySeries
from goqueue.actors.statistics.schemas import SchemaSeries
from goqueue.actors.statistics.traffic import FetchSeries
from goqueue.actors.topics.board import TopicsBoard
from goqueue.core.log.retention import RemovalCause
from goqueue.core.topics.metadata import KnownTopic
from goqueue.http.metrics import families as f
from goqueue.http.metrics.groups import GroupsWalk
from goqueue.http.metrics.samples import Samples, label
from goqueue.storage.log.log import Log
from goqueue.storage.log.openlogs import RemovedCounts, WrittenCounts, topic_of
from goqueue.storage.slices import Slices

NOTHING_WRITTEN, NOTHING_REMOVED = WrittenCounts(), RemovedCounts()
NOTHING_FETCHED, NOTHING_DELAYED, NOTHING_VALIDATED = FetchSeries(), DelaySeries(), SchemaSeries()


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
        names = [topic.name for topic in topics]
        await self._collect_counters(names)
        groups.begin(frozenset(names))
        for topic in topics:
            await self._collect_partitions(board, topic, groups)

    async def _collect_counters(self, there: Sequence[str]) -> None:
        statistics, samples = self.broker.statistics, self.samples
        survey = await statistics.volume.logs.survey(self.slices)
        damaged: dict[str, int] = {}
        for directory, ranges in survey.damage.items():
            topic = topic_of(directory)
            damaged[topic] = damaged.get(topic, 0) + len(ranges)
        for topic in there:
            labels = label("topic", topic)
            written = survey.by_topic.get(topic, NOTHING_WRITTEN)
            samples.put(f.PUBLISHED, written.records, labels)
            samples.put(f.PUBLISHED_BATCHES, written.batches, labels)
            samples.put(f.PUBLISHED_BYTES, written.bytes, labels)
            fetched = statistics.fetched.of.get(topic, NOTHING_FETCHED)
            samples.put(f.FETCHED, fetched.messages, labels)
            samples.put(f.FETCHED_BYTES, fetched.bytes, labels)
            removed = statistics.volume.logs.removed.get(topic, NOTHING_REMOVED)
            for cause in RemovalCause:
                samples.put(f.REMOVED, removed.offsets[cause], f"{labels},{label('cause', cause.value)}")
            samples.put(f.COMPACTION_FREED, removed.compacted_bytes, labels)
            samples.put(f.DAMAGED, damaged.get(topic, 0), labels)
            self._put_delays(labels, statistics.delays.of.get(topic, NOTHING_DELAYED))
            self._put_validations(labels, statistics.schemas.of.get(topic, NOTHING_VALIDATED))
            await self.slices.step()

    def _put_delays(self, labels: str, delays: DelaySeries) -> None:
        put = self.samples.put
        put(f.DELAY_PENDING, delays.pending, labels)
        put(f.DELAY_FIRED, delays.fired, labels)
        put(f.DELAY_CANCELLED, delays.cancelled, labels)
        put(f.DELAY_RESCHEDULED, delays.rescheduled, labels)
        put(f.DELAY_EXPIRED, delays.expired, labels)

    def _put_validations(self, labels: str, validated: SchemaSeries) -> None:
        for result in ("accepted", "refused", "warned"):
            self.samples.put(
                f.SCHEMA_VALIDATIONS, getattr(validated, result), f"{labels},{label('result', result)}"
            )

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
