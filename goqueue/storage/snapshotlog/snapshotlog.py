"""A log of a state machine: its entries, and now and then a snapshot that stands for all records before it.

It is a log like any other, so it recovers, is verified, and can be replicated like any other. One `append` is one
batch: a crash or a full disk leaves all of its records or none. `append` never waits; its records are durable after
`commit`. A snapshot begins a segment of its own. The segments before it are removed once it is durable, so a crash
at any moment leaves the old records, the snapshot, or both.

Each batch claims that the records before it are durable. Nothing claims the last batch, so the owner calls
`checkpoint` a second after the last commit: the recovery point then claims it. So damage at the end is recognised
as damage, and not taken for a torn tail.

The owner decides what lost records mean, since a lost vote and a lost acknowledgement are not the same. Damaged
files are copied aside before a snapshot removes them (G13).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from crc32c import crc32c

from goqueue.config import LogConfig
from goqueue.core.records.batch import (
    BODY_SIZE_MAX,
    ENVELOPE_SIZE,
    NO_PRODUCER,
    Batch,
    parse_envelope,
    records_of,
)
from goqueue.core.records.record import HEADER_SIZE, encode_value, walk_records
from goqueue.errors import DamagedData, DiskFull, TooLarge
from goqueue.storage.log.log import Log
from goqueue.storage.log.segment import LOG
from goqueue.storage.log.volume import Volume
from goqueue.storage.slices import Slices
from goqueue.types import Buffer, Microseconds, Offset, Priority

SEGMENT_BYTES = 1024 * 1024
"""Segments are small, since the records before a snapshot are removed in whole segments."""
GROWN_BYTES = 1024 * 1024
GROWN_TIMES = 4
"""A snapshot is due once the log is larger than `GROWN_BYTES`, and this many times the last snapshot."""
READ_BYTES = 1024 * 1024
SNAPSHOT_BATCH_BYTES = 4 * 1024 * 1024
"""A snapshot of many records is cut into batches of about this size."""
DAMAGED = ".damaged"
_ONE_PRIORITY = 1 << Priority.NORMAL


class LostRecords(NamedTuple):
    """Records that were durable and cannot be read."""

    offset: Offset
    end_offset: Offset


@dataclass(slots=True)
class ReplayedRecords:
    """The contents of the log when it was opened."""

    items: list[bytes | LostRecords] = field(default_factory=list)
    """The values of all records in the order of their offsets, and the gaps between them."""
    torn: int = 0
    """The number of bytes that were cut off at the end: promised to nobody, as far as can be seen."""
    reports: list[str] = field(default_factory=list)
    """What was lost or cut, and where the copy lies; for the owner to log."""
    end: Offset = 0
    """The offset behind the last record, if it was read without opening the log."""


class SnapshotLog:
    __slots__ = ("_claimed", "_log", "_snapshot_size")

    def __init__(self, log: Log) -> None:
        self._log = log
        self._snapshot_size = 0
        self._claimed = log.end_offset if log.is_as_left else 0

    @classmethod
    async def open(
        cls, volume: Volume, directory: str, *, leader_epoch: int | None = None
    ) -> tuple["SnapshotLog", ReplayedRecords]:
        config = LogConfig(segment_bytes=SEGMENT_BYTES)
        log = await Log.open(volume, directory, config, leader_epoch=leader_epoch)
        try:
            if log.durable_offset < log.end_offset:
                raise DiskFull(f"{directory} cannot be made durable as it is, and is not read before; try again")
            found = await _read_all(volume, log)
        except BaseException:
            log.abandon()
            raise
        opened = cls(log)
        if log.log_start and found.items and isinstance(found.items[0], bytes):
            opened._snapshot_size = len(found.items[0])
        return opened, found

    @property
    def written(self) -> Offset:
        """The offset that the next record will get."""
        return self._log.end_offset

    @property
    def durable(self) -> Offset:
        return self._log.durable_offset

    @property
    def is_claimed(self) -> bool:
        """Whether the recovery point claims every record."""
        return self._claimed == self._log.end_offset

    def note_snapshot(self, size: int) -> None:
        """The log was opened with a snapshot of this size, in several records."""
        self._snapshot_size = max(size, self._snapshot_size)

    @property
    def has_grown(self) -> bool:
        """Whether a snapshot would make the log much smaller."""
        return self._log.size > max(GROWN_BYTES, GROWN_TIMES * self._snapshot_size)

    def append(self, payloads: Sequence[bytes], now: Microseconds) -> None:
        """One batch, which survives the end of the process. `DiskFull` changes nothing; commit before the next."""
        if payloads:
            self._log.append([_batch(payloads, now)], now)

    async def commit(self) -> None:
        """Make everything written so far durable. Callers whose records another caller's sync covers share it."""
        self._log.advance_high_watermark(await self._log.commit())

    async def checkpoint(self) -> None:
        """Claim durably that everything written so far is durable."""
        end = self._log.end_offset
        await self._log.checkpoint()
        self._claimed = end
        self._log.advance_high_watermark(self._log.durable_offset)

    async def replace(self, snapshot: Sequence[bytes], now: Microseconds) -> None:
        """Let these records stand for all before them. They are written before this waits for anything, so records
        that are appended meanwhile follow them."""
        batches = [_batch(payloads, now) for payloads in _portions(snapshot)]
        self._log.roll()
        start = self._log.append(batches, now)[0]
        await self._stand_at(start, sum(batch.size for batch in batches))

    async def replace_in_slices(self, snapshot: Sequence[bytes], now: Microseconds, slices: Slices) -> None:
        """The same, and others run between the records. They append nothing meanwhile."""
        self._log.roll()
        start, size = self._log.end_offset, 0
        for payload in snapshot:
            batch = _batch([payload], now)
            self._log.append([batch], now)
            size += batch.size
            await slices.step()
        await self._stand_at(start, size)

    async def _stand_at(self, start: Offset, size: int) -> None:
        """The log begins with the snapshot there."""
        await self.commit()
        self._snapshot_size = size
        if start == self._log.log_start:  # there is nothing before it
            await self.checkpoint()
            return
        end = self._log.end_offset
        await self._log.delete_before(start)
        self._claimed = end

    async def close(self) -> None:
        """Make everything durable, and claim it (G15)."""
        await self._log.close()

    def abandon(self) -> None:
        """The owner crashed: close the files and leave them as they are."""
        self._log.abandon()


def _batch(payloads: Sequence[bytes], now: Microseconds) -> Batch:
    body = b"".join([encode_value(number, now, payload) for number, payload in enumerate(payloads)])
    if len(body) > BODY_SIZE_MAX:
        raise TooLarge(f"{len(body)} bytes do not fit into one batch, which has {BODY_SIZE_MAX} at most")
    return Batch(body, len(payloads), 0, _ONE_PRIORITY, now, NO_PRODUCER)


def _portions(payloads: Sequence[bytes]) -> Iterator[list[bytes]]:
    portion, size = list[bytes](), 0
    for payload in payloads:
        if portion and size + len(payload) > SNAPSHOT_BATCH_BYTES:
            yield portion
            portion, size = [], 0
        portion.append(payload)
        size += len(payload)
    yield portion


async def _read_all(volume: Volume, log: Log) -> ReplayedRecords:
    found, offset = ReplayedRecords(), log.log_start
    while offset < log.high_watermark:
        try:
            read = await log.read(offset, READ_BYTES)
        except DamagedData as damage:
            end = max(offset + 1, min(damage.end_offset, log.high_watermark))
            found.items.append(LostRecords(offset, end))
            found.reports.append(await _keep_aside(volume, log.directory, damage, offset, end))
            offset = end
        else:
            found.items += values_in(read.data, offset)
            offset = read.next_offset
    for torn in log.statistics().torn:
        found.torn += torn.size
        found.reports.append(
            f"{torn.path} had a torn tail of {torn.size} bytes, which nobody was promised; it was cut, a copy is "
            f"{torn.kept_as}"
        )
    return found


def values_in(data: Buffer, offset: Offset) -> Iterator[bytes]:
    """The values of the records from this offset on, in batches that are sound."""
    view, position = memoryview(data), 0
    while position < len(view):
        envelope = parse_envelope(view, position)
        assert envelope is not None, "a read returned a batch that is not sound"
        body = memoryview(records_of(envelope, view[position + ENVELOPE_SIZE : position + envelope.size]))
        for place in walk_records(body, envelope.record_count):
            if envelope.base_offset + place.relative_offset >= offset:
                yield bytes(body[place.position + HEADER_SIZE + place.key_size : place.end])
        position += envelope.size


async def _keep_aside(volume: Volume, directory: str, damage: DamagedData, offset: Offset, end: Offset) -> str:
    """Copy the damaged file, never over an earlier copy. Returns the report."""
    lost = f"{directory} lost its records {offset} to {end - 1}, which were durable"
    if not damage.path.endswith(LOG):
        return f"{lost}: their file is gone"
    data = await volume.read_whole(damage.path, volume.disk.size(damage.path))
    stem = damage.path.rpartition("/")[2].removesuffix(LOG)
    copy = f"{stem}.{crc32c(data[damage.position : damage.end_position]):08x}{DAMAGED}"
    if not volume.disk.exists(f"{directory}/{copy}"):
        await volume.replace(directory, copy, [data])
    return f"{lost}: they are damaged in {damage.path}; a copy is {directory}/{copy}"
