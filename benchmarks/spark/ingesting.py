"""How fast a topic becomes a table: `goqueue spark ingest` of messages of about 100 bytes, typed by a schema.

One run before warms Spark up; the second is the figure. Memory is that of the driver's Java, which in `local[2]` is
the executor's too: after the smaller run and after the larger.
"""

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from benchmarks.figures import Figure, timed
from goqueue import blocking

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GOAL = 200_000
MEMORY_RATIO_MAX = 1.5
PUBLISHED_AT_ONCE = 20_000
SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["id", "at", "customer", "price"],
    "properties": {
        "id": {"type": "integer", "minimum": 0},
        "at": {"type": "string", "format": "date-time"},
        "customer": {"type": "string", "maxLength": 40},
        "price": {"type": "number", "minimum": 0},
    },
}


def order(number: int) -> bytes:
    fields = {"id": number, "at": "2026-11-17T10:00:00Z", "customer": f"customer {number:012d}", "price": 9.75}
    return json.dumps(fields).encode()


def measure_ingest(spark: "SparkSession", url: str, count: int = 2_000_000, partitions: int = 4) -> list[Figure]:
    """In a session that has goqueue registered, from a broker that has room for the messages."""
    folder = Path(tempfile.mkdtemp(prefix="goqueue-ingest-"))
    try:
        _ingest(spark, url, _filled(url, count // 10, partitions), folder / "warm")
        before = _memory(spark)
        topic = _filled(url, count, partitions)
        with timed() as watch:
            done = _ingest(spark, url, topic, folder / "measured")
        raw = _ingest(spark, url, topic, folder / "raw", typed=False)
        assert (done.rows, raw.rows) == (count, count), "a message is missing or came twice"
        growth = _memory(spark) / before
    finally:
        shutil.rmtree(folder)
    size = len(order(count))
    rate, raw_rate = count / watch.seconds, count / raw.seconds
    return [
        Figure(f"ingest to typed Parquet, {size} bytes", rate, "rows/s", f"≥ {GOAL:,}", rate >= GOAL),
        Figure(f"ingest to raw Parquet, {size} bytes", raw_rate, "rows/s", f"≥ {GOAL:,}", raw_rate >= GOAL),
        Figure(
            "memory in use after ten times the messages",
            growth,
            "×",
            f"≤ {MEMORY_RATIO_MAX}",
            growth <= MEMORY_RATIO_MAX,
        ),
    ]


def _ingest(spark: "SparkSession", url: str, topic: str, path: Path, *, typed: bool = True) -> Any:
    from goqueue.spark.ingest.job import Ingest, ingest  # noqa: PLC0415 (PySpark is asked for first)

    return ingest(spark, Ingest(url, [topic], str(path), SCHEMA if typed else None))


def _filled(url: str, count: int, partitions: int) -> str:
    topic = f"ingest-{uuid4().hex[:12]}"
    with blocking.connect(url) as client:
        client.create_topic(topic, partitions)
        with client.producer(topic, batch_messages=1_000) as producer:
            for values in _batches(count):
                producer.send_many(values)
    return topic


def _batches(count: int) -> Iterator[list[bytes]]:
    for begin in range(0, count, PUBLISHED_AT_ONCE):
        yield [order(number) for number in range(begin, min(count, begin + PUBLISHED_AT_ONCE))]


def _memory(spark: "SparkSession") -> float:
    """Bytes that live in Java after a collection."""
    jvm: Any = spark.sparkContext._jvm
    jvm.java.lang.System.gc()
    runtime = jvm.java.lang.Runtime.getRuntime()
    return float(runtime.totalMemory() - runtime.freeMemory())
