"""`goqueue spark ingest --follow` at a terminal: it shows how far it is, and Ctrl-C ends it in order."""

import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.dataset

from goqueue import blocking
from tests.spark.sessions import prepare_environment

CTRL_C = b"\x03"
COUNT = 50
TERMINAL = {"TERM": "xterm", "COLUMNS": "120"}


class AtTerminal:
    """A program that has a terminal of its own."""

    def __init__(self, arguments: list[str], folder: Path) -> None:
        self.said = b""
        self._terminal, its_end = pty.openpty()
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                f"import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); {MAIN}",
                *arguments,
            ],
            cwd=folder,
            env={**os.environ, **TERMINAL},
            stdin=its_end,
            stdout=its_end,
            stderr=its_end,
            start_new_session=True,
        )
        os.close(its_end)

    def read_until(self, text: bytes) -> None:
        while text not in self.said:
            self.read_some()

    def read_some(self) -> None:
        """Soon: a bar is drawn again and again."""
        said = os.read(self._terminal, 65_536)
        assert said, self.said
        self.said += said

    def read_all(self) -> str:
        """A terminal that nobody writes to any more is an error."""
        try:
            while said := os.read(self._terminal, 65_536):
                self.said += said
        except OSError:
            pass
        return self.said.decode()

    def type(self, keys: bytes) -> None:
        os.write(self._terminal, keys)

    def close(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        os.close(self._terminal)


MAIN = "from goqueue.cli import main; main()"


@contextmanager
def at_terminal(arguments: list[str], folder: Path) -> Iterator[AtTerminal]:
    program = AtTerminal(arguments, folder)
    try:
        yield program
    finally:
        program.close()


def test_an_ingest_that_follows_shows_how_far_it_is_and_ends_with_a_summary(
    url: str, client: blocking.Client, topic: str, tmp_path: Path
) -> None:
    prepare_environment()
    client.create_topic(topic, 1)
    with client.producer(topic) as producer:
        producer.send_many([b"%d" % number for number in range(COUNT)])
    arguments = ["spark", "ingest", "--url", url, "--topic", topic, "--to", str(tmp_path / "orders")]
    arguments += ["--follow", "--interval", "0.1", "--master", "local[2]"]
    with at_terminal(arguments, tmp_path) as program:
        program.read_until(b"%d/%d" % (COUNT, COUNT))
        while not any((tmp_path / "orders/_goqueue/staging").glob("*")):
            client.publish(topic, b"one more")
            program.read_some()
        program.type(CTRL_C)  # in the middle of a micro-batch
        said = program.read_all()
        assert program.process.wait() == 0, said
    rows = len(pyarrow.dataset.dataset(tmp_path / "orders", partitioning="hive").to_table())
    summary = re.search(r"([0-9]+) rows in file:", said)
    assert summary, said
    assert COUNT <= int(summary[1]) <= rows
    assert not [line for line in said.splitlines() if "Traceback" in line or "\tat " in line]
