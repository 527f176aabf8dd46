"""The open logs of a node's partitions, so that all of them can be seen at one moment.

Each log is still owned by its partition. Others only look. A backup never waits while it looks: what it sees of
several logs was true of all of them at once. A survey for operators goes through the logs in slices.

Every log counts what is appended to it. When it is closed, its counts stay here with its topic's, so that the
counters of a topic never fall when a partition is restarted.
"""

from collections import Counter
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from goqueue.core.counters import LabelledCounters
from goqueue.core.histogram import Histogram
from goqueue.core.log.retention import RemovalCause
from goqueue.storage.slices import Slices
from goqueue.types import Offset

if TYPE_CHECKING:
    from goqueue.storage.log.growing import GrowingLog
    from goqueue.storage.log.scan import Damage


@dataclass(frozen=True, slots=True)
class LogStanding:
    """The log's start, and its high watermark as the end."""

    start: Offset
    end: Offset
    leader_epoch: int


class Appended(NamedTuple):
    """The counts of everything appended to a log since it was opened."""

    batches: int
    records: int
    bytes: int


@dataclass(slots=True)
class WrittenCounts:
    """The counts of everything appended to logs since the process began."""

    batches: int = 0
    records: int = 0
    bytes: int = 0

    def add(self, other: "WrittenCounts | Appended", /) -> None:
        self.batches += other.batches
        self.records += other.records
        self.bytes += other.bytes


@dataclass(slots=True)
class RemovedCounts:
    """The counts of everything removed from logs since the process began."""

    offsets: Counter[RemovalCause] = field(default_factory=Counter)
    """Gaps that compaction left are counted again when the log's start passes them."""
    compacted_bytes: int = 0
    """The difference between segments and what took their place."""

    def add(self, other: "RemovedCounts", /) -> None:
        self.offsets.update(other.offsets)
        self.compacted_bytes += other.compacted_bytes


@dataclass(slots=True)
class LogsSurvey:
    written: WrittenCounts = field(default_factory=WrittenCounts)
    """To all logs, those of deleted topics among them."""
    by_topic: Mapping[str, WrittenCounts] = field(default_factory=dict)
    bytes: int = 0
    """The size of all segments of all logs."""
    damage: "dict[str, tuple[Damage, ...]]" = field(default_factory=dict)
    """By directory, for the logs that have damage."""


@dataclass(slots=True)
class RecoverySurvey:
    """What the opening of all open logs took, and what it found."""

    segments: int = 0
    scanned_bytes: int = 0
    """The bytes that no seal and no recovery point vouched for."""
    torn_tails: int = 0
    """The ends that were cut off, which nobody was promised."""
    damaged_ranges: int = 0


class OpenLogs:
    def __init__(self) -> None:
        self._logs: dict[str, GrowingLog] = {}
        self._closed = LabelledCounters(WrittenCounts)
        """What was appended to logs that were closed, by topic."""
        self.removed = LabelledCounters(RemovedCounts)
        """By topic."""
        self.compactions = Histogram()
        """How long each compaction of a log took."""
        self.torn_tails = 0
        """The ends that were cut off when logs were opened."""

    def __len__(self) -> int:
        return len(self._logs)

    def enter(self, log: "GrowingLog") -> None:
        self._logs[log.directory] = log
        self.torn_tails += len(log.statistics().torn)
        self.removed.begin(topic_of(log.directory))

    def leave(self, log: "GrowingLog") -> None:
        """Its partition ends; its counts stay with its topic's. A second call does nothing."""
        if self._logs.get(log.directory) is log:
            del self._logs[log.directory]
            self._closed.begin(topic_of(log.directory)).add(log.appended)

    def complete(self, topics: Container[str]) -> None:
        """These are all topics that there are: the counts of others have ended."""
        self._closed.complete(topics)
        self.removed.complete(topics)

    def end_topic(self, topic: str) -> None:
        """The topic is deleted, and its logs are closed: its counts stay in the total."""
        self._closed.end(topic)
        self.removed.end(topic)

    def note_removed(self, directory: str, cause: RemovalCause, offsets: int) -> None:
        self.removed[topic_of(directory)].offsets[cause] += offsets

    def note_compacted(self, directory: str, freed_bytes: int) -> None:
        self.removed[topic_of(directory)].compacted_bytes += freed_bytes

    def standing(self, directory: str) -> LogStanding | None:
        """None while the log is not open."""
        log = self._logs.get(directory)
        return None if log is None else LogStanding(log.log_start, log.high_watermark, log.leader_epoch)

    async def recovered(self, slices: Slices) -> RecoverySurvey:
        survey = RecoverySurvey()
        for log in list(self._logs.values()):
            found = log.statistics()
            survey.segments += found.segments
            survey.scanned_bytes += found.scanned_bytes
            survey.torn_tails += len(found.torn)
            survey.damaged_ranges += len(log.damage_met)
            await slices.step()
        return survey

    async def survey(self, slices: Slices) -> LogsSurvey:
        """A log that is closed meanwhile is counted as it was then, and once."""
        survey, logs, by_topic = LogsSurvey(), list(self._logs.items()), LabelledCounters(WrittenCounts)
        survey.written.add(self._closed.total())
        for topic, closed in self._closed.items():
            by_topic[topic].add(closed)
        for directory, log in logs:
            appended = log.appended
            survey.written.add(appended)
            by_topic[topic_of(directory)].add(appended)
            survey.bytes += log.size
            if log.damage_met:
                survey.damage[directory] = tuple(log.damage_met)
            await slices.step()
        survey.by_topic = by_topic
        return survey


def topic_of(directory: str) -> str:
    """A partition's folder is named after its topic and its number."""
    return directory.rsplit("/", 2)[-2]
