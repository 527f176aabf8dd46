"""The listeners: a port for websockets, and one that answers `/healthz`, until there is a gateway.

Each has a limit of connections, so that a client that opens thousands takes neither the descriptors that the logs
need nor unlimited memory. Connections beyond it get an answer that says so, if they are not very many at once.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TypeAlias

import trio

from goqueue.actors.front.connection import Common, Connection
from goqueue.actors.node.broker import Broker
from goqueue.errors import GoQueueError
from goqueue.net.transport.keepalive import OF_BROKERS, keep_alive
from goqueue.net.transport.origin import Address, refusal_of
from goqueue.net.transport.websocket import Headers, WebsocketTransport, accept_websocket

HEALTHY = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 16\r\nconnection: close\r\n\r\n"
HEALTHY += b'{"status": "ok"}'
NOT_FOUND = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
FORBIDDEN = (
    b"HTTP/1.1 403 Forbidden\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\n"
    b"connection: close\r\n\r\n%b"
)
WRONG_PORT = (
    b"HTTP/1.1 426 Upgrade Required\r\ncontent-type: text/plain\r\ngoqueue-websocket: %b\r\ncontent-length: %d\r\n"
    b"connection: close\r\n\r\n%b"
)
REQUEST_SIZE_MAX = 16 * 1024
REQUEST_SECONDS_MAX = 10.0
DRAIN_SECONDS_MAX = 10.0
CONNECTIONS_MAX = 10_000
PROBES_MAX = 256
TURNED_AWAY_MAX = 64
"""Limit of refused connections that get an answer at once; beyond it they are closed without one."""
FAREWELL_SECONDS_MAX = 1.0
FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain\r\nretry-after: 1\r\ncontent-length: %d\r\n"
    b"connection: close\r\n\r\n%b"
)

Serve: TypeAlias = Callable[[trio.abc.HalfCloseableStream], Awaitable[None]]


class Door:
    """Admits at most `most` connections at once, and turns others away."""

    def __init__(self, most: int, serve: Serve) -> None:
        self._most = most
        self._serve = serve
        self._inside = 0
        self._turned_away = 0

    async def serve(self, stream: trio.abc.HalfCloseableStream) -> None:
        if self._inside < self._most:
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
        reason = f"{self._most} connections are open here, which is all this broker takes; close some".encode()
        with trio.move_on_after(FAREWELL_SECONDS_MAX), suppress(trio.BrokenResourceError):
            await stream.receive_some(REQUEST_SIZE_MAX)
            await stream.send_all(FULL % (len(reason), reason))
        await trio.aclose_forcefully(stream)


class WebsocketListener:
    """Accepts connections and runs each; at the end says go-away to all of them and lets them finish."""

    def __init__(self, broker: Broker, own: Callable[[], Sequence[Address]], hosts: Sequence[str] = ()) -> None:
        self._broker = broker
        self._own = own
        self._hosts = hosts
        self._connections: dict[Connection, WebsocketTransport] = {}
        self._common = Common()

    async def serve(self, stream: trio.abc.HalfCloseableStream) -> None:
        """One client, from its handshake to its end. Never raises for what the client does."""
        try:
            transport = await accept_websocket(stream, self._refusal)
        except GoQueueError:
            return
        connection = Connection(self._broker, transport, self._common, getattr(stream, "peer", None))
        self._connections[connection] = transport
        try:
            await connection.run()
        finally:
            del self._connections[connection]  # the caller closes the stream

    def _refusal(self, headers: Headers) -> str | None:
        return refusal_of(headers, self._own(), self._hosts)

    async def look_after_all(self) -> None:
        """Detect dead connections, until cancelled."""
        await keep_alive(self._connections.values, OF_BROKERS)

    async def drain(self) -> None:
        with trio.move_on_after(DRAIN_SECONDS_MAX):
            async with trio.open_nursery() as nursery:
                for connection in list(self._connections):
                    nursery.start_soon(connection.go_away, "the broker is shutting down")


class HealthPort:
    """Just enough HTTP for a probe.

    Probes call by whatever address they have, so `/healthz` asks for neither PartHost nor Origin. Every other path
    does, also one that does not exist: a page that points its own name at 127.0.0.1 learns nothing.
    """

    def __init__(self, own: Callable[[], Sequence[Address]], hosts: Sequence[str] = ()) -> None:
        self._own = own
        self._hosts = hosts

    async def serve(self, stream: trio.abc.HalfCloseableStream) -> None:
        with trio.move_on_after(REQUEST_SECONDS_MAX), suppress(trio.BrokenResourceError):
            await stream.send_all(self._answer_to(await _head_of(stream)))
        await trio.aclose_forcefully(stream)

    def _answer_to(self, head: bytes) -> bytes:
        request_line, *lines = head.partition(b"\r\n\r\n")[0].split(b"\r\n")
        method, _, rest = request_line.partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        if path == b"/healthz":
            return HEALTHY if method in (b"GET", b"HEAD") else NOT_FOUND
        headers = [(name.strip(), value.strip()) for name, _, value in (line.partition(b":") for line in lines)]
        refusal = refusal_of(headers, self._own(), self._hosts)
        if refusal is not None:
            return FORBIDDEN % (len(refusal.encode()), refusal.encode())
        return self._other_port() if _asks_for_websocket(headers) else NOT_FOUND

    def _other_port(self) -> bytes:
        """A client that has mixed up the two ports is told the right one."""
        websocket, *_ = self._own()
        address = f"ws://{websocket.host}:{websocket.port}"
        text = f"this is the HTTP port; the websocket port is {address}"
        return WRONG_PORT % (address.encode(), len(text), text.encode())


def _asks_for_websocket(headers: Sequence[tuple[bytes, bytes]]) -> bool:
    return any(name.lower() == b"upgrade" and value.lower() == b"websocket" for name, value in headers)


async def _head_of(stream: trio.abc.HalfCloseableStream) -> bytes:
    head = b""
    while b"\r\n\r\n" not in head and len(head) < REQUEST_SIZE_MAX:
        chunk = await stream.receive_some(REQUEST_SIZE_MAX)
        if not chunk:
            break
        head += bytes(chunk)
    return head
