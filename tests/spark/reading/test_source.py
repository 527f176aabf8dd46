"""A topic is a table that is read once: every message, and one clear error where that cannot be."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from goqueue import blocking
from goqueue.client.reading.message import Message
from goqueue.client.reading.slices import AHEAD_BYTES_MAX
from goqueue.errors import DataLost, GoQueueError
from goqueue.spark.options import source_options
from goqueue.spark.reading.ranges import OffsetRange
from goqueue.spark.reading.source import GoQueueReader, RangePartition
from goqueue.spark.reading.topics import bytes_each
from goqueue.spark.schema import source_schema
from tests.spark.broker import BrokerProcess

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.datasource import InputPartition

LINES_OF_AN_ERROR = 15
"""The sentence, and what Spark puts around it; ours alone were forty once."""


def table(spark: "SparkSession", url: str, **options: object) -> "DataFrame":
    return spark.read.format("goqueue").options(**texts(url, options)).load()


def texts(url: str, options: Mapping[str, object]) -> dict[str, str]:
    named = {name: each if isinstance(each, str) else json.dumps(each) for name, each in options.items()}
    return {"url": url, **named}


def row_of(message: Message) -> tuple[Any, ...]:
    headers = sorted((name, bytes(value)) for name, value in message.headers.items())
    place = (message.topic, message.partition, message.offset)
    return (message.key, message.value, *place, round(message.timestamp * 1e6), int(message.priority), headers)


def rows(read: "DataFrame") -> list[tuple[Any, ...]]:
    """As `row_of` has them, in the order of their places."""
    found = read.selectExpr("*", "unix_micros(timestamp) AS micros").collect()
    made = [
        (
            None if row.key is None else bytes(row.key),
            bytes(row.value),
            *(row.topic, row.partition, row.offset, row.micros, row.priority),
            sorted((header.key, bytes(header.value)) for header in row.headers),
        )
        for row in found
    ]
    return sorted(made, key=place)


def place(row: tuple[Any, ...]) -> tuple[int, int]:
    return row[3], row[4]


def fill(client: blocking.Client, topic: str) -> list[Message]:
    """Messages of every kind: the readable ones."""
    client.create_topic(topic, 3)
    with client.producer(topic) as producer:
        for partition in range(3):
            producer.send_many([b"%d" % number for number in range(150)], partition=partition)
        for number in range(30):
            headers = {"trace": b"%d" % number} if number % 3 else None
            producer.send(
                b"" if number % 5 else b"keyed", key=b"k%d" % (number % 7), headers=headers, priority=number % 5
            )
    client.publish(topic, b"never", delay=3_600, partition=0)
    client.publish(topic, b"expired", ttl=0.001, partition=0)
    client.publish(topic, b"fired", delay=0.05, partition=1)
    client.delete_before(topic, 2, 20)
    with blocking.fail_after(30), client.read(topic, partition=1) as following:
        assert any(message.value == b"fired" for message in following)
    return list(client.read(topic, end="latest"))


def test_what_came_with_modules_is_not_looked_at_after_each_task(
    spark: "SparkSession", url: str, client: blocking.Client, topic: str
) -> None:
    """It would take longer than a small task does."""
    client.create_topic(topic, 2)
    for partition in range(2):
        client.publish(topic, b"v", partition=partition)
    for _ in range(4):
        assert table(spark, url, subscribe=topic).count() == 2

    def set_apart(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        import gc  # noqa: PLC0415

        import pyarrow as pa  # noqa: PLC0415

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"count": [gc.get_freeze_count()]})

    counts = spark.range(4, numPartitions=4).mapInArrow(set_apart, "count long").collect()
    assert max(row[0] for row in counts) > 10_000


def test_the_size_of_records_is_known_also_in_the_middle_of_a_batch(
    url: str, client: blocking.Client, topic: str
) -> None:
    """Else a range that begins with a batch's last record would be cut into very many tasks."""
    client.create_topic(topic, 1)
    with client.producer(topic) as producer:
        producer.send_many([bytes(100)] * 1_000, partition=0)
    uuid = client.topic(topic).uuid
    sizes = [bytes_each(client, OffsetRange(topic, uuid, 0, start, 1_000)) for start in (0, 500, 999)]
    assert all(132 <= size < 140 for size in sizes), sizes


def test_a_table_has_every_message_that_a_reader_gets(
    spark: "SparkSession", url: str, client: blocking.Client, topic: str
) -> None:
    expected = fill(client, topic)
    everything = table(spark, url, subscribe=topic, includeHeaders="true", minPartitions="7")
    found = rows(everything)
    assert found == sorted(map(row_of, expected), key=place)
    assert {b"fired"} < {row[1] for row in found}
    assert not {b"never", b"expired"} & {row[1] for row in found}
    assert everything.rdd.getNumPartitions() >= 7
    # From one offset to another; the end is not read.
    part = table(
        spark,
        url,
        assign={topic: [0, 2]},
        startingOffsets={topic: {"0": 10, "2": -2}},
        endingOffsets={topic: {"0": 15, "2": -1}},
    )
    places = {(row.partition, row.offset) for row in part.select("partition", "offset").collect()}
    assert places == {(0, offset) for offset in range(10, 15)} | {
        (message.partition, message.offset) for message in expected if message.partition == 2
    }
    assert min(offset for number, offset in places if number == 2) == 20

    # From one time to another; of a time behind all messages there is nothing.
    middle = str(int(1_000 * sorted(message.timestamp for message in expected)[len(expected) // 2]))
    before = table(spark, url, subscribe=topic, endingTimestamp=middle)
    after = table(spark, url, subscribePattern=f"{topic}.*", startingTimestamp=middle)
    late = table(spark, url, subscribe=topic, startingTimestamp="99999999999999")
    halves = before.union(after).union(late).select("partition", "offset").collect()
    assert sorted(map(tuple, halves)) == sorted((each.partition, each.offset) for each in expected)
    assert late.rdd.getNumPartitions() == 1, "one that does nothing"


def test_what_cannot_be_read_is_told_where_the_query_is_planned(
    url: str, client: blocking.Client, topic: str
) -> None:
    client.create_topic(topic, 2)
    client.publish(topic, b"first", partition=0)
    client.publish(topic, b"second", partition=0)
    client.delete_before(topic, 0, 1)
    removed = {topic: {"0": 0, "1": 0}}
    for options, told in (
        ({"subscribe": f"{topic}-x"}, f"there is no topic '{topic}-x'"),
        ({"subscribe": f"{topic}-x,{topic},{topic}-y"}, f"there are no topics '{topic}-x', '{topic}-y'"),
        ({"subscribePattern": "nothing-like-it.*"}, "no topic fits subscribePattern"),
        ({"assign": {topic: [0, 2]}}, f"assign names partition 2 of topic {topic}, which has 2"),
        ({"subscribe": topic, "startingOffsets": {topic: {"0": 1}}}, "startingOffsets says nothing of partition 1"),
        ({"subscribe": topic, "endingOffsets": {"other": {"0": 1}}}, "names partition 0 of topic other"),
        ({"subscribe": topic, "startingOffsets": removed}, f"offsets 0 to 0 of {topic}/0 are no longer there"),
        (
            {"subscribe": topic, "endingOffsets": {topic: {"0": 9, "1": 0}}},
            f"partition 0 of topic {topic}, which ends at offset 2",
        ),
        ({"subscribe": topic, "startingOffsets": {topic: {"0": 1, "1": 7}}}, "startingOffsets says offset 7"),
    ):
        with pytest.raises(GoQueueError, match=re.escape(told)):
            plan(url, **options)
    [left] = plan(url, subscribe=topic, startingOffsets=removed, failOnDataLoss="false")
    assert isinstance(left, RangePartition)
    assert (left.offsets.start, left.offsets.end) == (1, 2)


def test_what_was_deleted_since_the_plan_is_no_row(url: str, client: blocking.Client, topic: str) -> None:
    """Also of a batch of the log of which some is left."""
    client.create_topic(topic, 1)
    with client.producer(topic) as producer:
        producer.send_many([b"x"] * 10)
    read = reader(url, subscribe=topic, failOnDataLoss="false")
    [planned] = read.partitions()
    client.delete_before(topic, 0, 5)
    offsets = [offset for batch in read.read(planned) for offset in batch["offset"].to_pylist()]
    assert offsets == list(range(5, 10))


def plan(url: str, **options: object) -> "Sequence[InputPartition]":
    return reader(url, **options).partitions()


def reader(url: str, **options: object) -> GoQueueReader:
    """As Spark makes it, in this process."""
    read = source_options(texts(url, options), streaming=False)
    return GoQueueReader(source_schema(include_headers=False), read)


def test_spark_tells_of_it_before_any_task_starts(spark: "SparkSession", url: str, topic: str) -> None:
    from pyspark.errors import AnalysisException  # noqa: PLC0415

    for options, told in (
        ({"subscribe": topic}, rf"{topic}"),
        ({"subscribe": topic, "startingOffsets": "{"}, "startingOffsets: '{' is not JSON like"),
    ):
        with pytest.raises(AnalysisException) as refused:
            table(spark, url, **options).collect()
        assert told in str(refused.value)
        assert len(str(refused.value).splitlines()) < LINES_OF_AN_ERROR


def test_a_topic_that_was_made_anew_between_the_plan_and_the_read_is_told(
    spark: "SparkSession", url: str, client: blocking.Client, topic: str
) -> None:
    from pyspark.errors import PySparkException  # noqa: PLC0415

    client.create_topic(topic, 1)
    client.publish(topic, b"old")
    planned = table(spark, url, subscribe=topic)
    assert planned.count() == 1
    client.delete_topic(topic)
    client.create_topic(topic, 1)
    client.publish(topic, b"new")
    with pytest.raises(PySparkException, match="was deleted while it was being read, or deleted and made anew"):
        planned.count()
    assert [bytes(row.value) for row in table(spark, url, subscribe=topic).collect()] == [b"new"]


def test_dead_letters_say_where_they_come_from(
    spark: "SparkSession", url: str, client: blocking.Client, topic: str
) -> None:
    client.create_topic(topic, 1)
    client.publish(topic, b"good")
    client.publish(topic, b"bad", headers={"trace": b"t"})
    client.create_topic(f"{topic}.dlq", 1)
    with blocking.fail_after(30), client.consumer(topic, group="billing") as consumer:
        for message in consumer:
            if message.value == b"bad":
                message.reject("no such customer")
                break
            message.ack()
        next(client.read(f"{topic}.dlq"))
    client.publish(f"{topic}.dlq", b"by hand")
    letters = table(spark, url, subscribe=f"{topic}.dlq").orderBy("origin_offset").collect()
    origin = [row.asDict() for row in letters]
    assert [bytes(row["value"]) for row in origin] == [b"by hand", b"bad"]
    assert {origin[0][name] for name in ("origin_topic", "origin_offset", "attempts", "reason")} == {None}
    shown = {
        name: origin[1][name] for name in ("origin_topic", "origin_partition", "origin_offset", "origin_group")
    }
    assert shown == {"origin_topic": topic, "origin_partition": 0, "origin_offset": 1, "origin_group": "billing"}
    assert (origin[1]["attempts"], origin[1]["reason"]) == (1, "no such customer")
    assert "reason" not in table(spark, url, subscribe=f"{topic}.dlq", includeOrigin="false").columns


# While a task reads


def offsets_of(batch: "pa.RecordBatch") -> list[int]:
    return list(batch.column("offset").to_pylist())


def filled(client: blocking.Client, topic: str) -> int:
    """More than lies ahead of a task, so that its end is still at the broker when its first rows are there."""
    client.create_topic(topic, 1)
    count = 2 * AHEAD_BYTES_MAX // 1_000
    with client.producer(topic) as producer:
        producer.send_many([b"x" * 1_000] * count)
    return count


def test_a_task_goes_on_when_the_broker_was_killed_and_started_again(own_broker: BrokerProcess, topic: str) -> None:
    with blocking.connect(own_broker.url) as client:
        count = filled(client, topic)
    task = reader(own_broker.url, subscribe=topic)
    [part] = task.partitions()
    batches = task.read(part)
    found = offsets_of(next(batches))
    own_broker.kill()
    own_broker.start()
    assert len(found) < count
    assert [*found, *(offset for batch in batches for offset in offsets_of(batch))] == list(range(count))


@pytest.mark.parametrize("fails", [True, False])
def test_what_retention_removes_while_a_task_reads_is_told_or_passed_over(
    url: str, client: blocking.Client, topic: str, fails: bool
) -> None:
    count = filled(client, topic)
    task = reader(url, subscribe=topic, failOnDataLoss=str(fails).lower())
    [part] = task.partitions()
    batches = task.read(part)
    found = offsets_of(next(batches))
    client.delete_before(topic, 0, count - 1)
    if fails:
        with pytest.raises(DataLost, match=rf"to {count - 2} of {topic}/0 are no longer there: retention"):
            list(batches)
    else:
        found += [offset for batch in batches for offset in offsets_of(batch)]
        assert found == sorted(set(found))
        assert found[-1] == count - 1
        assert len(found) < count
