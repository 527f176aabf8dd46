"""A small world with something of everything that could tell one run from another."""

from random import Random

import trio

from goqueue.errors import DiskFailed
from goqueue.testing.clock import SimulatedClock
from goqueue.testing.determinism import SimulatedRun, run_deterministically
from goqueue.testing.disk import SimulatedDisk
from goqueue.testing.faults import Faults
from goqueue.testing.file import SimulatedFile

ROUNDS = 5


class Journal:
    """Many writers, one file; an object that is called, so that its tasks have no name of their own."""

    def __init__(self, file: SimulatedFile, clock: SimulatedClock) -> None:
        self._file = file
        self._clock = clock
        self.lines: list[str] = []

    async def __call__(self, lines: trio.MemoryReceiveChannel[str]) -> None:
        async for line in lines:
            self.lines.append(f"{self._clock.now()} {line}")
            self._file.write(self._file.size(), [line.encode()])
            try:
                await self._file.sync()
            except DiskFailed:
                self.lines.append("failed")


async def write(name: str, start: trio.Event, lines: trio.MemorySendChannel[str], random: Random) -> None:
    await start.wait()
    async with lines:
        for number in range(ROUNDS):
            with trio.move_on_after(0.003):
                await lines.send(f"{name}{number};")
            await trio.sleep(random.choice((0, 0.001, 0.002)))


async def live(disk: SimulatedDisk, random: Random) -> list[str]:
    file = disk.open("/journal", create=True)
    journal = Journal(file, SimulatedClock())
    sending, receiving = trio.open_memory_channel[str](1)
    start = trio.Event()
    async with trio.open_nursery() as nursery, sending:
        for name in ("ann", "bob", "cid", "dot", "eve"):  # all wait in one set, whose order is Trio's secret
            nursery.start_soon(write, name, start, sending.clone(), random)
        nursery.start_soon(journal, receiving)
        nursery.start_soon(journal, receiving.clone())
        await trio.sleep(0.001)
        start.set()
    return journal.lines


async def story(seed: int) -> list[str]:
    random = Random(seed)
    disk = SimulatedDisk(random, faults=Faults(sync_failure_odds=0.1))
    told = []
    for _ in range(3):
        told += await live(disk, random)
        disk = disk.crash()
        told += [f"{name} {disk.size(name)}" for name in disk.list("/")]
    return told


def tell(seed: int) -> SimulatedRun[list[str]]:
    return run_deterministically(story, seed, seed=seed)
