"""`goqueue spark load`: files become messages, each row at least once, and a run goes on where another ended."""

import csv
import gzip
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from goqueue import blocking
from goqueue.cli import main
from goqueue.spark.load import job as loading
from goqueue.spark.load.files import LoadCheckpoint, LoadFile, format_of, groups_of
from goqueue.types import Priority

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Load = Callable[..., Result]


class Killed(Exception):
    pass


@pytest.fixture
def load(spark: "SparkSession", url: str, topic: str, client: blocking.Client) -> Load:
    """The command, in the session that is there."""
    client.create_topic(topic, 2)

    def run(path: Path | str, *options: str, to: str = topic) -> Result:
        command = ["spark", "load", str(path), "--topic", to, "--url", url, "-o", "json", *options]
        return CliRunner().invoke(main, command, catch_exceptions=False)

    return run


def values(client: blocking.Client, topic: str) -> list[bytes]:
    return sorted(message.value for message in client.read(topic, end="latest"))


def summary(done: Result) -> dict[str, Any]:
    assert (done.exit_code, done.stderr) == (0, "")
    told: dict[str, Any] = json.loads(done.stdout)
    assert told.pop("seconds") > 0
    return told


def test_a_row_is_json_and_columns_are_key_and_priority(
    load: Load, client: blocking.Client, topic: str, tmp_path: Path
) -> None:
    file = tmp_path / "orders [1] {x}.csv"
    file.write_text('id,who,urgency,note\n007,alice,high,"a, b"\n008,,2,\n')
    assert summary(load(tmp_path, "--key", "who", "--priority", "urgency")) == {
        "topic": topic,
        "files": 1,
        "rows": 2,
        "bytes": file.stat().st_size,
        "files_before": 0,
    }
    found = {message.key: message for message in client.read(topic, end="latest")}
    assert json.loads(found[b"alice"].value) == {"id": "007", "who": "alice", "urgency": "high", "note": "a, b"}
    assert json.loads(found[None].value) == {"id": "008", "who": None, "urgency": "2", "note": None}
    assert (found[b"alice"].priority, found[None].priority) == (Priority.HIGH, Priority.NORMAL)


def test_fields_of_csv_are_quoted_as_others_write_them(
    load: Load, client: blocking.Client, topic: str, tmp_path: Path
) -> None:
    """Also where they go on over lines, which is seen and need not be said."""
    rows = [['say "hi", you', "1"], ['"q"', "2"], ["back\\slash", "3"], [" pad ", "4"], ['q"q', ""]]
    over_lines = [*rows, ["two\nlines, and more", "5"]]
    for name, written in (("plain.csv", rows), ("lines.csv", over_lines)):
        with (tmp_path / name).open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([["text", "number"], *written])
        assert summary(load(tmp_path / name, "--value", "text"))["rows"] == len(written)
    assert Counter(values(client, topic)) == Counter(text.encode() for text, _ in rows + over_lines)
    (tmp_path / "inches.csv").write_text('text,number\n5" pipe,1\n')
    assert summary(load(tmp_path / "inches.csv", "--value", "text", "--option", "multiLine=false"))["rows"] == 1
    assert b'5" pipe' in values(client, topic)


def test_parquet_and_json_are_read_from_directories_and_patterns(
    load: Load, spark: "SparkSession", client: blocking.Client, topic: str, tmp_path: Path
) -> None:
    table = spark.range(1_000).selectExpr("id", "id % 2 as half")
    table.write.partitionBy("half").parquet(str(tmp_path / "parquet"))
    assert summary(load(tmp_path / "parquet", "--value", "id", "--key", "half"))["rows"] == 1_000
    assert values(client, topic) == sorted(b"%d" % number for number in range(1_000))
    assert {message.key for message in client.read(topic, end="latest")} == {b"0", b"1"}
    moments = spark.sql(
        "select timestamp'2026-01-01 01:02:03.456789Z' as at, timestamp_ntz'2026-01-01 01:02:03.000001' as local"
    )
    moments.write.parquet(str(tmp_path / "moments"))
    assert summary(load(tmp_path / "moments", "--key", "local"))["rows"] == 1
    [moment] = [message.value for message in client.read(topic, end="latest") if message.key not in (b"0", b"1")]
    assert json.loads(moment)["at"].startswith("2026-01-01T01:02:03.456789")
    assert json.loads(moment)["local"] == "2026-01-01T01:02:03.000001"
    with gzip.open(tmp_path / "a.json.gz", "wt") as file:
        file.write('{"nested": {"b": 1}}\n')
    assert summary(load(f"{tmp_path}/*.json.gz", "--value", "nested"))["rows"] == 1
    assert b'{"b":1}' in values(client, topic)


def test_a_later_run_goes_on_and_takes_new_files(
    load: Load, client: blocking.Client, topic: str, tmp_path: Path
) -> None:
    folder, checkpoint = tmp_path / "in", str(tmp_path / "checkpoint")
    folder.mkdir()
    for number in range(3):
        (folder / f"{number}.json").write_text(f'{{"n": {number}}}\n')
    options = ["--value", "n", "--checkpoint", checkpoint]
    assert summary(load(folder, *options))["files"] == 3
    (folder / "3.json").write_text('{"n": 3}\n')
    assert summary(load(folder, *options)) | {"bytes": 0} == {
        "topic": topic,
        "files": 1,
        "rows": 1,
        "bytes": 0,
        "files_before": 3,
    }
    assert summary(load(folder, *options))["rows"] == 0
    assert values(client, topic) == [b"0", b"1", b"2", b"3"]
    (folder / "3.json").write_text('{"n": 30}\n')
    changed = load(folder, *options)
    assert changed.exit_code == 2
    assert "3.json has changed since it was loaded" in changed.stderr


def test_what_was_under_way_when_a_run_ended_is_loaded_again_and_nothing_else(
    spark: "SparkSession", url: str, client: blocking.Client, topic: str, tmp_path: Path
) -> None:
    client.create_topic(topic, 2)
    for number in range(6):
        (tmp_path / f"{number}.json").write_text(f'{{"n": {number}}}\n')
    size = (tmp_path / "0.json").stat().st_size
    job = loading.Job(
        url, f"{tmp_path}/*.json", topic, value="n", checkpoint=f"{tmp_path}/checkpoint", group_bytes=2 * size
    )

    real, is_killed = LoadCheckpoint.add, iter([False, True])

    def add(self: LoadCheckpoint, files: Any, topic: str) -> None:
        if next(is_killed):
            raise Killed  # all of the group is written, and nobody knows
        real(self, files, topic)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(LoadCheckpoint, "add", add)
        with pytest.raises(Killed):
            loading.load(spark, job, lambda _: None, lambda _: None)
    heard: list[int] = []
    done = loading.load(spark, job, heard.append, heard.append)
    assert (done.files, done.rows, done.files_before) == (4, 4, 2)
    assert heard == [4 * size, 2 * size, 2 * size]
    twice = {b"2", b"3"}
    assert Counter(values(client, topic)) == {b"%d" % n: 1 + (b"%d" % n in twice) for n in range(6)}


@pytest.mark.parametrize(
    ("name", "content", "options", "code", "fault"),
    [
        ("a.csv", "id\n1\n", ["--key", "di"], 2, "the files have no column di; there are id"),
        ("a.csv", "id\n1\n", ["--partitions", "2"], 2, "give --create-topic too"),
        ("a.csv", "id\n1\n", ["--option", "sep"], 2, "'sep' is not an option like"),
        ("a.dat", "id\n1\n", [], 2, "a.dat does not tell its format; say it with --format"),
        ("a.csv", "id,b\n1,2\n3\n", [], 1, "Malformed"),
        ("a.csv", "id,b\n1,2\n3,\n", ["--value", "b"], 1, "without a value it is a tombstone"),
        ("a.json", '{"p": 1.5}\n', ["--priority", "p"], 2, "p is double; a priority is 0 to 4, or a name"),
    ],
)
def test_what_cannot_be_loaded_is_told_in_one_sentence(
    load: Load, tmp_path: Path, name: str, content: str, options: list[str], code: int, fault: str
) -> None:
    (tmp_path / name).write_text(content)
    done = load(tmp_path / name, *options)
    assert (done.exit_code, done.stdout) == (code, "")
    assert fault in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_paths_topics_and_checkpoints_that_do_not_fit_are_told(
    load: Load, client: blocking.Client, topic: str, tmp_path: Path
) -> None:
    nowhere = load(tmp_path / "nowhere.csv")
    assert (nowhere.exit_code, "there is nothing at" in nowhere.stderr) == (2, True)
    file, other = tmp_path / "a.csv", f"{topic}-other"
    file.write_text("id\n1\n")
    missing = load(file, to=other)
    assert (missing.exit_code, "--create-topic makes it" in missing.stderr) == (1, True)
    checkpoint = ["--checkpoint", str(tmp_path / "checkpoint")]
    assert summary(load(file, "--create-topic", "--partitions", "2", *checkpoint, to=other))["rows"] == 1
    assert len(client.topic(other).partitions) == 2
    elsewhere = load(file, *checkpoint)
    assert (elsewhere.exit_code, f"is that of a load to {other}" in elsewhere.stderr) == (2, True)


# Files alone


def file(path: str, size: int = 1) -> LoadFile:
    return LoadFile(path, size, 0)


@pytest.mark.parametrize(
    ("names", "known"),
    [(["a.parquet", "b.PQ"], "parquet"), (["a.csv.gz"], "csv"), (["a.json", "a.jsonl.zst", "a.ndjson"], "json")],
)
def test_the_names_of_files_tell_their_format(names: list[str], known: str) -> None:
    assert format_of(map(file, names)) == known


def test_files_go_together_up_to_a_size_and_a_large_one_alone() -> None:
    sizes = [3, 3, 4, 11, 1, 9, 1]
    groups = groups_of([file(str(number), size) for number, size in enumerate(sizes)], 10)
    assert [[each.size for each in group] for group in groups] == [[3, 3, 4], [11], [1, 9], [1]]
