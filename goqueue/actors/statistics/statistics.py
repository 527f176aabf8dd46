"""A broker's counters, for its operators.

Nothing here is counted for each message: actors count the batches and fetches that pass through them, and the logs
count what they write. The rest is read from boards when it is asked for, in slices, and no actor is called.
`COUNTERS` says what each name means; the pages have the same table.

The report has totals only, so it does not grow with topics and groups. `by_topic` and `by_group` are the counters
behind them, with a label.
"""

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import trio

from goqueue.actors.runtime.reports import ChildReport, Fate
from goqueue.actors.statistics.delays import DELAY_COUNTERS, DelayCounts, DelaySeries
from goqueue.actors.statistics.groups import GROUP_COUNTERS, LANE_COUNTERS, GroupCounts, GroupSeries
from goqueue.actors.statistics.refusallog import RefusalLog
from goqueue.actors.statistics.schemas import REGISTRY_COUNTERS, SCHEMA_COUNTERS, SchemaCounts, SchemaSeries
from goqueue.actors.statistics.traffic import FetchCounts, FetchSeries, publish_times
from goqueue.core.counters import CountsT, LabelledCounters
from goqueue.core.health import STALL_MEMORY_SECONDS, STALL_SECONDS
from goqueue.core.slices.cachebudget import CacheBudget
from goqueue.environment import Space
from goqueue.errors import BatchRefused, DuplicateMessage, GoQueueError
from goqueue.storage.log.openlogs import LogsSurvey, WrittenCounts
from goqueue.storage.log.scan import Damage
from goqueue.storage.log.volume import Volume
from goqueue.storage.slices import Slices
from goqueue.types import Scalar

THRESHOLDS_MS = (20, 100, 1_000)
REFUSED = "refused."
RESTARTS = "restarts."
DAMAGED_PARTITIONS_MAX = 100
"""Maximum number of partitions whose damage is named."""

COUNTERS = {
    "topics": "how many there are",
    "partitions": "of all topics",
    "partitions.unavailable": "could not be opened; the broker's log says why",
    "partitions.lost": "the disk lacks them; `goqueue topic restore-partition` says what is lost",
    "connections.open": "websockets, now",
    "connections.accepted": "websockets since the start",
    "requests": "of all connections",
    "restarts": "of actors that crashed; each is a line of the broker's log, and a bug to report",
    "restarts.KIND": "those of `partition`, `group`, and of other kinds once there was one",
    "published.messages": "written to logs",
    "published.batches": "they came in",
    "published.bytes": "of these batches, as they lie on disk",
    "published.repeats": "batches and messages by id that were sent again, noticed, and not written again",
    "producers": "of clients, remembered by partitions, of 100,000; one counts for each partition it writes to",
    "producers.forgotten": "for want of room, or after a day of silence",
    "refused": "batches that were refused",
    "refused.CODE": "those refused with this error, once there was one",
    "fetched.messages": "offsets read by clients, gaps of compaction among them",
    "fetched.slices": "reads of one partition that found something",
    "fetched.bytes": "of batches, as they lie on disk",
    **GROUP_COUNTERS,
    **LANE_COUNTERS,
    **DELAY_COUNTERS,
    **REGISTRY_COUNTERS,
    **SCHEMA_COUNTERS,
    "logs.bytes": "all segments of all partitions",
    "damaged.ranges": "of offsets that could not be read when they were last looked at",
    "damaged.TOPIC/PARTITION": "the first of them on this partition: its offsets, and the file",
    "fsync.rounds": "of the committer",
    "fsync.syncs": "of files and folders, in these rounds",
    "fsync.p50_ms": "how long half of those who waited for a sync waited, at most",
    "fsync.p99_ms": "the same of 99 in 100",
    "fsync.max_ms": "the longest wait",
    "files.open": "for reading, of 256",
    "mailbox.depth_highest": "the most letters that ever waited for one partition, or for the list of topics",
    "loop.stall_max_ms": "the longest time for which the event loop stood still",
    "loop.stalls_20_ms": "how often it stood still for longer than 20 ms",
    "loop.stalls_100_ms": "longer than 100 ms",
    "loop.stalls_1000_ms": "longer than a second",
    "uptime_seconds": "since the start",
    "disk.free_bytes": "where the data directory is",
    "disk.total_bytes": "the same",
    "memory.bytes": "resident memory of the process",
}


@dataclass(frozen=True, slots=True)
class TopicCounts:
    topics: int
    partitions: int
    unavailable: int
    lost: int
    depth_highest: int
    depth: int = 0
    """Letters that wait for all partitions, now."""


@dataclass(frozen=True, slots=True)
class TopicSeries:
    """The counters of one topic."""

    written: WrittenCounts
    delays: DelaySeries


@dataclass(slots=True)
class Stalls:
    """The stalls of the event loop."""

    highest: float = 0.0
    counts: dict[int, int] = field(default_factory=lambda: dict.fromkeys(THRESHOLDS_MS, 0))
    _long: deque[tuple[float, float]] = field(default_factory=deque)
    """The end and the length of each stall that impairs the broker, of the last minute."""

    def note(self, seconds: float, now: float) -> None:
        if seconds > STALL_SECONDS:
            self._long.append((now, seconds))
            self._forget(now)
        self.highest = max(self.highest, seconds)
        for threshold in THRESHOLDS_MS:
            if seconds * 1_000 <= threshold:
                break
            self.counts[threshold] += 1

    def longest_lately(self, now: float) -> float:
        """The longest stall of the last minute that impairs the broker; 0 if there was none."""
        self._forget(now)
        return max((seconds for _, seconds in self._long), default=0.0)

    def _forget(self, now: float) -> None:
        while self._long and self._long[0][0] < now - STALL_MEMORY_SECONDS:
            self._long.popleft()


class Statistics:
    def __init__(self, volume: Volume, data: str, budget: CacheBudget) -> None:
        self.volume = volume
        self._budget = budget
        self.data = data
        self._began = trio.current_time()
        self.connections = self.accepted = 0
        self.requests_of: Counter[str] = Counter()
        """By kind."""
        self.repeats = 0
        self.restarts = {"partition": 0, "group": 0}
        self.refused: dict[str, int] = {}
        self.refusals = RefusalLog()
        self.fetched = FetchCounts()
        self.publish_seconds = publish_times()
        self.groups = GroupCounts()
        self.delays = DelayCounts()
        self.schemas = SchemaCounts()
        self.stalls: Stalls | None = None
        """None without a watchdog, which measures them."""
        self.memory: Callable[[], int] | None = None
        """None without a process to ask."""
        self.collecting: Callable[[], float] | None = None
        """The seconds that garbage collections took; None likewise."""

    @property
    def requests(self) -> int:
        return sum(self.requests_of.values())

    # Counting

    def note_refused(self, error: GoQueueError, partition: str = "") -> None:
        """A batch was refused; `partition` is its name, if it was found."""
        if partition:
            self.refusals.note(partition, error)
        self.refused[error.code] = self.refused.get(error.code, 0) + 1
        if isinstance(error, BatchRefused):
            self.repeats += sum(isinstance(each.error, DuplicateMessage) for each in error.records)

    def note_child(self, report: ChildReport) -> None:
        if report.fate is Fate.RESTARTING:
            self.restarts[report.kind] = self.restarts.get(report.kind, 0) + 1

    # Reporting

    async def report(
        self,
        topics: TopicCounts,
        groups: int,
        lanes: Mapping[str, Scalar],
        schemas: Mapping[str, Scalar],
        slices: Slices,
    ) -> dict[str, Scalar]:
        logs = await self.volume.logs.survey(slices)
        return {
            "topics": topics.topics,
            "partitions": topics.partitions,
            "partitions.unavailable": topics.unavailable,
            "partitions.lost": topics.lost,
            "connections.open": self.connections,
            "connections.accepted": self.accepted,
            "requests": self.requests,
            "restarts": sum(self.restarts.values()),
            **{RESTARTS + kind: count for kind, count in self.restarts.items()},
            **self._traffic(logs.written, await _total(self.fetched.of, FetchSeries(), slices)),
            **self.groups.report(groups, await self.all_groups(slices)),
            "groups.bytes_kept": self._budget.bytes_kept,
            "groups.bytes_kept_max": self._budget.bytes_max,
            **lanes,
            **self.delays.report(await _total(self.delays.of, DelaySeries(), slices)),
            **schemas,
            **self.schemas.report(await _total(self.schemas.of, SchemaSeries(), slices)),
            **self._disk_work(logs),
            "mailbox.depth_highest": topics.depth_highest,
            **self._loop(),
            "uptime_seconds": round(trio.current_time() - self._began, 3),
            **self._room(),
        }

    async def by_topic(self, slices: Slices) -> dict[str, TopicSeries]:
        """The counters of each topic since the process began: none of them falls while the topic exists."""
        written, delays = (await self.volume.logs.survey(slices)).by_topic, self.delays.of
        return {
            topic: TopicSeries(written.get(topic, WrittenCounts()), delays.get(topic, DelaySeries()))
            for topic in sorted(written.keys() | delays.keys())
        }

    async def damaged(self, slices: Slices) -> list[str]:
        """The partitions with offsets that could not be read, as `orders/0`."""
        return sorted(map(_place, (await self.volume.logs.survey(slices)).damage))

    def disk_space(self) -> Space:
        return self.volume.disk.space(self.data)

    async def all_groups(self, slices: Slices) -> GroupSeries:
        """The sum of all groups, deleted ones among them."""
        return await _total(self.groups.of, GroupSeries(), slices)

    def by_group(self) -> Mapping[str, GroupSeries]:
        """The counters of each group since the process began: none of them falls while the group exists."""
        return self.groups.of

    def _traffic(self, written: WrittenCounts, fetched: FetchSeries) -> dict[str, int | float]:
        return {
            "published.messages": written.records,
            "published.batches": written.batches,
            "published.bytes": written.bytes,
            "published.repeats": self.repeats,
            "producers": len(self.volume.producers),
            "producers.forgotten": self.volume.producers.forgotten,
            "refused": sum(self.refused.values()),
            **{REFUSED + code: count for code, count in sorted(self.refused.items())},
            "fetched.messages": fetched.messages,
            "fetched.slices": fetched.slices,
            "fetched.bytes": fetched.bytes,
        }

    def _disk_work(self, logs: LogsSurvey) -> dict[str, Scalar]:
        volume = self.volume
        return {
            "logs.bytes": logs.bytes,
            **_damage_in(logs.damage),
            "fsync.rounds": volume.committer.rounds,
            "fsync.syncs": volume.committer.syncs,
            "fsync.p50_ms": _milliseconds(volume.waits.percentile(50)),
            "fsync.p99_ms": _milliseconds(volume.waits.percentile(99)),
            "fsync.max_ms": _milliseconds(volume.waits.highest),
            "files.open": volume.open_files,
        }

    def _loop(self) -> dict[str, int | float]:
        if self.stalls is None:
            return {}
        return {
            "loop.stall_max_ms": _milliseconds(self.stalls.highest),
            **{f"loop.stalls_{threshold}_ms": count for threshold, count in self.stalls.counts.items()},
        }

    def _room(self) -> dict[str, int | float]:
        space = self.disk_space()
        memory = {} if self.memory is None else {"memory.bytes": self.memory()}
        return {"disk.free_bytes": space.free, "disk.total_bytes": space.total, **memory}


async def _total(counters: LabelledCounters[CountsT], total: CountsT, slices: Slices) -> CountsT:
    """`total` is empty."""
    for series in counters.series():
        total.add(series)
        await slices.step()
    return total


def _damage_in(damage: Mapping[str, Sequence[Damage]]) -> dict[str, Scalar]:
    figures: dict[str, Scalar] = {"damaged.ranges": sum(map(len, damage.values()))}
    for directory, ranges in sorted(damage.items())[:DAMAGED_PARTITIONS_MAX]:
        place, first = _place(directory), min(ranges, key=lambda each: each.offset)
        figures[f"damaged.{place}"] = f"{first.offset}-{first.end_offset - 1} of {first.path}"
    return figures


def _place(directory: str) -> str:
    """A partition by its folder."""
    return "/".join(directory.split("/")[-2:])


def _milliseconds(seconds: float) -> float:
    return round(seconds * 1_000, 3)
