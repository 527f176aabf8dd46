"""Transports carry frames: whole, in order, until they end."""

from typing import Protocol

import trio

from goqueue.errors import Closed
from goqueue.net.wire.errors import ConnectionLost


class Transport(Protocol):
    """One end of a connection. One task may send while another receives; two may not do the same."""

    async def send(self, *frames: bytes) -> None:
        """Send frames; waits while the other end takes nothing. `ConnectionLost`, or `Closed` by this end.

        A cancelled call may have sent half a frame, so the transport is lost after it.
        """
        ...

    @property
    def is_clear(self) -> bool:
        """Whether a frame may be posted: nothing else is being sent."""
        ...

    def post(self, frame: bytes) -> bool:
        """Send a frame without waiting. Returns whether all of it was sent; else call `drain` soon."""
        ...

    async def drain(self) -> None:
        """Send the rest of a posted frame, as `send` does."""
        ...

    async def receive(self) -> bytes | None:
        """The next frame; None once either end has closed in order. `ConnectionLost` when it just ended."""
        ...

    async def aclose(self) -> None:
        """Close in order, within a bounded time. A second call does nothing."""
        ...


class MemoryTransport:
    """For tests: two ends in one process, with room for a few frames between them."""

    def __init__(
        self, outgoing: trio.MemorySendChannel[bytes], incoming: trio.MemoryReceiveChannel[bytes], cut: trio.Event
    ) -> None:
        self._outgoing, self._incoming, self._cut = outgoing, incoming, cut
        self._is_closed = False

    async def send(self, *frames: bytes) -> None:
        try:
            for frame in frames:
                await self._outgoing.send(frame)
        except trio.ClosedResourceError:
            raise self._ending() from None
        except trio.BrokenResourceError:
            raise ConnectionLost("the other end is closed") from None

    @property
    def is_clear(self) -> bool:
        room = self._outgoing.statistics()
        return bool(room.open_send_channels and room.open_receive_channels) and (
            room.current_buffer_used < room.max_buffer_size
        )

    def post(self, frame: bytes) -> bool:
        self._outgoing.send_nowait(frame)
        return True

    async def drain(self) -> None:
        """Frames are posted whole."""

    async def receive(self) -> bytes | None:
        try:
            return await self._incoming.receive()
        except (trio.EndOfChannel, trio.ClosedResourceError):
            if self._cut.is_set():
                raise self._ending() from None
            return None

    async def aclose(self) -> None:
        self._is_closed = True
        self._close_channels()
        await trio.lowlevel.checkpoint()

    def cut(self) -> None:
        """End the connection as a pulled cable does, for both ends at once."""
        self._cut.set()
        self._close_channels()

    def _close_channels(self) -> None:
        self._outgoing.close()
        self._incoming.close()

    def _ending(self) -> Closed | ConnectionLost:
        return Closed("the connection was closed") if self._is_closed else ConnectionLost("the connection was cut")


def memory_transport_pair(frames_max: int = 8) -> tuple[MemoryTransport, MemoryTransport]:
    to_second, from_first = trio.open_memory_channel[bytes](frames_max)
    to_first, from_second = trio.open_memory_channel[bytes](frames_max)
    cut = trio.Event()
    return MemoryTransport(to_second, from_second, cut), MemoryTransport(to_first, from_first, cut)
