"""A broker as a process of its own, for Spark's processes to reach; it can be killed and started again."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HOST = "127.0.0.1"
END_SECONDS_MAX = 30.0


class BrokerProcess:
    """`goqueue serve`. Started again, it listens where it did and finds what it kept."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self._port = 0
        self._process: subprocess.Popen[str] | None = None
        self.url = ""

    def start(self) -> None:
        """It is ready when this returns."""
        listen = ["--listen", f"{HOST}:{self._port}", "--http", f"{HOST}:0"]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "goqueue", "serve", "--data", str(self.data), *listen, "-o", "json"],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        said = self._process.stdout.readline()
        assert said, "the broker ended before it was ready"
        self.url = json.loads(said)["websocket"]
        self._port = int(self.url.rpartition(":")[2])

    def kill(self) -> None:
        """As `kill -9` does; nothing is said or closed."""
        if self._process is not None:
            self._process.kill()
            self._end()

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._end()

    def _end(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        process, self._process = self._process, None
        try:
            process.wait(END_SECONDS_MAX)
        finally:
            process.kill()
            process.wait()
            self._close(process)

    @staticmethod
    def _close(process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        process.stdout.close()


@contextmanager
def broker_process(data: Path) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(data)
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()
