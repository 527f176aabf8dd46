"""The delay index of a partition: which delayed messages are pending, and when they are due.

With it a start need not read the whole log for them.

The log is the truth; the index holds what the log said up to some offset, and a start applies the rest of the log.
So nothing waits for the index, and a lost or damaged file costs time and no message. It may say too little at any
time, and never too much:

- Entries are written in the order of the log, and every sound prefix of the file is true (`entries`).
- When a write fails, the index is incomplete: nothing more is written behind the gap. `compact` makes it whole.
- A file that claims more than the log holds (a crash took the log's end), that has seen too little of the log, or
  whose header is bad is removed, durably, before a new one is written; a bad end is cut off in the same way. Else
  old entries might follow new ones.
- Retention and compaction remove records that say how a delay ended. Before they do, that is made durable in the
  index (`mark`, `sync`); an index that has not seen the log so far, since its end was damaged, is not used.

Entries that are appended during a `compact` go to the old file, and are gathered for the new one. The first entry
creates the file: a partition without delays has none.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeAlias

import trio

from goqueue.core.delays.pending import FINISHED_MAX, DelayChange, DelayState
from goqueue.core.offsetset import OffsetSet
from goqueue.environment import File
from goqueue.errors import Closed, StorageError
from goqueue.storage.delays.entries import (
    ENTRY_SIZE,
    HEADER_SIZE,
    PIECE_SIZE,
    DelayReplay,
    encode_entries,
    encode_header,
    encode_hidden,
    encode_mark,
    is_header,
)
from goqueue.storage.log.volume import TEMPORARY, Volume
from goqueue.types import Buffer, Microseconds, Offset

NAME = "delays"
GROWN_BYTES = 1024 * 1024
GROWN_TIMES = 4
_CARRIED_AT_ONCE = 1_000
_LOADED_AT_ONCE = 4_096

DueOf: TypeAlias = Callable[[Offset], Microseconds | None]


@dataclass(frozen=True, slots=True)
class LoadedIndex:
    """The contents of the index when it was opened."""

    applied_to: Offset
    """The log is applied below it: go on from there. The record there may be applied already, wholly or in part."""
    is_rebuilt: bool
    """There was no index, or none that could be used."""
    offsets: "array[int]" = field(default_factory=lambda: array("Q"))
    dues: "array[int]" = field(default_factory=lambda: array("Q"))
    """The pending messages, in the order in which they became pending."""
    pending: OffsetSet = field(default_factory=OffsetSet)
    hidden: OffsetSet = field(default_factory=OffsetSet)
    """The offsets that are never delivered: originals, and the records that move, cancel or end them."""
    finished: list[DelayChange] = field(default_factory=list)
    """The newest delays that were delivered, cancelled or expired."""


class DelayIndex:
    def __init__(self, volume: Volume, directory: str, applied_to: Offset, size: int) -> None:
        self._volume = volume
        self._directory = directory
        self._path = f"{directory}/{NAME}"
        self._applied_to = applied_to
        self._size = size
        self._synced_size = 0
        self._name_is_durable = False
        """This and the synced size are unknown for a file that another process left: both begin as not durable."""
        self._file: File | None = None
        self._gathering: list[list[bytes]] = []
        self._turn = trio.Lock()
        self._closed = False
        self.is_incomplete = False
        """Something could not be written. What the file says is true, but it says no more until `compact`."""

    @staticmethod
    def exists(volume: Volume, directory: str) -> bool:
        return volume.disk.exists(f"{directory}/{NAME}")

    @classmethod
    async def open(
        cls, volume: Volume, directory: str, log_start: Offset, log_end: Offset, *, thinned_to: Offset = 0
    ) -> tuple["DelayIndex", LoadedIndex]:
        """The index of a partition whose log begins and ends there, and its contents.

        It must have seen the log up to `thinned_to`: below, records that end a delay may have been removed.
        """
        path = f"{directory}/{NAME}"
        if volume.disk.exists(path + TEMPORARY):
            volume.disk.remove(path + TEMPORARY)  # a crash came before it was complete
        if not volume.disk.exists(path):
            return cls(volume, directory, log_start, 0), LoadedIndex(log_start, is_rebuilt=True)
        found = await _read(volume, path)
        if found.applied_to is None or found.log_end_min > log_end or found.applied_to < thinned_to:
            volume.disk.remove(path)
            await volume.sync(directories=[directory])
            return cls(volume, directory, log_start, 0), LoadedIndex(log_start, is_rebuilt=True)
        size = HEADER_SIZE + found.count * ENTRY_SIZE
        await _cut(volume, directory, size)
        applied_to = max(found.applied_to, log_start)
        return cls(volume, directory, applied_to, size), await _loaded(found, applied_to)

    @classmethod
    def create(cls, volume: Volume, directory: str, begin: Offset) -> "DelayIndex":
        """The index of a partition that has none. It begins at the first entry."""
        assert not cls.exists(volume, directory)
        return cls(volume, directory, begin, 0)

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self._size

    def has_grown(self, entries: int) -> bool:
        """The file is much larger than this number of entries needs: it is time for `compact`."""
        return self._size > max(GROWN_BYTES, GROWN_TIMES * ENTRY_SIZE * entries)

    def append(self, entries: Sequence[DelayChange]) -> None:
        """Write entries in one go, in the order of the log. It never fails: see `is_incomplete`."""
        self._check_open()
        for entry in entries:
            assert entry.at >= self._applied_to, "the delay index is written in the order of the log"
            self._applied_to = entry.at
        if entries:
            self._write(encode_entries(entries))

    def mark(self, applied_to: Offset) -> None:
        """The log is applied below this offset. Nothing is written when that was known."""
        self._check_open()
        if applied_to > self._applied_to:
            self._applied_to = applied_to
            self._write(encode_mark(applied_to))

    def _write(self, data: bytes) -> None:
        for gathered in self._gathering:
            gathered.append(data)
        if self.is_incomplete:
            return
        try:
            self._size += self._writer().write(self._size, [data] if self._size else [encode_header(), data])
        except StorageError:
            self.is_incomplete = True

    def _writer(self) -> File:
        self._volume.rouse(self)
        if self._file is None:
            self._file = self._volume.disk.open(self._path, create=True)
        return self._file

    async def sync(self) -> None:
        """Return once everything that is written is durable."""
        async with self._turn:
            self._check_open()
            await self._sync()

    async def _sync(self) -> None:
        size = self._size
        if size == self._synced_size and (self._name_is_durable or not size):
            return
        try:
            await self._volume.sync([self._writer()], [] if self._name_is_durable else [self._directory])
        except StorageError:
            self.is_incomplete = True  # what is on disk is unknown: a start reads what is sound
            raise
        self._synced_size, self._name_is_durable = size, True
        if self._size == size and not self._closed:
            self._volume.rest(self)

    async def compact(
        self,
        offsets: Iterable[Offset],
        due_of: DueOf,
        hidden: OffsetSet,
        finished: Sequence[DelayChange],
        applied_to: Offset,
    ) -> None:
        """Replace all entries by the given state, which is all that the log says below `applied_to`.

        `offsets` are the pending ones; neither they nor the rest may change meanwhile. `due_of` is asked for one
        due time after the other; a delay that has ended since has none, and any time will do for it. Entries that
        are appended meanwhile follow.
        """
        self._check_open()
        assert applied_to >= self._applied_to, "the delay index is written in the order of the log"
        self._applied_to = applied_to
        gathered: list[bytes] = []
        self._gathering.append(gathered)
        try:
            async with self._turn:
                self._check_open()
                with self._new_file() as target:
                    await _carry(target, offsets, due_of, finished[-FINISHED_MAX:])
                    await _carry_hidden(target, hidden)
                    target.write([encode_mark(applied_to)])
                    await self._exchange(target)
                self._go_on_in(target, gathered)
                await self._sync()
        finally:
            self._gathering = [others for others in self._gathering if others is not gathered]

    @contextmanager
    def _new_file(self) -> Iterator["_Target"]:
        """The file that will replace the old one. It is removed if anything goes wrong."""
        target = _Target(self._volume.disk.open(self._path + TEMPORARY, create=True))
        try:
            target.file.truncate(0)
            target.write([encode_header()])
            yield target
        except BaseException:
            target.file.close()
            self._volume.disk.remove(self._path + TEMPORARY)
            raise

    async def _exchange(self, target: "_Target") -> None:
        """The new file is complete and durable before it gets the name."""
        await self._volume.sync([target.file])
        await self._volume.disk.replace(self._path + TEMPORARY, self._path)

    def _go_on_in(self, target: "_Target", gathered: list[bytes]) -> None:
        self.close_writer()
        if self._closed:
            target.file.close()
            return
        self._file, self._name_is_durable, self.is_incomplete = target.file, False, False
        try:
            target.write(gathered)
        except StorageError:
            self.is_incomplete = True
        self._size = target.size

    def close_writer(self) -> None:
        """The volume has too many files open, and this one rests."""
        self._volume.rouse(self)
        if self._file is not None:
            self._file.close()
            self._file = None

    def _check_open(self) -> None:
        if self._closed:
            raise Closed(f"the delay index {self._path} is closed")

    async def close(self) -> None:
        """Make everything durable. Closing twice does nothing more."""
        async with self._turn:
            if self._closed:
                return
            self._closed = True
            try:
                await self._sync()
            finally:
                self.close_writer()

    def abandon(self) -> None:
        """Close the file without a sync: what is not durable may be lost. After `close` it does nothing."""
        self._closed = True
        self.close_writer()


class _Target:
    """A new file, and how far it is written."""

    def __init__(self, file: File) -> None:
        self.file = file
        self.size = 0

    def write(self, data: Sequence[Buffer]) -> None:
        self.size += self.file.write(self.size, data)


async def _read(volume: Volume, path: str) -> DelayReplay:
    """Replays the sound beginning of a file; nothing, if its header is bad."""
    found = DelayReplay()
    file = volume.disk.open(path, writable=False)
    try:
        is_sound = is_header(bytes(await file.read(0, HEADER_SIZE)))
        position = HEADER_SIZE
        while is_sound and (piece := await file.read(position, PIECE_SIZE)):
            is_sound = found.take(bytes(piece))
            position += len(piece)
            await trio.lowlevel.checkpoint()  # reads from memory do not wait, and others want to run
    finally:
        file.close()
    return found


async def _cut(volume: Volume, directory: str, size: int) -> None:
    """Cut off the unsound end, durably: it must not follow the entries that are written there next."""
    file = volume.disk.open(f"{directory}/{NAME}")
    try:
        if file.size() > size:
            file.truncate(size)
            await volume.sync([file])
    finally:
        file.close()


async def _loaded(found: DelayReplay, applied_to: Offset) -> LoadedIndex:
    ended = found.newest_ended(FINISHED_MAX)
    loaded = LoadedIndex(applied_to, False, pending=found.pending(), hidden=found.hidden(), finished=ended)
    for offsets, dues in found.pending_pieces(_LOADED_AT_ONCE):
        loaded.offsets.extend(offsets)
        loaded.dues.extend(dues)
        await trio.lowlevel.checkpoint()  # others want to run
    return loaded


async def _carry(
    target: _Target, offsets: Iterable[Offset], due_of: DueOf, finished: Sequence[DelayChange]
) -> None:
    """Carry pending and finished delays over, a millisecond's work at a time, so that others can run."""
    rest = iter(offsets)
    while some := list(islice(rest, _CARRIED_AT_ONCE)):
        entries = [DelayChange(DelayState.PENDING, offset, due_of(offset) or 0, offset) for offset in some]
        target.write([encode_entries(entries, is_carried=True)])
        await trio.lowlevel.checkpoint()
    for begin in range(0, len(finished), _CARRIED_AT_ONCE):
        target.write([encode_entries(finished[begin : begin + _CARRIED_AT_ONCE], is_carried=True)])
        await trio.lowlevel.checkpoint()


async def _carry_hidden(target: _Target, hidden: OffsetSet) -> None:
    words = hidden.words()
    while some := list(islice(words, _CARRIED_AT_ONCE)):
        target.write([encode_hidden(some)])
        await trio.lowlevel.checkpoint()
