"""The format becomes known to a session, or one sentence says what is missing."""

import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import goqueue.spark
from goqueue.errors import SparkNotReady
from goqueue.spark import checks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Of our version, with nothing installed."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, with_pip=False, symlinks=True)
    return str(folder / "bin" / "python")


def test_a_session_knows_the_format_and_its_columns(spark: "SparkSession", url: str) -> None:
    read = spark.read.format("goqueue").option("url", url).option("subscribe", "orders")
    assert [field.simpleString() for field in read.load().schema] == [
        "key:binary",
        "value:binary",
        "topic:string",
        "partition:int",
        "offset:bigint",
        "timestamp:timestamp",
        "priority:int",
    ]
    with_headers = read.option("includeHeaders", "true").load().schema
    assert with_headers["headers"].simpleString() == "headers:array<struct<key:string,value:binary>>"


def test_a_wrong_option_is_told_on_the_driver_before_any_task_starts(spark: "SparkSession", url: str) -> None:
    from pyspark.errors import AnalysisException  # noqa: PLC0415

    read = spark.read.format("goqueue").option("url", url).option("subscibe", "orders").load()
    with pytest.raises(AnalysisException, match="no option subscibe; did you mean subscribe"):
        read.collect()


def test_a_session_may_be_registered_twice(spark: "SparkSession") -> None:
    goqueue.spark.register(spark)
    goqueue.spark.register(spark)


def test_workers_under_a_python_without_goqueue_are_named_with_the_cure(
    spark: "SparkSession", bare_python: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark.sparkContext, "pythonExec", bare_python)
    with pytest.raises(SparkNotReady, match="cannot import goqueue") as refused:
        goqueue.spark.register(spark)
    assert refused.value.details["python"] == bare_python
    assert "import goqueue.spark before the session is built" in refused.value.message
    assert sys.executable in refused.value.message


def test_workers_without_a_python_are_named_without_a_stack_trace(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = str(tmp_path / "python")
    monkeypatch.setattr(spark.sparkContext, "pythonExec", nowhere)
    with pytest.raises(SparkNotReady, match="Cannot run program") as refused:
        goqueue.spark.register(spark)
    assert nowhere in refused.value.message
    assert "\n" not in refused.value.message


def test_workers_with_another_goqueue_are_named(spark: "SparkSession", monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "__version__", "99.0")
    with pytest.raises(SparkNotReady, match=r"has goqueue \S+; this is 99\.0"):
        goqueue.spark.register(spark)


# What an import does


def run(program: str, **environment: str) -> str:
    kept = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=kept | environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_goqueue_alone_imports_no_spark() -> None:
    loaded = "import sys, goqueue, goqueue.cli, goqueue.blocking; print({'pyspark', 'pyarrow'} & set(sys.modules))"
    assert run(loaded) == "set()"


def test_importing_it_has_workers_run_under_this_python() -> None:
    shown = "import os, goqueue.spark; print(os.environ['PYSPARK_PYTHON'])"
    assert run(shown) == sys.executable
    assert run(shown, PYSPARK_PYTHON="/opt/python") == "/opt/python"
