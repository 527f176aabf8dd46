"""Metrics of the broker as a whole, of its process and of its disk."""

from functools import cache
from importlib.metadata import version

from goqueue.actors.groups.board import GroupsBoard
from goqueue.actors.node.broker import Broker
from goqueue.actors.runtime.ref import ActorRef
from goqueue.actors.statistics.statistics import Statistics
from goqueue.actors.topics.board import TopicsBoard
from goqueue.core.log.admission import disk_needed
from goqueue.errors import UnknownFormat
from goqueue.http.metrics import families as f
from goqueue.http.metrics.requests import HttpCounts
from goqueue.http.metrics.samples import Samples, label
from goqueue.storage.slices import Slices


async def collect(broker: Broker, samples: Samples, slices: Slices) -> None:
    labels = {"version": _version(), "node": broker.node, "cluster": broker.cluster.hex()}
    samples.put(f.INFO, 1, ",".join(label(*each) for each in labels.items()))
    samples.put(f.START_TIME, broker.start.began / 1_000_000)
    samples.put(f.RECOVERY_SECONDS, broker.start.seconds)
    _collect_counters(broker.statistics, samples)
    _collect_process(broker.statistics, samples)
    _collect_disk(broker.statistics, broker.disk_free_min, samples)
    _collect_schemas(broker, samples)
    await _collect_actors(broker, samples, slices)


@cache
def _version() -> str:
    """It is looked up in a file."""
    return version("goqueue")


def _collect_counters(statistics: Statistics, samples: Samples) -> None:
    samples.put(f.CONNECTIONS, statistics.connections)
    samples.put(f.CONNECTIONS_TOTAL, statistics.accepted)
    for kind, count in sorted(statistics.requests_of.items()):
        samples.put(f.REQUESTS, count, label("kind", kind))
    for code, count in sorted(statistics.refused.items()):
        samples.put(f.REFUSED, count, label("code", code))
    samples.put(f.REPEATS, statistics.repeats)
    for kind, count in sorted(statistics.restarts.items()):
        samples.put(f.RESTARTS, count, label("kind", kind))
    for acks, seconds in statistics.publish_seconds.items():
        samples.put_histogram(f.PUBLISH_SECONDS, seconds, label("acks", acks.name.lower()))
    samples.put_histogram(f.FETCH_SECONDS, statistics.fetched.seconds)
    samples.put_histogram(f.DELAY_LATENESS, statistics.delays.lateness)


def _collect_process(statistics: Statistics, samples: Samples) -> None:
    """Only a broker that is a process of its own has these."""
    if statistics.stalls is not None:
        samples.put(f.STALL_MAX, statistics.stalls.highest)
        for threshold, count in statistics.stalls.counts.items():
            samples.put(f.STALLS, count, label("over", f"{threshold / 1_000:g}"))
    if statistics.memory is not None:
        samples.put(f.MEMORY, statistics.memory())
    if statistics.collecting is not None:
        samples.put(f.GC_SECONDS, statistics.collecting())


def _collect_disk(statistics: Statistics, free_min: int, samples: Samples) -> None:
    volume = statistics.volume
    samples.put_histogram(f.FSYNC_SECONDS, volume.waits)
    samples.put(f.FSYNC_ROUNDS, volume.committer.rounds)
    samples.put(f.FSYNCS, volume.committer.syncs)
    samples.put(f.FSYNC_ERRORS, volume.committer.errors)
    samples.put(f.TORN_TAILS, volume.logs.torn_tails)
    samples.put_histogram(f.COMPACTION_SECONDS, volume.logs.compactions)
    samples.put(f.OPEN_FILES, volume.open_files)
    space = volume.disk.space(statistics.data)
    samples.put(f.DISK_FREE, space.free)
    samples.put(f.DISK_TOTAL, space.total)
    samples.put(f.DISK_FREE_MIN, disk_needed(space.total, least=free_min))


def _collect_schemas(broker: Broker, samples: Samples) -> None:
    samples.put_histogram(f.SCHEMA_VALIDATION_SECONDS, broker.statistics.schemas.seconds)
    samples.put(f.SCHEMA_VERSIONS, broker.schemas.registry.counts().versions)
    for result, count in sorted(broker.schemas.results.items()):
        samples.put(f.SCHEMA_REGISTRATIONS, count, label("result", result))


async def _collect_actors(broker: Broker, samples: Samples, slices: Slices) -> None:
    depths = {"topics": [broker.topics], "groups": [broker.groups], "deadletters": [broker.dead_letters]}
    depths["group"] = _group_refs(broker)
    highest = 0
    for kind, refs in depths.items():
        samples.put(f.MAILBOX_DEPTH, sum(ref.counts.depth for ref in refs), label("kind", kind))
        highest = max([highest, *(ref.counts.depth_highest for ref in refs)])
    board = broker.topics.board
    if isinstance(board, TopicsBoard):
        topics = await board.count(slices)
        samples.put(f.TOPICS, topics.topics)
        samples.put(f.PARTITIONS, topics.partitions)
        samples.put(f.UNAVAILABLE, topics.unavailable + topics.lost)
        samples.put(f.MAILBOX_DEPTH, topics.depth, label("kind", "partition"))
        highest = max(highest, topics.depth_highest)
    samples.put(f.MAILBOX_DEPTH_MAX, highest)


def _group_refs(broker: Broker) -> list[ActorRef]:
    board = broker.groups.board
    try:
        return list(board.refs().values()) if isinstance(board, GroupsBoard) else []
    except UnknownFormat:
        return []


def collect_http(counts: HttpCounts, samples: Samples) -> None:
    for (method, route, status), count in sorted(counts.requests.items()):
        samples.put(f.HTTP_REQUESTS, count, f"{_of_route(method, route)},{label('status', status)}")
    for place, seconds in sorted(counts.seconds.items(), key=lambda each: each[0]):
        samples.put_histogram(f.HTTP_SECONDS, seconds, _of_route(*place))
    samples.put(f.HTTP_IN_PROGRESS, counts.in_progress)


def _of_route(method: str, route: str) -> str:
    return f"{label('method', method)},{label('route', route)}"
