"""The reserve: room that is kept for deleting on a disk that is full to the last block.

A delete writes before it frees: a record, a recovery point, a name in a folder. On a full disk that fails, and the
broker could free nothing. So `{data}/reserve` holds 1 MiB. A delete that meets a full disk removes the file and
tries once more. The janitor makes the file again when there is room. Nobody reads it; backup and verification
ignore it.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import TypeAlias, TypeVar

from goqueue.environment import Disk
from goqueue.errors import DiskFull, TooManyFiles
from goqueue.types import Buffer

logger = logging.getLogger("goqueue.reserve")

RESERVE = "reserve"
RESERVE_BYTES = 1024 * 1024
ROOM_FACTOR = 2
"""The file is made again once this many times its size is free: a delete under way may still need room."""

Result = TypeVar("Result")
Replace: TypeAlias = Callable[[str, str, Sequence[Buffer]], Awaitable[None]]
"""Write a whole file, by directory, name and contents."""


class Reserve:
    def __init__(self, disk: Disk, replace: Replace) -> None:
        self._disk = disk
        self._replace = replace
        self._data: str | None = None
        self._size = RESERVE_BYTES

    def keep_in(self, data: str, size: int = RESERVE_BYTES) -> None:
        """Keep the reserve in this directory from now on. Before this call, deletes have none."""
        self._data, self._size = data, size

    @property
    def _path(self) -> str:
        return f"{self._data}/{RESERVE}"

    async def refill(self) -> None:
        """Make the file where it is missing or cut short, if there is room."""
        if self._data is None or not self._size or self._is_whole():
            return
        if self._disk.space(self._data).free < ROOM_FACTOR * self._size:
            return
        contents = Random(0).randbytes(self._size)  # zeros take no room on a file system that compresses
        try:
            await self._replace(self._data, RESERVE, [contents])
        except DiskFull:
            logger.info("there is no room for %s; it is made later", self._path)

    def _is_whole(self) -> bool:
        return self._disk.exists(self._path) and self._disk.size(self._path) >= self._size

    def release(self) -> None:
        if self._data is not None and self._disk.exists(self._path):
            self._disk.remove(self._path)
            logger.warning("the disk is full: %s was removed, so that something can be deleted", self._path)

    async def with_room(self, delete: Callable[[], Awaitable[Result]]) -> Result:
        """Run `delete`, which frees room; on a full disk, release the reserve and run it a second time."""
        try:
            return await delete()
        except TooManyFiles:
            raise  # room does not help
        except DiskFull:
            self.release()
            return await delete()
