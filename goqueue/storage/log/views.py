"""Views of a log for its readers: a slice, and statistics."""

from dataclasses import dataclass

from goqueue.storage.log.openlogs import Appended
from goqueue.storage.log.recovery import TornTail
from goqueue.storage.log.scan import Damage
from goqueue.types import Buffer, Offset


@dataclass(frozen=True, slots=True)
class LogSlice:
    """Whole batches as they are on disk. Read on at `next_offset`, also when `data` is empty."""

    data: Buffer
    next_offset: Offset
    log_start: Offset
    high_watermark: Offset


@dataclass(frozen=True, slots=True)
class LogStatistics:
    log_start: Offset
    end_offset: Offset
    durable_offset: Offset
    high_watermark: Offset
    leader_epoch: int
    segments: int
    size: int
    appended: Appended
    commits: int
    damage: tuple[Damage, ...]
    torn: tuple[TornTail, ...]
    scanned_bytes: int
