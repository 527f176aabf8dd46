"""Detects dead connections, whose other end is gone without a close.

A machine that lost its power, a cable, a firewall that forgot: no byte comes, and nothing says that none will come.
So an end that has heard nothing for a while asks for a sign of life, a websocket ping, and gives up when none
comes. It also gives up when the other end does not take what was sent; then it would not take a ping either.

Time counts only while this end waits for the other: a task that is busy elsewhere learns nothing from the silence,
and neither does a process that was stopped as a whole.

One task checks any number of connections, now and then, so that an idle one costs next to nothing.
"""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import trio

from goqueue.net.transport.websocket import WebsocketTransport
from goqueue.nursery import PlainNursery

LOOK_EACH_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Patience:
    """Limits of the other end's silence, in seconds; checked at the next look."""

    ping_after: float
    gone_after: float


OF_BROKERS = Patience(ping_after=30.0, gone_after=60.0)
OF_CLIENTS = Patience(ping_after=10.0, gone_after=20.0)
"""Less than the time limit of a call: there is time to ask again on a new connection."""


async def keep_alive(transports: Callable[[], Iterable[WebsocketTransport]], patience: Patience) -> None:
    """Check these until cancelled."""
    async with trio.open_nursery() as nursery:
        looked_at = trio.current_time()
        while True:
            await trio.sleep(LOOK_EACH_SECONDS)
            now = trio.current_time()
            if now - looked_at < 2 * LOOK_EACH_SECONDS:
                _look(list(transports()), patience, now, nursery)
            looked_at = now


def _look(transports: Iterable[WebsocketTransport], patience: Patience, now: float, nursery: trio.Nursery) -> None:
    for transport in transports:
        silence = now - transport.silent_since
        if silence >= patience.gone_after:
            nursery.start_soon(transport.give_up, f"the other end was silent for {silence:.0f} s")
        elif silence >= patience.ping_after:
            nursery.start_soon(transport.ping)


@asynccontextmanager
async def kept_alive(transport: WebsocketTransport, patience: Patience) -> AsyncIterator[None]:
    """Check one connection during the block."""
    async with PlainNursery() as nursery:
        nursery.start_soon(keep_alive, lambda: [transport], patience)
        yield
        nursery.cancel_scope.cancel()
