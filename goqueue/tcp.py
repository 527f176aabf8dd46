"""TCP streams that do not yield when there is nothing to wait for.

Trio's own stream lets every other task run after each send and each receive, also when the system took or gave the
bytes at once. That is one turn of the event loop in each direction, a tenth of what a small request and its answer
take. The users of these streams wait elsewhere: for the next frame, for something to send.
"""

import os
import socket
from contextlib import suppress

import trio

RECEIVE_SIZE = 64 * 1024
SMALL = 4 * 1024
"""Up to this number of bytes received, the other end probably has nothing more under way."""


class TcpStream(trio.abc.HalfCloseableStream):
    def __init__(self, inner: trio.SocketStream) -> None:
        self._inner = inner
        self._descriptor = inner.socket.fileno()
        """-1 once this end has closed it: the system may give the number to another file then."""
        self._may_have_more = True

    @property
    def connects_itself(self) -> bool:
        """A socket to a free port of its own machine may connect to itself, and then receives what it sends."""
        return bool(self._inner.socket.getsockname() == self._inner.socket.getpeername())

    @property
    def called(self) -> str | None:
        """The address of this end; None if the connection is gone already."""
        try:
            return str(self._inner.socket.getsockname()[0]).partition("%")[0]
        except OSError:
            return None

    @property
    def peer(self) -> str | None:
        """The address of the other end; None if it is gone already."""
        try:
            host, port = self._inner.socket.getpeername()[:2]
        except OSError:
            return None
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        sent = self.send_now(data)
        if sent < len(data):
            await self._inner.send_all(memoryview(data)[sent:])

    def send_now(self, data: bytes | bytearray | memoryview) -> int:
        """The number of bytes that the system took at once; the rest is for `send_all`."""
        try:
            return os.write(self._descriptor, data)
        except OSError:
            return 0  # no room, or no connection: `send_all` waits, or raises

    async def wait_send_all_might_not_block(self) -> None:
        await self._inner.wait_send_all_might_not_block()

    async def send_eof(self) -> None:
        await self._inner.send_eof()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        while True:
            try:
                if not self._may_have_more and self._descriptor >= 0:  # a read would most often be in vain
                    await trio.lowlevel.wait_readable(self._descriptor)
                received = os.read(self._descriptor, max_bytes or RECEIVE_SIZE)
                self._may_have_more = len(received) > SMALL
                return received
            except BlockingIOError:
                self._may_have_more = False
            except OSError:  # the connection is gone: as above
                return await self._inner.receive_some(max_bytes)

    def detach(self, seconds_max: float) -> "ThreadSocket":
        """Let a thread have the connection; this stream is of no use afterwards."""
        return ThreadSocket(self._inner.socket.detach(), seconds_max)

    async def aclose(self) -> None:
        self._descriptor = -1
        await self._inner.aclose()


class ThreadSocket:
    """A connection that a thread without an event loop reads and writes by itself. It raises `OSError`."""

    def __init__(self, descriptor: int, seconds_max: float) -> None:
        """A call that takes longer raises `TimeoutError`."""
        self._socket = socket.socket(fileno=descriptor)
        self._socket.settimeout(seconds_max)

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def receive(self) -> bytes:
        """b"" at the end."""
        return self._socket.recv(RECEIVE_SIZE)

    def end(self) -> None:
        """End the connection, also for a thread that waits for it at this moment."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the descriptor; nobody may be using it."""
        self._socket.close()


class TcpListener(trio.abc.Listener[TcpStream]):
    def __init__(self, inner: trio.SocketListener) -> None:
        self._inner = inner

    @property
    def port(self) -> int:
        return int(self._inner.socket.getsockname()[1])

    async def accept(self) -> TcpStream:
        return TcpStream(await self._inner.accept())

    async def aclose(self) -> None:
        await self._inner.aclose()
