"""A broker on real sockets, for tests without Trio, and for clients that cannot be given a network."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from random import Random
from typing import Protocol

from goqueue.environment import Disk, Environment, SystemClock, TcpNetwork
from goqueue.http.ports import serving
from goqueue.net.transport.origin import Address
from goqueue.portal.host import Host
from goqueue.portal.thread import TrioThread
from goqueue.portal.waiting import opened
from goqueue.storage.disk.disk import RealDisk
from goqueue.testing.disk import SimulatedDisk

HOST = "127.0.0.1"


class Pathlike(Protocol):
    def __fspath__(self) -> str: ...


@contextmanager
def loopback_broker(data: str | Pathlike | None = None, *, port: int = 0) -> Iterator[str]:
    """The address of a broker that runs in a thread of its own; port 0 picks a free one.

    Without `data` it keeps everything in memory. With it, a broker that is started there again finds its data.
    """
    disk: Disk = SimulatedDisk(Random(0)) if data is None else RealDisk()
    directory = "/data" if data is None else str(data)
    thread = TrioThread("goqueue broker")
    thread.start()
    try:
        with opened(Host("broker", lambda: _serving(disk, directory, port), thread)) as address:
            yield address
    finally:
        thread.stop()


@asynccontextmanager
async def _serving(disk: Disk, directory: str, port: int) -> AsyncIterator[str]:
    environment = Environment(disk, TcpNetwork(), SystemClock(), Random(0))
    async with serving(environment, directory, listen=Address(HOST, port), http=Address(HOST, 0)) as ports:
        yield f"ws://{HOST}:{ports.websocket.port}"
