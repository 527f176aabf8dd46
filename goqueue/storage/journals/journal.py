"""The journal: small durable state, kept as entries and now and then a snapshot of all of them.

`append` never waits; its entries are durable after `commit`. `compact` replaces the file by one that begins with a
snapshot. Entries that come while it waits go to the old file, which is complete until it is replaced, and are
gathered for the new one, which has all of them before it gets the name. So nothing is missing whichever of the two
a crash leaves.

A new journal is created without waiting, as `….new`, and gets its own name with its first commit: nothing in it was
promised before. A start takes over what is sound of a `….new` that a crash left; the rest of it is no damage.

`claim` records how far the journal is durable, so that a start tells rot from a torn tail: in a mark when nothing
else is to be written, and beside the file. The owner calls it after a commit when it has time. It never waits.
"""

from collections.abc import Sequence
from contextlib import suppress
from enum import Enum

import trio
from crc32c import crc32c

from goqueue.environment import File
from goqueue.errors import Closed, DiskFull, LogStopped, StorageError, TooLarge, TooManyFiles
from goqueue.storage.journals.claim import SUFFIX, read_claim, write_claim
from goqueue.storage.journals.file import HEAD_SIZE, NEW, FrameKind, Replay, encode_frame, pack_entries, replay
from goqueue.storage.log.volume import TEMPORARY, Volume

PAYLOAD_SIZE_MAX = 64 * 1024 * 1024
JOURNAL_SIZE_MAX = 1024 * 1024 * 1024
TORN, DAMAGED = ".torn", ".damaged"


class Name(Enum):
    """Whether the journal's file has its name, and whether the name survives a crash."""

    NEW = "new"
    """Not yet; the first commit gives it."""
    GIVEN = "given"
    """It may not survive: the next commit makes it durable."""
    DURABLE = "durable"


class _Target:
    """A file that takes frames, and how far it is written."""

    def __init__(self, file: File, size: int = 0) -> None:
        self.file = file
        self.size = size

    def write(self, frames: Sequence[bytes]) -> None:
        """All of them or nothing."""
        try:
            self.size += self.file.write(self.size, frames)
        except StorageError:
            self.file.truncate(self.size)
            raise


class Journal:
    def __init__(
        self,
        volume: Volume,
        directory: str,
        name: str,
        file: File,
        found: Replay,
        *,
        state: Name = Name.DURABLE,
        claimed: int = 0,
    ) -> None:
        self._volume = volume
        self._directory = directory
        self._name = name
        self._state = state
        self._number = found.next_number
        self._durable = found.next_number
        self._content_end = found.content_end
        self._claimed = claimed
        """The number in the claim beside the file. It counts entries only, since a lost mark is no loss."""
        self._is_marked = found.ends_with_claim
        """No entry follows the last claim in the file."""
        self._current = _Target(file, found.sound_size)
        self._gathering: list[list[bytes]] = []
        self._turn = trio.Lock()
        self._failure: StorageError | None = None
        self._closed = False

    @classmethod
    async def open(cls, volume: Volume, directory: str, name: str) -> tuple["Journal", Replay]:
        """The journal and its contents. A torn tail is cut, and a copy kept; a file with lost entries is copied."""
        await volume.make_directories(directory)
        path = f"{directory}/{name}"
        if volume.disk.exists(path + TEMPORARY):
            volume.disk.remove(path + TEMPORARY)  # a crash came before it was complete
        claim = await read_claim(volume, path)
        is_gone = not volume.disk.exists(path)
        if is_gone and not claim:
            return await cls._open_new(volume, directory, name)
        if is_gone:
            await _stand_in(volume, directory, name, claim)
        _check_size(path, volume.disk.size(path))
        data = await volume.read_whole(path, JOURNAL_SIZE_MAX)
        found = replay(data, claim=claim)
        found.reports += [f"{path} is gone"] if is_gone else []
        await _keep_aside(volume, directory, name, data, found)
        file = volume.disk.open(path)
        journal = cls(volume, directory, name, file, found, claimed=claim)
        try:
            file.truncate(found.sound_size)
            await volume.sync([file], [directory])
            journal.claim()
        except BaseException:
            file.close()
            raise
        return journal, found

    @staticmethod
    def is_there(volume: Volume, directory: str, name: str) -> bool:
        """True also if only the claim is left: then the journal is lost."""
        path = f"{directory}/{name}"
        return any(volume.disk.exists(path + suffix) for suffix in ("", NEW, SUFFIX))

    @classmethod
    async def _open_new(cls, volume: Volume, directory: str, name: str) -> tuple["Journal", Replay]:
        """A journal without its name: left by a crash, or created now."""
        path = f"{directory}/{name}{NEW}"
        data = await volume.read_whole(path, JOURNAL_SIZE_MAX) if volume.disk.exists(path) else b""
        found = replay(data, is_new=True)
        await _keep_aside(volume, directory, name, data, found)
        if not found.sound_size:
            # A new file: a power loss could bring back old bytes of this one, among those that are written now.
            if volume.disk.exists(path):
                volume.disk.remove(path)
            return cls._make(volume, directory, name)
        file = volume.disk.open(path)
        journal = cls(volume, directory, name, file, found, state=Name.NEW)
        try:
            file.truncate(found.sound_size)
            await journal.commit()
            journal.claim()
        except BaseException:
            file.close()
            raise
        return journal, found

    @classmethod
    def _make(cls, volume: Volume, directory: str, name: str) -> tuple["Journal", Replay]:
        path, mark = f"{directory}/{name}{NEW}", encode_frame(FrameKind.MARK, 0, 0)
        file = volume.disk.open(path, create=True)
        try:
            file.write(0, [mark])
        except BaseException:
            file.close()
            volume.disk.remove(path)
            raise
        found = replay(mark)
        return cls(volume, directory, name, file, found, state=Name.NEW), found

    @property
    def size(self) -> int:
        """Bytes of the file; its owner compacts when this has grown enough."""
        return self._current.size

    def append(self, payloads: Sequence[bytes]) -> None:
        """Write entries in one frame, all or none, whatever happens; durable after `commit`."""
        self._check_open()
        for payload in payloads:
            if len(payload) > PAYLOAD_SIZE_MAX:
                raise TooLarge(f"a journal entry of {len(payload)} bytes; {PAYLOAD_SIZE_MAX} are allowed")
        if payloads:
            frame = encode_frame(FrameKind.ENTRIES, self._number, self._durable, pack_entries(payloads))
            _check_size(self._name, self.size + len(frame))
            self._write(frame)
            self._number += len(payloads)
            self._content_end, self._is_marked = self._number, False

    def _write(self, frame: bytes) -> None:
        try:
            self._current.write([frame])
        except DiskFull:
            raise
        except StorageError as error:
            raise self._stop(error) from error
        for gathered in self._gathering:
            gathered.append(frame)

    async def commit(self) -> None:
        """Make everything appended so far durable."""
        async with self._turn:
            self._check_open()
            await self._commit()

    async def _commit(self) -> None:
        number = self._number
        directories = [self._directory] if self._state is Name.GIVEN else []
        try:
            await self._volume.sync([self._current.file], directories)
            if self._state is Name.NEW:
                await self._take_name()
        except TooManyFiles:
            raise  # the next commit does the rest
        except StorageError as error:
            raise self._stop(error) from error
        self._durable, self._state = number, Name.DURABLE

    async def _take_name(self) -> None:
        path = f"{self._directory}/{self._name}"
        self._volume.disk.rename(path + NEW, path)
        self._state, self._current.file.path = Name.GIVEN, path
        await self._volume.sync(directories=[self._directory])

    def claim(self) -> None:
        """Record what is durable, for the next start. It costs no sync, and nothing when nothing has changed."""
        if self._closed or self._failure is not None or self._state is not Name.DURABLE:
            return
        if self._number == self._durable and not self._is_marked:
            with suppress(DiskFull):
                self._mark()
        self._claim_beside()

    def _mark(self) -> None:
        if self.size + HEAD_SIZE <= JOURNAL_SIZE_MAX:
            self._write(encode_frame(FrameKind.MARK, self._number, self._durable))
            self._number += 1
            self._is_marked = True

    def _claim_beside(self) -> None:
        number = min(self._content_end, self._durable)
        if self._claimed < number:
            with suppress(StorageError):  # the journal itself is sound; only its claim is old
                write_claim(self._volume, f"{self._directory}/{self._name}", number)
                self._claimed = number

    async def compact(self, snapshot: bytes) -> None:
        """Replace all entries by `snapshot`, the state after everything appended until now."""
        self._check_open()
        _check_size(self._name, HEAD_SIZE + len(snapshot))
        frames = [encode_frame(FrameKind.SNAPSHOT, self._number - 1, self._number, snapshot)]
        self._gathering.append(frames)
        try:
            async with self._turn:
                self._check_open()
                if self._state is Name.NEW:
                    await self._commit()  # or a start would find two files
                await self._exchange(frames)
                await self._commit()
        finally:
            self._gathering = [gathered for gathered in self._gathering if gathered is not frames]

    async def _exchange(self, frames: list[bytes]) -> None:
        """Replace the old file by one with these frames, and with those that are gathered meanwhile."""
        successor = await _put_in_place(self._volume, f"{self._directory}/{self._name}", frames)
        self._current.file.close()
        self._current, self._state = successor, Name.GIVEN

    def _stop(self, error: StorageError) -> LogStopped:
        self._failure = error
        return LogStopped(f"{self._directory}/{self._name}: {error.message}; reopen the journal")

    def _check_open(self) -> None:
        if self._closed:
            raise Closed(f"the journal {self._directory}/{self._name} is closed")
        if self._failure is not None:
            raise self._stop(self._failure)

    async def close(self) -> None:
        """Make everything durable, with a mark that says so (G15). Closing twice does nothing more."""
        async with self._turn:
            if self._closed:
                return
            self._closed = True  # an append from here on would not be durable
            try:
                if self._failure is None:
                    await self._commit()
                    await self._close_with_claim()
            except DiskFull:
                pass  # only the mark is missing
            finally:
                self._current.file.close()

    async def _close_with_claim(self) -> None:
        if not self._is_marked:
            self._mark()
            await self._commit()
        self._claim_beside()

    def abandon(self) -> None:
        """Close the file without a sync: what is not durable may be lost. After `close` it does nothing."""
        self._closed = True
        self._current.file.close()


async def _put_in_place(volume: Volume, path: str, frames: list[bytes]) -> _Target:
    """A file with these frames and those that are added meanwhile, under its name, which is not durable yet."""
    target = _Target(volume.disk.open(path + TEMPORARY, create=True))
    try:
        target.file.truncate(0)
        _move(frames, target)
        await volume.sync([target.file])
        _move(frames, target)
        volume.disk.rename(path + TEMPORARY, path)
    except BaseException:
        target.file.close()
        volume.disk.remove(path + TEMPORARY)
        raise
    return target


def _move(frames: list[bytes], target: _Target) -> None:
    target.write(frames)
    frames.clear()


async def _stand_in(volume: Volume, directory: str, name: str, claim: int) -> None:
    """Replace a journal that is gone: the numbers go on, and the replay reports all before them as lost."""
    path = f"{directory}/{name}"
    if volume.disk.exists(path + NEW):  # created instead of the lost one, and never committed
        unnamed = await volume.read_whole(path + NEW, JOURNAL_SIZE_MAX)
        await _keep(volume, directory, f"{name}.{crc32c(unnamed):08x}{TORN}", unnamed)
        volume.disk.remove(path + NEW)
    marks = [encode_frame(FrameKind.MARK, number, number) for number in (0, claim)]
    await volume.replace(directory, name, marks)


async def _keep_aside(volume: Volume, directory: str, name: str, data: bytes, found: Replay) -> None:
    """Copy a damaged file, and the tail that will be cut, once each, and never over an earlier copy (G13)."""
    path = f"{directory}/{name}"
    damaged = b"".join(data[lost.position : lost.end_position] for lost in found.lost)
    copy = f"{name}.{crc32c(damaged):08x}{DAMAGED}"
    if damaged:
        await _keep(volume, directory, copy, data)
    for lost in found.lost:
        kept = f"; a copy of the file is {directory}/{copy}" if damaged else ""
        found.reports.append(f"{path} {lost}{kept}")
    if found.torn_size:
        torn, at = data[found.sound_size :], found.sound_size
        copy = f"{name}.{crc32c(torn):08x}{TORN}"
        await _keep(volume, directory, copy, torn)
        found.reports.append(
            f"{path} had a torn tail of {len(torn)} bytes from byte {at} on, which nobody was promised; "
            f"it was cut, a copy is {directory}/{copy}"
        )


async def _keep(volume: Volume, directory: str, name: str, contents: bytes) -> None:
    if not volume.disk.exists(f"{directory}/{name}"):
        await volume.replace(directory, name, [contents])


def _check_size(path: str, size: int) -> None:
    if size > JOURNAL_SIZE_MAX:
        raise TooLarge(f"{path} has or would have {size} bytes; compact it below {JOURNAL_SIZE_MAX}")
