"""An older copy of the broker's data, put in place and grown since: a stream notices. Its reader alone."""

import shutil
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from goqueue import blocking
from goqueue.errors import DataLost
from goqueue.spark.options import source_options
from goqueue.spark.reading.stream import GoQueueStreamReader
from goqueue.spark.schema import source_schema
from tests.spark.broker import BrokerProcess


def reader(url: str, **more: str) -> GoQueueStreamReader:
    options = source_options(
        {"url": url, "subscribe": "orders", "startingOffsets": "earliest", **more}, streaming=True
    )
    return GoQueueStreamReader(source_schema(include_headers=False), options)


def publish(url: str, count: int) -> None:
    with blocking.connect(url) as client, client.producer("orders") as producer:
        producer.send_many([b"x"] * count)


def test_an_older_copy_is_noticed_though_it_has_grown_past_the_noted_offset(
    own_broker: BrokerProcess, tmp_path: Path
) -> None:
    with blocking.connect(own_broker.url) as client:
        client.create_topic("orders", 1)
    publish(own_broker.url, 50)
    shutil.copytree(own_broker.data, tmp_path / "copy")
    publish(own_broker.url, 50)
    query = reader(own_broker.url)
    start = query.initialOffset()
    noted = query.latestOffset(start, ReadAllAvailable())
    own_broker.kill()
    own_broker.start()
    publish(own_broker.url, 5)
    goes_on = query.latestOffset(noted, ReadAllAvailable())
    assert goes_on["orders"]["partitions"]["0"]["offset"] == 105, "a start of the broker alone is no loss"

    own_broker.kill()
    shutil.rmtree(own_broker.data)
    shutil.copytree(tmp_path / "copy", own_broker.data)
    own_broker.start()
    publish(own_broker.url, 80)
    query.stop()
    query = reader(own_broker.url)
    with pytest.raises(DataLost, match="an older copy of the broker's data was put in place"):
        query.latestOffset(noted, ReadAllAvailable())
    with pytest.raises(DataLost, match="an older copy of the broker's data was put in place"):
        query.partitions(start, noted)
    query.stop()
    query = reader(own_broker.url, failOnDataLoss="false")
    assert query.latestOffset(noted, ReadAllAvailable())["orders"]["partitions"]["0"]["offset"] == 130
    query.stop()
