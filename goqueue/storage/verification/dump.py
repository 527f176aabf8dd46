"""Dumps a file of goqueue's line by line, so that a file of any size streams; findings are lines, too."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace
from enum import StrEnum
from struct import Struct
from typing import TypeAlias

from goqueue.core.log.nodeproducers import ProducerLimits
from goqueue.core.log.producers import ProducerState
from goqueue.core.records import batch
from goqueue.environment import Disk
from goqueue.errors import UnknownFormat
from goqueue.storage.delays import entries as delayentries
from goqueue.storage.delays.index import NAME as DELAYS
from goqueue.storage.journals import file as journalfile
from goqueue.storage.journals.file import JournalFrame, decode_frame
from goqueue.storage.journals.journal import JOURNAL_SIZE_MAX
from goqueue.storage.log import producersnapshot, recoverypoint, summary
from goqueue.storage.log.index import ENTRY_SIZE
from goqueue.storage.log.producersnapshot import decode_producers
from goqueue.storage.log.recoverypoint import RecoveryPoint, read_recovery_point
from goqueue.storage.log.segment import LOG, OFFSET_INDEX, SEAL, TIME_INDEX
from goqueue.storage.log.summary import SummaryHead
from goqueue.storage.log.volume import Volume
from goqueue.storage.verification.delaycheck import DelayRow, delay_rows
from goqueue.storage.verification.findings import Finding, FindingKind
from goqueue.storage.verification.journalcheck import check_journal
from goqueue.storage.verification.partitioncheck import bad_point
from goqueue.storage.verification.segmentcheck import Seal, read_seal
from goqueue.storage.verification.segmentdump import (
    EVERYTHING,
    BatchRow,
    RecordRow,
    Selection,
    base_offset_in,
    segment_rows,
)
from goqueue.types import Microseconds, Offset

INDEX_SIZE_MAX = 64 * 1024 * 1024
_INDEX_ENTRY = Struct(">Q")


class FileKind(StrEnum):
    SEGMENT = "segment"
    OFFSET_INDEX = "offset index"
    TIME_INDEX = "time index"
    SEAL = "seal"
    RECOVERY_POINT = "recovery point"
    JOURNAL = "journal"
    DELAY_INDEX = "delay index"
    PRODUCERS = "producers"


KIND_BY_SUFFIX = {
    LOG: FileKind.SEGMENT,
    OFFSET_INDEX: FileKind.OFFSET_INDEX,
    TIME_INDEX: FileKind.TIME_INDEX,
    SEAL: FileKind.SEAL,
}
KIND_BY_NAME = {
    recoverypoint.NAME: FileKind.RECOVERY_POINT,
    DELAYS: FileKind.DELAY_INDEX,
    producersnapshot.NAME: FileKind.PRODUCERS,
}
KIND_BY_MAGIC = {
    batch.MAGIC: FileKind.SEGMENT,
    summary.MAGIC: FileKind.SEAL,
    journalfile.MAGIC: FileKind.JOURNAL,
    delayentries.MAGIC: FileKind.DELAY_INDEX,
    producersnapshot.MAGIC: FileKind.PRODUCERS,
}


@dataclass(frozen=True, slots=True)
class PlaceRow:
    """An entry of an offset index."""

    number: int
    offset: Offset
    position: int


@dataclass(frozen=True, slots=True)
class TimeRow:
    """An entry of a time index."""

    number: int
    highest_timestamp: Microseconds


@dataclass(frozen=True, slots=True)
class SealRow:
    seal: Seal


@dataclass(frozen=True, slots=True)
class PointRow:
    point: RecoveryPoint
    growing: SummaryHead | None


@dataclass(frozen=True, slots=True)
class FrameRow:
    """A frame of a journal."""

    position: int
    frame: JournalFrame


@dataclass(frozen=True, slots=True)
class ProducerRow:
    """A producer that a partition remembers."""

    id: int
    state: ProducerState


Row: TypeAlias = (
    BatchRow | RecordRow | PlaceRow | TimeRow | SealRow | PointRow | FrameRow | DelayRow | ProducerRow | Finding
)
Rows: TypeAlias = AsyncGenerator[Row, None]


async def kind_of(disk: Disk, path: str) -> FileKind:
    """The kind of a file, by its name, else by its first bytes. `UnknownFormat` when it is not goqueue's."""
    name = path.rpartition("/")[2]
    kind = KIND_BY_NAME.get(name) or KIND_BY_SUFFIX.get(f".{name.rpartition('.')[2]}")
    if kind is not None:
        return kind
    volume = Volume(disk)
    kind = KIND_BY_MAGIC.get(await volume.read_whole(path, 3))
    if kind is None and await check_journal(volume, path) is not None:
        kind = FileKind.JOURNAL
    if kind is None:
        raise UnknownFormat(
            f"{path} is no file of goqueue's; give a .log, .index, .timeindex or .seal file, "
            f"a {recoverypoint.NAME}, a {DELAYS} or {producersnapshot.NAME} file or a journal"
        )
    return kind


async def dump(
    disk: Disk, path: str, kind: FileKind, selection: Selection = EVERYTHING, limit: int | None = None
) -> Rows:
    """The file's lines, at most `limit` of them without findings."""
    volume = Volume(disk, open_files_max=1)
    shown = 0
    try:
        async with aclosing(_rows(volume, path, kind, selection)) as rows:
            async for row in rows:
                yield row
                shown += not isinstance(row, Finding)
                if shown == limit:
                    return
    finally:
        volume.close()


def _rows(volume: Volume, path: str, kind: FileKind, selection: Selection) -> Rows:
    match kind:
        case FileKind.SEGMENT:
            return segment_rows(volume, path, selection)
        case FileKind.OFFSET_INDEX | FileKind.TIME_INDEX:
            return _index_rows(volume, path, kind)
        case FileKind.SEAL:
            return _seal_rows(volume, path)
        case FileKind.RECOVERY_POINT:
            return _point_rows(volume, path)
        case FileKind.JOURNAL:
            return _journal_rows(volume, path)
        case FileKind.DELAY_INDEX:
            return delay_rows(volume, path)
        case FileKind.PRODUCERS:
            return _producer_rows(volume, path)


async def _index_rows(volume: Volume, path: str, kind: FileKind) -> Rows:
    data = await volume.read_whole(path, INDEX_SIZE_MAX)
    whole = len(data) - len(data) % ENTRY_SIZE
    base, previous = base_offset_in(path) or 0, -1
    for number, (value,) in enumerate(_INDEX_ENTRY.iter_unpack(data[:whole])):
        if value < previous:
            position = number * ENTRY_SIZE
            text = "this entry goes back behind the one before it"
            yield Finding(FindingKind.INDEX_DAMAGED, path, text, position, position + ENTRY_SIZE)
        if kind is FileKind.TIME_INDEX:
            yield TimeRow(number, value)
        else:
            yield PlaceRow(number, base + (value >> 32), value & 0xFFFF_FFFF)
        previous = value
    if whole < len(data):
        yield Finding(FindingKind.INDEX_DAMAGED, path, "these bytes are no whole entry", whole, len(data))


async def _seal_rows(volume: Volume, path: str) -> Rows:
    seal = await read_seal(volume, path)
    yield SealRow(seal) if isinstance(seal, Seal) else seal


async def _point_rows(volume: Volume, path: str) -> Rows:
    point = await read_recovery_point(volume, path.rpartition("/")[0] or ".")
    if point is None:
        yield bad_point(path, await volume.read_whole(path, recoverypoint.SIZE_MAX))
    else:
        yield PointRow(point, point.growing_head())


async def _producer_rows(volume: Volume, path: str) -> Rows:
    data = await volume.read_whole(path, producersnapshot.SIZE_MAX)
    found = await decode_producers(data, ProducerLimits())
    if found is None:
        yield Finding(FindingKind.INDEX_DAMAGED, path, producersnapshot.WHAT_BECOMES_OF_DAMAGE, 0, len(data))
        return
    for producer_id in found.states.ids():
        state = found.states.get(producer_id)
        assert state is not None, "nothing is forgotten while they are listed"
        yield ProducerRow(producer_id, state)


async def _journal_rows(volume: Volume, path: str) -> Rows:
    report = await check_journal(volume, path)
    assert report is not None, "its kind was found out by the same check"
    findings = {finding.position: finding for finding in report.findings}
    data = await volume.read_whole(path, JOURNAL_SIZE_MAX)
    position = 0
    while position < len(data):
        finding = findings.get(position)
        frame = _frame_at(data, position) if finding is None else None
        if frame is not None:
            yield FrameRow(position, frame)
            position += frame.size
            continue
        # An unknown version prevents the replay, so the ranges that are lost before it are not known.
        finding = finding or replace(report.findings[0], position=position, end_position=len(data))
        yield finding
        position = finding.end_position or len(data)


def _frame_at(data: bytes, position: int) -> JournalFrame | None:
    try:
        return decode_frame(data, position)
    except UnknownFormat:
        return None
