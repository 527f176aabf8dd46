"""A segment: one file of the log, from its base offset to the base offset of the next one.

It grows until it is rolled, then it is sealed: its indexes and its summary are written and it never changes again,
except that compaction replaces it by a smaller file. A growing segment keeps its index in memory, and its file open
while it has unsynced bytes; a sealed one opens and loads both when it is read.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from crc32c import crc32c

from goqueue.core.records.batch import ENVELOPE_SIZE, Envelope, records_of
from goqueue.core.records.record import RecordPlace, walk_records
from goqueue.environment import File
from goqueue.errors import DamagedData, StorageError
from goqueue.storage.log.index import BEGINNING, ENTRY_SIZE, IndexColumns, IndexEntry, SparseIndex
from goqueue.storage.log.scan import WINDOW_SIZE, Damage, FoundBatch, Scanner
from goqueue.storage.log.summary import (
    HEAD_SIZE,
    History,
    IndexMark,
    Summary,
    SummaryHead,
    decode_head,
    decode_history,
    encode_summary,
)
from goqueue.storage.log.volume import Volume
from goqueue.types import Buffer, Microseconds, Offset

LOG, OFFSET_INDEX, TIME_INDEX, SEAL = ".log", ".index", ".timeindex", ".seal"
STRETCH_READ_MAX = 64 * 1024
"""Limit of the read-ahead for an index stretch: a large batch makes it long, and may not be the wanted one."""
SUFFIXES = (LOG, OFFSET_INDEX, TIME_INDEX, SEAL)


def segment_stem(base_offset: Offset) -> str:
    return f"{base_offset:020d}"


@dataclass(frozen=True, slots=True)
class SegmentSlice:
    """Whole batches as they are on disk; the first may begin before the requested offset."""

    data: Buffer
    next_offset: Offset


@dataclass(frozen=True, slots=True)
class ClosedIndex:
    """The part of a growing index that no later batch can change: all but the last, unfinished stretch."""

    new: IndexColumns
    """The entries that the index files do not have yet."""
    mark: IndexMark
    lanes: bytes
    unfinished: IndexEntry


class Segment:
    __slots__ = ("_index", "_stem", "_writer", "mark", "sealed", "summary", "unsynced_cut", "volume")

    def __init__(self, volume: Volume, directory: str, summary: Summary) -> None:
        self.volume = volume
        self.summary = summary
        self.sealed = False
        self.unsynced_cut = False
        """Bytes of a failed write were cut off. Until a sync a power cut may bring them back, behind whatever is
        written there next, so nothing is written."""
        self.mark = IndexMark()
        self._stem = f"{directory}/{segment_stem(summary.base_offset)}"
        self._writer: File | None = None
        self._index = SparseIndex()

    @classmethod
    def create(cls, volume: Volume, directory: str, base_offset: Offset) -> "Segment":
        """A new, empty, growing segment; its name is durable once the folder is synced."""
        segment = cls(volume, directory, Summary(base_offset, base_offset))
        segment._writer = volume.open(segment.path(), create=True)
        return segment

    @classmethod
    def of_seal(cls, volume: Volume, directory: str, head: SummaryHead) -> "Segment":
        segment = cls(volume, directory, head.summary)
        segment.sealed, segment.mark = True, head.mark
        return segment

    @classmethod
    def rewritten(cls, segment: "Segment", summary: Summary, index: SparseIndex) -> "Segment":
        """The segment that replaces this one after compaction; its seal is still to be written."""
        smaller = cls(segment.volume, segment._stem.rpartition("/")[0], summary)
        smaller._index = index
        return smaller

    def path(self, suffix: str = LOG) -> str:
        return self._stem + suffix

    @property
    def base_offset(self) -> Offset:
        return self.summary.base_offset

    @property
    def end_offset(self) -> Offset:
        return self.summary.end_offset

    @property
    def writer(self) -> File:
        assert not self.sealed, "a sealed segment never grows"
        if self._writer is None:
            self._writer = self.volume.open(self.path())
        return self._writer

    def rest(self) -> None:
        """Everything is synced: its file may be closed until it grows again."""
        if self._writer is not None:
            self.volume.rest(self)

    # Growing

    def grow_from(self, index: SparseIndex) -> None:
        """Let an existing file grow, with the index of its batches."""
        self._index = index

    def append(self, envelopes: Sequence[Envelope], buffers: Sequence[Buffer]) -> None:
        """Write batches behind the last one, all or none."""
        self.volume.rouse(self)
        writer = self.writer
        try:
            writer.write(self.summary.size, buffers)
        except StorageError:
            writer.truncate(self.summary.size)
            self.unsynced_cut = True
            raise
        for envelope in envelopes:
            self.note(envelope)

    def note(self, envelope: Envelope) -> None:
        summary = self.summary
        self._index.note(summary.base_offset, summary.size, envelope)
        summary.note(envelope)

    def closed_index(self) -> "ClosedIndex":
        """The finished part of the index, as it is now."""
        new = self._index.closed_columns(self.mark.entries)
        mark = IndexMark(
            self.mark.entries + len(new.lanes),
            crc32c(new.places, self.mark.places_crc),
            crc32c(new.times, self.mark.times_crc),
        )
        return ClosedIndex(new, mark, self._index.closed_columns().lanes, self._index.last_place())

    def write_closed_index(self, closed: "ClosedIndex") -> None:
        """Append the new entries to the index files. A seal, if it came first, has written all of them.

        A short segment has no finished stretch, so thousands of them create no empty files.
        """
        if not self.sealed and closed.new.lanes:
            self._write_index_files(closed.new, self.mark.entries)
            self.mark = closed.mark

    def _write_index_files(self, columns: IndexColumns, first: int = 0) -> None:
        for suffix, data in ((OFFSET_INDEX, columns.places), (TIME_INDEX, columns.times)):
            file = self.volume.disk.open(self.path(suffix), create=True)
            try:
                file.write(first * ENTRY_SIZE, [data])
                file.truncate(first * ENTRY_SIZE + len(data))
            finally:
                file.close()

    # Sealing

    async def seal(self, history: History) -> None:
        """Finish a segment that grew. Its log file is durable already."""
        await self.write_seal(history)
        self.close_writer()

    async def write_seal(self, history: History) -> None:
        """Write the indexes and, last and durably, the seal."""
        columns = self._index.columns()
        self._write_index_files(columns)
        history.lanes = columns.lanes
        self.mark = IndexMark(len(columns.lanes), crc32c(columns.places), crc32c(columns.times))
        directory, _, name = self.path(SEAL).rpartition("/")
        await self.volume.replace(directory, name, [encode_summary(self.summary, self.mark, history)])
        self.volume.keep_index(self, self._index)
        self._index = SparseIndex()
        self.sealed = True

    def close_writer(self) -> None:
        self.volume.rouse(self)
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def close(self) -> None:
        self.close_writer()
        self.volume.forget(self.path())
        self.volume.forget_index(self)

    def remove_files(self) -> None:
        """The log first: without it, the others are leftovers that the next start clears away."""
        self.close()
        for suffix in SUFFIXES:
            if self.volume.disk.exists(self.path(suffix)):
                self.volume.disk.remove(self.path(suffix))

    async def boundary_at(self, offset: Offset) -> tuple[int, Offset]:
        """The end of the last batch that lies wholly below `offset`: its position in the file, and its offset."""
        with self.volume.reader(self.path()) as file:
            place = (await self.index(file)).place_of_offset(offset - self.base_offset)
            scanner = self.scanner(file, place)
            position, end = scanner.position, scanner.offset
            while items := await scanner.next():
                for item in items:
                    after = item.envelope.end_offset if isinstance(item, FoundBatch) else item.end_offset
                    if after > offset:
                        return position, end
                    position, end = item.end_position, after
        return position, end

    async def cut(self, position: int) -> None:
        """Shorten the log file, durably; without seal and indexes, the next recovery scans it."""
        self.close()
        for suffix in (SEAL, OFFSET_INDEX, TIME_INDEX):
            if self.volume.disk.exists(self.path(suffix)):
                self.volume.disk.remove(self.path(suffix))
        file = self.volume.disk.open(self.path())
        try:
            file.truncate(position)
            await self.volume.sync([file])
        finally:
            file.close()

    # The index

    async def index(self, file: File) -> SparseIndex:
        """The index, loaded when needed and rebuilt from the log when its files are not as sealed."""
        if not self.sealed:
            return self._index
        index = self.volume.index(self)
        if index is None:
            index = await self._load_index() or await self._rebuild_index(file)
            self.volume.keep_index(self, index)
        return index

    async def _load_index(self) -> SparseIndex | None:
        history = await read_history(self.volume, self.path(SEAL))
        return None if history is None else await load_index(self, self.mark, history.lanes)

    async def _rebuild_index(self, file: File) -> SparseIndex:
        index = SparseIndex()
        scanner = self.scanner(file)
        while items := await scanner.next():
            for item in items:
                if isinstance(item, FoundBatch):
                    index.note(self.base_offset, item.position, item.envelope)
        columns = index.columns()
        if (crc32c(columns.places), crc32c(columns.times)) == (self.mark.places_crc, self.mark.times_crc):
            with suppress(StorageError):  # it only saves time: without room the next load rebuilds it again
                self._write_index_files(columns)
        return index

    # Reading

    def scanner(self, file: File, place: IndexEntry = BEGINNING, window_size: int = WINDOW_SIZE) -> Scanner:
        return Scanner(
            file,
            position=place.position,
            offset=self.base_offset + place.relative_offset,
            size=min(self.summary.size, file.size()),
            window_size=window_size,
        )

    async def read(self, offset: Offset, bytes_max: int, limit: Offset) -> SegmentSlice | None:
        """Batches from the one that holds `offset` on, below `limit`; at least one, whatever its size."""
        with self.volume.reader(self.path()) as file:
            index = await self.index(file)
            place = index.place_of_offset(offset - self.base_offset)
            # The batch ends with its stretch at the latest: most are in memory after one read, whatever their size.
            scanner = self.scanner(file, place, bytes_max + min(index.stretch_size(place), STRETCH_READ_MAX))
            while scanner.offset < limit and (items := await scanner.next()):
                wanted = self._wanted(items, offset, bytes_max, limit)
                if wanted:
                    return _slice(wanted)
            if scanner.offset < min(limit, self.end_offset):
                self._raise_missing_end(scanner)
            return None

    def _wanted(
        self, items: list[FoundBatch | Damage], offset: Offset, bytes_max: int, limit: Offset
    ) -> list[FoundBatch]:
        wanted: list[FoundBatch] = []
        size = 0
        for item in items:
            if isinstance(item, Damage):
                self._raise_if_inside(item, offset)
            elif item.envelope.end_offset > offset:
                size += item.envelope.size
                if item.envelope.end_offset > limit or (wanted and size > bytes_max):
                    break
                wanted.append(item)
        return wanted

    def _raise_if_inside(self, damage: Damage, offset: Offset) -> None:
        end = damage.end_offset if damage.end_offset > damage.offset else self.end_offset
        if damage.offset <= offset < end:
            raise DamagedData(damage.path, damage.position, damage.end_position, damage.offset, end)

    def _raise_missing_end(self, scanner: Scanner) -> None:
        raise DamagedData(self.path(), scanner.position, scanner.size, scanner.offset, self.end_offset)

    async def first_offset_at(self, time: Microseconds, from_offset: Offset) -> Offset | None:
        """The first record, from this offset on, whose timestamp is this time or later."""
        with self.volume.reader(self.path()) as file:
            place = (await self.index(file)).place_of_time(time)
            if place is None:
                return None
            return await self._first(
                self.scanner(file, place),
                from_offset,
                lambda envelope: envelope.highest_timestamp >= time,
                lambda record: record.timestamp >= time,
            )

    async def first_offset_of_lane(self, lane: int, from_offset: Offset) -> Offset | None:
        """The first record, from this offset on, of this priority."""
        with self.volume.reader(self.path()) as file:
            place = (await self.index(file)).place_of_lane(lane, max(0, from_offset - self.base_offset))
            if place is None:
                return None
            return await self._first(
                self.scanner(file, place),
                from_offset,
                lambda envelope: bool(envelope.priority_mask >> lane & 1),
                lambda record: record.priority == lane,
            )

    async def stretch_of_lane(self, lane: int, from_offset: Offset) -> Offset | None:
        """The offset to read from for the first record of this priority, from this offset on; None without one."""
        if self.sealed:
            with self.volume.reader(self.path()) as file:
                index = await self.index(file)
        else:
            index = self._index
        place = index.place_of_lane(lane, max(0, from_offset - self.base_offset))
        return None if place is None else max(from_offset, self.base_offset + place.relative_offset)

    async def _first(
        self,
        scanner: Scanner,
        from_offset: Offset,
        batch_may: Callable[[Envelope], bool],
        record_does: Callable[[RecordPlace], bool],
    ) -> Offset | None:
        while items := await scanner.next():
            for item in items:
                if (
                    isinstance(item, FoundBatch)
                    and item.envelope.end_offset > from_offset
                    and batch_may(item.envelope)
                ):
                    offset = _first_record(item, from_offset, record_does)
                    if offset is not None:
                        return offset
        return None


def _slice(found: list[FoundBatch]) -> SegmentSlice:
    """A scanner returns sound neighbours of one window, so they are one run of bytes."""
    first, last = found[0], found[-1]
    begin, end = first.body_at - ENVELOPE_SIZE, last.body_at + last.envelope.length
    return SegmentSlice(first.window[begin:end], last.envelope.end_offset)


def _first_record(
    found: FoundBatch, from_offset: Offset, record_does: Callable[[RecordPlace], bool]
) -> Offset | None:
    envelope = found.envelope
    for place in walk_records(records_of(envelope, found.body), envelope.record_count):
        offset = envelope.base_offset + place.relative_offset
        if offset >= from_offset and record_does(place):
            return offset
    return None


async def load_index(segment: Segment, mark: IndexMark, lanes: bytes) -> SparseIndex | None:
    """The index from its files, or None when they are missing or not as the mark says."""
    try:
        places = await segment.volume.read_whole(segment.path(OFFSET_INDEX), mark.entries * ENTRY_SIZE)
        times = await segment.volume.read_whole(segment.path(TIME_INDEX), mark.entries * ENTRY_SIZE)
    except FileNotFoundError:
        return None
    if (len(places), crc32c(places)) != (mark.entries * ENTRY_SIZE, mark.places_crc):
        return None
    if (len(times), crc32c(times), len(lanes)) != (len(places), mark.times_crc, mark.entries):
        return None
    index = SparseIndex()
    index.load(IndexColumns(places, times, lanes))
    return index


async def read_head(volume: Volume, path: str) -> SummaryHead | None:
    """A seal's head, or None when there is no sound one."""
    try:
        return decode_head(await volume.read_whole(path, HEAD_SIZE))
    except FileNotFoundError:
        return None


def is_of_file(head: SummaryHead, base: Offset, size: int) -> bool:
    """Whether a seal names its log file's base and size."""
    return (head.summary.base_offset, head.summary.size) == (base, size)


async def merged_into(segment: Segment, later: Sequence[Offset]) -> list[Offset]:
    """The segments among those that begin at `later` whose batches this one holds, too.

    Its seal says so, and the file is read to make sure: an older file may have the same size.
    """
    taken_in = [base for base in later if base < segment.end_offset]
    if not taken_in:
        return []
    with segment.volume.reader(segment.path()) as file:
        scanner = segment.scanner(file)
        while items := await scanner.next():
            if any(isinstance(item, Damage) for item in items):
                return []
        return taken_in if scanner.offset == segment.end_offset else []


async def read_history(volume: Volume, path: str) -> History | None:
    try:
        data = await volume.read_whole(path, volume.disk.size(path))
    except FileNotFoundError:
        return None
    head = decode_head(data)
    return None if head is None else decode_history(head, memoryview(data)[HEAD_SIZE:])
