"""Checks one partition's folder: reads all of it and changes nothing.

A broker may be running on it. It adds at the end, removes at the front and replaces files as a whole, so the names
are read until they are the same before and after the recovery point, and a log file that is removed afterwards is
no gap.
"""

from collections.abc import Iterator
from itertools import pairwise

from goqueue.storage.log import producersnapshot
from goqueue.storage.log.recovery import SEGMENT_NAME
from goqueue.storage.log.recoverypoint import (
    NAME,
    SIZE_MAX,
    VERSION,
    RecoveryPoint,
    read_recovery_point,
    sound_version,
)
from goqueue.storage.log.segment import LOG, SEAL, SUFFIXES, segment_stem
from goqueue.storage.log.volume import Volume
from goqueue.storage.verification.findings import Finding, FindingKind, PartitionReport
from goqueue.storage.verification.judgement import CheckedSegment, Evidence, judge
from goqueue.storage.verification.segmentcheck import (
    ScanProgress,
    Seal,
    check_indexes,
    read_seal,
    scan_segment,
    seal_agrees,
)
from goqueue.types import Offset

LOOKS_MAX = 10
REBUILT_WHEN_READ = "it will be rebuilt when the segment is next read"
REBUILT_AT_START = "it will be rebuilt at the next start, which scans the segment"


def holds_partition(names: list[str]) -> bool:
    """Whether a folder with these names in it looks like a partition's folder."""
    return any(map(belongs_to_partition, names))


def belongs_to_partition(name: str) -> bool:
    """Whether the checks below cover a file of this name."""
    stem, _, suffix = name.partition(".")
    return name in (NAME, producersnapshot.NAME) or (f".{suffix}" in SUFFIXES and stem.isdigit())


async def check_partition(volume: Volume, directory: str, progress: ScanProgress) -> PartitionReport:
    return await _PartitionCheck(volume, directory, progress).run()


class _PartitionCheck:
    def __init__(self, volume: Volume, directory: str, progress: ScanProgress) -> None:
        self._volume = volume
        self._directory = directory
        self._progress = progress
        self._names: list[str] = []
        self._point: RecoveryPoint | None = None
        self._row: list[CheckedSegment] = []
        self._findings: list[Finding] = []

    async def run(self) -> PartitionReport:
        await self._look()
        bases = self._bases()
        if self._point is None:
            await self._explain_point(bool(bases))
        await self._check_producers()
        for base, next_base in zip(bases, [*bases[1:], None], strict=False):
            await self._check_segment(base, next_base)
        evidence = Evidence(self._directory, self._point, bases[0] if bases else None, self._row)
        return self._report(evidence, [*self._findings, *judge(evidence)])

    def _report(self, evidence: Evidence, findings: list[Finding]) -> PartitionReport:
        segments = tuple(segment.report() for segment in self._row)
        torn = [finding.offset or 0 for finding in findings if finding.kind is FindingKind.TORN_TAIL]
        sound_end = min(torn, default=max((segment.end_offset for segment in segments), default=0))
        end = max(evidence.floor, evidence.log_start, sound_end)
        return PartitionReport(self._directory, evidence.log_start, end, segments, tuple(findings))

    def _note(self, kind: FindingKind, name: str, text: str) -> None:
        self._findings.append(Finding(kind, f"{self._directory}/{name}", text))

    # What is there

    async def _look(self) -> None:
        """Read the names and the recovery point as of one moment."""
        for _ in range(LOOKS_MAX):
            self._names = self._volume.disk.list(self._directory)
            self._point = await read_recovery_point(self._volume, self._directory)
            if _logs(self._names) == _logs(self._volume.disk.list(self._directory)):
                return

    def _bases(self) -> list[Offset]:
        """The base offsets of the segments, without those that the next start removes."""
        bases = [int(name.removesuffix(LOG)) for name in _logs(self._names)]
        start = self._point.log_start if self._point else 0
        outdated = [base for base, next_base in pairwise(bases) if next_base <= start]
        for base in outdated:
            text = f"it lies before the log's start at {start}; the next start removes it"
            self._note(FindingKind.LEFTOVER, segment_stem(base) + LOG, text)
        for name in self._orphans(set(map(segment_stem, bases))):
            self._note(FindingKind.LEFTOVER, name, "it belongs to no segment; the next start removes it")
        return bases[len(outdated) :]

    def _orphans(self, stems: set[str]) -> Iterator[str]:
        for name in self._names:
            stem, _, suffix = name.partition(".")
            if f".{suffix}" in SUFFIXES and stem not in stems:
                yield name

    async def _explain_point(self, has_segments: bool) -> None:
        if NAME in self._names:
            data = await self._volume.read_whole(f"{self._directory}/{NAME}", SIZE_MAX)
            self._findings.append(bad_point(f"{self._directory}/{NAME}", data))
        elif has_segments:
            text = "it is not there; the next start scans the last segment and writes it"
            self._note(FindingKind.RECOVERY_POINT_MISSING, NAME, text)

    async def _check_producers(self) -> None:
        if producersnapshot.NAME in self._names:
            path = f"{self._directory}/{producersnapshot.NAME}"
            data = await self._volume.read_whole(path, producersnapshot.SIZE_MAX)
            if producersnapshot.sound_version(data) is None:
                text = producersnapshot.WHAT_BECOMES_OF_DAMAGE
                self._note(FindingKind.INDEX_DAMAGED, producersnapshot.NAME, text)

    # Segment by segment

    async def _check_segment(self, base: Offset, next_base: Offset | None) -> None:
        stem = f"{self._directory}/{segment_stem(base)}"
        seal = await read_seal(self._volume, stem + SEAL)
        try:
            scan = await scan_segment(self._volume, stem, base, self._progress)
        except FileNotFoundError:
            self._note(
                FindingKind.REMOVED_MEANWHILE, segment_stem(base) + LOG, "it was removed before it could be read"
            )
            return
        self._findings += scan.findings
        segment = CheckedSegment(stem, scan, seal if isinstance(seal, Seal) else None, next_base)
        self._row.append(segment)
        if isinstance(seal, Seal):
            await self._check_seal(segment, seal)
        elif next_base is None and seal.kind is FindingKind.SEAL_MISSING:
            await self._check_growing_indexes(segment)
        else:
            self._findings.append(seal)

    async def _check_growing_indexes(self, segment: CheckedSegment) -> None:
        head = self._point.growing_head() if self._point else None
        if head is not None and head.summary.base_offset == segment.base_offset:
            self._findings += await check_indexes(self._volume, segment.stem, head.mark, REBUILT_AT_START)

    async def _check_seal(self, segment: CheckedSegment, seal: Seal) -> None:
        name, scan = segment_stem(segment.base_offset) + SEAL, segment.scan
        if segment.seal_is_of_this_file:
            self._findings += await check_indexes(self._volume, segment.stem, seal.head.mark, REBUILT_WHEN_READ)
            if scan.is_sound and segment.sealed_end == scan.end_offset and not seal_agrees(seal, scan):
                text = "it does not say what the log file says; remove it, and the next start writes it anew"
                self._note(FindingKind.SEAL_VOID, name, text)
        elif scan.read_to_end:
            text = f"it is of a log file of {seal.head.summary.size} bytes, this one has {scan.size}"
            self._note(FindingKind.SEAL_VOID, name, text + "; the next start scans the segment and writes it anew")


def _logs(names: list[str]) -> list[str]:
    return [name for name in names if SEGMENT_NAME.fullmatch(name)]


def bad_point(path: str, data: bytes) -> Finding:
    """The finding for a recovery point that could not be read."""
    if sound_version(data) not in (None, VERSION):
        text = f"recovery point version {data[3]} is unknown; read it with the goqueue that wrote it"
        return Finding(FindingKind.UNKNOWN_FORMAT, path, text)
    text = "it does not match its checksum; the next start scans the last segment and writes it anew"
    return Finding(FindingKind.RECOVERY_POINT_DAMAGED, path, text)
