"""Checks one segment from its first byte to its last, and compares it with its seal and index files.

Nothing is taken from seal or indexes here: the batches are read, and seal and indexes must agree with them.
"""

from dataclasses import dataclass, field
from typing import Protocol

import trio
from crc32c import crc32c

from goqueue.environment import File
from goqueue.errors import DiskFailed, UnknownFormat
from goqueue.storage.log.index import ENTRY_SIZE, SparseIndex
from goqueue.storage.log.scan import Damage, FoundBatch, Scanner
from goqueue.storage.log.segment import LOG, OFFSET_INDEX, TIME_INDEX
from goqueue.storage.log.summary import (
    HEAD_SIZE,
    VERSION,
    History,
    IndexMark,
    Summary,
    SummaryHead,
    decode_head,
    decode_history,
    sound_version,
)
from goqueue.storage.log.volume import Volume
from goqueue.storage.verification.batchcheck import fault_in_batch
from goqueue.storage.verification.findings import Finding, FindingKind
from goqueue.types import Offset

SEAL_SIZE_MAX = 256 * 1024 * 1024
SECOND_LOOKS_MAX = 3
REPAIRED = {
    "head": "the next start scans the segment and writes it anew",
    "tail": "reads rebuild the index from the log file; remove it, and the next start writes it anew",
}


class ScanProgress(Protocol):
    """Shows how far the scan is."""

    def begin(self, total_bytes: int) -> None: ...

    def advance(self, read_bytes: int) -> None: ...


@dataclass(frozen=True, slots=True)
class Seal:
    head: SummaryHead
    history: History


@dataclass(slots=True)
class SegmentScan:
    """The result of reading the batches of one log file."""

    path: str
    summary: Summary
    size: int = 0
    sound_end: int = 0
    """The position behind the last sound batch."""
    end_offset: Offset = 0
    batches: int = 0
    claim: Offset = 0
    """The highest durable offset that any batch names."""
    index: SparseIndex = field(default_factory=SparseIndex)
    damage: list[Damage] = field(default_factory=list)
    """Ranges with a sound batch behind them; the check of the partition judges what lies behind `sound_end`."""
    findings: list[Finding] = field(default_factory=list)
    read_to_end: bool = True
    """False when the file could not be read, or not be understood, up to its end."""

    @property
    def is_sound(self) -> bool:
        return self.read_to_end and not self.damage and not self.findings and self.sound_end == self.size

    def take(self, item: FoundBatch | Damage) -> None:
        if isinstance(item, FoundBatch):
            self._take_batch(item)
        elif item.end_position < self.size or item.end_offset > item.offset:
            self.damage.append(item)
            self.sound_end = item.end_position

    def _take_batch(self, found: FoundBatch) -> None:
        envelope = found.envelope
        self.index.note(self.summary.base_offset, found.position, envelope)
        self.summary.note(envelope)
        self.claim = max(self.claim, envelope.durable_offset)
        self.batches += 1
        self.sound_end = found.end_position
        fault = fault_in_batch(envelope, found.body)
        if fault is not None:
            text = f"the checksums hold, but {fault}; restore the file from a backup"
            span = (found.position, found.end_position, envelope.base_offset, envelope.end_offset)
            self.findings.append(Finding(FindingKind.BAD_RECORDS, self.path, text, *span))

    def stop(self, kind: FindingKind, text: str) -> None:
        """The bytes behind the last sound batch could not be read."""
        self.read_to_end = False
        self.findings.append(Finding(kind, self.path, text, self.sound_end, self.size, self.end_offset))


async def scan_segment(volume: Volume, stem: str, base_offset: Offset, progress: ScanProgress) -> SegmentScan:
    """Read a log file window by window. `FileNotFoundError` if it was removed meanwhile."""
    scan = SegmentScan(stem + LOG, Summary(base_offset, base_offset), end_offset=base_offset)
    try:
        with volume.reader(scan.path) as file:
            await _Walk(file, scan, progress).run()
    except DiskFailed as error:
        scan.stop(FindingKind.UNREADABLE, error.message)
    return scan


class PatientScanner(Scanner):
    """Ends before a batch of an unknown version, and keeps the error, instead of raising it."""

    unknown: UnknownFormat | None = None

    async def next(self) -> list[FoundBatch | Damage]:
        position, offset = self.position, self.offset
        try:
            return await super().next()
        except UnknownFormat as error:
            self.unknown, self.size = error, self.position
        self.position, self.offset = position, offset  # batches before it are found again
        return await super().next()


class _Walk:
    def __init__(self, file: File, scan: SegmentScan, progress: ScanProgress) -> None:
        self._file = file
        self._scan = scan
        self._progress = progress
        scan.size = file.size()
        self._scanner = PatientScanner(file, position=0, offset=scan.end_offset, size=scan.size)

    async def run(self) -> None:
        await self._to_end()
        for _ in range(SECOND_LOOKS_MAX):
            if self._grew():
                await self._to_end()

    def _grew(self) -> bool:
        """A broker may be in the middle of an append; at the next look, the torn batch is whole."""
        size = self._file.size()
        if not self._scan.read_to_end or self._scan.sound_end == self._scan.size or size <= self._scan.size:
            return False
        self._scanner.position = self._scan.sound_end
        self._scanner.size = self._scan.size = size
        return True

    async def _to_end(self) -> None:
        position = self._scanner.position
        while items := await self._scanner.next():
            for item in items:
                self._scan.take(item)
            self._scan.end_offset = self._scanner.offset
            self._progress.advance(self._scanner.position - position)
            position = self._scanner.position
            await trio.lowlevel.checkpoint()  # reads from memory do not wait, and others want to run
        if self._scanner.unknown is not None:
            self._scan.stop(FindingKind.UNKNOWN_FORMAT, self._scanner.unknown.message)


async def read_seal(volume: Volume, path: str) -> Seal | Finding:
    """The seal, or what is wrong with it."""
    try:
        data = await volume.read_whole(path, SEAL_SIZE_MAX)
    except FileNotFoundError:
        return Finding(FindingKind.SEAL_MISSING, path, "it is not there; the next checkpoint or start writes it")
    except DiskFailed as error:
        return Finding(FindingKind.UNREADABLE, path, error.message)
    head = decode_head(data)
    history = decode_history(head, memoryview(data)[HEAD_SIZE:]) if head is not None else None
    if head is not None and history is not None:
        return Seal(head, history)
    return _bad_seal(path, data, "tail" if head is not None else "head")


def _bad_seal(path: str, data: bytes, part: str) -> Finding:
    if sound_version(data) not in (None, VERSION):
        text = f"seal version {data[3]} is unknown; read it with the goqueue that wrote it"
        return Finding(FindingKind.UNKNOWN_FORMAT, path, text)
    text = f"its {part} does not match its checksum; " + REPAIRED[part]
    return Finding(FindingKind.SEAL_DAMAGED, path, text)


def seal_agrees(seal: Seal, scan: SegmentScan) -> bool:
    """Whether a seal agrees with the batches of a sound segment."""
    columns = scan.index.columns()
    mark = IndexMark(len(columns.lanes), crc32c(columns.places), crc32c(columns.times))
    return (seal.head.summary, seal.head.mark, seal.history.lanes) == (scan.summary, mark, columns.lanes)


async def check_indexes(volume: Volume, stem: str, mark: IndexMark, then: str) -> list[Finding]:
    """Compare the index files with the checksums in a seal or a recovery point."""
    checks = ((OFFSET_INDEX, mark.places_crc), (TIME_INDEX, mark.times_crc))
    found = [await _check_index(volume, stem + suffix, mark.entries, crc, then) for suffix, crc in checks]
    return [finding for finding in found if finding is not None]


async def _check_index(volume: Volume, path: str, entries: int, crc: int, then: str) -> Finding | None:
    size = entries * ENTRY_SIZE
    if not size:
        return None
    try:
        data = await volume.read_whole(path, size)
    except FileNotFoundError:
        return Finding(FindingKind.INDEX_MISSING, path, f"it is not there; {then}")
    except DiskFailed as error:
        return Finding(FindingKind.UNREADABLE, path, error.message)
    if (len(data), crc32c(data)) == (size, crc):
        return None
    return Finding(FindingKind.INDEX_DAMAGED, path, f"it is not as it was written; {then}")
