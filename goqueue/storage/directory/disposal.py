"""Emptying `deleted/`: what deleted topics left, file by file.

A topic may hold hundreds of gigabytes, and freeing them takes the file system its time. So each step frees a
bounded part and a pause follows, in which others have their turn. Nothing is synced on the way: what a crash brings
back is found in `deleted/` again, and goes at the next round. Only folders named by a UUID are taken: whatever else
lies there, somebody else put there.
"""

from collections.abc import Awaitable, Callable
from uuid import UUID

from goqueue.errors import StorageError
from goqueue.storage.directory.folders import DELETED
from goqueue.storage.log.volume import Volume

STEP_BYTES_MAX = 64 * 1024 * 1024
"""A larger file is shortened by so much at a time."""


class Disposal:
    def __init__(self, volume: Volume, data: str, pause: Callable[[], Awaitable[None]]) -> None:
        self._disk = volume.disk
        self._sync = volume.sync
        self._folder = f"{data}/{DELETED}"
        self._pause = pause
        self._refused: dict[str, StorageError] = {}

    async def empty(self) -> dict[str, StorageError]:
        """Remove what is there now. Which folders could not be removed, said once of each: they are left alone."""
        refused: dict[str, StorageError] = {}
        for name in self._waiting():
            try:
                await self._remove_tree(f"{self._folder}/{name}")
                await self._sync(directories=[self._folder])
            except FileNotFoundError:
                continue  # somebody else removes it too; the next round sees what is left
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
