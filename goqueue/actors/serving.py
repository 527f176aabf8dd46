"""A broker with its ports open: what `goqueue serve` runs."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import trio

from goqueue.actors.broker import running_broker
from goqueue.actors.listener import WebsocketListener, serve_health
from goqueue.core.admission import DISK_FREE_MIN
from goqueue.environment import Environment
from goqueue.net.origin import Address
from goqueue.nursery import PlainNursery
from goqueue.tcp import TcpListener

Stream: TypeAlias = trio.abc.HalfCloseableStream
Listeners: TypeAlias = Sequence[trio.abc.Listener[Stream]]


@dataclass(frozen=True, slots=True)
class Ports:
    websocket: Address
    http: Address


@asynccontextmanager
async def serving(
    environment: Environment,
    data: str,
    *,
    listen: Address,
    http: Address,
    node: str = "node-1",
    disk_free_min: int = DISK_FREE_MIN,
) -> AsyncIterator[Ports]:
    """Open both ports once the broker is ready; at the end close them, let clients finish, stop in order (G15)."""
    own: list[Address] = []
    async with (
        running_broker(environment, data, node=node, disk_free_min=disk_free_min) as broker,
        _listening(environment, listen) as websockets,
        _listening(environment, http) as probes,
        PlainNursery() as clients,
    ):
        listener = WebsocketListener(broker, lambda: own)
        own += [_address(websockets, listen), _address(probes, http)]
        accepting = trio.CancelScope()
        clients.start_soon(_accept, accepting, websockets, probes, listener, clients)
        yield Ports(own[0], own[1])
        accepting.cancel()
        await listener.drain()
        clients.cancel_scope.cancel()


@asynccontextmanager
async def _listening(environment: Environment, address: Address) -> AsyncIterator[Listeners]:
    """The port is closed however the block is left: a failed start leaves none behind."""
    listeners = await environment.network.listen(address.host, address.port or 0)
    try:
        yield listeners
    finally:
        for listener in listeners:
            await trio.aclose_forcefully(listener)


async def _accept(
    accepting: trio.CancelScope,
    websockets: Listeners,
    probes: Listeners,
    listener: WebsocketListener,
    clients: trio.Nursery,
) -> None:
    """Take in clients until told to stop; those taken in live on."""
    with accepting:
        async with trio.open_nursery() as nursery:
            for serve, listeners in ((listener.serve, websockets), (serve_health, probes)):
                nursery.start_soon(partial(trio.serve_listeners, serve, list(listeners), handler_nursery=clients))


def _address(listeners: Listeners, asked: Address) -> Address:
    """Port 0 means any; which one it is, the socket knows."""
    [listener, *_] = listeners
    return Address(asked.host, listener.port) if isinstance(listener, TcpListener) else asked
