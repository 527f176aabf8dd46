"""`put` of a simulated disk: step by step, so that a crash may come between any two of them."""

from collections.abc import Sequence

import trio

from goqueue.environment import Disk, File
from goqueue.errors import StorageError
from goqueue.types import Buffer


async def put_in_steps(disk: Disk, temporary: str, path: str, contents: Sequence[Buffer]) -> File:
    """As `Disk.put`."""
    await trio.lowlevel.checkpoint_if_cancelled()
    with trio.CancelScope(shield=True):
        await _put_in_place(disk, temporary, path, contents)
        file = disk.open(path)
        try:
            await disk.sync_directory(path.rpartition("/")[0])
        except StorageError:
            file.close()
            raise
    return file


async def _put_in_place(disk: Disk, temporary: str, path: str, contents: Sequence[Buffer]) -> None:
    file = disk.open(temporary, create=True)
    try:
        file.truncate(0)
        file.write(0, contents)
        await file.sync()
        disk.rename(temporary, path)
    except StorageError:
        disk.remove(temporary)
        raise
    finally:
        file.close()
