"""`goqueue spark ingest` as a process that is killed: each message is in the table or in its quarantine, once.

Here and not with the tests of the local session, which are the longer half; and so it ends on another master.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Self

import pyarrow.dataset

from goqueue import blocking
from tests.spark.broker import BrokerProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECONDS_MAX = 120
EACH, PAUSE_SECONDS = 20, 0.5
SCHEMA = {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}}


class Ingesting:
    """The command, in a group of processes of its own."""

    def __init__(self, url: str, folder: Path, *more: str) -> None:
        arguments = ["--url", url, "--topic", "orders", "--to", str(folder / "orders"), "--master", "local[2]"]
        arguments += ["--schema", str(folder / "schema.json"), "--max-offsets-per-trigger", "60"]
        arguments += ["--merge-above", "3", *more]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "goqueue", "spark", "ingest", *arguments],
            start_new_session=True,
        )

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@contextmanager
def ingesting(url: str, folder: Path, *more: str) -> Iterator[Ingesting]:
    started = Ingesting(url, folder, *more)
    try:
        yield started
    finally:
        if started.process.poll() is None:
            started.kill()


def wait_for_news(folder: Path, process: "subprocess.Popen[bytes]") -> None:
    """Until something is written there: the moment to be killed at."""
    before, began = names(folder), time.monotonic()
    while names(folder) <= before:
        assert process.poll() is None, "the ingest ended by itself"
        assert time.monotonic() - began < SECONDS_MAX, f"nothing new came to {folder}"
        time.sleep(0.001)


def names(folder: Path) -> set[str]:
    """Folders may go while they are walked."""
    return {os.path.join(path, name) for path, _, files in os.walk(folder) for name in files}


class Publishing:
    """Messages that go on coming, so that an ingest always has something to write."""

    def __init__(self, url: str) -> None:
        self.published = 0
        self._url = url
        self._has_ended = threading.Event()
        self._thread = threading.Thread(target=self._publish)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._has_ended.set()
        self._thread.join()

    def _publish(self) -> None:
        with blocking.connect(self._url) as client, client.producer("orders") as producer:
            while not self._has_ended.wait(PAUSE_SECONDS):
                producer.send_many(values_of(range(self.published, self.published + EACH)))
                self.published += EACH


def values_of(numbers: range) -> list[bytes]:
    """Each seventh does not fit."""
    return [json.dumps({"id": number if number % 7 else str(number)}).encode() for number in numbers]


def test_each_message_is_there_once_though_the_ingest_and_the_broker_are_killed(
    spark_cluster: "SparkSession", own_broker: BrokerProcess, tmp_path: Path, kills: int
) -> None:
    from goqueue.spark.ingest.job import Ingest, ingest  # noqa: PLC0415

    random = Random(kills)
    (tmp_path / "schema.json").write_text(json.dumps(SCHEMA))
    with blocking.connect(own_broker.url) as client:
        client.create_topic("orders", partitions=2)
    table, checkpoint = tmp_path / "orders", tmp_path / "orders_checkpoint"
    moments = [table / "_goqueue/staging", table / "_goqueue/commits", table, checkpoint / "offsets", checkpoint]
    with Publishing(own_broker.url) as publishing:
        for number in range(max(2, kills - 1)):  # each takes as long as Spark needs to start
            with ingesting(own_broker.url, tmp_path, "--follow", "--interval", "0.1") as running:
                for _ in range(random.randint(0, 1)):
                    wait_for_news(checkpoint / "commits", running.process)
                if number == 1:
                    own_broker.kill()
                    own_broker.start()
                    wait_for_news(checkpoint / "commits", running.process)
                wait_for_news(random.choice(moments), running.process)
                running.kill()
    done = ingest(spark_cluster, Ingest(own_broker.url, ["orders"], str(table), SCHEMA))
    assert sum(done.offsets["orders"].values()) == publishing.published
    check(spark_cluster, tmp_path, publishing.published)


def check(spark: "SparkSession", folder: Path, published: int) -> None:
    fit = [number for number in range(published) if number % 7]
    rows = pyarrow.dataset.dataset(folder / "orders", partitioning="hive").to_table()
    assert sorted(rows["id"].to_pylist()) == fit
    [[count, total]] = spark.read.parquet(str(folder / "orders")).selectExpr("count(*)", "sum(id)").collect()
    assert (count, total) == (len(fit), sum(fit))
    unfit = pyarrow.dataset.dataset(folder / "orders_quarantine", partitioning="hive").to_table()
    assert set(unfit["reason"].to_pylist()) == {"/id is not a whole number"}
    assert sorted(int(json.loads(value)["id"]) for value in unfit["value"].to_pylist()) == [
        number for number in range(published) if not number % 7
    ]
    places = rows.select(["_partition", "_offset"]).to_pylist() + [
        {"_partition": each["partition"], "_offset": each["offset"]} for each in unfit.to_pylist()
    ]
    assert len({(each["_partition"], each["_offset"]) for each in places}) == published
