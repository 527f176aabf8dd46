"""The volume that all logs and journals of a node share: disk, committer, a limited number of open files."""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import trio

from goqueue.core.histogram import Histogram
from goqueue.core.log.nodeproducers import NodeProducers
from goqueue.environment import Disk, File
from goqueue.errors import DiskFailed, TooManyFiles
from goqueue.storage.disk.committer import Committer
from goqueue.storage.disk.reserve import Reserve
from goqueue.storage.log.index import SparseIndex
from goqueue.storage.log.openjournals import OpenJournals
from goqueue.storage.log.openlogs import OpenLogs
from goqueue.types import Buffer

OPEN_FILES_MAX = 1_024
"""Limit of files that stay open for reading: a receive from many partitions reads many files, each time."""
GROWING_FILES_MAX = 2_048
"""Limit of growing files that stay open with nothing unsynced; files with unsynced bytes are needed, and few."""
INDEXES_MAX = 256
TEMPORARY = ".tmp"
COPY_SIZE = 1024 * 1024


@dataclass(slots=True)
class OpenFile:
    """A file open for reading; closed once it has no readers and is no longer wanted."""

    file: File
    readers: int = 0
    wanted: bool = True

    def close_when_unread(self) -> None:
        if not self.wanted and not self.readers:
            self.file.close()


class Growing(Protocol):
    """A file that grows. It may be closed while nothing is written, and is opened again when it grows."""

    def close_writer(self) -> None: ...


class Volume:
    """Use it while `run` runs."""

    def __init__(
        self,
        disk: Disk,
        open_files_max: int = OPEN_FILES_MAX,
        indexes_max: int = INDEXES_MAX,
        growing_files_max: int = GROWING_FILES_MAX,
        producers: NodeProducers | None = None,
    ) -> None:
        self.disk = disk
        self.committer = Committer(disk)
        self.logs = OpenLogs()
        self.journals = OpenJournals()
        self.producers = NodeProducers() if producers is None else producers
        self.reserve = Reserve(disk, self.replace)
        self.waits = Histogram()
        """How long callers waited for a sync."""
        self._open_files_max = open_files_max
        self._indexes_max = indexes_max
        self._growing_files_max = growing_files_max
        self._open_files: OrderedDict[str, OpenFile] = OrderedDict()
        self._resting: OrderedDict[Growing, None] = OrderedDict()
        self._indexes: OrderedDict[object, SparseIndex] = OrderedDict()
        self._durable_folders: set[str] = set()

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        await self.committer.run(task_status=task_status)

    async def sync(self, files: Sequence[File] = (), directories: Sequence[str] = ()) -> None:
        began = trio.current_time()
        await self.committer.sync(files, directories)
        self.waits.add(trio.current_time() - began)

    # Files open for reading: the least recently used is closed when there are too many.

    @property
    def open_files(self) -> int:
        return len(self._open_files)

    @contextmanager
    def reader(self, path: str) -> Iterator[File]:
        """The file with this name; it stays open during the block, even if the name is removed meanwhile."""
        entry = self._open_files.get(path)
        if entry is None:
            entry = self._open_files[path] = OpenFile(self.open(path, writable=False))
            if len(self._open_files) > self._open_files_max:
                self.forget(next(iter(self._open_files)))
        self._open_files.move_to_end(path)
        entry.readers += 1
        try:
            yield entry.file
        finally:
            entry.readers -= 1
            entry.close_when_unread()

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> File:
        """A file that stays open. When no descriptor is left, files that can be opened again are closed."""
        try:
            return self.disk.open(path, create=create, writable=writable)
        except TooManyFiles:
            self._close_what_rests()
            return self.disk.open(path, create=create, writable=writable)

    def _close_what_rests(self) -> None:
        for path in [path for path, entry in self._open_files.items() if not entry.readers]:
            self.forget(path)
        while self._resting:
            growing, _ = self._resting.popitem(last=False)
            growing.close_writer()

    def forget(self, path: str) -> None:
        """The file with this name was removed or replaced, or is not needed."""
        entry = self._open_files.pop(path, None)
        if entry is not None:
            entry.wanted = False
            entry.close_when_unread()

    def close(self) -> None:
        for path in list(self._open_files):
            self.forget(path)
        self.disk.rest()

    # Growing files: when too many rest with nothing unsynced, the one that rests longest is closed.

    def rest(self, growing: Growing) -> None:
        """The file is durable and not being written: it may be closed."""
        self._resting[growing] = None
        self._resting.move_to_end(growing)
        if len(self._resting) > self._growing_files_max:
            oldest, _ = self._resting.popitem(last=False)
            oldest.close_writer()

    def rouse(self, growing: Growing) -> None:
        """The file is written to, or closed: it no longer rests."""
        self._resting.pop(growing, None)

    # Indexes of sealed segments, kept by the segment that owns them.

    def index(self, owner: object) -> SparseIndex | None:
        index = self._indexes.get(owner)
        if index is not None:
            self._indexes.move_to_end(owner)
        return index

    def keep_index(self, owner: object, index: SparseIndex) -> None:
        self._indexes[owner] = index
        self._indexes.move_to_end(owner)
        if len(self._indexes) > self._indexes_max:
            self._indexes.popitem(last=False)

    def forget_index(self, owner: object) -> None:
        self._indexes.pop(owner, None)

    def index_memory(self) -> int:
        return sum(index.memory() for index in self._indexes.values())

    # Whole files.

    async def replace(self, directory: str, name: str, contents: Sequence[Buffer]) -> None:
        """Write a whole file so that after a crash either the old or the new one is there, never a part."""
        (await self.put(directory, name, contents)).close()

    async def put(self, directory: str, name: str, contents: Sequence[Buffer]) -> File:
        """As `replace`; returns the new file, open."""
        path, began = f"{directory}/{name}", trio.current_time()
        try:
            return await self.disk.put(path + TEMPORARY, path, contents)
        finally:
            self.forget(path)
            self.waits.add(trio.current_time() - began)

    async def copy(self, source: str, position: int, directory: str, name: str) -> None:
        """Copy a file's end into a new file, piece by piece; it has its name once it is whole and durable."""
        temporary = f"{directory}/{name}{TEMPORARY}"
        file = self.disk.open(temporary, create=True)
        try:
            file.truncate(0)
            with self.reader(source) as original:
                written = 0
                while piece := await original.read(position + written, COPY_SIZE):
                    written += file.write(written, [piece])
            await self.sync([file])
            self.disk.rename(temporary, f"{directory}/{name}")
        except BaseException:
            self.disk.remove(temporary)
            raise
        finally:
            file.close()
        await self.sync(directories=[directory])

    async def read_whole(self, path: str, size_max: int) -> bytes:
        """A small file's bytes; a larger file is read only up to the limit, and so fails its checksum."""
        file = self.disk.open(path, writable=False)
        try:
            return bytes(await file.read(0, min(file.size(), size_max)))
        finally:
            file.close()

    async def make_directories(self, path: str) -> None:
        """Create a folder and those above it, each name durable before the next.

        A folder that exists may have been created by a process that was killed before it was durable, so its name
        is synced too, once; unless the folder above may not be read: then the broker did not create it.
        """
        parts = path.split("/")
        for depth in range(1, len(parts) + 1):
            folder = "/".join(parts[:depth])
            if folder and folder not in self._durable_folders:
                await self._make_directory(folder, "/".join(parts[: depth - 1]) or ("/" if parts[0] == "" else "."))
                self._durable_folders.add(folder)

    def forget_folders(self, path: str) -> None:
        """This folder and all below it were renamed."""
        self._durable_folders = {
            folder for folder in self._durable_folders if folder != path and not folder.startswith(path + "/")
        }

    async def _make_directory(self, folder: str, above: str) -> None:
        is_new = not self.disk.is_directory(folder)
        self.disk.make_directory(folder)
        try:
            await self.sync(directories=[above])
        except DiskFailed as error:
            if is_new or not isinstance(error.__cause__, PermissionError):
                raise
