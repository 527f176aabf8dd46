"""The interfaces between goqueue and the machine: disk, network, wall clock, chance.

Everything that the operating system can do to us comes through an `Environment`, so that a simulation can use its
own and replay a run from a seed. Monotonic time is Trio's clock, which a simulation replaces as a whole.

Rules of the disk, which every implementation keeps and the simulated one exploits:

- A write is visible to every later read at once, and durable only after `sync` of its file returned. Until
  then a crash may keep it, lose it or tear it, whatever became of other writes.
- A created, renamed or removed name is durable only after `sync_directory` of its folder returned.
- `sync` covers what was written before the call, no more. A `sync` that failed leaves the file's unsynced
  part unknown for ever: trying again proves nothing.
- Methods without `async` return without waiting for the disk (the page cache takes the write).
- A full disk raises `DiskFull`, a lack of descriptors `TooManyFiles`, a missing file `FileNotFoundError`, a file
  instead of a directory or something else instead of a file `UnexpectedFile`, any other failure `DiskFailed`.
"""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol, TypeAlias

import trio

from goqueue.tcp import TcpListener, TcpStream
from goqueue.types import Buffer, Microseconds

URL_VARIABLE = "GOQUEUE_URL"


class File(Protocol):
    """An open file, read and written by position."""

    path: str
    """The name in errors. Code that renames the file updates it."""

    def size(self) -> int: ...

    def write(self, position: int, buffers: Sequence[Buffer]) -> int:
        """Write the buffers one after the other. Returns the number of bytes. On an error some may be written."""
        ...

    async def read(self, position: int, length: int) -> Buffer:
        """Up to `length` bytes, fewer only at the end of the file. Waits only if they are not in memory."""
        ...

    def truncate(self, size: int) -> None: ...

    async def sync(self) -> None:
        """Return once everything written so far is durable. Once begun, it goes on to its end, cancelled or not."""
        ...

    def close(self) -> None:
        """Close the descriptor, once reads and syncs under way have ended. A second call does nothing."""
        ...


SyncTarget: TypeAlias = File | str
"""A file, or the path of a folder."""


class DirectoryLock(Protocol):
    def release(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Space:
    """Room on the file system that holds a path, in bytes."""

    free: int
    total: int


class Disk(Protocol):
    def open(self, path: str, *, create: bool = False, writable: bool = True) -> File:
        """Open a file. `create` makes it when missing (its name is durable after `sync_directory`)."""
        ...

    def exists(self, path: str) -> bool: ...

    def is_directory(self, path: str) -> bool: ...

    def size(self, path: str) -> int: ...

    def list(self, path: str) -> list[str]:
        """The names in a folder, sorted. A missing folder is `FileNotFoundError`."""
        ...

    def make_directory(self, path: str) -> None:
        """Make one folder; its parent exists. Making an existing one does nothing."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Replace `new` by `old` in one step."""
        ...

    async def replace(self, old: str, new: str) -> None:
        """Rename a file over another that may be there. No cancellation comes between.

        It waits, which `rename` must not: freeing the old file takes the file system milliseconds while others are
        being synced.
        """
        ...

    async def put(self, temporary: str, path: str, contents: Sequence[Buffer]) -> File:
        """Make a file of these contents, whole and durable before it gets its name, and the name durable, too.

        When it fails, the old file of that name stays, and nothing is left of the new one; only when the name
        could not be synced may either be there. Once begun, it goes on to its end, as `sync` of a file.
        """
        ...

    def remove(self, path: str) -> None: ...

    def remove_directory(self, path: str) -> None:
        """Remove an empty folder; one that is not empty, or no folder, is `DiskFailed`."""
        ...

    async def sync_directory(self, path: str) -> None:
        """Return once the names in this folder are durable. Once begun, it goes on to its end."""
        ...

    async def sync_all(self, targets: "Sequence[SyncTarget]") -> "dict[SyncTarget, Exception]":
        """Sync all of these concurrently, each to its end. Returns the failures."""
        ...

    def space(self, path: str) -> Space: ...

    def rest(self) -> None:
        """The disk is not used for now: end its threads. It may be used again."""
        ...

    def lock(self, path: str) -> DirectoryLock:
        """Hold the lock file until released or the process ends. `DataDirectoryLocked` names the holder."""
        ...


class Network(Protocol):
    async def connect(self, host: str, port: int) -> trio.abc.HalfCloseableStream: ...

    async def listen(self, host: str, port: int) -> Sequence[trio.abc.Listener[trio.abc.HalfCloseableStream]]: ...


class WallClock(Protocol):
    def now(self) -> Microseconds:
        """The wall time. It may jump either way."""
        ...


def url_in_environment() -> str | None:
    """The broker's address for clients that are not given one."""
    return os.environ.get(URL_VARIABLE) or None


class SystemClock:
    def now(self) -> Microseconds:
        return time.time_ns() // 1_000


class TcpNetwork:
    async def connect(self, host: str, port: int) -> trio.abc.HalfCloseableStream:
        try:
            return TcpStream(await trio.open_tcp_stream(host, port))
        except OSError as error:
            raise OSError(_why_unreachable(error)) from error

    async def listen(self, host: str, port: int) -> Sequence[trio.abc.Listener[trio.abc.HalfCloseableStream]]:
        return [TcpListener(listener) for listener in await trio.open_tcp_listeners(port, host=host)]


def _why_unreachable(error: OSError) -> str:
    """In the system's words. A host may have several addresses, and Trio gives one error for all attempts."""
    tried = error.__cause__.exceptions if isinstance(error.__cause__, ExceptionGroup) else (error,)
    words = dict.fromkeys(_words_of(each) for each in tried)
    return " and ".join(each[:1].lower() + each[1:] for each in words)


def _words_of(error: Exception) -> str:
    """Trio's error has Trio's words and the system's number. A resolver has negative numbers and its own words."""
    number = error.errno if isinstance(error, OSError) else None
    if number is not None and number > 0:
        return os.strerror(number)
    return str(getattr(error, "strerror", None) or error)


@dataclass(frozen=True, slots=True)
class Environment:
    disk: Disk
    network: Network
    clock: WallClock
    random: Random
