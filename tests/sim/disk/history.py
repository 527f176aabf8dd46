"""What clients did and saw, and the guarantees that follow from it.

Every value is written once in a whole run, so a value names its record. A checker compares what is in the log with
what was promised; it knows nothing of how the log works.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from goqueue.core.records.record import Record


class Violation(AssertionError):
    """A guarantee does not hold."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A batch that somebody tried to publish; whether it is in the log is open until it is confirmed."""

    partition: int
    values: tuple[bytes, ...]


@dataclass(slots=True)
class History:
    attempts: dict[bytes, Attempt] = field(default_factory=dict)
    """By the first value of the batch."""
    promised: dict[tuple[int, int], bytes] = field(default_factory=dict)
    """By partition and offset: what a power cut must not take."""
    accepted: dict[tuple[int, int], bytes] = field(default_factory=dict)
    """Likewise, what a killed process must not take: in the file, perhaps not durable."""
    seen: dict[tuple[int, int], bytes] = field(default_factory=dict)
    starts: dict[int, int] = field(default_factory=dict)

    # What happened

    def attempt(self, partition: int, values: tuple[bytes, ...]) -> None:
        self.attempts[values[0]] = Attempt(partition, values)

    def confirm(self, partition: int, base: int, values: tuple[bytes, ...], *, durably: bool) -> None:
        for offset, value in enumerate(values, base):
            place = (partition, offset)
            if self.promised.get(place, value) != value or self.seen.get(place, value) != value:
                raise Violation(f"G3: offset {offset} of partition {partition} was given out twice")
            self.accepted[place] = value
            if durably:
                self.promised[place] = value

    def see(self, partition: int, record: Record) -> None:
        """A reader saw this record; nobody may ever see another one there."""
        place = (partition, record.offset)
        for before in (self.seen.get(place), self.promised.get(place)):
            if before is not None and before != record.value:
                raise Violation(f"G3: offset {record.offset} holds {record.value!r}, before it held {before!r}")
        self.seen[place] = record.value

    def power_failed(self) -> None:
        """What was only in memory may be gone, and its offsets go to others."""
        self.accepted = dict(self.promised)

    def deleted_before(self, partition: int, offset: int) -> None:
        self.starts[partition] = max(offset, self.starts.get(partition, 0))

    # What must hold

    def check(self, partition: int, records: list[Record], damaged: Iterable[range]) -> None:
        """Compare with everything that is in the partition now; `damaged` are the ranges that it named itself."""
        found = {record.offset: record.value for record in records}
        hidden = {offset for lost in damaged for offset in lost}
        self._check_kept(partition, found, hidden)
        self._check_origin(partition, records)
        self._check_batches(records, hidden)

    def _check_kept(self, partition: int, found: dict[int, bytes], hidden: set[int]) -> None:
        start = self.starts.get(partition, 0)
        for kind, kept in (("promised", self.promised), ("accepted", self.accepted), ("seen", self.seen)):
            for (where, offset), value in kept.items():
                if where == partition and offset >= start and offset not in hidden and found.get(offset) != value:
                    raise Violation(
                        f"G1: {kind} {value!r} at offset {offset} of partition {partition}, "
                        f"now there is {found.get(offset)!r}"
                    )

    def _check_origin(self, partition: int, records: list[Record]) -> None:
        offsets = [record.offset for record in records]
        if offsets != sorted(set(offsets)):
            raise Violation(f"G3: offsets do not rise in partition {partition}")
        values = [record.value for record in records]
        if len(set(values)) != len(values):
            raise Violation(f"G1: a message is in partition {partition} twice")

    def _check_batches(self, records: list[Record], hidden: set[int]) -> None:
        """G2: a batch is there whole, in one piece, or not at all, unless it is cut by the start or by damage."""
        place = {record.value: record.offset for record in records}
        first = records[0].offset if records else 0
        for attempt in self.attempts.values():
            offsets = [place[value] for value in attempt.values if value in place]
            if not offsets or offsets[-1] - first < len(attempt.values):
                continue
            expected = list(range(offsets[0], offsets[0] + len(attempt.values)))
            if offsets != expected and not hidden.intersection(range(offsets[0] - 10, offsets[-1] + 10)):
                raise Violation(f"G2: of the batch {attempt.values} only {len(offsets)} records are there")
        unknown = set(place) - {value for attempt in self.attempts.values() for value in attempt.values}
        if unknown:
            raise Violation(f"G1: {sorted(unknown)[:3]} were never published")
