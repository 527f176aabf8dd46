"""The task of one run, and what it found. A task travels to its process, and to a worker's, in the environment."""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from itertools import islice
from operator import eq
from typing import Any

from benchmarks.peers.workload import check_count

VARIABLE = "GOQUEUE_BENCH_TASK"
SIZE = 100


@dataclass(frozen=True, slots=True)
class Task:
    name: str
    """The topic, queue or stream, which is new."""
    count: int
    at_once: int = 1
    """Tasks, threads, connections or slots of a worker."""
    acks: str = "leader"
    handler: str = "nothing"
    surface: str = ""
    """Of goqueue's workers: trio, asyncio or threads."""
    confirm_acks: bool = True
    addresses: Mapping[str, str] = field(default_factory=dict)
    """The addresses of servers, by their names."""
    pids: tuple[int, ...] = ()
    """The processes of the server that is measured."""
    notes: str = ""
    """The file into which handlers write."""

    def environment(self) -> dict[str, str]:
        return {**os.environ, VARIABLE: json.dumps(asdict(self))}

    def values(self) -> Iterator[bytes]:
        return (value_of(number) for number in range(self.count))

    def shares(self) -> list[list[bytes]]:
        """The values, dealt out to those who work at once."""
        return [list(islice(self.values(), part, None, self.at_once)) for part in range(self.at_once)]


def given_task() -> Task:
    """The task of this process."""
    given = json.loads(os.environ[VARIABLE])
    return Task(**{**given, "pids": tuple(given["pids"])})


def value_of(number: int) -> bytes:
    return b"%0*d" % (SIZE, number)


def check_found(found: list[Any], task: Task) -> None:
    """Every value, in the order in which it was published."""
    check_count(len(found), task.count, "read back")
    check_count(sum(map(eq, found, task.values())), task.count, "read back as published")


@dataclass(frozen=True, slots=True)
class Sample:
    """What one run found: times of a message in milliseconds, processor times in microseconds a message."""

    messages: int
    seconds: float
    client_us: float
    broker_us: float | None = None
    p50_ms: float | None = None
    p99_ms: float | None = None

    @property
    def rate(self) -> float:
        return self.messages / self.seconds
