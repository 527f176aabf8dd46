"""Torn or rotten: what a start would make of damaged segments, decided without touching them.

The *floor* is the offset below which everything was certainly fsynced: the highest of the recovery point, the ends
of fitting seals and the durable offsets that sound batches claim. Damage below it is damage. Damage at or above it
was promised to nobody: it is a torn tail, which the next start cuts off together with all that lies behind it.
`recovery` does the same while it repairs; here every segment has been read, so the floor is known at once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from goqueue.storage.log.recoverypoint import RecoveryPoint
from goqueue.storage.log.scan import Damage
from goqueue.storage.log.segment import LOG, segment_stem
from goqueue.storage.verification.findings import Finding, FindingKind, SegmentReport, SegmentState
from goqueue.storage.verification.segmentcheck import Seal, SegmentScan
from goqueue.types import Offset

TORN = "torn tail, promised to nobody; it will be copied aside and cut at the next start"


@dataclass(frozen=True, slots=True)
class CheckedSegment:
    stem: str
    scan: SegmentScan
    seal: Seal | None
    """A sound seal, whether or not it fits the file."""
    next_base: Offset | None

    @property
    def base_offset(self) -> Offset:
        return self.scan.summary.base_offset

    @property
    def seal_is_of_this_file(self) -> bool:
        if self.seal is None:
            return False
        summary = self.seal.head.summary
        return (summary.base_offset, summary.size) == (self.base_offset, self.scan.size)

    @property
    def sealed_end(self) -> Offset | None:
        """The end of the segment by a seal that a start would believe."""
        if self.seal is None or not self.seal_is_of_this_file:
            return None
        end = self.seal.head.summary.end_offset
        return end if self.next_base in (None, end) else None

    @property
    def is_complete(self) -> bool:
        """Whether the file holds everything that its seal says; then missing offsets lie behind the file."""
        is_whole = self.seal is not None and self.seal.head.summary.end_offset == self.scan.end_offset
        return is_whole and self.seal_is_of_this_file and self.scan.sound_end == self.scan.size

    def damage(self, floor: Offset) -> list[Damage]:
        """Every damaged range, including the one behind the last sound batch."""
        scan = self.scan
        end = self.next_base if self.next_base is not None else floor
        if not scan.read_to_end or (scan.end_offset >= end and scan.sound_end == scan.size):
            return scan.damage
        tail = Damage(scan.path, scan.sound_end, scan.size, scan.end_offset, max(end, scan.end_offset))
        return [*scan.damage, tail]

    def report(self) -> SegmentReport:
        scan = self.scan
        unsealed = SegmentState.UNSEALED if self.next_base is not None else SegmentState.GROWING
        return SegmentReport(
            path=scan.path,
            base_offset=self.base_offset,
            end_offset=scan.end_offset,
            size=scan.size,
            batches=scan.batches,
            records=scan.summary.records,
            state=SegmentState.SEALED if self.sealed_end is not None else unsealed,
        )


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything that is known from a partition's folder."""

    directory: str
    point: RecoveryPoint | None
    first_base: Offset | None
    segments: Sequence[CheckedSegment]

    @property
    def floor(self) -> Offset:
        ends = [segment.sealed_end or 0 for segment in self.segments]
        claims = [segment.scan.claim for segment in self.segments]
        return max([self.point.offset if self.point else 0, *ends, *claims])

    @property
    def log_start(self) -> Offset:
        return self.point.log_start if self.point else self.first_base or 0


def judge(evidence: Evidence) -> Iterator[Finding]:
    """Everything that is wrong with the segments, from the log's start to its end or to a torn tail."""
    floor, start = evidence.floor, evidence.log_start
    first = evidence.first_base if evidence.first_base is not None else floor
    if floor <= start < first:
        yield Finding(FindingKind.TORN_TAIL, evidence.directory, TORN, offset=start)
        yield from _cut_off(evidence.segments)
        return
    if start < first:
        text = "the log begins with these offsets, but no segment holds them; restore it from a backup"
        yield Finding(FindingKind.MISSING_OFFSETS, evidence.directory, text, offset=start, end_offset=first)
    for number, segment in enumerate(evidence.segments):
        yield from _overlap(segment)
        for damage in segment.damage(floor):
            if damage.offset >= floor:
                yield _torn(segment.scan, damage.position, damage.offset)
                yield from _cut_off(evidence.segments[number + 1 :])
                return
            is_deleted = damage.position == damage.end_position and damage.end_offset <= start
            if not is_deleted:
                yield _rot(segment, damage, evidence.point)


def _cut_off(behind: Sequence[CheckedSegment]) -> Iterator[Finding]:
    for segment in behind:
        yield _torn(segment.scan, 0, segment.base_offset)


def _overlap(segment: CheckedSegment) -> Iterator[Finding]:
    scan, next_base = segment.scan, segment.next_base
    if next_base is not None and scan.end_offset > next_base:
        text = "the next segment holds these offsets too; restore both from one backup"
        yield Finding(
            FindingKind.OVERLAPPING_SEGMENTS, scan.path, text, offset=next_base, end_offset=scan.end_offset
        )


def _torn(scan: SegmentScan, position: int, offset: Offset) -> Finding:
    return Finding(FindingKind.TORN_TAIL, scan.path, TORN, position, scan.size, offset)


def _rot(segment: CheckedSegment, damage: Damage, point: RecoveryPoint | None) -> Finding:
    span = (damage.position, damage.end_position, damage.offset, damage.end_offset)
    size, expected_size = segment.scan.size, _expected_size(segment, point)
    if damage.end_position == size < expected_size:
        text = f"the file ends after {size} of its {expected_size} bytes; restore it from a backup"
        return Finding(FindingKind.CUT_SHORT, damage.path, text, *span)
    if damage.position < damage.end_position:
        text = "these bytes are no sound batches; restore the file from a backup"
        return Finding(FindingKind.DAMAGED_BATCHES, damage.path, text, *span)
    return _missing(segment, damage)


def _missing(segment: CheckedSegment, damage: Damage) -> Finding:
    path = damage.path
    text = (
        "these offsets should follow: the file is cut short, or the next one is missing; restore it from a backup"
    )
    if segment.is_complete:
        path = f"{path.rpartition('/')[0]}/{segment_stem(damage.offset)}{LOG}"
        text = "the segment with these offsets is missing; restore it from a backup"
    return Finding(FindingKind.MISSING_OFFSETS, path, text, offset=damage.offset, end_offset=damage.end_offset)


def _expected_size(segment: CheckedSegment, point: RecoveryPoint | None) -> int:
    """The minimum size of the file, by a seal or the recovery point."""
    heads = (segment.seal.head if segment.seal else None, point.growing_head() if point else None)
    summaries = [head.summary for head in heads if head is not None]
    return max((each.size for each in summaries if each.base_offset == segment.base_offset), default=0)
