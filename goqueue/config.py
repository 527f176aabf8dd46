"""Settings, with the defaults of the contract."""

from dataclasses import dataclass

from goqueue.types import Microseconds

SECOND: Microseconds = 1_000_000
HOUR: Microseconds = 3600 * SECOND
MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class LogConfig:
    segment_bytes: int = 64 * MEBIBYTE
    segment_age: Microseconds = 24 * HOUR
    retention_age: Microseconds | None = 168 * HOUR
    retention_bytes: int | None = None
    retention_acked: bool = False
    """A segment goes once every group is done with it."""
    tombstone_age: Microseconds = 24 * HOUR
    """The time for which compaction keeps tombstones."""

    def __post_init__(self) -> None:
        if not 1 <= self.segment_bytes <= 1024 * MEBIBYTE:
            raise ValueError(f"segment_bytes is {self.segment_bytes}; it must be between 1 and 1 GiB")
        if self.segment_age <= 0:
            raise ValueError(f"segment_age is {self.segment_age} µs; it must be positive")
