"""Brokers for tests: in the test's own process over memory or loopback, or as a process that can be killed."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

from goqueue.environment import Disk, Environment, Network, SystemClock, TcpNetwork
from goqueue.http.ports import Ports, serving
from goqueue.net.transport.origin import Address
from goqueue.testing.network import SimulatedNetwork
from tests.process.children import Child, child

HOST = "127.0.0.1"
WEBSOCKET, HTTP = Address(HOST, 7710), Address(HOST, 7711)
ANY = Address(HOST, 0)
URL = f"ws://{HOST}:7710"

MemoryNetwork = SimulatedNetwork
"""Ports without sockets: with an autojump clock, a day of waiting takes a moment."""


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
    async with serve_process(data, port) as (process, ports):
        yield process, ports["websocket"]


@asynccontextmanager
async def serve_process(data: Path, port: int = 0, http: int = 0) -> AsyncIterator[tuple[Child, dict[str, str]]]:
    """The same, with the addresses of both ports."""
    arguments = ["--data", str(data), "--listen", f"{HOST}:{port}", "--http", f"{HOST}:{http}", "-o", "json"]
    async with child("goqueue", "serve", *arguments) as process:
        await process.listen(1)
        yield process, json.loads(process.lines[0])
