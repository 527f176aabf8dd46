"""A machine with a broker on it, for the tests of backup and restore, and what must hold of a copy."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any, NamedTuple

import pytest

import goqueue
from goqueue.cli.backup.copying import CopyOutcome, back_up, restore
from goqueue.environment import Disk, Environment
from goqueue.errors import (
    DirectoryNotEmpty,
    IncompleteCopy,
)
from goqueue.http.ports import serving
from goqueue.storage.backup.backup import DirectoryCopy
from goqueue.storage.directory.datadirectory import DataDirectory
from goqueue.storage.verification.verify import NoProgress, verify
from goqueue.testing.clock import SimulatedClock
from goqueue.testing.disk import SimulatedDisk
from tests.process.brokers import HTTP, URL, WEBSOCKET, MemoryNetwork
from tests.storage.logs import mounted

BACKUP, RESTORED = "/backup", "/restored"
VALUE = b"x" * 1_000


class Content(NamedTuple):
    """All that a reader sees of a message."""

    partition: int
    offset: int
    timestamp: float
    key: bytes | None
    value: bytes
    headers: dict[str, bytes]
    priority: int


class Machine:
    """A disk and a network, on which a broker may run; the clock is the virtual one."""

    def __init__(self) -> None:
        self.disk = SimulatedDisk(Random(0))
        self.network = MemoryNetwork()

    @asynccontextmanager
    async def both(self, data: str = "/data", disk: Disk | None = None) -> AsyncIterator[goqueue.Client]:
        environment = Environment(disk or self.disk, self.network, SimulatedClock(), Random(0))
        async with serving(environment, data, listen=WEBSOCKET, http=HTTP), self.client() as client:
            yield client

    def client(self) -> Any:
        return goqueue.connect(URL, network=self.network)

    async def back_up(self, client: goqueue.Client, path: str = BACKUP, progress: Any = None) -> CopyOutcome:
        return await back_up(client, self.disk, path, progress or NoProgress())

    async def restore(self, backup: str = BACKUP, path: str = RESTORED) -> CopyOutcome:
        return await restore(self.disk, backup, path, NoProgress())

    async def contents(self, data: str, topic: str = "orders") -> list[Content]:
        async with self.both(data) as client:
            return await contents(client, topic)


async def contents(client: goqueue.Client, topic: str = "orders") -> list[Content]:
    async with client.read(topic, end="latest") as reader:
        found = [
            Content(
                each.partition, each.offset, each.timestamp, each.key, each.value, dict(each.headers), each.priority
            )
            async for each in reader
        ]
    return sorted(found, key=lambda each: each[:2])


async def check_sound(disk: Disk, path: str) -> None:
    report = await verify(disk, path)
    assert not report.damage()
    assert not report.warnings()


async def check_unusable(disk: SimulatedDisk, path: str) -> None:
    with pytest.raises(IncompleteCopy, match="cut short"):
        await restore(disk, path, RESTORED, NoProgress())
    await check_no_broker_starts(disk, path)
    async with mounted(disk) as volume:
        with pytest.raises(DirectoryNotEmpty, match="cut short"):
            await DirectoryCopy.begin(volume, path)


async def check_no_broker_starts(disk: SimulatedDisk, path: str) -> None:
    async with mounted(disk) as volume:
        with pytest.raises(IncompleteCopy, match="cut short"):
            await DataDirectory.open(volume, path, node="node-1", random=Random(0))
