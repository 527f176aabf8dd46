"""The internal logs `__metadata` and `__schemas`: what a node has, one record for each change.

Each record's value is a msgpack map with its version in `v` (core/metadata, core/schemas/entries.py). A snapshot
that is too large for one record is cut: the parts are maps `{"v": 1, "kind": "part", "number", "count", "data"}`,
and count only together. A crash that leaves some of them leaves the records before them, too.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, TypeAlias

import msgpack

from goqueue.core.names import METADATA_LOG, SCHEMAS_LOG
from goqueue.errors import DiskFull, UnknownFormat
from goqueue.storage.directory.datadirectory import recovery_command
from goqueue.storage.log.volume import Volume
from goqueue.storage.slices import Slices
from goqueue.storage.snapshotlog.snapshotlog import LostRecords, SnapshotLog
from goqueue.types import Microseconds, Offset

LogRecord: TypeAlias = dict[str, Any]

VERSION = 1
DAMAGED: Mapping[str, tuple[str, str, str]] = {
    METADATA_LOG: ("the list of topics and groups", "topics", "rebuilds it from the partitions' folders"),
    SCHEMAS_LOG: ("the schema registry", "schemas", "keeps what can be read"),
}
"""What a log holds, what is to be recovered when it is damaged, and what that does."""
PART_BYTES = 2 * 1024 * 1024
PART = "part"
_PART_HEAD = b"\x85" + b"".join(map(msgpack.packb, ("v", VERSION, "kind", PART)))
"""What a part begins with."""


@dataclass(slots=True)
class LoadedRecords:
    records: list[object] = field(default_factory=list)
    torn: int = 0
    """Bytes that were cut off at the end: promised to nobody, as far as can be seen."""
    reports: list[str] = field(default_factory=list)


class RecordLog:
    def __init__(self, log: SnapshotLog) -> None:
        self._log = log

    @classmethod
    async def open(cls, volume: Volume, directory: str) -> tuple["RecordLog", LoadedRecords]:
        """The log, and every record in it. Damage stops the start: a topic or an id may hide behind it (G13)."""
        log, found = await SnapshotLog.open(volume, directory)
        try:
            values = [_sound(directory, item) for item in found.items]
            log.note_snapshot(_size_of_first(values))
            return cls(log), LoadedRecords(list(unpacked(values)), found.torn, found.reports)
        except BaseException:
            log.abandon()
            raise

    @property
    def written(self) -> Offset:
        """The offset that the next record will get."""
        return self._log.written

    @property
    def durable(self) -> Offset:
        return self._log.durable

    @property
    def is_durable(self) -> bool:
        return self._log.durable == self._log.written

    @property
    def is_claimed(self) -> bool:
        return self._log.is_claimed

    @property
    def has_grown(self) -> bool:
        return self._log.has_grown

    async def append(self, records: Sequence[LogRecord], now: Microseconds) -> None:
        """All or none; durable after `commit`. On a full disk nothing has changed."""
        try:
            self._log.append([msgpack.packb(record) for record in records], now)
        except DiskFull:
            await self._log.commit()  # the cut must be durable; until then the log takes no append
            raise

    async def commit(self) -> None:
        await self._log.commit()

    async def checkpoint(self) -> None:
        """Claim durably that everything is durable, so that a damaged end is recognised."""
        await self._log.checkpoint()

    async def replace(self, snapshot: LogRecord, now: Microseconds) -> None:
        """Write a record that stands for all before it; durable when it returns."""
        try:
            await self._log.replace(_packed_in_parts(snapshot), now)
        except DiskFull:
            await self._log.commit()
            raise

    async def replace_in_slices(self, pieces: Sequence[bytes], now: Microseconds, slices: Slices) -> None:
        """The same with a record that was packed in pieces, and others run between them. They append nothing until
        this returns."""
        try:
            await self._log.replace_in_slices(_as_parts(pieces), now, slices)
        except DiskFull:
            await self._log.commit()
            raise

    async def close(self) -> None:
        await self._log.close()

    def abandon(self) -> None:
        self._log.abandon()


async def write_new(volume: Volume, directory: str, snapshot: LogRecord, now: Microseconds) -> None:
    """A log that holds this snapshot, durably."""
    log, _ = await RecordLog.open(volume, directory)
    try:
        await log.replace(snapshot, now)
        await log.close()
    finally:
        log.abandon()


async def write_pieces(volume: Volume, directory: str, pieces: Sequence[bytes], now: Microseconds) -> None:
    """The same with a snapshot that was packed in pieces."""
    log, _ = await RecordLog.open(volume, directory)
    try:
        await log.replace_in_slices(pieces, now, Slices())
        await log.close()
    finally:
        log.abandon()


def unpacked(values: Iterable[bytes]) -> Iterator[object]:
    """The records in these values."""
    return map(_unpacked, joined(values))


def joined(values: Iterable[bytes]) -> Iterator[bytes]:
    """The values, and those that were cut, whole again. Parts without their end were never durable."""
    parts = list[bytes]()
    for value in values:
        record = _part_in(value)
        if record is None:
            parts.clear()
            yield value
            continue
        number, count, data = (record.get(name) for name in ("number", "count", "data"))
        parts = parts if number == len(parts) else []
        parts.append(data if isinstance(data, bytes) else b"")
        if len(parts) == count:
            yield b"".join(parts)
            parts.clear()


def _part_in(value: bytes) -> LogRecord | None:
    record = _unpacked(value) if value.startswith(_PART_HEAD) else None
    is_part = isinstance(record, dict) and record.get("v") == VERSION and record.get("kind") == PART
    return record if is_part and isinstance(record, dict) else None


def has_beginning(items: Sequence[bytes | LostRecords]) -> bool:
    """Whether the first record is there, with all its parts should it have been cut."""
    values = list(takewhile(lambda item: isinstance(item, bytes), items))
    return not items or next(joined(value for value in values if isinstance(value, bytes)), None) is not None


def _size_of_first(values: Sequence[bytes]) -> int:
    """All its parts count, should it have been cut."""
    part = _part_in(values[0]) if values else None
    count = part.get("count") if part is not None else 1
    return sum(map(len, values[: count if isinstance(count, int) else 1]))


def _unpacked(value: bytes) -> object:
    """What is not msgpack stays as it is: no record is bytes, so whoever applies it refuses it."""
    try:
        return msgpack.unpackb(value)
    except (ValueError, msgpack.UnpackException):
        return value


def _packed_in_parts(record: LogRecord) -> list[bytes]:
    packed = msgpack.packb(record)
    if len(packed) <= PART_BYTES:
        return [packed]
    return _as_parts([packed[at : at + PART_BYTES] for at in range(0, len(packed), PART_BYTES)])


def _as_parts(pieces: Sequence[bytes]) -> list[bytes]:
    if len(pieces) == 1:
        return [*pieces]
    return [
        msgpack.packb({"v": VERSION, "kind": PART, "number": number, "count": len(pieces), "data": piece})
        for number, piece in enumerate(pieces)
    ]


def _sound(directory: str, item: bytes | LostRecords) -> bytes:
    if isinstance(item, bytes):
        return item
    data, _, name = directory.removesuffix("/0").rpartition("/logs/")
    what, recovered, how = DAMAGED[name]
    raise UnknownFormat(
        f"{what} is damaged: offsets {item.offset} to {item.end_offset - 1} of {directory} cannot be read; run "
        f"`{recovery_command(data, recovered)}`, which {how}"
    )
