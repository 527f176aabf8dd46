"""Reads the records of a snapshot log without changing its files: beside a running broker, and when damaged."""

from goqueue.core.records.batch import ENVELOPE_SIZE
from goqueue.errors import StorageError
from goqueue.storage.log.recovery import SEGMENT_NAME
from goqueue.storage.log.recoverypoint import read_recovery_point
from goqueue.storage.log.scan import Damage, Scanner
from goqueue.storage.log.segment import LOG, segment_stem
from goqueue.storage.log.volume import Volume
from goqueue.storage.snapshotlog.snapshotlog import LostRecords, ReplayedRecords, values_in
from goqueue.types import Offset


async def read_records(volume: Volume, folder: str) -> ReplayedRecords:
    """All records that can be read, from the log's start on; none if there is no folder. `reports` says what
    cannot be read."""
    found = ReplayedRecords()
    if not volume.disk.is_directory(folder):
        return found
    point = await read_recovery_point(volume, folder)
    start = point.log_start if point is not None else 0
    for base in _bases(volume, folder, start):
        path = f"{folder}/{segment_stem(base)}{LOG}"
        try:
            await _read_segment(volume, path, base, start, found)
        except (StorageError, FileNotFoundError) as error:
            found.reports.append(f"{path}: {error}")
    return found


async def _read_segment(volume: Volume, path: str, base: Offset, start: Offset, found: ReplayedRecords) -> None:
    with volume.reader(path) as file:
        scanner = Scanner(file, position=0, offset=base, size=file.size())
        while items := await scanner.next():
            for item in items:
                if isinstance(item, Damage):
                    found.items.append(LostRecords(item.offset, item.end_offset))
                    found.reports.append(f"bytes {item.position} to {item.end_position} of {path} are damaged")
                else:
                    begin, end = item.body_at - ENVELOPE_SIZE, item.body_at + item.envelope.length
                    found.items += values_in(item.window[begin:end], start)


def _bases(volume: Volume, folder: str, start: Offset) -> list[Offset]:
    names = volume.disk.list(folder)
    bases = sorted(int(name.removesuffix(LOG)) for name in names if SEGMENT_NAME.fullmatch(name))
    first = max((base for base in bases if base <= start), default=0)
    return [base for base in bases if base >= first]
