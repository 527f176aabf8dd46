"""Executors that are killed while they write: a table has every message once, a topic every row at least once."""

import json
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.dataset

from goqueue import blocking
from tests.spark.executors import killing

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

COUNT = 8_000
UNFIT_EACH = 9
FILES, ROWS = 4, 200_000
COPIED = 2_000
SCHEMA = {
    "type": "object",
    "required": ["id"],
    "properties": {"id": {"type": "integer"}, "customer": {"type": "string"}},
}


def order(number: int) -> bytes:
    """Each ninth does not fit."""
    return json.dumps({"id": number if number % UNFIT_EACH else "?", "customer": f"c{number % 7}"}).encode()


def publish(client: blocking.Client, topic: str, values: list[bytes]) -> None:
    with client.producer(topic) as producer:
        producer.send_many(values)


def places(folder: Path, prefix: str) -> "Counter[tuple[int, int]]":
    """Partition and offset of each row."""
    rows = pyarrow.dataset.dataset(folder, partitioning="hive").to_table([f"{prefix}partition", f"{prefix}offset"])
    return Counter(zip(*(column.to_pylist() for column in rows.columns), strict=True))


def test_every_message_is_in_the_table_or_its_quarantine_once_though_executors_are_killed(
    spark_cluster: "SparkSession", url: str, client: blocking.Client, topic: str, tmp_path: Path
) -> None:
    """One while it writes rows, one while it writes what does not fit."""
    from goqueue.spark.ingest.job import Ingest, ingest  # noqa: PLC0415

    client.create_topic(topic, 2)
    publish(client, topic, [order(number) for number in range(COUNT)])
    work = Ingest(url, [topic], str(tmp_path / "orders"), SCHEMA)
    staging = str(tmp_path / "orders/_goqueue/staging")
    with killing(
        spark_cluster,
        lambda file: file.startswith(staging) and "/rows/" in file,
        lambda file: file.startswith(staging) and "/quarantine/" in file,
    ) as killed:
        done = ingest(spark_cluster, work)
    assert len(killed.result()) == 2
    rows, unfit = places(tmp_path / "orders", "_"), places(tmp_path / "orders_quarantine", "")
    assert (done.rows, done.quarantined.total()) == (rows.total(), unfit.total())
    assert unfit.total() == len(range(0, COUNT, UNFIT_EACH))
    ends = {int(number): end for number, end in done.offsets[topic].items()}
    assert sum(ends.values()) == COUNT
    assert rows + unfit == Counter((number, offset) for number, end in ends.items() for offset in range(end))


def test_every_row_of_files_is_in_the_topic_though_an_executor_is_killed(
    spark_cluster: "SparkSession", url: str, client: blocking.Client, topic: str, tmp_path: Path
) -> None:
    """Once some of its rows are there, and while it reads on."""
    from goqueue.spark.load.job import Job, load  # noqa: PLC0415

    client.create_topic(topic, 2)
    (tmp_path / "in").mkdir()
    for file in range(FILES):
        lines = (f"{number}\n" for number in range(file, ROWS, FILES))
        (tmp_path / f"in/{file}.csv").write_text("n\n" + "".join(lines))
    job = Job(url, str(tmp_path / "in"), topic, value="n", checkpoint=str(tmp_path / "loaded"))
    advanced: list[int] = []
    with killing(
        spark_cluster,
        lambda file: (
            file.startswith(str(tmp_path / "in/")) and any(each.end for each in client.topic(topic).partitions)
        ),
    ) as killed:
        done = load(spark_cluster, job, advanced.append, advanced.append)
    assert len(killed.result()) == 1
    assert (done.files, done.rows) == (FILES, ROWS)
    counts = Counter(int(message.value) for message in client.read(topic, end="latest"))
    assert set(counts) == set(range(ROWS))
    assert max(counts.values()) <= 2, "a task was repeated once"
    assert load(spark_cluster, job, advanced.append, advanced.append).files_before == FILES


def test_every_row_of_a_stream_is_in_its_topic_though_an_executor_is_killed(
    spark_cluster: "SparkSession", url: str, client: blocking.Client, topic: str, tmp_path: Path
) -> None:
    """Before it has told that its rows are there."""
    client.create_topic(topic, 2)
    client.create_topic(f"{topic}-copy", 2)
    publish(client, topic, [b"%d" % number for number in range(COPIED)])
    killed = str(tmp_path / "killed")

    def kill_once(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        """Behind all rows of a task; a worker's parent is a daemon, and its parent is the executor."""
        import signal  # noqa: PLC0415

        yield from batches
        with suppress(FileExistsError), open(killed, "x"), open(f"/proc/{os.getppid()}/stat") as stat:
            os.kill(int(stat.read().rpartition(")")[2].split()[1]), signal.SIGKILL)

    options = {"url": url, "subscribe": topic, "startingOffsets": "earliest"}
    rows = spark_cluster.readStream.format("goqueue").options(**options).load().select("value")
    writing = rows.mapInArrow(kill_once, "value binary").writeStream.format("goqueue")
    writing = writing.options(url=url, topic=f"{topic}-copy", checkpointLocation=str(tmp_path / "checkpoint"))
    writing.trigger(availableNow=True).start().awaitTermination()
    assert os.path.exists(killed)
    counts = Counter(int(message.value) for message in client.read(f"{topic}-copy", end="latest"))
    assert set(counts) == set(range(COPIED))
    assert max(counts.values()) <= 2, "a task was repeated once"
