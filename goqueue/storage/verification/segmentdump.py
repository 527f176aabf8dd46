"""The batches or records of a log file, with findings where it is damaged.

The file is read alone. So its damaged end is damage here: only the folder tells a torn tail from rot.
"""

import re
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass
from typing import Any

import msgpack

from goqueue.core.names import INTERNAL_LOGS
from goqueue.core.records.batch import ENVELOPE_SIZE, Envelope, parse_envelope, records_of
from goqueue.core.records.record import Record, decode_records
from goqueue.environment import File
from goqueue.errors import UnknownFormat
from goqueue.storage.log.scan import Damage, FoundBatch
from goqueue.storage.log.volume import Volume
from goqueue.storage.snapshotlog.ledgers import FOLDER
from goqueue.storage.verification.batchcheck import fault_in_batch
from goqueue.storage.verification.findings import Finding, FindingKind
from goqueue.storage.verification.segmentcheck import PatientScanner
from goqueue.types import Offset

BASE_OFFSET = re.compile(r"([0-9]{20})\.[a-z]+")


@dataclass(frozen=True, slots=True)
class Selection:
    """What to show of a log file."""

    records: bool = False
    from_offset: Offset = 0


EVERYTHING = Selection()


@dataclass(frozen=True, slots=True)
class BatchRow:
    position: int
    envelope: Envelope


@dataclass(frozen=True, slots=True)
class RecordRow:
    batch_position: int
    batch_offset: Offset
    record: Record
    entry: Any = None
    """The value unpacked, in a log that holds entries and snapshots."""


def holds_entries(path: str) -> bool:
    """Whether a segment belongs to a snapshot log: an internal log, or the companion log of a partition."""
    folders = path.split("/")[:-1]
    return folders[-1:] == [FOLDER] or not INTERNAL_LOGS.isdisjoint(folders[-2:])


def base_offset_in(path: str) -> Offset | None:
    """The base offset in a segment's file name."""
    named = BASE_OFFSET.fullmatch(path.rpartition("/")[2])
    return int(named[1]) if named else None


async def segment_rows(
    volume: Volume, path: str, selection: Selection
) -> AsyncGenerator[BatchRow | RecordRow | Finding, None]:
    with volume.reader(path) as file:
        scanner = PatientScanner(file, position=0, offset=await _first_offset(file), size=file.size())
        while items := await scanner.next():
            for item in items:
                for row in _rows_of(path, item, selection):
                    yield row
        if scanner.unknown is not None:
            text = scanner.unknown.message
            yield Finding(FindingKind.UNKNOWN_FORMAT, path, text, scanner.position, file.size(), scanner.offset)


async def _first_offset(file: File) -> Offset:
    """By the file's name; a part that was set aside or copied has another name, so its first batch counts."""
    base = base_offset_in(file.path)
    if base is not None:
        return base
    try:
        envelope = parse_envelope(await file.read(0, ENVELOPE_SIZE))
    except UnknownFormat:
        return 0  # the scanner will report it
    return envelope.base_offset if envelope is not None else 0


def _rows_of(
    path: str, item: FoundBatch | Damage, selection: Selection
) -> Iterator[BatchRow | RecordRow | Finding]:
    if isinstance(item, Damage):
        yield from _damage(item, selection.from_offset)
    elif selection.from_offset < item.envelope.end_offset:
        fault = fault_in_batch(item.envelope, item.body)
        if fault is not None:
            envelope = item.envelope
            span = (item.position, item.end_position, envelope.base_offset, envelope.end_offset)
            yield Finding(FindingKind.BAD_RECORDS, path, f"the checksums hold, but {fault}", *span)
        if not selection.records:
            yield BatchRow(item.position, item.envelope)
        elif fault is None:
            yield from _records(path, item, selection.from_offset)


def _damage(damage: Damage, from_offset: Offset) -> Iterator[Finding]:
    end = damage.end_offset if damage.end_offset > damage.offset else None
    if end is None or from_offset < end:
        span = (damage.position, damage.end_position, damage.offset, end)
        yield Finding(FindingKind.DAMAGED_BATCHES, damage.path, "these bytes are no sound batches", *span)


def _records(path: str, found: FoundBatch, from_offset: Offset) -> Iterator[RecordRow]:
    envelope, has_entries = found.envelope, holds_entries(path)
    records = records_of(envelope, found.body)
    for record in decode_records(records, envelope.record_count, envelope.base_offset):
        if record.offset >= from_offset:
            entry = _unpacked(record.value) if has_entries else None
            yield RecordRow(found.position, envelope.base_offset, record, entry)


def _unpacked(value: bytes) -> Any:
    try:
        return msgpack.unpackb(value)
    except (ValueError, msgpack.UnpackException):
        return None
