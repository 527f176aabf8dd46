"""A broker on a simulated disk, and a disk that keeps an image of itself before each change."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from goqueue.actors.node.broker import Broker, running_broker
from goqueue.actors.partition.requests import Fetch
from goqueue.actors.runtime.ref import ActorRef
from goqueue.actors.topics.requests import FindPartition, TopicView
from goqueue.environment import Disk, Environment, SyncTarget, TcpNetwork
from goqueue.storage.disk.syncing import sync_each
from goqueue.testing.clock import SimulatedClock
from goqueue.testing.disk import SimulatedDisk
from goqueue.testing.file import SimulatedFile
from goqueue.testing.putting import put_in_steps
from goqueue.types import Buffer
from tests.storage.logs import records_in


@asynccontextmanager
async def broker(
    disk: Disk, clock: SimulatedClock | None = None, data: str = "/data", reserve_bytes: int = 0
) -> AsyncIterator[Broker]:
    """Without a reserve, unless a test wants one: a disk that keeps images of itself would copy it each time."""
    environment = Environment(disk, TcpNetwork(), clock or SimulatedClock(), Random(getattr(disk, "pid", 0)))
    async with running_broker(environment, data, reserve_bytes=reserve_bytes) as running:
        yield running


async def partition_of(running: Broker, topic: TopicView, number: int = 0) -> ActorRef:
    return await running.topics.call(FindPartition(topic.uuid, number))


async def values(ref: ActorRef) -> list[bytes]:
    return [record.value for record in records_in((await ref.call(Fetch(0, 100_000))).data)]


class _WatchedFile:
    def __init__(self, file: SimulatedFile, before_change: Callable[[], None]) -> None:
        self._file = file
        self._before_change = before_change

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, position: int, buffers: Sequence[Buffer]) -> int:
        self._before_change()
        return self._file.write(position, buffers)

    def truncate(self, size: int) -> None:
        self._before_change()
        self._file.truncate(size)

    async def sync(self) -> None:
        self._before_change()
        await self._file.sync()


class WatchedDisk:
    """Once `images` is a list, it gets what an end would leave before each write, sync and change of names."""

    def __init__(self, disk: SimulatedDisk, end: Callable[[SimulatedDisk], SimulatedDisk]) -> None:
        self._disk = disk
        self._end = end
        self.images: list[SimulatedDisk] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._disk, name)

    def _note(self) -> None:
        if self.images is not None:
            self.images.append(self._end(self._disk))

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> Any:
        if create and not self._disk.exists(path):
            self._note()
        return _WatchedFile(self._disk.open(path, create=create, writable=writable), self._note)

    async def put(self, temporary: str, path: str, contents: Sequence[Buffer]) -> Any:
        return await put_in_steps(self, temporary, path, contents)

    def make_directory(self, path: str) -> None:
        self._note()
        self._disk.make_directory(path)

    def rename(self, old: str, new: str) -> None:
        self._note()
        self._disk.rename(old, new)

    async def replace(self, old: str, new: str) -> None:
        self._note()
        await self._disk.replace(old, new)

    def remove(self, path: str) -> None:
        self._note()
        self._disk.remove(path)

    def remove_directory(self, path: str) -> None:
        self._note()
        self._disk.remove_directory(path)

    async def sync_directory(self, path: str) -> None:
        self._note()
        await self._disk.sync_directory(path)

    async def sync_all(self, targets: Sequence[SyncTarget]) -> dict[SyncTarget, Exception]:
        return await sync_each(self, targets)
