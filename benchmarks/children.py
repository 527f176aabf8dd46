"""Servers that a benchmark starts for itself: on loopback, in a folder of their own, ended by their pid."""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

HOST = "127.0.0.1"
START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 30.0
LOG_SHOWN_MAX = 2_000


class Unavailable(Exception):
    """A server that is not installed, or did not start; says what to do."""


def program(name: str, *folders: str) -> str:
    """Where a program lies; some lie where only root's path leads."""
    path = os.pathsep.join([*folders, os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin"])
    found = shutil.which(name, path=path)
    if found is None:
        raise Unavailable(f"{name} is not installed")
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


@contextmanager
def server(
    command: list[str], folder: Path, port: int, environment: Mapping[str, str] | None = None
) -> Iterator[int]:
    """The pid of a server, once its port accepts. What it prints goes to a file, shown if it does not start."""
    log = folder / f"{Path(command[0]).name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
            start_new_session=True,  # its helpers end with it
        )
    try:
        _wait_until_it_accepts(process, port, log)
        yield process.pid
    finally:
        end(process)


def _wait_until_it_accepts(process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while process.poll() is None and time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex((HOST, port)) == 0:
                return
        time.sleep(0.05)
    said = log.read_text(errors="replace")[-LOG_SHOWN_MAX:]
    raise Unavailable(f"it did not start: {said}")


def end(process: "subprocess.Popen[bytes]") -> None:
    """Ask, wait a bounded time, kill. The group is the process's own: it was started in a session of its own."""
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(STOP_SECONDS_MAX)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
