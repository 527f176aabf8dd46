"""A disk in memory that does to its users everything that `goqueue.environment` permits.

One `SimulatedDisk` is the disk as one process sees it. `kill` and `crash` end that process: they return the disk
that the next process finds, after a kill with the page cache intact, after a crash with what the platter held. The
old object goes on working on its own copy, so the last writes of a dying node reach nobody.

The theory is in three files: `contents` has the bytes of a file and which of them are durable, `names` the same for
folders, and `powerloss` draws what survives of the rest. Everything drawn comes from the generator given at the
start, so a run replays from its seed.
"""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from random import Random

import trio

from goqueue.environment import File, Space, SyncTarget
from goqueue.errors import DataDirectoryLocked, DiskFailed, TooManyFiles
from goqueue.storage.disk.syncing import sync_each
from goqueue.testing.contents import FileContents
from goqueue.testing.faults import Counts, Faults
from goqueue.testing.file import SimulatedFile, SimulatedLock
from goqueue.testing.medium import Medium
from goqueue.testing.names import Folder, Names, Node
from goqueue.testing.powerloss import PowerLoss
from goqueue.testing.putting import put_in_steps
from goqueue.types import Buffer

CAPACITY = 1 << 40
FIRST_PID = 1_000


class SimulatedDisk:
    def __init__(self, random: Random, *, faults: Faults | None = None, capacity: int = CAPACITY) -> None:
        self._medium = Medium(random, faults or Faults(), capacity)
        self._names = Names()
        self.pid = FIRST_PID

    # What the process does.

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> SimulatedFile:
        if self.faults.no_descriptors:
            raise TooManyFiles(f"no descriptor is left to open {path}", path=path)
        if create and not self.exists(path):
            self._create(path, FileContents())
        return SimulatedFile(path, self._names.find_file(path), self._medium, writable=writable)

    def exists(self, path: str) -> bool:
        try:
            self._names.find(path)
        except (FileNotFoundError, DiskFailed):
            return False
        return True

    def is_directory(self, path: str) -> bool:
        return self.exists(path) and isinstance(self._names.find(path), Folder)

    def size(self, path: str) -> int:
        return len(self._names.find_file(path).view)

    def list(self, path: str) -> list[str]:
        return sorted(self._names.find_folder(path).entries)

    def make_directory(self, path: str) -> None:
        if not self.exists(path):
            self._create(path, Folder())
        self._names.find_folder(path)

    def rename(self, old: str, new: str) -> None:
        replaced = self._names.move(old, new)
        if isinstance(replaced, FileContents):
            self._medium.unlink(replaced)

    async def replace(self, old: str, new: str) -> None:
        await trio.lowlevel.cancel_shielded_checkpoint()
        self.rename(old, new)

    async def put(self, temporary: str, path: str, contents: Sequence[Buffer]) -> File:
        return await put_in_steps(self, temporary, path, contents)

    def remove(self, path: str) -> None:
        file = self._names.find_file(path)
        self._names.unlink(self._names.place(path))
        self._medium.unlink(file)

    def remove_directory(self, path: str) -> None:
        self._names.remove_folder(path)

    async def sync_directory(self, path: str) -> None:
        folder, mark = self._names.find_folder(path), self._names.mark()
        self.counts.directory_syncs += 1
        if not await self._medium.wait_for_sync(path):
            self._names.doom(folder, mark)
            raise DiskFailed(f"{path} could not be synced", path=path)
        self._names.settle(folder, mark)

    async def sync_all(self, targets: Sequence[SyncTarget]) -> dict[SyncTarget, Exception]:
        return await sync_each(self, targets)

    def space(self, path: str) -> Space:
        self._names.find(path)
        return Space(free=self._medium.free, total=self.capacity)

    def lock(self, path: str) -> SimulatedLock:
        self.open(path, create=True).close()
        file = self._names.find_file(path)
        if file.locked:
            raise DataDirectoryLocked(f"process {self.pid} holds {path}", pid=str(self.pid), path=path)
        return SimulatedLock(file)

    # What happens to the process and to the machine.

    def kill(self) -> "SimulatedDisk":
        """The process dies and the machine runs on: nothing is lost, and what was unsynced still is."""
        return self._next_process(deepcopy(self._names))

    def crash(self) -> "SimulatedDisk":
        """The power fails."""
        names = deepcopy(self._names)
        PowerLoss(self._medium.random, self.faults.garbage_odds).strike(names)
        return self._next_process(names)

    def rest(self) -> None:
        """It has no threads."""

    def fail_next_sync(self, path: str | None = None) -> None:
        """Let the next sync that begins fail; with a path, the next one of just that file or folder."""
        self._medium.fail_next_sync(path)

    def flip_bit(self, path: str, position: int, bit: int) -> None:
        self._names.find_file(path).flip_bit(position, bit)

    def damage(self, path: str) -> int:
        """Flip a bit somewhere in the file. Returns the position of its byte."""
        position = self._medium.random.randrange(self.size(path))
        self.flip_bit(path, position, self._medium.random.randrange(8))
        return position

    def cut(self, path: str, size: int) -> None:
        """Shorten the file for good, as somebody else on the machine would."""
        self._medium.cut(self._names.find_file(path), size)

    # What a test sets and counts.

    @property
    def faults(self) -> Faults:
        return self._medium.faults

    @property
    def counts(self) -> Counts:
        return self._medium.counts

    @property
    def capacity(self) -> int:
        return self._medium.capacity

    @capacity.setter
    def capacity(self, size: int) -> None:
        self._medium.capacity = size

    def _create(self, path: str, node: Node) -> None:
        place = self._names.place(path)
        self._medium.check_room_for_name(path)
        self._names.link(place, node)

    def _next_process(self, names: Names) -> "SimulatedDisk":
        random = Random(self._medium.random.getrandbits(64))
        disk = SimulatedDisk(random, faults=replace(self.faults), capacity=self.capacity)
        disk.pid = self.pid + 1
        disk._names = names
        disk._medium.used = sum(len(file.view) for file in names.files())
        return disk
