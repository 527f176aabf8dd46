"""The Java process that PySpark starts for a command on Spark, and that must never outlive it.

PySpark itself knows the process only once it answers. A command that is interrupted before leaves a process behind
that waits for ever, and keeps the pipes of its output open. So the process is noted here when it is started, in a
session of its own: a Ctrl-C does not reach it, and its children can be ended with it.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from subprocess import PIPE, Popen, TimeoutExpired
from threading import Thread
from typing import Any

SECONDS_TO_END = 10.0
"""The time for Java to remove its files of this run."""
SECONDS_TO_READ = 2.0
STDERR = 2


class Java:
    """Has no process until PySpark starts one: `spark-submit` has its own, and ends it itself."""

    def __init__(self) -> None:
        self._process: Popen[bytes] | None = None
        self._relay = Thread(target=self._pass_on, name="words of Java", daemon=True)
        self.is_starting = False
        self.is_unwanted = False
        self.is_silent = False
        """After it was asked to end, its output is noise."""

    @contextmanager
    def starting(self) -> Iterator[None]:
        """Note the process that PySpark starts within this block. As there is no hook, its `Popen` is replaced."""
        from pyspark import java_gateway  # noqa: PLC0415 (PySpark may be missing)

        pyspark: Any = java_gateway
        pyspark.Popen, self.is_starting = self._start, True
        try:
            yield
        finally:
            pyspark.Popen, self.is_starting = Popen, False

    def _start(self, *command: Any, **settings: Any) -> "Popen[bytes]":
        """After a signal that came before the process was started, it is killed at once."""
        self._process = Popen(*command, **{**settings, "stderr": PIPE, "start_new_session": True})
        self._relay.start()
        if self.is_unwanted:
            self._send(signal.SIGKILL)
        return self._process

    def ask_to_end(self) -> None:
        """Does not wait, so that a signal handler can call it. The second call kills."""
        self._send(signal.SIGKILL if self.is_unwanted else signal.SIGTERM)
        self.is_unwanted = True

    def end(self) -> None:
        """When this returns, nothing of it runs."""
        if not self.is_unwanted:
            self.ask_to_end()
        if self._process is not None:
            with suppress(TimeoutExpired):
                self._process.wait(SECONDS_TO_END)
            self._send(signal.SIGKILL)  # its children, too
            self._process.wait()
            self._relay.join(SECONDS_TO_READ)
            self._process = None

    def _send(self, number: signal.Signals) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError, PermissionError):  # all are gone, or on macOS all are zombies
                os.killpg(self._process.pid, number)

    def _pass_on(self) -> None:
        """Read to the end, even without a reader: a Java process whose output is not read stops."""
        assert self._process is not None
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if not self.is_silent:
                with suppress(OSError):
                    os.write(STDERR, line)
