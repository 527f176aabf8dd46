"""The listeners: a port for websockets, and one that answers `/healthz` until the gateway stands there."""

from collections.abc import Callable, Sequence

import trio

from goqueue.actors.broker import Broker
from goqueue.actors.connection import Connection
from goqueue.errors import GoQueueError
from goqueue.net.origin import Address, refusal_of
from goqueue.net.websocket import Headers, accept_websocket

HEALTHY = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 16\r\nconnection: close\r\n\r\n"
HEALTHY += b'{"status": "ok"}'
NOT_FOUND = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
REQUEST_SIZE_MAX = 16 * 1024
REQUEST_SECONDS_MAX = 10.0
DRAIN_SECONDS_MAX = 10.0


class WebsocketListener:
    """Accepts connections and runs each; at the end says go-away to all of them and lets them finish."""

    def __init__(self, broker: Broker, own: Callable[[], Sequence[Address]], hosts: Sequence[str] = ()) -> None:
        self._broker = broker
        self._own = own
        self._hosts = hosts
        self._connections: dict[Connection, None] = {}

    async def serve(self, stream: trio.abc.HalfCloseableStream) -> None:
        """One client, from its handshake to its end. Never raises for what the client does."""
        try:
            transport = await accept_websocket(stream, self._refusal)
        except GoQueueError:
            return
        connection = Connection(self._broker, transport)
        self._connections[connection] = None
        try:
            await connection.run()
        finally:
            del self._connections[connection]
            await trio.aclose_forcefully(stream)

    def _refusal(self, headers: Headers) -> str | None:
        return refusal_of(headers, self._own(), self._hosts)

    async def drain(self) -> None:
        with trio.move_on_after(DRAIN_SECONDS_MAX):
            async with trio.open_nursery() as nursery:
                for connection in list(self._connections):
                    nursery.start_soon(connection.go_away, "the broker is shutting down")


async def serve_health(stream: trio.abc.HalfCloseableStream) -> None:
    """Just enough HTTP for a probe."""
    with trio.move_on_after(REQUEST_SECONDS_MAX):
        try:
            head = b""
            while b"\r\n\r\n" not in head and len(head) < REQUEST_SIZE_MAX:
                chunk = await stream.receive_some(REQUEST_SIZE_MAX)
                if not chunk:
                    break
                head += bytes(chunk)
            is_probe = head.startswith((b"GET /healthz ", b"HEAD /healthz "))
            await stream.send_all(HEALTHY if is_probe else NOT_FOUND)
        except trio.BrokenResourceError:
            pass  # the prober went away
    await trio.aclose_forcefully(stream)
