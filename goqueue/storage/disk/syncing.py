"""Files and folders made durable one by one, for disks that have no quicker way."""

from collections.abc import Sequence

import trio

from goqueue.environment import Disk, SyncTarget


async def sync_one(disk: Disk, target: SyncTarget) -> None:
    await (disk.sync_directory(target) if isinstance(target, str) else target.sync())


async def sync_each(disk: Disk, targets: Sequence[SyncTarget]) -> dict[SyncTarget, Exception]:
    """As `Disk.sync_all`."""
    failures: dict[SyncTarget, Exception] = {}

    async def sync(target: SyncTarget) -> None:
        try:
            await sync_one(disk, target)
        except Exception as error:
            failures[target] = error

    if targets:
        async with trio.open_nursery() as nursery:
            for target in targets:
                nursery.start_soon(sync, target)
    return failures
