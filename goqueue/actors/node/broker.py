"""The broker: its actors as one tree, started in this order and stopped in the reverse.

    broker ▸ storage       the data directory's lock, the committer
           ▸ metadata      which topics and groups there are, durably
           ▸ registry      the schemas of messages, durably
           ▸ timers        hints which delayed messages may be due
           ▸ partitions    a supervisor; one child for each partition, restarted alone
           ▸ topics        starts and stops partitions to fit the metadata
           ▸ groupactors   a supervisor; one child for each group, restarted alone
           ▸ groups        finds, makes and removes groups
           ▸ deadletters   carries dead letters to their topics and back
           ▸ janitor       retention and compaction, now and then; empties what deleted topics left
           ▸ watchdog      where the broker is a process of its own: stalls of the event loop, garbage

An actor that crashes is restarted with those started after it. A failed fsync goes up the tree and ends the node.
"""

import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count

import trio

from goqueue.actors.deadletters.service import DeadLetterService
from goqueue.actors.deadletters.waiting import WaitingLetters
from goqueue.actors.delays.timers import Timers
from goqueue.actors.groups.groups import Groups
from goqueue.actors.metadata.metadata import MetadataOwner
from goqueue.actors.node.watchdog import Process, Watchdog
from goqueue.actors.registry.board import SchemaBoard
from goqueue.actors.registry.registry import Registry
from goqueue.actors.registry.rules import RULES
from goqueue.actors.runtime.actor import Actor
from goqueue.actors.runtime.child import ChildSpec, supervised
from goqueue.actors.runtime.handlers import answers
from goqueue.actors.runtime.messages import Request
from goqueue.actors.runtime.ref import ActorRef
from goqueue.actors.runtime.reports import ChildReport, log_report
from goqueue.actors.runtime.restarts import Strategy
from goqueue.actors.runtime.root import running
from goqueue.actors.runtime.supervisor import Supervisor
from goqueue.actors.statistics.start import StartReport
from goqueue.actors.statistics.statistics import Statistics
from goqueue.actors.topics.board import topics_board
from goqueue.actors.topics.janitor import Janitor
from goqueue.actors.topics.opening import WIDTH
from goqueue.actors.topics.topics import Topics
from goqueue.core.log.admission import DISK_FREE_MIN
from goqueue.core.log.nodeproducers import NodeProducers
from goqueue.core.slices.cachebudget import CacheBudget
from goqueue.environment import Environment
from goqueue.storage.directory.datadirectory import DataDirectory, Meta
from goqueue.storage.disk.reserve import RESERVE_BYTES
from goqueue.storage.log.volume import Volume
from goqueue.storage.slices import Slices

TOPICS_STOP_SECONDS = 10.0

logger = logging.getLogger("goqueue.broker")


@dataclass(frozen=True, slots=True)
class Broker:
    """The parts of a broker that its listeners need."""

    environment: Environment
    topics: ActorRef
    groups: ActorRef
    dead_letters: ActorRef
    registry: ActorRef
    schemas: SchemaBoard
    cluster: bytes
    node: str
    statistics: Statistics
    start: StartReport
    producers: NodeProducers = field(default_factory=NodeProducers)
    disk_free_min: int = DISK_FREE_MIN
    waiting_letters: WaitingLetters = field(default_factory=WaitingLetters)
    leaving: trio.Event = field(default_factory=trio.Event)
    """Set when the broker is about to stop: it is not ready any more."""
    session_numbers: Iterator[int] = field(default_factory=lambda: count(1))
    """A number for each session of a client, whatever way it came in."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The cluster and the node to which the data belong."""

    meta: Meta
    is_new: bool
    """There were no data in the directory before."""


@dataclass(frozen=True, slots=True)
class Identify(Request[Identity]):
    """Whose data these are."""


class Storage(Actor):
    """Holds the data directory and runs its committer, as long as any actor writes."""

    def __init__(self, environment: Environment, volume: Volume, data: str, node: str, reserve_bytes: int) -> None:
        self._environment = environment
        self._volume = volume
        self._data = data
        self._node = node
        self._reserve_bytes = reserve_bytes
        self._directory: DataDirectory | None = None

    async def start(self) -> None:
        self.background(self._volume.run, endless=True)
        await trio.lowlevel.checkpoint()
        self._directory = await DataDirectory.open(
            self._volume, self._data, node=self._node, random=self._environment.random
        )
        for report in self._directory.reports:
            logger.warning("%s", report)
        self._volume.reserve.keep_in(self._data, self._reserve_bytes)
        await self._volume.reserve.refill()

    @answers(Identify)
    async def identify(self, _: Identify) -> Identity:
        assert self._directory is not None
        return Identity(self._directory.meta, self._directory.is_new)

    def close(self) -> None:
        self._volume.close()
        if self._directory is not None:
            self._directory.release()


@asynccontextmanager
async def running_broker(
    environment: Environment,
    data: str,
    *,
    node: str = "node-1",
    disk_free_min: int = DISK_FREE_MIN,
    process: Process | None = None,
    reserve_bytes: int = RESERVE_BYTES,
) -> AsyncIterator[Broker]:
    """A broker without listeners, for as long as the block lasts; everything is on disk afterwards (G15)."""
    began, began_at = trio.current_time(), environment.clock.now()
    volume = Volume(environment.disk)
    budget = CacheBudget()
    statistics = Statistics(volume, data, budget)

    def report(child: ChildReport) -> None:
        statistics.note_child(child)
        log_report(child)

    metadata = ChildSpec("metadata", lambda: MetadataOwner(volume, data, environment.clock))
    schemas = SchemaBoard(RULES)
    registry = ChildSpec("registry", lambda: Registry(volume, data, environment.clock, schemas))
    partitions = supervised("partitions", lambda: Supervisor(width=WIDTH, report=report))
    timers = ChildSpec("timers", lambda: Timers(environment.clock))
    dead_letters = ChildSpec(
        "deadletters",
        lambda: DeadLetterService(
            topics.ref, metadata.ref, environment.random, environment.clock, statistics.groups
        ),
    )
    topics = ChildSpec(
        "topics",
        lambda: Topics(
            environment,
            volume,
            data,
            partitions.ref,
            metadata.ref,
            disk_free_min=disk_free_min,
            counts=statistics.groups,
            budget=budget,
            timers=timers.ref,
            delay_counts=statistics.delays,
            fetch_counts=statistics.fetched,
            dead_letters=dead_letters.ref,
            schemas=schemas.of,
            schema_counts=statistics.schemas,
            registry=schemas.registry,
        ),
        stop_timeout_seconds=TOPICS_STOP_SECONDS,
    )
    actors = supervised("groupactors", lambda: Supervisor(width=WIDTH, report=report))
    groups = ChildSpec(
        "groups",
        lambda: Groups(
            environment,
            volume,
            data,
            topics=topics.ref,
            register=metadata.ref,
            supervisor=actors.ref,
            counts=statistics.groups,
        ),
    )
    storage = ChildSpec("storage", lambda: Storage(environment, volume, data, node, reserve_bytes))
    children = [
        storage,
        metadata,
        registry,
        timers,
        partitions,
        topics,
        actors,
        groups,
        dead_letters,
        ChildSpec("janitor", lambda: Janitor(topics.ref, metadata.ref, volume, data, statistics.refusals)),
    ]
    if process is not None:
        children.append(ChildSpec("watchdog", partial(Watchdog, process, statistics)))
    root = supervised("broker", lambda: Supervisor(children, strategy=Strategy.REST_FOR_ONE, report=report))
    async with running(root):
        identity = await storage.ref.call(Identify())
        meta, seconds = identity.meta, trio.current_time() - began
        start = replace(await _start_report(topics.ref, volume, identity, seconds), began=began_at)
        yield Broker(
            environment,
            topics.ref,
            groups.ref,
            dead_letters.ref,
            registry.ref,
            schemas,
            meta.cluster.bytes,
            meta.node,
            statistics,
            start,
            volume.producers,
            disk_free_min,
        )


async def _start_report(topics: ActorRef, volume: Volume, identity: Identity, seconds: float) -> StartReport:
    slices = Slices()
    counts = await (await topics_board(topics)).count(slices)
    return StartReport(identity.meta.node, identity.is_new, counts, await volume.logs.recovered(slices), seconds)
