"""beanstalkd through greenstalk, which asks for one job at a time."""

import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count as numbers
from pathlib import Path
from typing import Any

from benchmarks.children import HOST, Unavailable, free_port, program, server
from benchmarks.figures import timed
from benchmarks.peers.workload import BLOCK, Peer, What, Workload, blocks, check_count, check_values

try:
    import greenstalk
except ImportError:
    greenstalk = None

NAME = "beanstalkd"
FSYNC_MS = 1_000
DURABILITY = "in the file; fsync each second"


@contextmanager
def connected(folder: Path) -> Iterator[Any]:
    if greenstalk is None:
        raise Unavailable("its client greenstalk is not installed")
    port = free_port()
    command = [program("beanstalkd"), "-l", HOST, "-p", str(port), "-b", str(folder), "-f", str(FSYNC_MS)]
    with server(command, folder, port), greenstalk.Client((HOST, port), encoding=None) as client:
        yield client


@contextmanager
def delays(folder: Path) -> Iterator[Callable[[int, int], float]]:
    """Seconds for so many jobs that are delayed by so many seconds."""
    with connected(folder) as client:
        yield lambda count, seconds: _put_delayed(client, count, seconds)


def _put_delayed(client: Any, count: int, seconds: int) -> float:
    before = client.stats_tube("default")["current-jobs-delayed"]
    with timed() as watch:
        for _ in range(count):
            client.put(BLOCK[0], delay=seconds)
    check_count(client.stats_tube("default")["current-jobs-delayed"] - before, count, "delayed")
    return watch.seconds


@contextmanager
def started(folder: Path) -> Iterator[Peer]:
    with connected(folder) as client:
        tubes = Tubes(client)
        yield Peer(
            NAME,
            str(client.stats()["version"]),
            [
                Workload("beanstalkd", NAME, What.PUBLISH, "put, one at a time", DURABILITY, tubes.publish),
                Workload("beanstalkd read", NAME, What.READ, "reserve and delete", "jobs deleted", tubes.read),
                Workload("beanstalkd single", NAME, What.SINGLE, "put", DURABILITY, tubes.single),
            ],
        )


class Tubes:
    def __init__(self, client: Any) -> None:
        self._client = client
        self._names = (f"run-{number}" for number in numbers())

    def publish(self, count: int) -> float:
        with self._new_tube() as tube:
            with timed() as watch:
                self._publish(count)
            self._check_and_empty(tube, count)
        return watch.seconds

    def _publish(self, count: int) -> None:
        confirmed = 0
        for values in blocks(count):
            for value in values:
                confirmed += self._client.put(value) > 0
        check_count(confirmed, count, "confirmed")

    def read(self, count: int) -> float:
        with self._new_tube() as tube:
            self._publish(count)
            found: list[bytes] = []
            with timed() as watch:
                for _ in range(count):
                    job = self._client.reserve(timeout=30)
                    found.append(job.body)
                    self._client.delete(job)
            check_values(found, count)
            check_count(self._client.stats_tube(tube)["current-jobs-ready"], 0, "left over")
        return watch.seconds

    def single(self, count: int) -> float:
        seconds = []
        with self._new_tube() as tube:
            for value in BLOCK[:count]:
                with timed() as watch:
                    self._client.put(value)
                seconds.append(watch.seconds)
            self._check_and_empty(tube, count)
        return statistics.median(seconds)

    def _check_and_empty(self, tube: str, count: int) -> None:
        check_count(self._client.stats_tube(tube)["current-jobs-ready"], count, "confirmed and there")
        for _ in range(count):
            self._client.delete(self._client.reserve(timeout=30))

    @contextmanager
    def _new_tube(self) -> Iterator[str]:
        tube = next(self._names)
        self._client.use(tube)
        self._client.watch(tube)
        yield tube
        self._client.ignore(tube)
