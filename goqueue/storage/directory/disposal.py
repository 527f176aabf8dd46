"""Empties `deleted/`, which holds the folders of deleted topics, file by file.

A topic may hold hundreds of gigabytes, and the file system needs time to free them. So each step frees a bounded
part, and others run in the pause that follows. Nothing is synced on the way: files that a crash brings back are in
`deleted/` again, and the next round removes them. Only folders named by a UUID are removed: anything else there is
not the broker's.
"""

from collections.abc import Awaitable, Callable
from uuid import UUID

from goqueue.errors import StorageError
from goqueue.storage.directory.folders import DELETED
from goqueue.storage.log.volume import Volume

STEP_BYTES_MAX = 64 * 1024 * 1024
"""Maximum number of bytes that one step frees; a larger file is shortened in steps."""


class Disposal:
    def __init__(self, volume: Volume, data: str, pause: Callable[[], Awaitable[None]]) -> None:
        self._disk = volume.disk
        self._sync = volume.sync
        self._folder = f"{data}/{DELETED}"
        self._pause = pause
        self._refused: dict[str, StorageError] = {}

    async def empty(self) -> dict[str, StorageError]:
        """Remove what is there now. Returns the folders that could not be removed: once each, then they stay."""
        refused: dict[str, StorageError] = {}
        for name in self._waiting():
            try:
                await self._remove_tree(f"{self._folder}/{name}")
                await self._sync(directories=[self._folder])
            except FileNotFoundError:
                continue  # another process removes it, too; the next round removes the rest
            except StorageError as error:
                refused[name] = error
        self._refused |= refused
        return refused

    def _waiting(self) -> list[str]:
        names = self._disk.list(self._folder) if self._disk.is_directory(self._folder) else []
        return [name for name in names if _is_uuid(name) and name not in self._refused]

    async def _remove_tree(self, path: str) -> None:
        if not self._disk.is_directory(path):
            await self._remove_file(path)
            return
        for name in self._disk.list(path):
            await self._remove_tree(f"{path}/{name}")
        self._disk.remove_directory(path)
        await self._pause()

    async def _remove_file(self, path: str) -> None:
        size = self._disk.size(path)
        while size > STEP_BYTES_MAX:
            size -= STEP_BYTES_MAX
            self._shorten(path, size)
            await self._pause()
        self._disk.remove(path)
        await self._pause()

    def _shorten(self, path: str, size: int) -> None:
        file = self._disk.open(path)
        try:
            file.truncate(size)
        finally:
            file.close()


def _is_uuid(name: str) -> bool:
    try:
        return str(UUID(name)) == name
    except ValueError:
        return False
