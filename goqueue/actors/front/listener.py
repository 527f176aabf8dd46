"""The door of a port, and the listener for websockets.

Each port has a limit of connections, so that a client that opens thousands takes neither the descriptors that the
logs need nor unlimited memory. Connections beyond it get an answer that says so, if they are not very many at once.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeAlias

import trio

from goqueue.actors.front.connection import Common, Connection
from goqueue.actors.node.broker import Broker
from goqueue.errors import GoQueueError
from goqueue.net.transport.keepalive import OF_BROKERS, keep_alive
from goqueue.net.transport.origin import NOBODY_ELSE, Address, AllowedCallers, refusal_of
from goqueue.net.transport.websocket import Headers, WebsocketTransport, accept_websocket

REQUEST_SIZE_MAX = 16 * 1024
DRAIN_SECONDS_MAX = 10.0
CONNECTIONS_MAX = 10_000
TURNED_AWAY_MAX = 64
"""Limit of refused connections that get an answer at once; beyond it they are closed without one."""
FAREWELL_SECONDS_MAX = 1.0
FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain\r\nretry-after: 1\r\ncontent-length: %d\r\n"
    b"connection: close\r\n\r\n%b"
)

Serve: TypeAlias = Callable[[trio.abc.HalfCloseableStream], Awaitable[None]]


def _in_plain_text(reason: str) -> bytes:
    return FULL % (len(reason), reason.encode())


def _nobody_leaves() -> bool:
    return False


class Door:
    """Admits at most `most` connections at once, and turns others away."""

    def __init__(
        self,
        most: int,
        serve: Serve,
        make_room: Callable[[], bool] = _nobody_leaves,
        farewell: Callable[[str], bytes] = _in_plain_text,
    ) -> None:
        """`make_room` ends a connection that nobody uses, if there is one. `farewell` is the answer for those that
        are turned away, with the reason in it."""
        self._most = most
        self._serve = serve
        self._make_room = make_room
        self._farewell = farewell
        self._inside = 0
        self._turned_away = 0

    async def serve(self, stream: trio.abc.HalfCloseableStream) -> None:
        if self._inside < self._most or self._make_room():
            self._inside += 1
            try:
                await self._serve(stream)
            finally:
                self._inside -= 1
        elif self._turned_away < TURNED_AWAY_MAX:
            self._turned_away += 1
            try:
                await self._turn_away(stream)
            finally:
                self._turned_away -= 1
        else:
            await trio.aclose_forcefully(stream)

    async def _turn_away(self, stream: trio.abc.HalfCloseableStream) -> None:
        """Read the request first: a close with unread bytes may drop the answer on its way."""
        reason = f"{self._most} connections are open here, which is all this broker takes; close some"
        with trio.move_on_after(FAREWELL_SECONDS_MAX), suppress(trio.BrokenResourceError):
            await stream.receive_some(REQUEST_SIZE_MAX)
            await stream.send_all(self._farewell(reason))
        await trio.aclose_forcefully(stream)


class WebsocketListener:
    """Accepts connections and runs each; at the end says go-away to all of them and lets them finish."""

    def __init__(
        self, broker: Broker, own: Callable[[], Sequence[Address]], allowed_callers: AllowedCallers = NOBODY_ELSE
    ) -> None:
        self._broker = broker
        self._own = own
        self._allowed_callers = allowed_callers
        self._connections: dict[Connection, WebsocketTransport] = {}
        self._common = Common()

    async def serve(self, stream: trio.abc.HalfCloseableStream) -> None:
        """One client, from its handshake to its end. Never raises for what the client does."""
        try:
            transport = await accept_websocket(stream, partial(self._refusal, getattr(stream, "called", None)))
        except GoQueueError:
            return
        connection = Connection(self._broker, transport, self._common, getattr(stream, "peer", None))
        self._connections[connection] = transport
        try:
            await connection.run()
        finally:
            del self._connections[connection]  # the caller closes the stream

    def _refusal(self, called: str | None, headers: Headers) -> str | None:
        return refusal_of(headers, self._own(), self._allowed_callers, called)

    async def look_after_all(self) -> None:
        """Detect dead connections, until cancelled."""
        await keep_alive(self._connections.values, OF_BROKERS)

    async def drain(self) -> None:
        with trio.move_on_after(DRAIN_SECONDS_MAX):
            async with trio.open_nursery() as nursery:
                for connection in list(self._connections):
                    nursery.start_soon(connection.go_away, "the broker is shutting down")
