"""The findings of a verification, as frozen data.

A finding is damage when something that was promised cannot be read from the file any more, or when a file has a
format that this goqueue does not know. Everything else is a warning: it costs time (a scan, a rebuilt index) or
concerns bytes that were never promised (a torn tail).
"""

from dataclasses import dataclass
from enum import StrEnum

from goqueue.types import Offset


class FindingKind(StrEnum):
    DAMAGED_BATCHES = "damaged_batches"
    CUT_SHORT = "cut_short"
    MISSING_OFFSETS = "missing_offsets"
    OVERLAPPING_SEGMENTS = "overlapping_segments"
    BAD_RECORDS = "bad_records"
    LOST_ENTRIES = "lost_entries"
    LOST_JOURNAL = "lost_journal"
    LOST_LEDGER = "lost_ledger"
    LOST_GROUP = "lost_group"
    UNKNOWN_FORMAT = "unknown_format"
    UNREADABLE = "unreadable"
    INCOMPLETE = "incomplete"
    PARTITION_LOST = "partition_lost"

    TORN_TAIL = "torn_tail"
    INDEX_MISSING = "index_missing"
    INDEX_DAMAGED = "index_damaged"
    SEAL_MISSING = "seal_missing"
    SEAL_DAMAGED = "seal_damaged"
    SEAL_VOID = "seal_void"
    RECOVERY_POINT_MISSING = "recovery_point_missing"
    RECOVERY_POINT_DAMAGED = "recovery_point_damaged"
    CLAIM_DAMAGED = "claim_damaged"
    META_MISSING = "meta_missing"
    META_DAMAGED = "meta_damaged"
    IDENTITY_DAMAGED = "identity_damaged"
    LEFTOVER = "leftover"
    KEPT_ASIDE = "kept_aside"
    REMOVED_MEANWHILE = "removed_meanwhile"


DAMAGE = frozenset(
    {
        FindingKind.DAMAGED_BATCHES,
        FindingKind.CUT_SHORT,
        FindingKind.MISSING_OFFSETS,
        FindingKind.OVERLAPPING_SEGMENTS,
        FindingKind.BAD_RECORDS,
        FindingKind.LOST_ENTRIES,
        FindingKind.LOST_JOURNAL,
        FindingKind.LOST_LEDGER,
        FindingKind.LOST_GROUP,
        FindingKind.UNKNOWN_FORMAT,
        FindingKind.UNREADABLE,
        FindingKind.INCOMPLETE,
        FindingKind.PARTITION_LOST,
    }
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be. Ends are exclusive: they lie behind the last byte or offset."""

    kind: FindingKind
    path: str
    text: str
    position: int | None = None
    end_position: int | None = None
    offset: Offset | None = None
    end_offset: Offset | None = None

    @property
    def is_damage(self) -> bool:
        return self.kind in DAMAGE


class SegmentState(StrEnum):
    SEALED = "sealed"
    GROWING = "growing"
    UNSEALED = "unsealed"


@dataclass(frozen=True, slots=True)
class SegmentReport:
    path: str
    base_offset: Offset
    end_offset: Offset
    size: int
    batches: int
    records: int
    state: SegmentState


@dataclass(frozen=True, slots=True)
class PartitionReport:
    path: str
    log_start: Offset
    end_offset: Offset
    segments: tuple[SegmentReport, ...]
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class JournalReport:
    path: str
    size: int
    entries: int
    """The number of sound entries since the last snapshot."""
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Report:
    path: str
    partitions: tuple[PartitionReport, ...]
    companions: tuple[PartitionReport, ...]
    """The logs of ledgers beside the partitions' logs."""
    journals: tuple[JournalReport, ...]
    others: tuple[Finding, ...]
    """Findings that concern neither a partition's log nor a journal."""

    def findings(self) -> tuple[Finding, ...]:
        partitions = [finding for each in (*self.partitions, *self.companions) for finding in each.findings]
        journals = [finding for each in self.journals for finding in each.findings]
        return (*partitions, *journals, *self.others)

    def damage(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings() if finding.is_damage)

    def warnings(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings() if not finding.is_damage)
