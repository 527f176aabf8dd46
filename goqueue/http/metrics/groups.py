"""Metrics of groups: counters, members, and how each stands on its topics and lanes.

The age of a message is in the log, so few ages are read in one scrape. What was read is remembered by the
partition, and the next scrape goes on behind the last: a group that stands still has its true age after a few of
them, however many there are.
"""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import trio

from goqueue.actors.delivery.board import LedgerBoard
from goqueue.actors.delivery.view import LedgerGauges
from goqueue.actors.groups.board import GroupBoard, GroupsBoard
from goqueue.actors.node.broker import Broker
from goqueue.actors.statistics.groups import GroupSeries
from goqueue.core.ledger.settlements import Action
from goqueue.core.ledger.views import LaneFigures
from goqueue.errors import GoQueueError, UnknownFormat
from goqueue.http.metrics import families as f
from goqueue.http.metrics.samples import Samples, label
from goqueue.storage.slices import Slices
from goqueue.types import LANE_COUNT, Priority

AGES_READ_MAX = 200
"""Limit of the messages whose age is read from logs in one scrape."""
MIXED_LOOKED_AT_MAX = 20
"""Limit of the partitions of groups where messages of several priorities are counted in one scrape."""
COUNTED_MAX = 1_000
"""Limit of the messages of one priority that are counted on such a partition."""
PORTION = 32
"""Groups of one partition that are looked at in one step of a slice."""
_LANE_LABELS = tuple(label("priority", lane.name.lower()) for lane in Priority)


@dataclass(slots=True)
class OnTopic:
    """A group on one topic."""

    in_flight: int = 0
    waiting_retry: int = 0
    leaving: int = 0
    oldest: float = 0.0

    def add(self, gauges: LedgerGauges) -> None:
        self.in_flight += gauges.in_flight
        self.waiting_retry += gauges.waiting_retry
        self.leaving += gauges.leaving


@dataclass(slots=True)
class Lanes:
    """The lanes of a group."""

    in_flight: list[int] = field(default_factory=lambda: [0] * LANE_COUNT)
    ready: list[int] = field(default_factory=lambda: [0] * LANE_COUNT)
    oldest: list[float] = field(default_factory=lambda: [0.0] * LANE_COUNT)
    is_known: bool = True
    """Ready messages and ages are known of all partitions."""

    def add(self, in_flight: Sequence[int], ready: Sequence[int]) -> None:
        for lane in range(LANE_COUNT):
            self.in_flight[lane] += in_flight[lane]
            self.ready[lane] += ready[lane]

    def add_counted(self, figures: Sequence[LaneFigures]) -> None:
        for lane, each in enumerate(figures):
            self.is_known &= each.ready is not None
            self.ready[lane] += each.ready or 0
            self.oldest[lane] = max(self.oldest[lane], (each.oldest_ms or 0) / 1_000)


class Lagging(NamedTuple):
    """A partition where a group is not done."""

    board: LedgerBoard
    group: str
    topic: str
    gauges: LedgerGauges


class GroupsWalk:
    """It outlives a scrape: the next one reads the ages of others."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._next_age = self._next_mixed = 0
        self.begin()

    def begin(self, topics: Collection[str] = ()) -> None:
        """`topics` are all that there are."""
        self._topics = topics
        self._on_topics: dict[tuple[str, str], OnTopic] = {}
        self._topics_of: defaultdict[str, set[str]] = defaultdict(set)
        """The topics that each group reads."""
        self._lanes: dict[str, Lanes] = {}
        self._lagging: list[Lagging] = []

    # Partition by partition

    async def note(self, board: LedgerBoard, samples: Samples, slices: Slices) -> None:
        """All groups of one partition."""
        known, now = self._broker.statistics.groups.of, trio.current_time()
        topic, number = board.partition
        of_topic, of_partition = label("topic", topic), label("partition", number)
        for count, group in enumerate(list(board.ledgers.groups), 1):
            gauges = board.gauges(group, now) if group in known else None
            if gauges is not None:
                of_group = f"{label('group', group)},{of_topic}"
                samples.put_split(f.LAG, gauges.lag, of_group, of_partition)
                samples.put_split(f.COMMITTED, gauges.committed, of_group, of_partition)
                self._add(board, group, topic, gauges)
            if not count % PORTION:
                await slices.step()

    def _add(self, board: LedgerBoard, group: str, topic: str, gauges: LedgerGauges) -> None:
        on_topic = self._on_topics.get((group, topic))
        if on_topic is None:
            on_topic = self._on_topics[group, topic] = OnTopic()
            self._topics_of[group].add(topic)
        if gauges.lag:
            on_topic.add(gauges)
            self._lagging.append(Lagging(board, group, topic, gauges))

    # When all partitions were seen

    async def collect(self, samples: Samples, slices: Slices) -> None:
        for group, series in sorted(self._broker.statistics.by_group().items()):
            self._lanes[group] = Lanes()
            _put_counters(samples, label("group", group), series)
            self._put_letters(samples, group, series)
            await slices.step()
        await self._add_lanes(slices)
        await self._read_ages(slices)
        self._put_groups(samples)
        for (group, topic), on_topic in self._on_topics.items():
            _put_on_topic(samples, f"{label('group', group)},{label('topic', topic)}", on_topic)
            await slices.step()
        for group, lanes in self._lanes.items():
            _put_lanes(samples, label("group", group), lanes)
            await slices.step()
        self.begin()

    def _put_letters(self, samples: Samples, group: str, series: GroupSeries) -> None:
        """From zero on for each topic that the group reads, so that the first dead letter is seen as a rise."""
        for topic in sorted(self._topics_of[group] | series.dead_letters.keys() | series.redriven.keys()):
            if topic in self._topics:  # the series of a deleted topic end
                labels = f"{label('group', group)},{label('topic', topic)}"
                samples.put(f.DEAD_LETTERS, series.dead_letters[topic], labels)
                samples.put(f.REDRIVEN, series.redriven[topic], labels)

    def _put_groups(self, samples: Samples) -> None:
        board = self._broker.groups.board
        try:
            refs = board.refs() if isinstance(board, GroupsBoard) else {}
        except UnknownFormat:
            refs = {}
        for group, ref in refs.items():
            if isinstance(ref.board, GroupBoard):
                samples.put(f.MEMBERS, ref.board.members, label("group", group))
                samples.put(f.GENERATION, ref.board.generation, label("group", group))

    async def _add_lanes(self, slices: Slices) -> None:
        mixed = []
        for place in self._lagging:
            lanes, ready = self._lanes.setdefault(place.group, Lanes()), place.gauges.ready_of
            if ready is None:
                mixed.append(place)
            lanes.add(place.gauges.in_flight_of, ready or (0,) * LANE_COUNT)
            await slices.step()
        looked_at, self._next_mixed = _portion(mixed, self._next_mixed, MIXED_LOOKED_AT_MAX)
        seen = set(map(id, looked_at))
        for place in mixed:
            self._lanes[place.group].is_known &= id(place) in seen
        for place in looked_at:
            await self._count_lanes(place)

    async def _count_lanes(self, place: Lagging) -> None:
        lanes = self._lanes[place.group]
        try:
            view = await place.board.view_nearby(place.group, COUNTED_MAX)
        except GoQueueError:  # its log was closed meanwhile
            view = None
        if view is None:
            lanes.is_known = False
        else:
            lanes.add_counted(view.lanes)

    async def _read_ages(self, slices: Slices) -> None:
        unknown = []
        for place in self._lagging:
            age = place.board.known_age(place.gauges.committed)
            if age is None:
                unknown.append(place)
            else:
                self._note_age(place, age)
            await slices.step()
        some, self._next_age = _portion(unknown, self._next_age, AGES_READ_MAX)
        for place in some:
            try:
                self._note_age(place, await place.board.age(place.gauges.committed))
            except GoQueueError:
                continue
            await slices.step()

    def _note_age(self, place: Lagging, age: float) -> None:
        on_topic, lane = self._on_topics[place.group, place.topic], place.gauges.only_lane
        on_topic.oldest = max(on_topic.oldest, age)
        if lane is not None:
            oldest = self._lanes[place.group].oldest
            oldest[lane] = max(oldest[lane], age)


def _portion(places: Sequence[Lagging], first: int, count: int) -> tuple[Sequence[Lagging], int]:
    """At most `count` of them, from the one on at which the last scrape ended, and where the next begins."""
    if len(places) <= count:
        return places, 0
    first %= len(places)
    return [*places[first:], *places[:first]][:count], first + count


def _put_counters(samples: Samples, labels: str, series: GroupSeries) -> None:
    samples.put(f.DELIVERED, series.delivered, labels)
    samples.put(f.REDELIVERED, series.again, labels)
    samples.put(f.ACKED, series.settled[Action.ACK], labels)
    samples.put(f.NACKED, series.settled[Action.NACK], labels)
    samples.put(f.REJECTED, series.settled[Action.REJECT], labels)
    samples.put(f.RELEASED, series.settled[Action.RELEASE], labels)
    samples.put(f.EXPIRED, series.expired, labels)
    samples.put(f.STALE, series.stale, labels)
    samples.put(f.REMOVED_UNACKED, series.removed_unacked, labels)
    samples.put(f.REBALANCES, series.rebalances, labels)
    samples.put_histogram(f.REBALANCE_SECONDS, series.rebalance_seconds, labels)
    samples.put_histogram(f.ACK_SECONDS, series.ack_seconds, labels)
    for lane in Priority:
        samples.put(f.LANE_SERVED, series.served[lane], f"{labels},{_LANE_LABELS[lane]}")


def _put_on_topic(samples: Samples, labels: str, on_topic: OnTopic) -> None:
    samples.put(f.OLDEST_UNACKED, on_topic.oldest, labels)
    samples.put(f.IN_FLIGHT, on_topic.in_flight, labels)
    samples.put(f.WAITING_RETRY, on_topic.waiting_retry, labels)
    samples.put(f.LEAVING, on_topic.leaving, labels)


def _put_lanes(samples: Samples, labels: str, lanes: Lanes) -> None:
    for lane in Priority:
        of_lane = f"{labels},{_LANE_LABELS[lane]}"
        samples.put(f.LANE_IN_FLIGHT, lanes.in_flight[lane], of_lane)
        if lanes.is_known:
            samples.put(f.LANE_READY, lanes.ready[lane], of_lane)
            samples.put(f.LANE_OLDEST, lanes.oldest[lane], of_lane)
