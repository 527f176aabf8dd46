"""A goqueue broker in a process of its own, and what that process uses."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

CPU_CLOCK = 2
"""Linux makes the number of a process's clock from this and its pid, as clock_getcpuclockid(3) does."""
LOOPBACK = ("--listen", "127.0.0.1:0", "--http", "127.0.0.1:0")


def cpu_seconds_of(pid: int) -> float:
    """Of all its threads, by its own clock: /proc counts in hundredths of a second."""
    return time.clock_gettime(~pid << 3 | CPU_CLOCK)


@dataclass(frozen=True, slots=True)
class BrokerProcess:
    url: str
    pid: int
    http: str
    """The address of the gateway."""

    def cpu_seconds(self) -> float:
        return cpu_seconds_of(self.pid)

    def resident_mib(self) -> float:
        with open(f"/proc/{self.pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1024**2


@contextmanager
def broker_process(data: str) -> Iterator[BrokerProcess]:
    command = [sys.executable, "-m", "goqueue", "serve", "--data", data, *LOOPBACK, "-o", "json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        addresses = json.loads(process.stdout.readline())
        yield BrokerProcess(addresses["websocket"], process.pid, addresses["http"])
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()
