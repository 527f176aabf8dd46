"""How fast Spark writes a table to a topic: two tasks, a broker on the same machine, every row counted."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from benchmarks.figures import Figure, timed
from goqueue import blocking

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MESSAGES = 2_000_000
PER_SECOND_GOAL = 150_000
GROWTH_MIB_MAX = 32.0
TASKS = 2
VALUE = "repeat('v', 92) || lpad(hex(id), 8, '0')"
"""100 bytes."""


def measure_sink(spark: "SparkSession", url: str, messages: int = MESSAGES) -> list[Figure]:
    """After a warm-up: of values alone, and of values with keys where one priority in ten differs."""
    with blocking.connect(url, name="benchmark") as client:
        plain, keyed = _plain(spark, messages), _keyed(spark, messages // 4)
        _forget_peaks()  # other parts of the benchmark have used the same processes
        _seconds(client, url, _plain(spark, messages // 4))
        before = _workers_mib()
        assert before, "the processes of the tasks are there"
        _forget_peaks()
        rate = messages / _seconds(client, url, plain)
        growth = max(0.0, _workers_mib() - before)  # workers that end meanwhile take theirs with them
        keyed_rate = messages // 4 / _seconds(client, url, keyed)
    fast_enough, flat = rate >= PER_SECOND_GOAL, growth <= GROWTH_MIB_MAX
    return [
        Figure("sink: values of 100 bytes", rate, "rows/s", f"≥ {PER_SECOND_GOAL:,}", fast_enough),
        Figure("sink: with keys, and priorities that differ", keyed_rate, "rows/s"),
        Figure(
            "sink: memory of tasks, 4 times the rows",
            growth,
            "MiB more",
            f"≤ {GROWTH_MIB_MAX:g}",
            flat,
        ),
    ]


def _plain(spark: "SparkSession", messages: int) -> "DataFrame":
    return spark.range(messages, numPartitions=TASKS).selectExpr(f"cast({VALUE} as binary) as value")


def _keyed(spark: "SparkSession", messages: int) -> "DataFrame":
    columns = (f"cast({VALUE} as binary) as value", "hex(id % 1000) as key", "if(id % 10 = 0, 1, 2) as priority")
    return spark.range(messages, numPartitions=TASKS).selectExpr(*columns)


def _seconds(client: blocking.Client, url: str, table: "DataFrame") -> float:
    """How long it took; that all rows are there is counted, and their topic is gone afterwards."""
    topic = f"spark-sink-{os.getpid()}"
    client.create_topic(topic, 3)
    try:
        with timed() as watch:
            table.write.format("goqueue").mode("append").option("url", url).option("topic", topic).save()
        there = sum(each.end - each.start for each in client.topic(topic).partitions)
        assert there == table.count(), f"{there} rows arrived"
    finally:
        client.delete_topic(topic)
    return watch.seconds


# Memory


def _workers_mib() -> float:
    """What all Python processes of the session had at most, each at its worst."""
    return sum(map(_peak_kib, _workers())) / 1024


def _forget_peaks() -> None:
    """From here on Linux counts anew what each of them has at most."""
    for pid in _workers():
        with open(f"/proc/{pid}/clear_refs", "w") as file:
            file.write("5")


def _workers() -> list[int]:
    return [pid for pid in _descendants(os.getpid()) if _is_worker(pid)]


def _descendants(pid: int) -> Iterator[int]:
    try:
        threads = os.listdir(f"/proc/{pid}/task")
        children = " ".join(_read(f"/proc/{pid}/task/{thread}/children") for thread in threads).split()
    except OSError:
        return
    for child in map(int, children):
        yield child
        yield from _descendants(child)


def _is_worker(pid: int) -> bool:
    return "pyspark.daemon" in _read(f"/proc/{pid}/cmdline")


def _peak_kib(pid: int) -> int:
    lines = [line for line in _read(f"/proc/{pid}/status").splitlines() if line.startswith("VmHWM:")]
    return int(lines[0].split()[1]) if lines else 0


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError:  # it has ended meanwhile
        return ""
