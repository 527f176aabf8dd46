"""The committer: the one place of a node from which anything is fsynced.

Callers name files and folders and wait. Whoever comes while a round is under way shares the next one, so a
thousand appends cost a few syncs (group commit), and the files of a round sync side by side. A call is answered
by a round that began after it: what was written before the call is durable when it returns. A failure reaches
exactly those whose file failed.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import trio

from goqueue.environment import Disk, File
from goqueue.errors import Closed, StorageError


@dataclass(slots=True)
class Round:
    # Dicts as ordered sets: a simulated run must not depend on the order of hashes.
    files: dict[File, StorageError | None] = field(default_factory=dict)
    directories: dict[str, StorageError | None] = field(default_factory=dict)
    done: trio.Event = field(default_factory=trio.Event)
    abandoned: bool = False


class Committer:
    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._gathering = Round()
        self._work = trio.Event()
        self._stopped = False
        self.rounds = 0
        self.syncs = 0

    async def sync(self, files: Sequence[File] = (), directories: Sequence[str] = ()) -> None:
        """Return once these are durable as they are now; raise what the disk said of one of them."""
        if self._stopped:
            raise Closed("the committer has stopped; nothing more can be made durable")
        current = self._gathering
        current.files.update(dict.fromkeys(files))
        current.directories.update(dict.fromkeys(directories))
        self._work.set()
        await current.done.wait()
        if current.abandoned:
            raise Closed("the committer stopped before this was durable")
        _raise_first(current.files[file] for file in files)
        _raise_first(current.directories[path] for path in directories)

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Sync round after round, until cancelled."""
        task_status.started()
        current = self._gathering
        try:
            while True:
                await self._work.wait()
                current, self._gathering = self._gathering, Round()
                self._work = trio.Event()
                await self._sync_round(current)
                current.done.set()
        finally:
            self._stopped = True
            for unfinished in (current, self._gathering):
                unfinished.abandoned = not unfinished.done.is_set()
                unfinished.done.set()

    async def _sync_round(self, current: Round) -> None:
        self.rounds += 1
        async with trio.open_nursery() as nursery:
            for file in current.files:
                nursery.start_soon(self._sync_file, current, file)
            for path in current.directories:
                nursery.start_soon(self._sync_directory, current, path)

    async def _sync_file(self, current: Round, file: File) -> None:
        self.syncs += 1
        try:
            await file.sync()
        except StorageError as error:
            current.files[file] = error

    async def _sync_directory(self, current: Round, path: str) -> None:
        self.syncs += 1
        try:
            await self._disk.sync_directory(path)
        except StorageError as error:
            current.directories[path] = error


def _raise_first(errors: Iterable[StorageError | None]) -> None:
    for error in errors:
        if error is not None:
            raise error
