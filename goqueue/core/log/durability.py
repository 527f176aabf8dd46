"""When a log is to be synced, and when its recovery point is to be moved.

Written bytes are synced at once when a request waits for them, else after 1 MiB or a second, whichever comes first
and whether or not anything more is written: the tail of a quiet log must not stay in memory for ever. The recovery
point follows every five seconds while there is something new, and soon after the writing stops: not of all logs at
the same moment, since a thousand logs that were written to at once would then delay everything else together.
"""

import zlib
from dataclasses import dataclass

from goqueue.types import Offset

UNSYNCED_BYTES_MAX = 1024 * 1024
UNSYNCED_SECONDS_MAX = 1.0
CHECKPOINT_SECONDS = 5.0
IDLE_SECONDS = 1.0
"""The shortest idle time before the recovery point moves. Each log has its own, `CHECKPOINT_SECONDS` at most, so
that they do not move together."""
NOTHING: Offset = -1


@dataclass(slots=True)
class SyncSchedule:
    """Times are seconds of a monotonic clock."""

    _written_since: float | None = None
    _unsynced_bytes: int = 0
    _awaited: bool = False

    def note_written(self, now: float, size: int, *, awaited: bool) -> None:
        if self._written_since is None:
            self._written_since = now
        self._unsynced_bytes += size
        self._awaited |= awaited

    def note_awaited(self) -> None:
        """A request waits for what is already written."""
        self._awaited = self._awaited or self._written_since is not None

    def begin(self) -> None:
        """A sync begins, of everything written so far."""
        self._written_since, self._unsynced_bytes, self._awaited = None, 0, False

    def is_due(self, now: float) -> bool:
        deadline = self.next_deadline()
        return deadline is not None and deadline <= now

    def next_deadline(self) -> float | None:
        """A time in the past when a request waits, or enough bytes are written."""
        if self._written_since is None:
            return None
        if self._awaited or self._unsynced_bytes >= UNSYNCED_BYTES_MAX:
            return self._written_since
        return self._written_since + UNSYNCED_SECONDS_MAX


def idle_seconds_of(log: str) -> float:
    """How long this log is idle before its recovery point moves: different for each log, and always the same for
    one."""
    spread = zlib.crc32(log.encode()) / 2**32
    return IDLE_SECONDS + spread * (CHECKPOINT_SECONDS - IDLE_SECONDS)


@dataclass(slots=True)
class CheckpointSchedule:
    idle_seconds: float = IDLE_SECONDS
    _end: Offset = 0
    _covered: Offset = 0
    _dirty_since: float = 0.0
    _written_at: float = 0.0

    def note_end(self, now: float, end: Offset) -> None:
        """The log ends here now."""
        if end != self._end:
            if self._end == self._covered:
                self._dirty_since = now
            self._end, self._written_at = end, now

    def begin(self) -> None:
        """A checkpoint begins, of everything up to the end."""
        self._covered = self._end

    def note_failed(self, now: float) -> None:
        """The checkpoint failed: the next one is due as if everything had been written now."""
        self._covered = NOTHING
        self._dirty_since = self._written_at = now

    def is_due(self, now: float) -> bool:
        deadline = self.next_deadline()
        return deadline is not None and deadline <= now

    def next_deadline(self) -> float | None:
        if self._end == self._covered:
            return None
        return min(self._dirty_since + CHECKPOINT_SECONDS, self._written_at + self.idle_seconds)
