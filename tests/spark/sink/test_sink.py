"""Tables become topics, in batches and as a stream."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import pytest

from goqueue import blocking
from goqueue.client.reading.message import Message
from goqueue.spark.sink.sink import BATCH_ID, QUERY_ID, Attempt
from goqueue.types import Priority
from tests.spark.broker import BrokerProcess

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def write(table: "DataFrame", url: str, topic: str | None = None, mode: str = "append") -> None:
    writing = table.write.format("goqueue").mode(mode).option("url", url)
    (writing if topic is None else writing.option("topic", topic)).save()


def messages(client: blocking.Client, topic: str) -> list[Message]:
    return list(client.read(topic, end="latest"))


def values(client: blocking.Client, topic: str) -> list[bytes]:
    return sorted(message.value for message in messages(client, topic))


# In batches


def test_every_column_becomes_a_part_of_the_message(
    spark: "SparkSession", client: blocking.Client, url: str, topic: str
) -> None:
    client.create_topic(topic, 3)
    later = datetime.now(UTC) + timedelta(hours=1)
    columns = "value string, key string, headers array<struct<key:string,value:binary>>, priority int, "
    columns += "delay double, deliver_at timestamp, partition int, topic string"
    rows: list[tuple[Any, ...]] = [
        ("plain", None, None, None, None, None, 2, topic),
        ("with all", "k", [("a", b"1"), ("b", b"")], 0, None, None, 1, topic),
        ("by its key", "alice", [], 4, None, None, None, topic),
        ("late", "k", None, None, 3600.0, None, 0, topic),
        ("later", None, None, None, None, later, 0, topic),
    ]
    write(spark.createDataFrame(rows, columns).coalesce(1), url)
    found = {message.value: message for message in messages(client, topic)}
    assert set(found) == {b"plain", b"with all", b"by its key"}
    assert (found[b"plain"].partition, found[b"plain"].key, found[b"plain"].priority) == (2, None, Priority.NORMAL)
    full, headers = found[b"with all"], {"a": b"1", "b": b""}
    assert (full.partition, full.key, full.headers, full.priority) == (1, b"k", headers, Priority.CRITICAL)
    assert found[b"by its key"].priority is Priority.BACKGROUND
    assert found[b"by its key"].partition == client.publish(topic, b"", key=b"alice").partition
    dues = {each.key: each.due or 0 for each in client.delayed(topic, partition=0)}
    assert abs(dues[None] - later.timestamp()) < 0.001
    assert abs(dues[b"k"] - later.timestamp()) < 120


def test_rows_keep_their_order_and_the_option_wins_over_the_column(
    spark: "SparkSession", client: blocking.Client, url: str, topic: str
) -> None:
    client.create_topic(topic, 2)
    table = spark.range(30_000, numPartitions=1).selectExpr(
        "cast(id as string) as value", "cast(id % 7 as string) as key", "int(id % 3) as priority", "'none' as topic"
    )
    write(table, url, topic)
    by_key: dict[bytes | None, list[int]] = {}
    for message in messages(client, topic):
        by_key.setdefault(message.key, []).append(int(message.value))
    assert by_key == {b"%d" % key: list(range(key, 30_000, 7)) for key in range(7)}


@pytest.mark.parametrize(
    ("expressions", "to_topic", "fault"),
    [
        (["'a' as valeu"], True, "there is no column valeu; did you mean value?"),
        (["'a' as value", "1.5D as priority"], True, "priority is double; it must be a whole number or string"),
        (["'a' as value"], False, "nothing says which topic"),
    ],
)
def test_a_table_that_cannot_be_messages_is_told_before_any_task_starts(
    spark: "SparkSession", url: str, topic: str, expressions: list[str], to_topic: bool, fault: str
) -> None:
    from pyspark.errors import AnalysisException  # noqa: PLC0415

    with pytest.raises(AnalysisException, match=fault):
        write(spark.range(1).selectExpr(*expressions), url, topic if to_topic else None)


def test_a_topic_that_is_not_there_and_overwriting_are_told_before_any_task_starts(
    spark: "SparkSession", url: str, topic: str
) -> None:
    from pyspark.errors import AnalysisException  # noqa: PLC0415

    table = spark.range(1).selectExpr("'a' as value")
    with pytest.raises(AnalysisException, match=f"no topic.*{topic}"):
        write(table, url, topic)
    with pytest.raises(AnalysisException, match="a topic is not overwritten"):
        write(table, url, topic, mode="overwrite")


def test_a_row_that_cannot_be_a_message_fails_its_task_with_its_number(
    spark: "SparkSession", client: blocking.Client, url: str, topic: str
) -> None:
    from pyspark.errors import PySparkException  # noqa: PLC0415

    client.create_topic(topic, 1)
    with pytest.raises(
        PySparkException, match=r"RowRefused: row 5 of this task \(from 0\): without a value it is a tombstone"
    ):
        write(spark.range(0, 9, 1, 1).selectExpr("if(id = 5, null, 'a') as value"), url, topic)


def test_a_task_knows_by_whom_its_rows_are_written(spark: "SparkSession", url: str) -> None:
    """By the options of a batch, else by what Spark says of a stream, else by nobody."""

    def attempts(application: str | None, batch_id: int | None) -> list[Attempt | None]:
        def look(_: object) -> list[Attempt | None]:
            from goqueue.spark.options import SinkOptions  # noqa: PLC0415
            from goqueue.spark.sink.sink import attempt_of  # noqa: PLC0415

            return [attempt_of(SinkOptions(url, None, application, batch_id))]

        return spark.sparkContext.parallelize(range(2), 2).mapPartitions(look).collect()

    assert attempts("billing", 7) == [Attempt("billing", 7, task, 0) for task in range(2)]
    assert attempts(None, None) == [None, None]
    try:
        spark.sparkContext.setLocalProperty(QUERY_ID, "a query")
        spark.sparkContext.setLocalProperty(BATCH_ID, "3")
        assert attempts(None, None) == [Attempt("a query", 3, task, 0) for task in range(2)]
        assert attempts("billing", None) == [Attempt("billing", 3, task, 0) for task in range(2)]
    finally:
        spark.sparkContext.setLocalProperty(QUERY_ID, None)  # type: ignore[arg-type]  # takes it away
        spark.sparkContext.setLocalProperty(BATCH_ID, None)  # type: ignore[arg-type]  # takes it away


# As a stream


def test_a_stream_writes_each_row_and_goes_on_where_it_ended(
    spark: "SparkSession", client: blocking.Client, url: str, topic: str, tmp_path: Path
) -> None:
    client.create_topic(topic, 3)
    (tmp_path / "in").mkdir()
    for part in range(3):
        (tmp_path / "in" / f"{part}.txt").write_text("".join(f"{part}-{line}\n" for line in range(1_000)))

    def run_once() -> None:
        lines = spark.readStream.option("maxFilesPerTrigger", 1).text(str(tmp_path / "in"))
        writing = lines.writeStream.format("goqueue").option("url", url).option("topic", topic)
        query = (
            writing.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
        )
        assert query.awaitTermination(60)
        assert query.exception() is None

    run_once()
    (tmp_path / "in" / "3.txt").write_text("3-0\n")
    run_once()
    expected = [b"%d-%d" % (part, line) for part in range(3) for line in range(1_000)]
    assert values(client, topic) == sorted([*expected, b"3-0"])


def test_a_stream_to_a_topic_that_is_not_there_fails_with_one_sentence(
    spark: "SparkSession", url: str, topic: str, tmp_path: Path
) -> None:
    from pyspark.errors import StreamingQueryException  # noqa: PLC0415

    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.txt").write_text("a\n")
    writing = spark.readStream.text(str(tmp_path / "in")).writeStream.format("goqueue").option("url", url)
    writing = writing.option("topic", topic).option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writing.trigger(availableNow=True).start()
    with pytest.raises(StreamingQueryException, match=topic):
        query.awaitTermination(60)


# Faults


class KilledMidway(Thread):
    """Kills the broker once it has so many messages, and starts it again."""

    def __init__(self, broker: BrokerProcess, topic: str, count: int) -> None:
        super().__init__()
        self._broker, self._topic, self._count = broker, topic, count
        self.is_written = Event()
        self.came_too_late = True

    def run(self) -> None:
        with blocking.connect(self._broker.url) as client:
            reader = client.read(self._topic)
            for _ in range(self._count):
                next(reader)
        self._broker.kill()
        self.came_too_late = self.is_written.is_set()
        self._broker.start()


def test_a_broker_that_is_killed_and_comes_back_has_every_row_once(
    spark: "SparkSession", own_broker: BrokerProcess
) -> None:
    count, columns = 200_000, ["cast(id as string) as value", "cast(id % 9 as string) as key"]
    with blocking.connect(own_broker.url) as client:
        client.create_topic("orders", 3)
    killing = KilledMidway(own_broker, "orders", 5_000)
    killing.start()
    write(spark.range(count, numPartitions=2).selectExpr(*columns), own_broker.url, "orders")
    killing.is_written.set()
    killing.join(60)
    assert not killing.came_too_late
    with blocking.connect(own_broker.url) as client:
        found = Counter(int(message.value) for message in messages(client, "orders"))
    assert found == Counter(range(count))
