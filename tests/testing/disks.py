"""Short words for the tests of the simulated disk."""

from collections.abc import Awaitable, Callable
from random import Random

from goqueue.testing.disk import SimulatedDisk
from goqueue.testing.faults import Faults
from goqueue.testing.file import SimulatedFile

SEEDS = range(150)
PATH = "/data/file"


async def new_disk(seed: int = 0, faults: Faults | None = None) -> SimulatedDisk:
    """A disk with the folder /data, which a crash leaves alone."""
    disk = SimulatedDisk(Random(seed), faults=faults)
    disk.make_directory("/data")
    await disk.sync_directory("/")
    return disk


async def durable_file(disk: SimulatedDisk, path: str = PATH, contents: bytes = b"") -> SimulatedFile:
    """An open file whose contents and name are both synced."""
    file = disk.open(path, create=True)
    file.write(0, [contents])
    await file.sync()
    await disk.sync_directory(path.rpartition("/")[0])
    return file


async def read(disk: SimulatedDisk, path: str = PATH) -> bytes | None:
    """The whole file, or None when it is missing."""
    if not disk.exists(path):
        return None
    return await disk.open(path).read(0, disk.size(path))


async def crashes(story: Callable[[SimulatedDisk], Awaitable[object]]) -> list[SimulatedDisk]:
    """What the disk is after the story and a crash, for many seeds."""
    found = []
    for seed in SEEDS:
        disk = await new_disk(seed)
        await story(disk)
        found.append(disk.crash())
    return found


async def survivors(story: Callable[[SimulatedDisk], Awaitable[object]]) -> set[bytes | None]:
    """All that may be in the file after the story and a crash."""
    return {await read(disk) for disk in await crashes(story)}
