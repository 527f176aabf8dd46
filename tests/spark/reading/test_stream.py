"""A topic is a table that grows: every message once, whatever happens to the topic, the broker or the query."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from goqueue import blocking
from tests.spark.broker import BrokerProcess

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


class Sink:
    """What a query has given: each row's value, and how many rows each micro-batch had."""

    def __init__(self) -> None:
        self.values: Counter[bytes] = Counter()
        self.sizes: list[int] = []

    def __call__(self, rows: "DataFrame", _: int) -> None:
        found = [bytes(row.value) for row in rows.select("value").collect()]
        self.values.update(found)
        self.sizes.append(len(found))


Start = Callable[..., "StreamingQuery"]


@pytest.fixture
def start(spark: "SparkSession", tmp_path: Path) -> Iterator[Start]:
    """Starts queries with one checkpoint, and stops them."""
    queries: list[StreamingQuery] = []

    def begin(url: str, sink: Sink, *, now: bool = False, **options: str) -> "StreamingQuery":
        read = spark.readStream.format("goqueue").options(url=url, **options).load()
        write = read.writeStream.foreachBatch(sink).option("checkpointLocation", str(tmp_path / "checkpoint"))
        write = write.trigger(availableNow=True) if now else write.trigger(processingTime="0 seconds")
        query = write.start()
        queries.append(query)
        return query

    yield begin
    for query in queries:
        query.stop()


def values(kind: str, count: int) -> list[bytes]:
    return [b"%s %d" % (kind.encode(), number) for number in range(count)]


def publish(client: blocking.Client, topic: str, sent: list[bytes], partition: int | None = None) -> None:
    with client.producer(topic) as producer:
        producer.send_many(sent, partition=partition)


def test_runs_that_end_read_on_where_the_last_one_ended_within_their_limit(
    start: Start, url: str, client: blocking.Client, topic: str
) -> None:
    client.create_topic(topic, 2)
    first, second = values("first", 25), values("second", 7)
    publish(client, topic, first[:20], 0)
    publish(client, topic, first[20:], 1)
    sink, options = Sink(), {"subscribe": topic, "startingOffsets": "earliest", "group": f"{topic}-spark"}
    start(url, sink, now=True, maxOffsetsPerTrigger="10", **options).awaitTermination()
    assert sink.values == Counter(first)
    assert sink.sizes == [10, 10, 5]
    assert client.group(f"{topic}-spark").lag == 0, "the last micro-batch is told, too"

    client.add_partitions(topic, 3)
    publish(client, topic, second, 2)
    start(url, sink, now=True, **options).awaitTermination()
    assert sink.values == Counter(first + second)
    assert client.group(f"{topic}-spark").lag == 0


def test_a_stream_goes_on_while_its_broker_is_killed_and_started_again(
    start: Start, own_broker: BrokerProcess, topic: str
) -> None:
    """New topics that fit the pattern are read from their start."""
    sink = Sink()
    with blocking.connect(own_broker.url) as client:
        client.create_topic(topic, 2)
        query = start(own_broker.url, sink, subscribePattern=f"{topic}.*", startingOffsets="earliest")
        expected = values("before", 50)
        publish(client, topic, expected)
        query.processAllAvailable()
        own_broker.kill()
        own_broker.start()
        added = values("after", 50) + values("another topic", 50)
        publish(client, topic, added[:50])
        client.create_topic(f"{topic}-more", 1)
        publish(client, f"{topic}-more", added[50:])
        query.processAllAvailable()
    assert sink.values == Counter(expected + added)


def test_a_topic_that_was_made_anew_is_told_or_read_from_its_start(
    start: Start, url: str, client: blocking.Client, topic: str
) -> None:
    from pyspark.errors import StreamingQueryException  # noqa: PLC0415

    client.create_topic(topic, 1)
    publish(client, topic, values("old", 5))
    sink = Sink()
    start(url, sink, now=True, subscribe=topic, startingOffsets="earliest").awaitTermination()
    client.delete_topic(topic)
    client.create_topic(topic, 1)
    publish(client, topic, values("new", 3))
    with pytest.raises(StreamingQueryException, match=r"deleted and made anew.*set failOnDataLoss to false"):
        start(url, sink, now=True, subscribe=topic).awaitTermination()
    assert sink.values == Counter(values("old", 5))
    start(url, sink, now=True, subscribe=topic, failOnDataLoss="false").awaitTermination()
    assert sink.values == Counter(values("old", 5) + values("new", 3))


def test_a_stream_begins_with_what_comes_unless_it_is_told_otherwise(
    start: Start, url: str, client: blocking.Client, topic: str
) -> None:
    client.create_topic(topic, 1)
    publish(client, topic, values("old", 5))
    sink = Sink()
    query = start(url, sink, subscribe=topic)
    query.processAllAvailable()
    publish(client, topic, values("new", 5))
    query.processAllAvailable()
    assert sink.values == Counter(values("new", 5))
