"""The servers that the contenders need, each a child of the benchmark on loopback, and where Kafka is."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.broker import broker_process
from benchmarks.children import HOST, Unavailable, free_port, server
from benchmarks.peers import nats_jetstream, rabbitmq, redis_streams

KAFKA = "BENCH_KAFKA"
ECHO = "benchmarks.natural.programs.echo"
SESSION = 3
"""The place of the session in /proc/PID/stat, behind the name in brackets."""


@dataclass(frozen=True, slots=True)
class Server:
    address: str
    pids: tuple[int, ...] = ()
    """Its processes; none where it is not ours to look at."""


Start = Callable[[Path], AbstractContextManager[Server]]


@contextmanager
def goqueue_server(folder: Path) -> Iterator[Server]:
    with broker_process(str(folder / "data")) as broker:
        yield Server(broker.url, (broker.pid,))


@contextmanager
def redis_server(folder: Path) -> Iterator[Server]:
    """In memory, without a file: what Redis does is fast, and gone with its process."""
    redis_streams.check_installed()
    port = free_port()
    with server(redis_streams.command(folder, port, in_memory=True), folder, port) as pid:
        yield Server(f"redis://{HOST}:{port}/0", (pid,))


@contextmanager
def nats_server(folder: Path) -> Iterator[Server]:
    with nats_jetstream.serving(folder) as (pid, url):
        yield Server(url, (pid,))


@contextmanager
def rabbitmq_server(folder: Path) -> Iterator[Server]:
    with rabbitmq.serving(folder) as (pid, port):
        yield Server(f"amqp://guest:guest@{HOST}:{port}/%2F", tuple(processes_of_session(pid)))


@contextmanager
def kafka_server(_: Path) -> Iterator[Server]:
    address = os.environ.get(KAFKA)
    if not address:
        raise Unavailable(f"no broker of Kafka was given; {KAFKA}=host:port names one")
    yield Server(address)


@contextmanager
def echo_server(_: Path) -> Iterator[Server]:
    process = subprocess.Popen([sys.executable, "-m", ECHO], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield Server(process.stdout.readline().strip(), (process.pid,))
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()


def processes_of_session(leader: int) -> Iterator[int]:
    """A server of Erlang is a script, a virtual machine and its helpers."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        if int(fields[SESSION]) == leader:
            yield int(path.parent.name)


STARTS: Mapping[str, Start] = {
    "goqueue": goqueue_server,
    "redis": redis_server,
    "counter": redis_server,
    "nats": nats_server,
    "rabbitmq": rabbitmq_server,
    "kafka": kafka_server,
    "echo": echo_server,
}


def start_all(names: Iterable[str], folder: Path, stack: ExitStack) -> tuple[dict[str, Server], dict[str, str]]:
    """Those that run, and why the others do not."""
    found, left_out = {}, {}
    for name in names:
        (folder / name).mkdir()
        try:
            found[name] = stack.enter_context(STARTS[name](folder / name))
        except Unavailable as error:
            left_out[name] = str(error)
    return found, left_out
