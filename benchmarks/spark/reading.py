"""A topic read as a table: Arrow record batches beside one row tuple at a time, and what it holds in memory."""

import statistics
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pyspark import cloudpickle
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

import goqueue.blocking
from benchmarks.broker import BrokerProcess
from benchmarks.commandline import Size, Tell
from benchmarks.figures import Figure, timed
from benchmarks.peers.workload import BLOCK, Wrong
from benchmarks.spark.session import Session, Watch
from goqueue.spark.connecting import connected
from goqueue.spark.format.datasource import GoQueueDataSource
from goqueue.spark.options import source_options
from goqueue.spark.reading.source import GoQueueReader, RangePartition

PARTITIONS = 4
ROWS_MIN, RATIO_MIN = 500_000, 5.0
MEMORY_RATIO_MAX = 1.25
"""Of ten times as many messages."""


@dataclass(frozen=True, slots=True)
class Sizes:
    warm: int = 8
    runs: int = 3
    messages: int = 2_000_000


SIZES: dict[Size, Sizes] = {
    "full": Sizes(),
    "quick": Sizes(warm=3, messages=400_000),
    "tiny": Sizes(warm=1, runs=1, messages=40_000),
}


class TupleReader(GoQueueReader):
    """The same plan, and then as a Python data source is usually written: a reader's messages, row by row."""

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, RangePartition)
        one = partition.offsets
        with connected(self._options.url) as client:
            for message in client.read(one.topic, partition=one.partition, start=one.start, end=one.end):
                when = datetime.fromtimestamp(message.timestamp, UTC)
                place = (message.topic, message.partition, message.offset)
                yield (message.key, message.value, *place, when, int(message.priority))


class TupleDataSource(GoQueueDataSource):
    @classmethod
    def name(cls) -> str:
        return "goqueue-tuples"

    def reader(self, schema: StructType) -> DataSourceReader:
        return TupleReader(schema, source_options(self.options, streaming=False))


def fill(url: str, topic: str, count: int) -> None:
    with goqueue.blocking.connect(url) as client:
        client.create_topic(topic, PARTITIONS)
        with client.producer(topic) as producer:
            for number in range(count // len(BLOCK)):
                producer.send_many(BLOCK, partition=number % PARTITIONS)


class Reading:
    def __init__(self, session: Session, url: str) -> None:
        self._spark = session.spark
        self._url = url

    def read(self, kind: str, topic: str, count: int) -> float:
        """Rows a second, from the plan to the last row. Little is done with a row: it is reading that is timed."""
        with timed() as watch:
            self._look(kind, topic, ("count(*)", count), ("sum(offset)", _sum_of_offsets(count)))
        return count / watch.seconds

    def check(self, kind: str, topic: str, count: int) -> None:
        """That every byte of every value is there, too."""
        once = sum(map(zlib.crc32, BLOCK))
        self._look(kind, topic, ("count(*)", count), ("sum(crc32(value))", once * (count // len(BLOCK))))

    def _look(self, kind: str, topic: str, *expected: tuple[str, int]) -> None:
        rows = self._spark.read.format(kind).options(url=self._url, subscribe=topic).load()
        [found] = rows.selectExpr(*[name for name, _ in expected]).collect()
        if list(found) != [value for _, value in expected]:
            raise Wrong(f"{found} is not what was written: {expected}")


def _sum_of_offsets(count: int) -> int:
    each = count // PARTITIONS
    return PARTITIONS * each * (each - 1) // 2


def measure(session: Session, broker: BrokerProcess, size: Size, tell: Tell) -> list[Figure]:
    sizes = SIZES[size]
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]  # not at workers
    session.spark.dataSource.register(TupleDataSource)
    for topic, count in (("large", sizes.messages), ("small", sizes.messages // 10)):
        tell(f"{count:,} messages are written")
        fill(broker.url, topic, count)
    reading = Reading(session, broker.url)
    memory = _memory(reading, session, sizes, tell)
    for kind in ("goqueue", "goqueue-tuples"):
        tell("every value is checked")
        reading.check(kind, "small", sizes.messages // 10)
    for _ in range(sizes.warm):
        tell("warming up")
        reading.read("goqueue", "large", sizes.messages)
    return [*_rates(reading, sizes, tell), *memory]


def _rates(reading: Reading, sizes: Sizes, tell: Tell) -> list[Figure]:
    arrow, tuples = list[float](), list[float]()
    for _ in range(sizes.runs):
        tell("reading, in turns")
        arrow.append(reading.read("goqueue", "large", sizes.messages))
        tuples.append(reading.read("goqueue-tuples", "large", sizes.messages))
    rate = statistics.median(arrow)
    ratio = statistics.median(one / two for one, two in zip(arrow, tuples, strict=True))
    return [
        Figure("batch read", rate, "rows/s", f"≥ {ROWS_MIN:,}", rate >= ROWS_MIN),
        Figure("the same, a row tuple at a time", statistics.median(tuples), "rows/s"),
        Figure("batch read / a row tuple at a time", ratio, "×", f"≥ {RATIO_MIN:g}", ratio >= RATIO_MIN),
    ]


def _memory(reading: Reading, session: Session, sizes: Sizes, tell: Tell) -> list[Figure]:
    """The small one first, twice: workers are used again, and what a large one left them would hide its growth."""
    held: dict[str, tuple[float, float]] = {}
    for topic, count in (*[("small", sizes.messages // 10)] * 2, ("large", sizes.messages)):
        tell("memory")
        with Watch(session.pid) as watch:
            reading.read("goqueue", topic, count)
        held[topic] = watch.peak_mib, session.heap_mib()
    return [
        *_grown("a worker of Python, at most", held["large"][0], held["small"][0], sizes.messages),
        *_grown("Java's heap, afterwards", held["large"][1], held["small"][1], sizes.messages),
    ]


def _grown(name: str, large: float, small: float, messages: int) -> list[Figure]:
    ratio = large / small if small else 0.0
    return [
        Figure(f"{name}, {messages:,} messages", large, "MiB"),
        Figure(f"{name}, beside a tenth of them", ratio, "×", f"≤ {MEMORY_RATIO_MAX:g}", ratio <= MEMORY_RATIO_MAX),
    ]
