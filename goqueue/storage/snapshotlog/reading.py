"""Reads the records of a snapshot log without changing its files: beside a running broker, and when damaged."""

from goqueue.core.records.batch import ENVELOPE_SIZE
from goqueue.errors import StorageError
from goqueue.storage.log.recovery import SEGMENT_NAME
from goqueue.storage.log.recoverypoint import read_recovery_point
from goqueue.storage.log.scan import Damage, FoundBatch, Scanner
from goqueue.storage.log.segment import LOG, segment_stem
from goqueue.storage.log.volume import Volume
from goqueue.storage.snapshotlog.snapshotlog import LostRecords, ReplayedRecords, values_in
from goqueue.types import Offset


async def read_records(volume: Volume, folder: str) -> ReplayedRecords:
    """All records that can be read, from the log's start on; none if there is no folder. `reports` says what
    cannot be read."""
    if not volume.disk.is_directory(folder):
        return ReplayedRecords()
    return await _Reading(volume, folder).run()


class _Reading:
    def __init__(self, volume: Volume, folder: str) -> None:
        self._volume = volume
        self._folder = folder
        self._found = ReplayedRecords()
        self._start = 0
        self._next = 0
        """The offset that is expected next."""

    async def run(self) -> ReplayedRecords:
        point = await read_recovery_point(self._volume, self._folder)
        self._start = self._next = point.log_start if point is not None else 0
        for base in self._bases():
            path = f"{self._folder}/{segment_stem(base)}{LOG}"
            try:
                await self._read_segment(path, base)
            except (StorageError, FileNotFoundError) as error:
                self._found.reports.append(f"{path}: {error}")
        if point is not None:
            self._miss_before(point.offset)
        self._found.end = self._next
        return self._found

    def _bases(self) -> list[Offset]:
        names = self._volume.disk.list(self._folder)
        bases = sorted(int(name.removesuffix(LOG)) for name in names if SEGMENT_NAME.fullmatch(name))
        first = max((base for base in bases if base <= self._start), default=0)
        return [base for base in bases if base >= first]

    async def _read_segment(self, path: str, base: Offset) -> None:
        with self._volume.reader(path) as file:
            scanner = Scanner(file, position=0, offset=base, size=file.size())
            while items := await scanner.next():
                for item in items:
                    if isinstance(item, Damage):
                        self._lose(item)
                    else:
                        self._take(item)

    def _take(self, batch: FoundBatch) -> None:
        self._miss_before(batch.envelope.base_offset)
        begin, end = batch.body_at - ENVELOPE_SIZE, batch.body_at + batch.envelope.length
        self._found.items += values_in(batch.window[begin:end], self._start)
        self._next = max(self._next, batch.envelope.end_offset)

    def _lose(self, damage: Damage) -> None:
        self._found.items.append(LostRecords(damage.offset, damage.end_offset))
        place = f"bytes {damage.position} to {damage.end_position} of {damage.path}"
        self._found.reports.append(f"{place} are damaged")
        self._next = max(self._next, damage.end_offset)

    def _miss_before(self, offset: Offset) -> None:
        """The log was durable up to here, or goes on here: a gap before it was lost."""
        if self._next < offset:
            self._found.items.append(LostRecords(self._next, offset))
            self._found.reports.append(f"offsets {self._next} to {offset - 1} of {self._folder} are missing")
            self._next = offset
