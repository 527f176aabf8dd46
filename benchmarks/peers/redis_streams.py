"""Redis Streams through redis-py with hiredis, in pipelines of 500.

Reading is done by a consumer group, as an application would: XREADGROUP of 500, the XACK for them in one round
trip with the next; and once more by XRANGE, which leaves nothing behind, as a plain read of goqueue does.
"""

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
    import redis
except ImportError:
    redis = None

NAME = "Redis Streams"
BATCH = 500
EVERY_SECOND = "in the file; fsync each second (everysec)"
ALWAYS = "fsynced before it is confirmed (always)"


@contextmanager
def started(folder: Path) -> Iterator[Peer]:
    check_installed()
    port = free_port()
    with server(command(folder, port), folder, port), connect(port) as client:
        streams = Streams(client)
        pipelines = f"XADD in pipelines of {BATCH}"
        group = f"XREADGROUP of {BATCH} with XACK"
        yield Peer(
            NAME,
            client.info("server")["redis_version"],
            [
                Workload("redis", NAME, What.PUBLISH, pipelines, EVERY_SECOND, streams.publishing("everysec")),
                Workload("redis always", NAME, What.PUBLISH, pipelines, ALWAYS, streams.publishing("always")),
                Workload("redis group", NAME, What.READ, group, "progress of a group, acknowledged", streams.group),
                Workload("redis range", NAME, What.READ, f"XRANGE of {BATCH}", "nothing", streams.range),
                Workload("redis single", NAME, What.SINGLE, "XADD", EVERY_SECOND, streams.single("everysec")),
                Workload("redis single always", NAME, What.SINGLE, "XADD", ALWAYS, streams.single("always")),
            ],
        )


def check_installed() -> None:
    if redis is None:
        raise Unavailable("its client redis-py is not installed")


def connect(port: int) -> Any:
    return redis.Redis(HOST, port)


def command(folder: Path, port: int, *, in_memory: bool = False) -> list[str]:
    """Without snapshots and without rewrites of its log, which would only cost it time here."""
    settings = {
        "bind": HOST,
        "port": str(port),
        "dir": str(folder),
        "appendonly": "no" if in_memory else "yes",
        "appendfsync": "everysec",
        "save": "",
        "auto-aof-rewrite-percentage": "0",
    }
    options = [part for name, value in settings.items() for part in (f"--{name}", value)]
    return [program("redis-server"), *options]


class Streams:
    def __init__(self, client: Any) -> None:
        self._redis = client
        self._names = (f"run-{number}" for number in numbers())

    def publishing(self, fsync: str) -> Callable[[int], float]:
        def publish(count: int) -> float:
            self._redis.config_set("appendfsync", fsync)
            stream = next(self._names)
            with timed() as watch:
                self._publish(stream, count)
            check_count(self._redis.xlen(stream), count, "confirmed and there")
            self._redis.delete(stream)
            return watch.seconds

        return publish

    def _publish(self, stream: str, count: int) -> None:
        for values in blocks(count):
            for begin in range(0, len(values), BATCH):
                pipeline = self._redis.pipeline(transaction=False)
                for value in values[begin : begin + BATCH]:
                    pipeline.xadd(stream, {b"v": value})
                check_count(len(pipeline.execute()), BATCH, "confirmed")

    def group(self, count: int) -> float:
        self._fill(count)
        group = next(self._names)
        self._redis.xgroup_create("reading", group, id="0")
        found: list[bytes] = []
        with timed() as watch:
            acked = self._read_as_group(group, count, found)
        check_count(acked, count, "acknowledged")
        check_values(found, count)
        self._redis.xgroup_destroy("reading", group)
        return watch.seconds

    def _read_as_group(self, group: str, count: int, found: list[bytes]) -> int:
        """Returns how many were acknowledged."""
        ids: list[bytes] = []
        acked = 0
        while True:
            pipeline = self._redis.pipeline(transaction=False)
            if ids:
                pipeline.xack("reading", group, *ids)
            if len(found) < count:
                pipeline.xreadgroup(group, "one", {"reading": ">"}, count=BATCH)
            if not len(pipeline):
                return acked
            answers = pipeline.execute()
            acked += answers.pop(0) if ids else 0
            entries = entries_of(answers[0]) if answers else []
            found += [fields[b"v"] for _, fields in entries]
            ids = [each for each, _ in entries]

    def range(self, count: int) -> float:
        self._fill(count)
        found: list[bytes] = []
        start = b"-"
        with timed() as watch:
            while len(found) < count:
                entries = self._redis.xrange("reading", min=start, count=BATCH)
                found += [fields[b"v"] for _, fields in entries]
                start = b"(" + entries[-1][0]
        check_values(found, count)
        return watch.seconds

    def _fill(self, count: int) -> None:
        """To at least so many; all counts are multiples of what is read at a time."""
        self._redis.config_set("appendfsync", "everysec")
        there = self._redis.xlen("reading")
        if there < count:
            self._publish("reading", count - there)

    def single(self, fsync: str) -> Callable[[int], float]:
        def publish(count: int) -> float:
            self._redis.config_set("appendfsync", fsync)
            stream, seconds = next(self._names), []
            for value in BLOCK[:count]:
                with timed() as watch:
                    self._redis.xadd(stream, {b"v": value})
                seconds.append(watch.seconds)
            check_count(self._redis.xlen(stream), len(seconds), "confirmed and there")
            self._redis.delete(stream)
            return statistics.median(seconds)

        return publish


def entries_of(answer: Any) -> list[tuple[bytes, dict[bytes, bytes]]]:
    """Of the only stream; a list of pairs or a dictionary, as the protocol's version has it."""
    [(_, entries)] = answer.items() if isinstance(answer, dict) else answer
    return entries[0] if len(entries) == 1 and isinstance(entries[0], list) else entries
