"""The real disk. With `kernelsync`, `sparedescriptors` and `threads`, which serve it, it alone touches the disk.

Writes go to the page cache on the event loop (60 µs for 137 KB). Syncs wait for the device: syncs of files go to
the kernel, which reports when they are done, or to a thread where the kernel refuses. A read is tried without
waiting (RWF_NOWAIT) and takes a thread only when its pages are not in memory. A descriptor is closed only when it
is no longer in use: the kernel reuses its number at once, and a late read would return another file's bytes.
"""

import errno
import fcntl
import os
import resource
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import TypeVar

import trio

from goqueue.environment import Space, SyncTarget
from goqueue.errors import DataDirectoryLocked, DiskFailed, DiskFull, TooManyFiles, UnexpectedFile
from goqueue.storage.disk.kernelsync import FDSYNC, FSYNC, TOGETHER_MAX, KernelSync, Request, SyncRefused
from goqueue.storage.disk.sparedescriptors import NO_DESCRIPTOR, SpareDescriptors
from goqueue.storage.disk.syncing import sync_each
from goqueue.storage.disk.threads import Threads
from goqueue.types import Buffer

Result = TypeVar("Result")

THREADS_MAX = SYNCS_MAX = 16
BUFFERS_PER_CALL_MAX = 1_024  # IOV_MAX on Linux
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})
NOT_IN_MEMORY = frozenset({errno.EAGAIN, errno.EOPNOTSUPP, errno.EINVAL})


@contextmanager
def typed_errors(path: str) -> Iterator[None]:
    """Let `FileNotFoundError` through; turn every other failure of the system into a typed error."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise typed(error, path) from error


def typed(error: OSError, path: str) -> DiskFull | DiskFailed:
    if error.errno in NO_ROOM:
        return DiskFull(f"no room to write {path}; free some space, then try again", path=path)
    if error.errno in NO_DESCRIPTOR:
        return TooManyFiles(
            f"no descriptor is left to open {path}; close connections, or raise the limit of open files (ulimit)",
            path=path,
        )
    if error.errno in (errno.ENOTDIR, errno.EEXIST):
        return UnexpectedFile(_file_in_the_way(path), path=path)
    if error.errno == errno.EISDIR:
        return UnexpectedFile(f"{path} is a directory, where a file is expected; move it away", path=path)
    return DiskFailed(f"{path}: {error.strerror}; look at the system's log", path=path)


def _file_in_the_way(path: str) -> str:
    """The message for a path that leads through a file, or to a file instead of a directory."""
    while not os.path.lexists(path) and path.rpartition("/")[0]:
        path = path.rpartition("/")[0]
    return f"{path} is a file, where a directory is expected; move it away"


def _open_file(path: str, flags: int) -> int:
    """Open a regular file or a device; opening a fifo would wait for its other end for ever."""
    descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK, 0o644)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISFIFO(mode) or stat.S_ISDIR(mode):
        os.close(descriptor)
        kind = "directory" if stat.S_ISDIR(mode) else "fifo"
        raise UnexpectedFile(f"{path} is a {kind}, where a file is expected; move it away", path=path)
    os.set_blocking(descriptor, True)
    return descriptor


class RealFile:
    def __init__(self, path: str, descriptor: int, threads: Threads, kernel: KernelSync) -> None:
        self.path = path
        self._descriptor = descriptor
        self._threads = threads
        self._kernel = kernel
        self._in_use = 0
        self._closed = False

    def size(self) -> int:
        with typed_errors(self.path):
            return os.fstat(self._open_descriptor()).st_size

    def write(self, position: int, buffers: Sequence[Buffer]) -> int:
        descriptor = self._open_descriptor()
        try:
            return _write_all(descriptor, buffers, position)
        except OSError as error:  # for every append: without a context manager
            raise typed(error, self.path) from error

    async def read(self, position: int, length: int) -> Buffer:
        descriptor = self._open_descriptor()
        buffer = bytearray(length)
        try:
            done = _read_from_memory(descriptor, buffer, position)
            if done is None:
                done = await self._in_thread(lambda: _read_whole(descriptor, buffer, position))
        except OSError as error:  # for every read: without a context manager
            raise typed(error, self.path) from error
        return buffer if done == length else memoryview(buffer)[:done]

    def truncate(self, size: int) -> None:
        with typed_errors(self.path):
            os.ftruncate(self._open_descriptor(), size)

    async def sync(self) -> None:
        descriptor = self.borrow()
        try:
            await self._sync(descriptor)
        except OSError as error:  # for every publish with acks=all: without a context manager
            raise typed(error, self.path) from error
        finally:
            self.give_back()

    async def _sync(self, descriptor: int) -> None:
        try:
            await self._kernel.fdatasync(descriptor)
        except SyncRefused:
            await self._threads.run(partial(os.fdatasync, descriptor))

    def close(self) -> None:
        self._closed = True
        self._close_when_unused()

    async def _in_thread(self, work: Callable[[], Result]) -> Result:
        self.borrow()
        try:
            return await self._threads.run(work)
        finally:
            self.give_back()

    def borrow(self) -> int:
        """The descriptor, which stays open until it is given back."""
        descriptor = self._open_descriptor()
        self._in_use += 1
        return descriptor

    def give_back(self) -> None:
        self._in_use -= 1
        self._close_when_unused()

    def _close_when_unused(self) -> None:
        if self._closed and not self._in_use and self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _open_descriptor(self) -> int:
        if self._closed:
            raise ValueError(f"{self.path} is closed")
        return self._descriptor


def _write_all(descriptor: int, buffers: Sequence[Buffer], position: int) -> int:
    if len(buffers) <= BUFFERS_PER_CALL_MAX:
        return _write_whole(descriptor, buffers, position)
    total = 0
    for first in range(0, len(buffers), BUFFERS_PER_CALL_MAX):
        total += _write_whole(descriptor, buffers[first : first + BUFFERS_PER_CALL_MAX], position + total)
    return total


def _write_whole(descriptor: int, buffers: Sequence[Buffer], position: int) -> int:
    total = sum(map(len, buffers))
    written = os.pwritev(descriptor, buffers, position)
    if written < total:  # a signal or a nearly full disk: the rest goes in smaller steps or fails by name
        rest = memoryview(b"".join(buffers))
        while written < total:
            written += os.pwrite(descriptor, rest[written:], position + written)
    return total


def _read_from_memory(descriptor: int, buffer: bytearray, position: int) -> int | None:
    """The number of bytes read, less than asked at the end of the file; None if it would have to wait for some."""
    done = 0
    try:
        while done < len(buffer):
            count = os.preadv(descriptor, [memoryview(buffer)[done:]], position + done, os.RWF_NOWAIT)
            if count == 0:
                break
            done += count
    except OSError as error:
        if error.errno in NOT_IN_MEMORY:
            return None
        raise
    return done


def _read_whole(descriptor: int, buffer: bytearray, position: int) -> int:
    done = 0
    while done < len(buffer):
        count = os.preadv(descriptor, [memoryview(buffer)[done:]], position + done)
        if count == 0:
            break
        done += count
    return done


class RealLock:
    """An flock, which the kernel releases when the process ends, however it ends."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def take(self, path: str) -> None:
        """Take the lock and write our pid into it; else raise with the pid of the holder."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
            raise _locked_by(holder, path) from None
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class RealDisk:
    def __init__(self) -> None:
        _allow_descriptors()
        self._spares = SpareDescriptors()
        self._threads = Threads(THREADS_MAX)
        self._kernel = KernelSync(SYNCS_MAX)

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> RealFile:
        flags = (os.O_RDWR if writable else os.O_RDONLY) | (os.O_CREAT if create else 0)
        with typed_errors(path):
            return RealFile(path, _open_file(path, flags), self._threads, self._kernel)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(path)

    def size(self, path: str) -> int:
        with typed_errors(path):
            return os.stat(path).st_size

    def list(self, path: str) -> list[str]:
        with typed_errors(path):
            return sorted(os.listdir(path))

    def make_directory(self, path: str) -> None:
        with typed_errors(path):
            try:
                os.mkdir(path)
            except FileExistsError:
                if not os.path.isdir(path):
                    raise

    def rename(self, old: str, new: str) -> None:
        with typed_errors(new):
            os.replace(old, new)

    async def replace(self, old: str, new: str) -> None:
        with typed_errors(new), trio.CancelScope(shield=True):
            await self._threads.run(lambda: os.replace(old, new))

    async def put(self, temporary: str, path: str, contents: Sequence[Buffer]) -> RealFile:
        """One call to a thread for all steps: it matters where a thousand files are created."""
        with typed_errors(path):
            descriptor = await self._threads.run(lambda: _put(temporary, path, contents, self._spares))
        return RealFile(path, descriptor, self._threads, self._kernel)

    def remove(self, path: str) -> None:
        with typed_errors(path):
            os.unlink(path)

    def remove_directory(self, path: str) -> None:
        with typed_errors(path):
            os.rmdir(path)

    async def sync_directory(self, path: str) -> None:
        with typed_errors(path):
            await self._threads.run(lambda: _sync_directory(path, self._spares))

    async def sync_all(self, targets: Sequence[SyncTarget]) -> dict[SyncTarget, Exception]:
        """At most `TOGETHER_MAX` at a time, since each folder among them takes a descriptor meanwhile."""
        failures: dict[SyncTarget, Exception] = {}
        for first in range(0, len(targets), TOGETHER_MAX):
            failures |= await self._sync_together(targets[first : first + TOGETHER_MAX])
        return failures

    async def _sync_together(self, targets: Sequence[SyncTarget]) -> dict[SyncTarget, Exception]:
        failures: dict[SyncTarget, Exception] = {}
        with ExitStack() as borrowed:
            requests: dict[SyncTarget, Request] = {}
            one_by_one: list[SyncTarget] = []
            for target in targets:
                try:
                    requests[target] = borrowed.enter_context(_descriptor_of(target))
                except TooManyFiles:
                    one_by_one.append(target)
                except Exception as error:
                    failures[target] = error
            results = dict(zip(requests, await self._in_kernel([*requests.values()]), strict=True))
        failures |= {target: _failure_of(target, result) for target, result in results.items() if result}
        one_by_one += [target for target, result in results.items() if result is None]
        return failures | await sync_each(self, one_by_one)

    async def _in_kernel(self, requests: Sequence[Request]) -> Sequence[int | None]:
        try:
            return await self._kernel.sync_all(requests)
        except SyncRefused:
            return [None] * len(requests)

    def space(self, path: str) -> Space:
        with typed_errors(path):
            found = os.statvfs(path)
        return Space(free=found.f_bavail * found.f_frsize, total=found.f_blocks * found.f_frsize)

    def rest(self) -> None:
        self._threads.dismiss_all()
        self._kernel.close()
        self._spares.close()

    def lock(self, path: str) -> RealLock:
        with typed_errors(path):
            lock = RealLock(_open_file(path, os.O_RDWR | os.O_CREAT))
            try:
                lock.take(path)
            except BaseException:
                lock.release()
                raise
        return lock


def _allow_descriptors() -> None:
    """Raise the limit as far as the system permits: each partition that is written to holds a segment open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(ValueError, OSError):  # some systems report a hard limit that they do not grant
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def descriptors_max() -> int:
    """Maximum number of open files and sockets of this process; very many where the system sets no limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft if soft != resource.RLIM_INFINITY else 1 << 30


def _locked_by(holder: str, path: str) -> DataDirectoryLocked:
    return DataDirectoryLocked(
        f"process {holder} holds {path}; stop it, or choose another data directory", pid=holder, path=path
    )


def _put(temporary: str, path: str, contents: Sequence[Buffer], spares: SpareDescriptors) -> int:
    descriptor = spares.open(lambda: _open_file(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC))
    try:
        _write_all(descriptor, contents, 0)
        os.fdatasync(descriptor)
        os.replace(temporary, path)
    except BaseException:
        os.close(descriptor)
        with suppress(OSError):  # the first error says more
            os.unlink(temporary)
        raise
    try:
        _sync_directory(os.path.dirname(path), spares)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _failure_of(target: SyncTarget, number: int) -> DiskFull | DiskFailed:
    path = target if isinstance(target, str) else target.path
    return typed(OSError(number, os.strerror(number)), path)


@contextmanager
def _descriptor_of(target: SyncTarget) -> Iterator[Request]:
    """The kernel's request to sync the target, with a descriptor that stays open meanwhile."""
    if isinstance(target, RealFile):
        descriptor = target.borrow()
        try:
            yield FDSYNC, descriptor
        finally:
            target.give_back()
    else:
        assert isinstance(target, str), "a disk syncs its own files"
        with typed_errors(target):
            descriptor = _open_directory(target)
        try:
            yield FSYNC, descriptor
        finally:
            os.close(descriptor)


def _sync_directory(path: str, spares: SpareDescriptors) -> None:
    descriptor = spares.open(lambda: _open_directory(path))
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
        spares.refill()


def _open_directory(path: str) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
