"""A start that fails leaves nothing behind: no lock, no port, no half-written file. The next one works."""

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest
import trio

from goqueue.actors.topics.requests import CreateTopic
from goqueue.core.records.batch import ENVELOPE_SIZE
from goqueue.environment import Environment, SystemClock, TcpNetwork
from goqueue.errors import CannotListen, DataDirectoryLocked, UnknownFormat
from goqueue.http.ports import serving
from goqueue.net.transport.origin import Address
from goqueue.storage.disk.disk import RealDisk
from tests.actors.delivery.gatherers import broker

HOST = "127.0.0.1"
SECONDS_MAX = 20


def free_port() -> int:
    with socket.socket() as found:
        found.bind((HOST, 0))
        return int(found.getsockname()[1])


@dataclass
class Machine:
    data: Path
    listen: int = field(default_factory=free_port)
    http: int = field(default_factory=free_port)

    async def start(self) -> None:
        environment = Environment(RealDisk(), TcpNetwork(), SystemClock(), Random(0))
        with trio.fail_after(SECONDS_MAX):
            listen, http = Address(HOST, self.listen), Address(HOST, self.http)
            async with serving(environment, str(self.data), listen=listen, http=http):
                pass

    def files(self) -> dict[str, bytes]:
        """Of what was there before, every byte; the lock's contents apart, which name a process."""
        found = [path for path in self.data.rglob("*") if path.is_file() and path.name != "lock"]
        return {str(path.relative_to(self.data)): path.read_bytes() for path in found}


@pytest.fixture
async def machine(tmp_path: Path) -> Machine:
    """A data directory with a topic in it."""
    async with broker(RealDisk(), data=str(tmp_path)) as running:
        await running.topics.call(CreateTopic("orders", 2, {}))
    return Machine(tmp_path)


@contextmanager
def occupied(port: int) -> Iterator[None]:
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind((HOST, port))
        held.listen()
        yield


@contextmanager
def websocket_port_taken(machine: Machine) -> Iterator[None]:
    with occupied(machine.listen):
        yield


@contextmanager
def http_port_taken(machine: Machine) -> Iterator[None]:
    with occupied(machine.http):
        yield


@contextmanager
def directory_locked(machine: Machine) -> Iterator[None]:
    held = RealDisk().lock(f"{machine.data}/lock")
    yield
    held.release()


@contextmanager
def replaced(path: Path, change: Callable[[bytes], bytes]) -> Iterator[None]:
    kept = path.read_bytes()
    path.write_bytes(change(kept))
    yield
    path.write_bytes(kept)


@contextmanager
def newer_format(machine: Machine) -> Iterator[None]:
    with replaced(machine.data / "meta.json", lambda kept: kept.replace(b'"format": 1', b'"format": 2')):
        yield


@contextmanager
def metadata_damaged(machine: Machine) -> Iterator[None]:
    path = machine.data / "logs/__metadata/0/00000000000000000000.log"
    place = ENVELOPE_SIZE + 40
    with replaced(path, lambda kept: kept[:place] + bytes([kept[place] ^ 1]) + kept[place + 1 :]):
        yield


@pytest.mark.parametrize(
    ("trouble", "error", "words"),
    [
        (websocket_port_taken, CannotListen, "in use; stop .* with --listen"),
        (http_port_taken, CannotListen, "in use; stop .* with --http"),
        (directory_locked, DataDirectoryLocked, "process {pid} holds"),
        (newer_format, UnknownFormat, "format 2; this goqueue reads format 1"),
        (
            metadata_damaged,
            UnknownFormat,
            "topics and groups is damaged.*run `goqueue recover topics --data",
        ),
    ],
    ids=lambda each: getattr(each, "__name__", None),
)
async def test_a_failed_start_leaves_nothing_behind(
    machine: Machine,
    trouble: Callable[[Machine], Iterator[None]],
    error: type[Exception],
    words: str,
) -> None:
    """G13, G15"""
    with trouble(machine):  # type: ignore[attr-defined]  # a context manager, whatever the decorator says
        before = set(machine.files())
        with pytest.raises(error, match=words.format(pid=os.getpid())):
            await machine.start()
        assert before <= set(machine.files()), "nothing is lost"
        assert not [name for name in machine.files() if name.endswith(".tmp")], "nothing is half-written"
    with ExitStack() as held:
        for port in (machine.listen, machine.http):
            held.enter_context(occupied(port))
        held.enter_context(directory_locked(machine))
    await machine.start()


async def test_a_damaged_note_of_the_directory_is_kept_and_the_broker_starts(machine: Machine) -> None:
    """G13: the data are what counts; which cluster they were of is reported as lost."""
    (machine.data / "meta.json").write_bytes(b"{")
    await machine.start()
    kept = [path.read_bytes() for path in machine.data.glob("meta.json.*.damaged")]
    assert kept == [b"{"]
