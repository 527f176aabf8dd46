"""Brokers for tests: in the test's own process over memory or loopback, or as a process that can be killed."""

import json
import math
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import trio
import trio.testing

from goqueue.actors.serving import Ports, serving
from goqueue.environment import Disk, Environment, Network, SystemClock, TcpNetwork
from goqueue.net.origin import Address
from tests.process.children import Child, child

HOST = "127.0.0.1"
WEBSOCKET, HTTP = Address(HOST, 7710), Address(HOST, 7711)
ANY = Address(HOST, 0)
URL = f"ws://{HOST}:7710"

Stream = trio.abc.HalfCloseableStream


class MemoryListener(trio.abc.Listener[Stream]):
    def __init__(self) -> None:
        self._arriving, self._arrived = trio.open_memory_channel[Stream](math.inf)
        self.is_open = True

    def take(self, stream: Stream) -> None:
        self._arriving.send_nowait(stream)

    async def accept(self) -> Stream:
        return await self._arrived.receive()

    async def aclose(self) -> None:
        self.is_open = False
        self._arriving.close()
        for stream in list(_waiting_in(self._arrived)):
            await trio.aclose_forcefully(stream)
        await trio.lowlevel.checkpoint()


def _waiting_in(channel: "trio.MemoryReceiveChannel[Stream]") -> Sequence[Stream]:
    found: list[Stream] = []
    try:
        while True:
            found.append(channel.receive_nowait())
    except (trio.WouldBlock, trio.EndOfChannel):
        return found


class MemoryNetwork:
    """Ports without sockets: with an autojump clock, a day of waiting takes a moment."""

    def __init__(self) -> None:
        self._listeners: dict[tuple[str, int], MemoryListener] = {}
        self.connections: list[Stream] = []
        """The clients' ends, in the order in which they connected."""

    async def listen(self, host: str, port: int) -> Sequence[MemoryListener]:
        await trio.lowlevel.checkpoint()
        listener = self._listeners[host, port] = MemoryListener()
        return [listener]

    async def connect(self, host: str, port: int) -> Stream:
        await trio.lowlevel.checkpoint()
        listener = self._listeners.get((host, port))
        if listener is None or not listener.is_open:
            raise ConnectionRefusedError(f"nobody listens on {host}:{port}")
        ours, theirs = trio.testing.memory_stream_pair()
        listener.take(theirs)
        self.connections.append(ours)
        return ours


@asynccontextmanager
async def broker_in_memory(network: Network, disk: Disk) -> AsyncIterator[Ports]:
    environment = Environment(disk, network, SystemClock(), Random(0))
    async with serving(environment, "/data", listen=WEBSOCKET, http=HTTP) as ports:
        yield ports


@asynccontextmanager
async def broker_on_loopback(disk: Disk, data: str = "/data", port: int = 0) -> AsyncIterator[str]:
    """Real sockets; the address to connect to."""
    environment = Environment(disk, TcpNetwork(), SystemClock(), Random(0))
    async with serving(environment, data, listen=Address(HOST, port), http=ANY) as ports:
        yield f"ws://{ports.websocket.host}:{ports.websocket.port}"


@asynccontextmanager
async def broker_process(data: Path, port: int = 0) -> AsyncIterator[tuple[Child, str]]:
    """`goqueue serve`, and where it listens; it is ready."""
    arguments = ["--data", str(data), "--listen", f"{HOST}:{port}", "--http", f"{HOST}:0", "-o", "json"]
    async with child("goqueue", "serve", *arguments) as process:
        await process.listen(1)
        yield process, json.loads(process.lines[0])["websocket"]
