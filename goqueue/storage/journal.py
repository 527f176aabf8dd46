"""The journal: small state that must survive, as a row of entries and now and then a snapshot of all of them.

`append` never waits; what was appended is durable after `commit`. `compact` replaces the file by one that
begins with a snapshot. While that one is made durable, entries go to both files, so nothing is missing
whichever a crash leaves.
"""

from collections.abc import Sequence

import trio

from goqueue.environment import File
from goqueue.errors import Closed, DiskFull, LogStopped, StorageError, TooLarge
from goqueue.storage.journalfile import Kind, Replay, encode_entry, replay
from goqueue.storage.volume import TEMPORARY, Volume

PAYLOAD_SIZE_MAX = 64 * 1024 * 1024
JOURNAL_SIZE_MAX = 1024 * 1024 * 1024
TORN, DAMAGED = ".torn", ".damaged"


class _Target:
    """A file that takes entries, and how far it is written."""

    def __init__(self, file: File, size: int) -> None:
        self.file = file
        self.size = size

    def write(self, data: bytes) -> None:
        """All of it or nothing."""
        try:
            self.size += self.file.write(self.size, [data])
        except StorageError:
            self.file.truncate(self.size)
            raise


class Journal:
    def __init__(self, volume: Volume, directory: str, name: str, file: File, found: Replay) -> None:
        self._volume = volume
        self._directory = directory
        self._name = name
        self._number = found.next_number
        self._durable = found.next_number
        self._current = _Target(file, found.sound_size)
        self._successor: _Target | None = None
        self._turn = trio.Lock()
        self._failure: StorageError | None = None
        self._closed = False

    @classmethod
    async def open(cls, volume: Volume, directory: str, name: str) -> tuple["Journal", Replay]:
        """The journal, and what it held. A torn tail is cut; a file with lost entries is also copied aside."""
        await volume.make_directories(directory)
        path = f"{directory}/{name}"
        if not volume.disk.exists(path):
            await volume.replace(directory, name, [encode_entry(Kind.MARK, 0, 0)])
        _check_size(path, volume.disk.size(path))
        data = await volume.read_whole(path, JOURNAL_SIZE_MAX)
        found = replay(data)
        if found.lost:
            await volume.replace(directory, name + DAMAGED, [data])
        if found.sound_size < len(data):
            await volume.replace(directory, name + TORN, [data[found.sound_size :]])
        file = volume.disk.open(path)
        file.truncate(found.sound_size)
        await volume.sync([file], [directory])
        return cls(volume, directory, name, file, found), found

    @property
    def size(self) -> int:
        """Bytes of the file; its owner compacts when this has grown enough."""
        return self._current.size

    def append(self, payloads: Sequence[bytes]) -> None:
        """Write entries in one go, all or none; durable after `commit`."""
        self._check_open()
        for payload in payloads:
            if len(payload) > PAYLOAD_SIZE_MAX:
                raise TooLarge(f"a journal entry of {len(payload)} bytes; {PAYLOAD_SIZE_MAX} are allowed")
        numbered = enumerate(payloads, self._number)
        data = b"".join(encode_entry(Kind.ENTRY, number, self._durable, each) for number, each in numbered)
        _check_size(self._name, self.size + len(data))
        self._write(data)
        self._number += len(payloads)

    def _write(self, data: bytes) -> None:
        try:
            self._current.write(data)
        except DiskFull:
            raise
        except StorageError as error:
            raise self._stop(error) from error
        if self._successor is not None:
            try:
                self._successor.write(data)
            except StorageError:
                self._successor = None  # the compaction under way gives up; this file has everything

    async def commit(self) -> None:
        """Make everything appended so far durable."""
        async with self._turn:
            self._check_open()
            await self._commit()

    async def _commit(self) -> None:
        number = self._number
        try:
            await self._volume.sync([self._current.file])
        except StorageError as error:
            raise self._stop(error) from error
        self._durable = number

    async def compact(self, snapshot: bytes) -> None:
        """Let `snapshot`, which stands for everything appended until now, take the place of all entries."""
        async with self._turn:
            self._check_open()
            path = f"{self._directory}/{self._name}"
            successor = self._begin_successor(path + TEMPORARY, snapshot)
            try:
                await self._volume.sync([successor.file])
                if self._successor is None:
                    raise DiskFull(f"no room to compact {path}; it goes on as it was", path=path)
                self._volume.disk.rename(path + TEMPORARY, path)
            except BaseException:
                self._successor = None
                successor.file.close()
                self._volume.disk.remove(path + TEMPORARY)
                raise
            self._current.file.close()
            self._current, self._successor = successor, None
            await self._commit_name()

    def _begin_successor(self, path: str, snapshot: bytes) -> _Target:
        file = self._volume.disk.open(path, create=True)
        try:
            file.truncate(0)
            successor = _Target(file, 0)
            successor.write(encode_entry(Kind.SNAPSHOT, self._number, self._number, snapshot))
        except BaseException:
            file.close()
            self._volume.disk.remove(path)
            raise
        self._number += 1
        self._successor = successor
        return successor

    async def _commit_name(self) -> None:
        number = self._number
        try:
            await self._volume.sync([self._current.file], [self._directory])
        except StorageError as error:
            raise self._stop(error) from error
        self._durable = number

    def _stop(self, error: StorageError) -> LogStopped:
        self._failure = error
        return LogStopped(f"{self._directory}/{self._name}: {error.message}; reopen the journal")

    def _check_open(self) -> None:
        if self._closed:
            raise Closed(f"the journal {self._directory}/{self._name} is closed")
        if self._failure is not None:
            raise self._stop(self._failure)

    async def close(self) -> None:
        """Everything durable, with a mark that says so (G15). Twice is once."""
        async with self._turn:
            if self._closed:
                return
            try:
                if self._failure is None:
                    await self._commit()
                    self._write(encode_entry(Kind.MARK, self._number, self._durable))
                    await self._commit()
            except DiskFull:
                pass  # only the mark is missing
            finally:
                self._closed = True
                self._current.file.close()


def _check_size(path: str, size: int) -> None:
    if size > JOURNAL_SIZE_MAX:
        raise TooLarge(f"{path} has or would have {size} bytes; compact it below {JOURNAL_SIZE_MAX}")
