"""`goqueue spark ingest` in this process: what a table holds after one run, and after the next."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import pyarrow.dataset
import pytest

from goqueue import blocking
from goqueue.errors import InvalidConfig, TableInUse, Unavailable, UnknownTopic
from tests.spark.broker import BrokerProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from goqueue.spark.ingest.job import IngestSummary

Run = Callable[..., "IngestSummary"]

ORDER: dict[str, Any] = {
    "type": "object",
    "required": ["id"],
    "properties": {"id": {"type": "integer", "minimum": 0}, "customer": {"type": "string"}},
}
WITH_MORE: dict[str, Any] = {
    **ORDER,
    "properties": {
        **ORDER["properties"],
        "address": {"type": "object", "properties": {"street": {"type": "string"}}},
    },
}

UNCHECKABLE = {"type": "object", "properties": {"id": {"type": "string", "uniqueItems": True}}}


@pytest.fixture
def run(spark: "SparkSession", url: str, topic: str, tmp_path: Path) -> Run:
    from goqueue.spark.ingest.job import Ingest, ingest  # noqa: PLC0415

    def run(**changed: Any) -> "IngestSummary":
        return ingest(spark, Ingest(**{"url": url, "topics": [topic], "path": str(tmp_path / "orders"), **changed}))

    return run


def order(number: int, **more: Any) -> bytes:
    return json.dumps({"id": number, "customer": f"c{number}", **more}).encode()


def publish(client: blocking.Client, topic: str, values: list[bytes]) -> None:
    with client.producer(topic) as producer:
        producer.send_many(values)


def read(path: str) -> list[dict[str, Any]]:
    """By pyarrow, which knows nothing of us: it must pass over what is not the table."""
    folder = path.removeprefix("file:")
    rows: list[dict[str, Any]] = pyarrow.dataset.dataset(folder, partitioning="hive").to_table().to_pylist()
    return rows


@contextmanager
def once_there(folder: Path, do: Callable[[], None]) -> Iterator[None]:
    """Beside a block, as soon as something lies in this folder."""
    is_over = Event()

    def wait() -> None:
        while not any(folder.glob("*")):
            if is_over.wait(0.005):
                return
        do()

    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(wait)
        try:
            yield
        finally:
            is_over.set()
    done.result()


def test_typed_rows_and_a_quarantine_in_runs_that_go_on(
    spark: "SparkSession", run: Run, client: blocking.Client, topic: str
) -> None:
    client.create_topic(topic, partitions=2)
    publish(client, topic, [order(number) for number in range(40)])
    client.publish(topic, b"not JSON", headers={"shop": b"north"})
    publish(client, topic, [order(-1), b'{"customer": "nobody"}', b'{"id": "1"}', b"\xff"])
    done = run(schema=ORDER, max_offsets_per_trigger=20)
    assert (done.rows, done.batches) == (40, 3)
    assert done.quarantined == {
        "not JSON": 2,
        "/id is out of range": 1,
        "/id is missing": 1,
        "/id is not a whole number": 1,
    }
    assert sum(done.offsets[topic].values()) == 45

    publish(client, topic, [order(number, address={"street": "High"}) for number in range(40, 60)])
    again = run(schema=WITH_MORE)
    assert (again.rows, again.quarantined) == (20, {})
    rows = spark.read.option("mergeSchema", "true").parquet(done.path)
    assert sorted(row.id for row in rows.select("id").collect()) == list(range(60))
    assert rows.where("address.street = 'High'").count() == 20
    assert rows.where("_topic is null or _offset is null or _timestamp is null or log_date is null").count() == 0
    assert len(read(done.path)) == 60
    kept = read(done.quarantine)
    assert {(row["value"], row["reason"]) for row in kept} >= {(b"not JSON", "not JSON"), (b"\xff", "not JSON")}
    assert len({(row["partition"], row["offset"]) for row in kept}) == 5
    assert [row["value"] for row in kept if row["headers"]] == [b"not JSON"]
    assert run(schema=WITH_MORE).messages == 0

    with pytest.raises(InvalidConfig, match=r"/address is in the table but not in it"):
        run(schema=ORDER)
    retyped = {**WITH_MORE, "properties": {**WITH_MORE["properties"], "id": {"type": "string"}}}
    with pytest.raises(InvalidConfig, match=r"/id is bigint in the table and string in it"):
        run(schema=retyped)
    with pytest.raises(InvalidConfig, match="was begun with a schema"):
        run()
    assert len(read(done.path)) == 60


def test_raw_rows_whose_small_files_are_merged(
    spark: "SparkSession", run: Run, client: blocking.Client, topic: str
) -> None:
    client.create_topic(topic, partitions=1)
    with client.producer(topic) as producer:
        values = [b"%d" % number for number in range(100)]
        producer.send_many(values, [b"k"] * 100, priority=1, headers={"shop": b"north"})
    done = run(max_offsets_per_trigger=10, files_max=4, group=f"{topic}-ingest")
    assert (done.rows, done.batches, done.merges) == (100, 10, 2)
    assert client.group(f"{topic}-ingest").lag == 0
    rows = read(done.path)
    assert sorted(int(row["value"]) for row in rows) == list(range(100))
    assert {(row["key"], row["topic"], row["priority"]) for row in rows} == {(b"k", topic, 1)}
    assert all(row["headers"] == [{"key": "shop", "value": b"north"}] for row in rows)
    files = list(Path(done.path.removeprefix("file:")).rglob("log_date=*/*.parquet"))
    assert len(files) <= 4
    assert spark.read.parquet(done.path).count() == 100


def test_a_table_from_before_there_were_headers_goes_on() -> None:
    from pyspark.sql.types import StructType  # noqa: PLC0415

    from goqueue.spark.ingest.evolution import evolved  # noqa: PLC0415
    from goqueue.spark.ingest.rows import raw_rows  # noqa: PLC0415

    columns = raw_rows().columns
    before = StructType([each for each in columns.fields if each.name != "headers"])
    made = evolved(StructType.fromJson(before.jsonValue()), columns)
    assert made.names == [*before.names, "headers"]
    assert evolved(StructType.fromJson(made.jsonValue()), columns) == made


def test_what_is_wrong_is_told_before_anything_starts(
    run: Run, client: blocking.Client, topic: str, tmp_path: Path
) -> None:
    with pytest.raises(UnknownTopic):
        run()
    client.create_topic(topic, partitions=1)
    publish(client, topic, [order(1)])
    with pytest.raises(InvalidConfig, match="which this query does not read"):
        run(starting={"startingOffsets": '{"another": {"0": 1}}'})
    assert not list(tmp_path.iterdir())
    (tmp_path / "file").touch()
    with pytest.raises(InvalidConfig, match=r"nothing can be written to .*Give a folder that Spark may write to"):
        run(path=str(tmp_path / "file/orders"))
    with pytest.raises(InvalidConfig, match="at #/properties/id/uniqueItems"):
        run(path=str(tmp_path / "other"), schema=UNCHECKABLE)
    beyond = {"startingOffsets": json.dumps({topic: {"0": 9}})}
    with pytest.raises(InvalidConfig, match=r"startingOffsets says offset 9 for partition 0 .* ends at offset 1"):
        run(path=str(tmp_path / "other"), starting=beyond)
    first = run(path=str(tmp_path / "first"))
    with pytest.raises(InvalidConfig, match="is that of another table"):
        run(path=str(tmp_path / "second"), checkpoint=first.checkpoint)
    with pytest.raises(InvalidConfig, match="another is given"):
        run(path=first.path, checkpoint=str(tmp_path / "elsewhere"))
    (tmp_path / "strange").mkdir()
    (tmp_path / "strange/data.parquet").write_bytes(b"?")
    with pytest.raises(InvalidConfig, match="that no ingest has written"):
        run(path=str(tmp_path / "strange"))
    Path(first.checkpoint.removeprefix("file:")).rename(tmp_path / "gone")
    with pytest.raises(InvalidConfig, match="that is gone"):
        run(path=first.path)
    assert len(read(first.path)) == 1


def test_a_table_has_one_writer_and_a_dead_one_does_not_count(
    spark: "SparkSession", run: Run, client: blocking.Client, topic: str, tmp_path: Path
) -> None:
    from goqueue.spark.files import Files  # noqa: PLC0415
    from goqueue.spark.ingest.claims import Claim  # noqa: PLC0415
    from goqueue.spark.ingest.tablefolder import TableFolder  # noqa: PLC0415

    client.create_topic(topic, partitions=1)
    path = str(tmp_path / "orders")
    table = TableFolder(Files(spark, path), path)
    claim = Claim(spark, table)
    claim.take()
    with pytest.raises(TableInUse, match="One table has one writer"):
        run()
    claim.release()
    with pytest.raises(TableInUse, match="has taken over"):
        claim.check()
    note = {"host": "elsewhere", "process": 1, "started": "long ago", "renewed_ms": 0}
    table.files.write_json(f"{table.claims}/dead/0000000001.json", note)
    assert run().messages == 0


def test_a_broker_that_stays_away_is_an_error_and_a_later_run_goes_on(
    spark: "SparkSession", own_broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    """It goes while a micro-batch is under way, whose tasks tell of it."""
    from goqueue.spark.ingest.job import Ingest, ingest  # noqa: PLC0415

    with blocking.connect(own_broker.url) as client:
        client.create_topic(topic, partitions=1)
        publish(client, topic, [order(number) for number in range(-5, 40)])
    work = Ingest(own_broker.url, [topic], str(tmp_path / "orders"), ORDER, patience_seconds=1)
    with (
        once_there(tmp_path / "orders/_goqueue/staging", own_broker.kill),
        pytest.raises(Unavailable, match="within 1 s"),
    ):
        ingest(spark, work)
    own_broker.start()
    done = ingest(spark, work)
    assert (done.rows, done.quarantined.total()) == (40, 5)
    places = [row["_offset"] for row in read(done.path)] + [row["offset"] for row in read(done.quarantine)]
    assert sorted(places) == list(range(45))
