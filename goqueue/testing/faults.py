"""The faults of a simulated disk, and the counts of its calls."""

from dataclasses import dataclass
from typing import TypeAlias

Seconds: TypeAlias = tuple[float, float]
"""The shortest and the longest time something takes; drawn evenly in between."""

NORMAL_SYNC: Seconds = (0.000_2, 0.002)
SLOW_SYNC: Seconds = (0.05, 2.0)


@dataclass(slots=True)
class Faults:
    """Odds lie between 0 (never) and 1 (always). A test may change them at any time during a run."""

    sync_seconds: Seconds = NORMAL_SYNC
    sync_failure_odds: float = 0.0
    cold_read_odds: float = 0.0
    cold_read_seconds: Seconds = (0.000_5, 0.02)
    no_descriptors: bool = False
    """No file can be opened. Those that are open stay so."""
    garbage_odds: float = 0.0
    """Holes left by a power loss hold garbage instead of zeros."""


@dataclass(slots=True)
class Counts:
    """The calls of the disk since its process began, failed ones included."""

    writes: int = 0
    bytes_written: int = 0
    reads: int = 0
    bytes_read: int = 0
    syncs: int = 0
    directory_syncs: int = 0
