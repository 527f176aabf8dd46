"""An executor that is killed while it reads: its tasks are repeated elsewhere, and every message is there once."""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from goqueue import blocking

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

COUNT = 4_000


def test_every_message_is_read_once_though_an_executor_is_killed(
    spark_cluster: "SparkSession", url: str, client: blocking.Client, topic: str, tmp_path: Path
) -> None:
    client.create_topic(topic, 1)
    with client.producer(topic) as producer:
        producer.send_many([b"%d" % number for number in range(COUNT)])
    killed = str(tmp_path / "killed")

    def kill_once(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        """In the middle of the rows; a worker's parent is a daemon, and its parent is the executor."""
        import signal  # noqa: PLC0415

        for batch in batches:
            if batch.column("offset")[0].as_py() >= COUNT // 2 and not os.path.exists(killed):
                open(killed, "x").close()
                with open(f"/proc/{os.getppid()}/stat") as stat:
                    os.kill(int(stat.read().rpartition(")")[2].split()[1]), signal.SIGKILL)
            yield batch

    found: Counter[int] = Counter()

    def keep(rows: "DataFrame", _: int) -> None:
        found.update(row.offset for row in rows.collect())

    read = spark_cluster.readStream.format("goqueue").options(
        url=url, subscribe=topic, startingOffsets="earliest", minPartitions="4", maxOffsetsPerTrigger="2000"
    )
    rows = read.load().select("offset").mapInArrow(kill_once, "offset long")
    query = rows.writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path / "checkpoint"))
    query.trigger(availableNow=True).start().awaitTermination()
    assert os.path.exists(killed)
    assert found == Counter(range(COUNT))
