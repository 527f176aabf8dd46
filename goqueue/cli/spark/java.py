"""The Java that PySpark starts for a command on Spark, which must never outlive it.

PySpark itself knows the process only once it answers. Who is interrupted before leaves a Java behind that waits for
ever, and holds the pipes of whoever reads the output. So the process is noted here as it is started, in a session
of its own: a Ctrl-C does not reach it, and all that it starts can be ended with it.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from subprocess import PIPE, Popen, TimeoutExpired
from threading import Thread
from typing import Any

SECONDS_TO_END = 10.0
"""For Java to remove its files of this run."""
SECONDS_TO_READ = 2.0
STDERR = 2


class Java:
    """None as long as PySpark starts none: `spark-submit` has one already, and ends it itself."""

    def __init__(self) -> None:
        self._process: Popen[bytes] | None = None
        self._relay = Thread(target=self._pass_on, name="words of Java", daemon=True)
        self.is_starting = False
        self.is_unwanted = False
        self.is_silent = False
        """What it says of its end is noise to who has asked for it."""

    @contextmanager
    def starting(self) -> Iterator[None]:
        """What PySpark starts within this block is noted. It does not offer that, so its `Popen` is another one."""
        from pyspark import java_gateway  # noqa: PLC0415 (PySpark may be missing)

        pyspark: Any = java_gateway
        pyspark.Popen, self.is_starting = self._start, True
        try:
            yield
        finally:
            pyspark.Popen, self.is_starting = Popen, False

    def _start(self, *command: Any, **settings: Any) -> "Popen[bytes]":
        """A signal that came too early to find a process has said that none is wanted."""
        self._process = Popen(*command, **{**settings, "stderr": PIPE, "start_new_session": True})
        self._relay.start()
        if self.is_unwanted:
            self._send(signal.SIGKILL)
        return self._process

    def ask_to_end(self) -> None:
        """Does not wait, so that a signal can do it. The second time is no question."""
        self._send(signal.SIGKILL if self.is_unwanted else signal.SIGTERM)
        self.is_unwanted = True

    def end(self) -> None:
        """When this returns, nothing of it runs."""
        if not self.is_unwanted:
            self.ask_to_end()
        if self._process is not None:
            with suppress(TimeoutExpired):
                self._process.wait(SECONDS_TO_END)
            self._send(signal.SIGKILL)  # to what it has started, too
            self._process.wait()
            self._relay.join(SECONDS_TO_READ)
            self._process = None

    def _send(self, number: signal.Signals) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError, PermissionError):  # all are gone, or on macOS all are zombies
                os.killpg(self._process.pid, number)

    def _pass_on(self) -> None:
        """To the end, whoever reads it: a Java that cannot get rid of its words stands still."""
        assert self._process is not None
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if not self.is_silent:
                with suppress(OSError):
                    os.write(STDERR, line)
