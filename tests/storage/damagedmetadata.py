"""Short words for tests that damage the metadata."""

from random import Random

from goqueue.core.records.batch import MAGIC
from goqueue.storage.directory.rebuilding import put_in_place, rebuild
from goqueue.storage.directory.recordlog import RecordLog
from goqueue.testing.disk import SimulatedDisk
from tests.storage.logs import mounted
from tests.storage.oldregister import LIST


def last_segment(disk: SimulatedDisk) -> str:
    return f"{LIST}/{[name for name in disk.list(LIST) if name.endswith('.log')][-1]}"


async def cut_last_batch(disk: SimulatedDisk) -> None:
    """So that nothing in the file says that it was longer."""
    path = last_segment(disk)
    data = bytes(await disk.open(path).read(0, disk.size(path)))
    disk.cut(path, data.rindex(MAGIC))


async def claim_all(disk: SimulatedDisk) -> None:
    """As if the broker had rested for a second before its end."""
    async with mounted(disk) as volume:
        log, _ = await RecordLog.open(volume, LIST)
        await log.close()


async def recover(disk: SimulatedDisk) -> bool:
    """Do what `goqueue recover topics --write` does. False if it found nothing to do."""
    async with mounted(disk) as volume:
        rebuilt = await rebuild(volume, "/data", Random(0))
        if not rebuilt.is_same:
            await put_in_place(volume, "/data", rebuilt.record, 0)
    return not rebuilt.is_same
