"""What is measured, as a table: who, how, on which server, by which program."""

import inspect
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from importlib.util import find_spec
from typing import Any

import goqueue

PAGE_CACHE = "page cache, fsync within 1 s"
SYNCED = "fsync"
MEMORY = "memory, no file"
NATS_FILE = "page cache, fsync each 2 min"
RABBITMQ_FILE = "fsync, in groups"
KAFKA_FILE = "page cache, no fsync"
NOTHING = "nothing is kept"
MANY = 100


class Group(Enum):
    """The titles of tables and charts."""

    ENQUEUE = "Enqueue, one at a time"
    AT_ONCE = f"Enqueue, {MANY} at once"
    EMPTY = "A worker, handler does nothing"
    COUNTING = "A worker, handler does one Redis INCR"
    ACKING = "A loop that acks each message"
    CONNECTIONS = "Connections that publish one at a time"
    RECEIVING = "Receive one and ack it"


@dataclass(frozen=True, slots=True)
class Contender:
    title: str
    servers: tuple[str, ...]
    libraries: tuple[str, ...] = ()


CONTENDERS = {
    "goqueue": Contender("goqueue", ("goqueue",)),
    "dramatiq": Contender("Dramatiq", ("redis",), ("dramatiq", "redis")),
    "celery": Contender("Celery", ("redis",), ("celery", "redis")),
    "rq": Contender("RQ", ("redis",), ("rq", "redis")),
    "rabbitmq": Contender("pika", ("rabbitmq",), ("pika",)),
    "nats": Contender("nats-py", ("nats",), ("nats",)),
    "redis": Contender("redis-py", ("redis",), ("redis",)),
    "kafka": Contender("confluent-kafka", ("kafka",), ("confluent_kafka",)),
    "echo": Contender("bare Trio echo", ("echo",)),
}


@dataclass(frozen=True, slots=True)
class Row:
    contender: str
    group: Group
    who: str
    way: str
    durability: str
    program: str
    """A module of the folder `programs` and a function in it; `work` runs the module's worker."""
    options: dict[str, Any] = field(default_factory=dict)
    """Fields of the task."""

    @property
    def name(self) -> str:
        return f"{self.who}: {self.way}"

    @property
    def at_once(self) -> int:
        return int(self.options.get("at_once", 1))

    @property
    def servers(self) -> tuple[str, ...]:
        """The one that is measured comes first."""
        return CONTENDERS[self.contender].servers + (("counter",) if self.group is Group.COUNTING else ())


def _own(
    group: Group, surface: str, way: str, program: str, durability: str = PAGE_CACHE, /, **options: Any
) -> Row:
    who = {"trio": "goqueue", "aio": "goqueue.aio", "blocking": "goqueue.blocking"}[surface]
    module = "goqueue_jobs" if program == "work" else f"on_{surface}"
    return Row("goqueue", group, who, way, durability, f"{module}.{program}", options)


def _enqueue() -> Iterator[Row]:
    group = Group.ENQUEUE
    yield _own(group, "blocking", "send, acks=leader", "send")
    yield _own(group, "blocking", "send, acks=all", "send", SYNCED, acks="all")
    yield _own(group, "aio", "send, acks=leader", "send")
    yield _own(group, "trio", "send, acks=leader", "send")
    yield Row("dramatiq", group, "Dramatiq", ".send", MEMORY, "dramatiq_jobs.send")
    yield Row("celery", group, "Celery", ".delay", MEMORY, "celery_jobs.send")
    yield Row("rq", group, "RQ", "enqueue", MEMORY, "rq_jobs.send")
    yield Row("rabbitmq", group, "pika", "basic_publish with confirms", RABBITMQ_FILE, "rabbitmq.publish")
    yield Row("nats", group, "nats-py", "js.publish", NATS_FILE, "jetstream.publish")
    yield Row("kafka", group, "confluent-kafka", "produce and flush", KAFKA_FILE, "kafka.produce")


def _at_once() -> Iterator[Row]:
    group, tasks, threads, many = Group.AT_ONCE, f"{MANY} tasks", f"{MANY} threads", {"at_once": MANY}
    yield _own(group, "blocking", f"send, acks=leader, {threads}", "send_at_once", **many)
    yield _own(group, "aio", f"send, acks=leader, {tasks}", "send_at_once", **many)
    yield _own(group, "aio", f"publish, acks=all, {tasks}", "publish_at_once", SYNCED, **many)
    yield _own(group, "trio", f"send, acks=leader, {tasks}", "send_at_once", **many)
    yield _own(group, "blocking", "send_nowait, a flush each 1,000", "send_nowait")
    yield _own(group, "aio", "send_nowait, a flush each 1,000", "send_nowait")
    yield _own(group, "trio", "send_nowait, a flush each 1,000", "send_nowait")
    yield Row("dramatiq", group, "Dramatiq", f".send, {threads}", MEMORY, "dramatiq_jobs.send_at_once", many)
    yield Row("celery", group, "Celery", f".delay, {threads}", MEMORY, "celery_jobs.send_at_once", many)
    yield Row("rq", group, "RQ", f"enqueue, {threads}", MEMORY, "rq_jobs.send_at_once", many)
    way = f"basic_publish with confirms, {threads}, a connection each"
    yield Row("rabbitmq", group, "pika", way, RABBITMQ_FILE, "rabbitmq.publish_from_connections", many)
    yield Row("nats", group, "nats-py", f"js.publish, {tasks}", NATS_FILE, "jetstream.publish_at_once", many)
    way = f"produce and flush, {threads}"
    yield Row("kafka", group, "confluent-kafka", way, KAFKA_FILE, "kafka.produce_at_once", many)


def _workers() -> Iterator[Row]:
    for group, handler, words in ((Group.EMPTY, "nothing", "empty handler"), (Group.COUNTING, "count", "one INCR")):
        ten: dict[str, Any] = {"at_once": 10, "handler": handler}
        one: dict[str, Any] = {"at_once": 1, "handler": handler}
        yield _own(group, "blocking", f"worker, 10 threads, {words}", "work", surface="threads", **ten)
        yield _own(group, "aio", f"worker, concurrency 10, {words}", "work", surface="asyncio", **ten)
        if handler == "nothing":  # there is no client of Redis for Trio
            yield _own(group, "trio", f"goqueue work, concurrency 10, {words}", "work", surface="trio", **ten)
            yield _own(group, "blocking", f"worker, 1 thread, {words}", "work", surface="threads", **one)
            yield _own(group, "aio", f"worker, concurrency 1, {words}", "work", surface="asyncio", **one)
            yield _own(group, "trio", f"goqueue work, concurrency 1, {words}", "work", surface="trio", **one)
        way = f"1 process, 10 threads, {words}"
        yield Row("dramatiq", group, "Dramatiq", way, MEMORY, "dramatiq_jobs.work", ten)
        way = f"-P threads -c 10, early acks, {words}"
        yield Row("celery", group, "Celery", way, MEMORY, "celery_jobs.work", ten)
        way = f"SimpleWorker, one slot, no fork, {words}"
        yield Row("rq", group, "RQ", way, MEMORY, "rq_jobs.work", one)


def _acking() -> Iterator[Row]:
    group = Group.ACKING
    loops = (("trio", "async for, await ack"), ("aio", "async for, await ack"), ("blocking", "for, ack"))
    for surface, way in loops:
        yield _own(group, surface, way, "ack_each")
    for surface, way in loops:
        yield _own(group, surface, f"{way}, unconfirmed", "ack_each", confirm_acks=False)
    way = "consume, basic_ack each, prefetch 500"
    yield Row("rabbitmq", group, "pika", way, RABBITMQ_FILE, "rabbitmq.ack_each")
    way = "pulls of 500, ack each, unconfirmed"
    yield Row("nats", group, "nats-py", way, NATS_FILE, "jetstream.ack_each_of_pulls")
    way = "pushed, ack each, unconfirmed"
    yield Row("nats", group, "nats-py", way, NATS_FILE, "jetstream.ack_each_of_pushes")


def _connections() -> Iterator[Row]:
    group = Group.CONNECTIONS
    for count in (1, 10, 50):
        words, many = f"{count} connection{'s' * (count > 1)}", {"at_once": count}
        yield _own(group, "trio", f"send, acks=leader, {words}", "send_from_connections", **many)
        yield Row("redis", group, "redis-py", f"XADD, {words}", MEMORY, "streams.add_from_connections", many)
        yield Row(
            "nats", group, "nats-py", f"js.publish, {words}", NATS_FILE, "jetstream.publish_from_connections", many
        )
        way = f"basic_publish with confirms, {words}"
        yield Row("rabbitmq", group, "pika", way, RABBITMQ_FILE, "rabbitmq.publish_from_connections", many)
        if count != 10:
            way = f"180 bytes, {words}"
            yield Row("echo", group, "bare Trio echo", way, NOTHING, "echo.echo_from_connections", many)


def _receiving() -> Iterator[Row]:
    yield _own(Group.RECEIVING, "trio", "receive(max_messages=1), ack", "receive_one")


ROWS = [*_enqueue(), *_at_once(), *_workers(), *_acking(), *_connections(), *_receiving()]


def why_not(row: Row) -> str | None:
    """The reason for which a row cannot run here, if there is one."""
    for library in CONTENDERS[row.contender].libraries:
        if find_spec(library) is None:
            return f"{library} is not installed"
    if not row.options.get("confirm_acks", True) and not has_unconfirmed_acks():
        return "this goqueue has no confirm_acks"
    return None


def has_unconfirmed_acks() -> bool:
    return "confirm_acks" in inspect.signature(goqueue.Client.consumer).parameters
