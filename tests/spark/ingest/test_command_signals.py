"""Ctrl-C and SIGTERM end commands on Spark at any moment: with what the help says, and nothing of them is left."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from goqueue import blocking
from goqueue.cli.program.running import Exit
from goqueue.cli.spark.signals import Interrupted, Signals
from tests.spark.sessions import prepare_environment

SECONDS_MAX = 60
JAVA = b"org.apache.spark.deploy.SparkSubmit"


class Command:
    """A command on Spark, and all that it starts: processes inherit the mark."""

    def __init__(self, arguments: list[str], folder: Path) -> None:
        prepare_environment()
        self._mark = f"GOQUEUE_TEST_MARK={uuid4().hex}"
        self._words, self._output = folder / "words", folder / "output"
        name, _, value = self._mark.partition("=")
        with self._words.open("wb") as words, self._output.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "goqueue", "spark", *arguments, "--master", "local[1]"],
                cwd=folder,
                env={**os.environ, name: value},
                stdout=output,
                stderr=words,
                start_new_session=True,
            )

    @property
    def words(self) -> str:
        return self._words.read_text()

    @property
    def output(self) -> str:
        return self._output.read_text()

    def running(self) -> dict[int, bytes]:
        """How each of its processes was called."""
        found = [(int(each.name), _read(each / "environ")) for each in Path("/proc").glob("[0-9]*")]
        ours = [number for number, environment in found if self._mark.encode() in environment.split(b"\0")]
        return {number: _read(Path(f"/proc/{number}/cmdline")) for number in ours}

    def has_java(self) -> bool:
        return any(JAVA in called for called in self.running().values())

    def has_context(self) -> bool:
        return "log level" in self.words

    def wait_for(self, moment: Callable[[], bool]) -> None:
        deadline = time.monotonic() + SECONDS_MAX
        while not moment():
            assert self.process.poll() is None, self.words
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def end_by(self, number: signal.Signals) -> tuple[int, dict[int, bytes]]:
        """Its exit code, and what runs after it. To all processes, as a terminal does."""
        os.killpg(self.process.pid, number)
        code = self.process.wait(SECONDS_MAX)
        left = self.running()
        for each in left:
            os.kill(each, signal.SIGKILL)
        return code, left


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:  # it has ended, or is somebody else's
        return b""


def check_is_one_line(words: str, line: str) -> None:
    assert words.splitlines()[-1].startswith(line)
    assert "Traceback" not in words
    assert "\tat " not in words


@pytest.mark.parametrize(("number", "name"), [(signal.SIGINT, "Ctrl-C"), (signal.SIGTERM, "SIGTERM")])
def test_a_load_that_is_ended_while_java_starts_leaves_none(
    url: str, client: blocking.Client, topic: str, tmp_path: Path, number: signal.Signals, name: str
) -> None:
    client.create_topic(topic, 1)
    (tmp_path / "in.csv").write_text("n\n1\n")
    command = Command(["load", "in.csv", "--topic", topic, "--url", url], tmp_path)
    command.wait_for(command.has_java)
    assert command.end_by(number) == (128 + number, {})
    check_is_one_line(command.words, f"Ended by {name} before all was loaded: ")


def test_an_ingest_that_is_ended_while_spark_starts_says_how_to_go_on(url: str, topic: str, tmp_path: Path) -> None:
    command = Command(["ingest", "--topic", topic, "--to", "table", "--url", url], tmp_path)
    command.wait_for(command.has_context)
    assert command.end_by(signal.SIGTERM) == (Exit.TERMINATED, {})
    check_is_one_line(command.words, "Ended by SIGTERM before all was written: 0 messages")


def test_an_ingest_that_follows_has_ended_well_also_before_it_began(url: str, topic: str, tmp_path: Path) -> None:
    command = Command(["ingest", "--topic", topic, "--to", "table", "--url", url, "--follow"], tmp_path)
    command.wait_for(command.has_java)
    assert command.end_by(signal.SIGTERM) == (Exit.SOUND, {})
    assert "0 rows in table" in command.output
    assert "Traceback" not in command.words


def test_a_first_signal_waits_for_work_that_looks_and_a_second_does_not() -> None:
    """An answer of Java's that nobody reads would be taken for the answer to the next question."""
    signals = Signals()
    signals.look()
    signals.take(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        signals.look()
    with pytest.raises(KeyboardInterrupt):
        signals.take(signal.SIGINT)


def test_a_signal_does_not_wait_where_nobody_looks() -> None:
    with pytest.raises(KeyboardInterrupt):
        Signals().take(signal.SIGTERM)


def test_a_signal_that_comes_when_the_work_is_done_takes_nothing_from_it() -> None:
    signals = Signals()
    with signals.taken():
        signals.is_over = True
        signal.raise_signal(signal.SIGTERM)


def test_what_fails_after_a_signal_was_interrupted_by_it() -> None:
    with pytest.raises(Interrupted) as told:
        fail_after_a_signal(Signals())
    assert told.value.exit_code == Exit.TERMINATED


def fail_after_a_signal(signals: Signals) -> None:
    with signals.taken():
        signals.look()
        signal.raise_signal(signal.SIGTERM)
        raise OSError("Java is gone")
