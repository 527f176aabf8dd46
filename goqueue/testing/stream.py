"""A connection in memory that keeps the promises of TCP and no others.

Bytes come in order and without borders between the writes. Each direction is a `Pipe` with limited room: an end
that writes faster than the other reads has to wait. Bytes need a while to arrive. Three faults may happen: all
bytes vanish from some moment on, while both ends see no error; the connection is cut, which each end notices at its
own time; or an end reads slowly.

No task runs here. A call waits for the moment of the next change, so a run replays from its seed.
"""

import math
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from operator import index
from random import Random

import trio

from goqueue.testing.faults import Seconds
from goqueue.types import Buffer

NO_TIME: Seconds = (0.0, 0.0)
WRITES_AT_ONE_MOMENT_MAX = 3_000
"""Limit of writes in a network at one moment. Ends that talk on while no time passes would do so for ever."""


class Livelock(RuntimeError):
    """Two ends keep each other busy without progress."""


@dataclass(slots=True)
class Conditions:
    """The conditions of a network; a test may change them at any time during a run."""

    latency: Seconds = NO_TIME
    """The latency of each write, in one direction; a later write never overtakes an earlier one."""
    buffer_bytes: int = 64 * 1024
    """Limit of bytes that are under way or unread, in each direction."""
    _moment: float = -1.0
    _writes: int = 0

    def note_write(self) -> None:
        now = trio.current_time()
        self._writes = self._writes + 1 if now == self._moment else 1
        self._moment = now
        if self._writes > WRITES_AT_ONE_MOMENT_MAX:
            raise Livelock(f"{self._writes} writes within one moment: somebody repeats itself without a pause")

    def draw_latency(self, random: Random) -> float:
        return random.uniform(*self.latency) if self.latency != NO_TIME else 0.0


class Pipe:
    """One direction of a connection."""

    def __init__(self, random: Random, conditions: Conditions) -> None:
        self._random, self._conditions = random, conditions
        self._chunks: deque[tuple[float, bytes]] = deque()
        """Each with its arrival time."""
        self._bytes = 0
        self._last_arrival = 0.0
        self._ends_at = math.inf
        self.reader_gone_at = math.inf
        self.is_silent = False
        self.fuse_bytes: int | None = None
        self.on_burnt: Callable[[], None] = lambda: None
        """Called when `fuse_bytes` bytes have passed."""
        self.changed = trio.lowlevel.ParkingLot()

    @property
    def room(self) -> int:
        return self._conditions.buffer_bytes - self._bytes

    def put(self, data: bytes) -> None:
        """Bytes that vanish take room as well: no end ever confirms them."""
        self._conditions.note_write()
        self._bytes += len(data)
        if self.is_silent:
            return
        whole = self.fuse_bytes is None or len(data) < self.fuse_bytes
        self._chunks.append((self.arrival(), data if whole else data[: self.fuse_bytes]))
        if self.fuse_bytes is not None:
            self.fuse_bytes = self.fuse_bytes - len(data) if whole else None
        self.changed.unpark_all()
        if not whole:
            self.on_burnt()

    def arrival(self) -> float:
        """The arrival time of bytes that are sent now."""
        latency = self._conditions.draw_latency(self._random)
        self._last_arrival = max(self._last_arrival, trio.current_time() + latency)
        return self._last_arrival

    def end(self, arrival: float) -> None:
        self._ends_at = min(self._ends_at, arrival)
        self.changed.unpark_all()

    def lose_all(self) -> None:
        """Bytes that are under way are lost."""
        self.is_silent = True
        self._chunks.clear()

    def take(self, bytes_max: int) -> bytes | None:
        """The bytes that have arrived; b"" at the end, None while there are none."""
        now = trio.current_time()
        if not self._chunks or self._chunks[0][0] > now:
            return b"" if not self._chunks and self._ends_at <= now else None
        arrival, chunk = self._chunks.popleft()
        if len(chunk) > bytes_max:
            self._chunks.appendleft((arrival, chunk[bytes_max:]))
        self._bytes -= min(len(chunk), bytes_max)
        self.changed.unpark_all()
        return chunk[:bytes_max]

    @property
    def next_arrival(self) -> float:
        return self._chunks[0][0] if self._chunks else self._ends_at


class SimulatedStream(trio.abc.HalfCloseableStream):
    """One end of a connection."""

    def __init__(self, incoming: Pipe, outgoing: Pipe, random: Random) -> None:
        self._incoming, self._outgoing, self._random = incoming, outgoing, random
        self._has_sent_eof = False
        self._is_sending = self._is_receiving = False
        self.is_closed = False
        self.broken_at = math.inf
        """When this end learns that the connection was cut."""
        self.pause_seconds = NO_TIME
        self.sip_bytes = 1 << 30
        """Limit of bytes that a slow reader takes after each pause."""

    async def send_all(self, data: Buffer) -> None:
        with self._sending_alone():
            await trio.lowlevel.checkpoint()
            await self._send(bytes(data))

    def send_now(self, data: Buffer) -> int:
        """The number of bytes taken without waiting: all, none or some, as the seed decides."""
        try:
            self._check_sending()
        except (trio.ClosedResourceError, trio.BrokenResourceError):
            return 0
        taken = min(self._outgoing.room, self._random.choice((0, len(data) // 2, len(data), len(data))))
        if taken > 0:
            self._outgoing.put(bytes(data[:taken]))
        return max(0, taken)

    @contextmanager
    def _sending_alone(self) -> Iterator[None]:
        if self._is_sending:
            raise trio.BusyResourceError("another task is sending")
        self._is_sending = True
        try:
            yield
        finally:
            self._is_sending = False

    async def _send(self, data: bytes) -> None:
        self._check_sending()
        while data:
            await self._wait_for_room()
            room = self._outgoing.room
            self._outgoing.put(data[:room])
            data = data[room:]

    async def wait_send_all_might_not_block(self) -> None:
        with self._sending_alone():
            await trio.lowlevel.checkpoint()
            await self._wait_for_room()

    async def _wait_for_room(self) -> None:
        self._check_sending()
        while self._outgoing.room <= 0:
            await self._wait_for_change(self._outgoing, self._outgoing.reader_gone_at)
            self._check_sending()

    def _check_sending(self) -> None:
        self._check_usable()
        if self._has_sent_eof:
            raise trio.ClosedResourceError("this end has said that it sends no more")
        if self._outgoing.reader_gone_at <= trio.current_time():
            raise trio.BrokenResourceError("the other end is closed")

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        if max_bytes is not None and index(max_bytes) < 1:
            raise ValueError("max_bytes must be at least 1")
        if self._is_receiving:
            raise trio.BusyResourceError("another task is receiving")
        self._is_receiving = True
        try:
            return await self._receive(max_bytes or 1 << 30)
        finally:
            self._is_receiving = False

    async def _receive(self, max_bytes: int) -> bytes:
        await trio.lowlevel.checkpoint()
        self._check_usable()
        if self.pause_seconds != NO_TIME:
            await trio.sleep(self._random.uniform(*self.pause_seconds))
            self._check_usable()
        while (taken := self._incoming.take(min(max_bytes, self.sip_bytes))) is None:
            await self._wait_for_change(self._incoming, self._incoming.next_arrival)
            self._check_usable()
        return taken

    async def _wait_for_change(self, pipe: Pipe, until: float) -> None:
        with trio.CancelScope(deadline=min(until, self.broken_at)):
            await pipe.changed.park()

    def _check_usable(self) -> None:
        if self.is_closed:
            raise trio.ClosedResourceError("this end is closed")
        if self.broken_at <= trio.current_time():
            raise trio.BrokenResourceError("the connection was reset")

    async def send_eof(self) -> None:
        with self._sending_alone():
            await trio.lowlevel.checkpoint()
            self._check_usable()
            self._say_end()

    def _say_end(self) -> None:
        self._has_sent_eof = True
        if not self._outgoing.is_silent:
            self._outgoing.end(self._outgoing.arrival())

    async def aclose(self) -> None:
        self.close()
        await trio.lowlevel.checkpoint()

    def close(self) -> None:
        """The other end reads the bytes under way, then the end, and may not send; unless nothing arrives."""
        if self.is_closed:
            return
        self.is_closed = True
        self._say_end()
        if not self._outgoing.is_silent:
            self._incoming.reader_gone_at = self._outgoing.arrival()
        self.wake()

    def wake(self) -> None:
        """Wake the waiting calls of both directions."""
        self._incoming.changed.unpark_all()
        self._outgoing.changed.unpark_all()
