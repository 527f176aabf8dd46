"""The examples of the pages on Spark, in the session that is there: a session for each would take minutes."""

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from goqueue.cli import main
from tests.spark.broker import BrokerProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGES = sorted((Path(__file__).parents[2] / "docs").glob("spark*.md"))


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where commands run. Spark's Java is there already, and is told too what names of files mean."""
    monkeypatch.chdir(tmp_path)
    jvm: Any = spark.sparkContext._jvm
    hadoop, context = jvm.org.apache.hadoop.fs, spark.sparkContext._jsc
    disk = hadoop.FileSystem.get(context.hadoopConfiguration())
    before = disk.getWorkingDirectory()
    disk.setWorkingDirectory(hadoop.Path(str(tmp_path)))
    yield tmp_path
    disk.setWorkingDirectory(before)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_examples_of_a_page_run(
    spark: "SparkSession", folder: Path, page: Path, own_broker: BrokerProcess
) -> None:
    """Each page has a broker of its own. Where a stream keeps its checkpoint, only its whole path says to Java."""
    program = "\n".join(blocks(page, "python")).replace("ws://127.0.0.1:7710", own_broker.url)
    program = program.replace('"checkpoint"', f'"{folder}/checkpoint"')
    made: dict[str, object] = {"__name__": page.stem}
    exec(compile(program, page.name, "exec"), made)
    assert made["spark"] is spark, "a session of its own would have cost half a minute"
    for line in "\n".join(blocks(page, "sh")).splitlines():
        run(line, own_broker.url)


def run(line: str, url: str) -> None:
    """A command of ours in this process, any other in a shell."""
    words = shlex.split(line, comments=True)
    if words[:1] != ["goqueue"]:
        subprocess.run(["bash", "-c", line], check=True)
        return
    done = CliRunner().invoke(main, words[1:], env={"GOQUEUE_URL": url}, catch_exceptions=False)
    assert done.exit_code == 0, (line, done.stderr)
