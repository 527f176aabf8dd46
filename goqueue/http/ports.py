"""A broker with open ports, as `goqueue serve` runs it."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from errno import EADDRINUSE
from functools import partial
from typing import TypeAlias

import trio

from goqueue.actors.front.listener import CONNECTIONS_MAX, Door, WebsocketListener
from goqueue.actors.node.broker import running_broker
from goqueue.actors.node.watchdog import Process
from goqueue.actors.statistics.start import StartReport
from goqueue.core.log.admission import DISK_FREE_MIN
from goqueue.environment import Environment
from goqueue.errors import CannotListen
from goqueue.http.gateway import CONNECTIONS_MAX as HTTP_CONNECTIONS_MAX
from goqueue.http.gateway import Gateway
from goqueue.http.metrics.exposition import SERIES_MAX
from goqueue.http.starting import StartingGateway
from goqueue.net.transport.origin import NOBODY_ELSE, Address, AllowedCallers
from goqueue.nursery import PlainNursery
from goqueue.tcp import TcpListener

Stream: TypeAlias = trio.abc.HalfCloseableStream
Listeners: TypeAlias = Sequence[trio.abc.Listener[Stream]]


@dataclass(frozen=True, slots=True)
class Ports:
    websocket: Address
    http: Address
    start: StartReport


@asynccontextmanager
async def serving(
    environment: Environment,
    data: str,
    *,
    listen: Address,
    http: Address,
    node: str = "node-1",
    disk_free_min: int = DISK_FREE_MIN,
    connections_max: int = CONNECTIONS_MAX,
    http_connections_max: int = HTTP_CONNECTIONS_MAX,
    metrics_series_max: int = SERIES_MAX,
    allowed_callers: AllowedCallers = NOBODY_ELSE,
    process: Process | None = None,
) -> AsyncIterator[Ports]:
    """Open both ports; at the end close them, let clients finish, stop in order (G15).

    The HTTP port is open from the beginning and answers probes while the broker starts. The block is entered when
    the broker is ready and both ports accept."""
    own: list[Address] = []
    async with (
        _listening(environment, http, "--http") as requests,
        _answering_probes(requests, http_connections_max) as end_of_start,
        running_broker(environment, data, node=node, disk_free_min=disk_free_min, process=process) as broker,
        _listening(environment, listen, "--listen") as websockets,
        PlainNursery() as clients,
    ):
        await end_of_start()
        listener = WebsocketListener(broker, lambda: own, allowed_callers)
        gateway = Gateway(broker, lambda: own, allowed_callers, metrics_series_max=metrics_series_max)
        own += [_address(websockets, listen), _address(requests, http)]
        accepting = trio.CancelScope()
        doors = {
            Door(connections_max, listener.serve): websockets,
            Door(http_connections_max, gateway.serve, gateway.make_room, gateway.farewell): requests,
        }
        clients.start_soon(_accept, accepting, doors, clients)
        clients.start_soon(listener.look_after_all)
        yield Ports(own[0], own[1], broker.start)
        broker.leaving.set()
        accepting.cancel()
        async with trio.open_nursery() as draining:
            draining.start_soon(listener.drain)
            draining.start_soon(gateway.drain)
        clients.cancel_scope.cancel()


class _Lent(trio.abc.Listener[Stream]):
    """A listener that stays open when those who accept on it end."""

    def __init__(self, listener: trio.abc.Listener[Stream]) -> None:
        self._listener = listener

    async def accept(self) -> Stream:
        return await self._listener.accept()

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


@asynccontextmanager
async def _answering_probes(listeners: Listeners, most: int) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Until the returned function was awaited, probes hear that the broker starts. Then nobody accepts any more."""
    starting, accepting, has_ended = StartingGateway(), trio.CancelScope(), trio.Event()

    async def accept() -> None:
        await _accept(accepting, {Door(most, starting.serve): list(map(_Lent, listeners))}, clients)
        has_ended.set()

    async def end() -> None:
        accepting.cancel()
        starting.leave()
        await has_ended.wait()

    async with PlainNursery() as clients:
        clients.start_soon(accept)
        yield end
        clients.cancel_scope.cancel()


@asynccontextmanager
async def _listening(environment: Environment, address: Address, option: str) -> AsyncIterator[Listeners]:
    """The port is closed however the block is left: a failed start leaves none behind."""
    try:
        listeners = await environment.network.listen(address.host, address.port or 0)
    except OSError as error:
        raise _cannot_listen(address, option, error) from error
    try:
        yield listeners
    finally:
        for listener in listeners:
            await trio.aclose_forcefully(listener)


def _cannot_listen(address: Address, option: str, error: OSError) -> CannotListen:
    if error.errno == EADDRINUSE:
        why = "address already in use"
        cure = f"stop the program that has port {address.port}, or choose another port with {option}"
    else:
        why, cure = error.strerror or str(error), f"choose another address with {option}"
    return CannotListen(f"cannot listen on {address.host}:{address.port}: {why}; {cure}")


async def _accept(accepting: trio.CancelScope, doors: Mapping[Door, Listeners], clients: trio.Nursery) -> None:
    """Accept clients until cancelled; accepted ones go on."""
    with accepting:
        async with trio.open_nursery() as nursery:
            for door, listeners in doors.items():
                nursery.start_soon(
                    partial(trio.serve_listeners, door.serve, list(listeners), handler_nursery=clients)
                )


def _address(listeners: Listeners, asked: Address) -> Address:
    """Port 0 means any free port; the socket knows its number."""
    [listener, *_] = listeners
    return Address(asked.host, listener.port) if isinstance(listener, TcpListener) else asked
