"""The open logs of a node's partitions, so that all of them can be seen at one moment.

Each log is still owned by its partition. Others only look, and never wait while they do: what they see of several
logs was true of all of them at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from goqueue.types import Offset

if TYPE_CHECKING:
    from goqueue.storage.log.growing import GrowingLog
    from goqueue.storage.log.scan import Damage


@dataclass(frozen=True, slots=True)
class LogStanding:
    """The log's start, and its high watermark as the end."""

    start: Offset
    end: Offset
    leader_epoch: int


@dataclass(slots=True)
class WrittenCounts:
    """The counts of everything appended to logs since the process began."""

    batches: int = 0
    records: int = 0
    bytes: int = 0

    def add(self, log: "GrowingLog") -> None:
        counted = log.statistics()
        self.batches += counted.appended_batches
        self.records += counted.appended_records
        self.bytes += counted.appended_bytes


class OpenLogs:
    def __init__(self) -> None:
        self._logs: dict[str, GrowingLog] = {}
        self._gone = WrittenCounts()

    def __len__(self) -> int:
        return len(self._logs)

    def enter(self, log: "GrowingLog") -> None:
        self._logs[log.directory] = log

    def leave(self, log: "GrowingLog") -> None:
        """Its partition ends; its counts stay in the total. A second call does nothing."""
        if self._logs.get(log.directory) is log:
            self._gone.add(self._logs.pop(log.directory))

    def standing(self, directory: str) -> LogStanding | None:
        """None while the log is not open."""
        log = self._logs.get(directory)
        return None if log is None else LogStanding(log.log_start, log.high_watermark, log.leader_epoch)

    def written(self) -> WrittenCounts:
        total = WrittenCounts(self._gone.batches, self._gone.records, self._gone.bytes)
        for log in self._logs.values():
            total.add(log)
        return total

    def damage(self) -> dict[str, Sequence["Damage"]]:
        """By directory, for the logs that have damage."""
        return {path: log.damage_met for path, log in self._logs.items() if log.damage_met}

    def size(self) -> int:
        """Bytes of all segments of all logs."""
        return sum(log.size for log in self._logs.values())
