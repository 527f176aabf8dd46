"""The output of `goqueue log dump`, line by line."""

from collections.abc import Iterator
from typing import Any, assert_never

import click

from goqueue.cli.log.reportview import spans
from goqueue.cli.log.rowfields import Fields, fields_of, flag_names, lane_names, payloads_in
from goqueue.cli.program.output import PREVIEW_WIDTH, Column, preview, printable, readable, write_cells
from goqueue.core.delays.pending import DelayState
from goqueue.core.log.producers import ProducerState
from goqueue.core.records.batch import Attribute, Envelope
from goqueue.core.records.record import DELAY_BIT
from goqueue.storage.journals.file import JournalFrame
from goqueue.storage.verification.delaycheck import DelayRow
from goqueue.storage.verification.dump import (
    FileKind,
    FrameRow,
    PlaceRow,
    PointRow,
    ProducerRow,
    Row,
    SealRow,
    TimeRow,
)
from goqueue.storage.verification.findings import Finding, FindingKind
from goqueue.storage.verification.segmentdump import BatchRow, RecordRow

TIME_WIDTH = 27
OFFSET_WIDTH = 10
KEY_WIDTH = 20

BATCH_COLUMNS = [
    Column("POSITION", OFFSET_WIDTH, is_number=True),
    Column("BASE OFFSET", 11, is_number=True),
    Column("COUNT", 6, is_number=True),
    Column("SIZE", 8, is_number=True),
    Column("EPOCH", 5, is_number=True),
    Column("DURABLE", OFFSET_WIDTH, is_number=True),
    Column("APPENDED", TIME_WIDTH),
    Column("HIGHEST TIMESTAMP", TIME_WIDTH),
    Column("PRODUCER", 12),
    Column("PRIORITIES", 10),
    Column("ATTRIBUTES", 10),
]
RECORD_COLUMNS = [
    Column("OFFSET", OFFSET_WIDTH, is_number=True),
    Column("TIMESTAMP", TIME_WIDTH),
    Column("PRIORITY", 10),
    Column("KEY", KEY_WIDTH),
    Column("VALUE", 40),
    Column("FLAGS", 8),
    Column("DUE", TIME_WIDTH),
    Column("HEADERS", 7),
]
FIELD_COLUMNS = [Column("FIELD", 26), Column("VALUE", 5)]
COLUMNS = {
    FileKind.SEGMENT: BATCH_COLUMNS,
    FileKind.OFFSET_INDEX: [
        Column("ENTRY", 8, is_number=True),
        Column("OFFSET", OFFSET_WIDTH, is_number=True),
        Column("POSITION", OFFSET_WIDTH, is_number=True),
    ],
    FileKind.TIME_INDEX: [Column("ENTRY", 8, is_number=True), Column("HIGHEST TIMESTAMP", TIME_WIDTH)],
    FileKind.SEAL: FIELD_COLUMNS,
    FileKind.RECOVERY_POINT: FIELD_COLUMNS,
    FileKind.JOURNAL: [
        Column("POSITION", OFFSET_WIDTH, is_number=True),
        Column("KIND", 8),
        Column("NUMBER", OFFSET_WIDTH, is_number=True),
        Column("DURABLE", OFFSET_WIDTH, is_number=True),
        Column("SIZE", 8, is_number=True),
        Column("PAYLOADS", 8),
    ],
    FileKind.DELAY_INDEX: [
        Column("POSITION", OFFSET_WIDTH, is_number=True),
        Column("STATE", 9),
        Column("OFFSET", OFFSET_WIDTH, is_number=True),
        Column("TIME", TIME_WIDTH),
        Column("AT", OFFSET_WIDTH, is_number=True),
        Column("CARRIED", 7),
    ],
    FileKind.PRODUCERS: [
        Column("PRODUCER", 19, is_number=True),
        Column("EPOCH", 5, is_number=True),
        Column("LAST APPEND", TIME_WIDTH),
        Column("SEQUENCES AND OFFSETS", 21),
    ],
}


def columns_for(kind: FileKind, records: bool) -> list[Column]:
    return RECORD_COLUMNS if records else COLUMNS[kind]


def is_damage(row: Row) -> bool:
    """A torn tail is no damage; any other fault of the dumped file is, even if it is only an index."""
    return isinstance(row, Finding) and row.kind is not FindingKind.TORN_TAIL


def write_row(columns: list[Column], row: Row) -> None:
    if isinstance(row, Finding):
        word = "damage" if is_damage(row) else "torn tail"
        click.secho(f"{word}: {', '.join([*spans(row), row.text])}", fg="red" if is_damage(row) else "yellow")
    elif isinstance(row, SealRow | PointRow):
        for name, value in _listed(fields_of(row)):
            write_cells(columns, [name, value])
    else:
        write_cells(columns, _cells(row))


def _listed(fields: Fields, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Fields one below the other, those of a field below its name."""
    for words, value in _named(fields):
        if isinstance(value, dict):
            yield from _listed(value, f"{prefix}{words} ")
        else:
            yield prefix + words, _in_words(value)


def _named(fields: Fields) -> Iterator[tuple[str, Any]]:
    """Fields with readable names; times as text only."""
    for name, value in fields.items():
        if name != "type" and f"{name}_text" not in fields:
            yield name.removesuffix("_text").replace("_", " "), value


def _in_words(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(f"{words} {_in_words(each)}" for words, each in _named(value))
    if isinstance(value, list):
        return ", ".join(_in_words(each) for each in value) or "-"
    if value is None or isinstance(value, bool):
        return {None: "-", True: "yes", False: "no"}[value]
    return str(value)


def _cells(row: BatchRow | RecordRow | PlaceRow | TimeRow | FrameRow | DelayRow | ProducerRow) -> list[str]:
    match row:
        case BatchRow():
            return [str(row.position), *_batch_cells(row.envelope)]
        case RecordRow():
            return _record_cells(row)
        case PlaceRow():
            return [str(row.number), str(row.offset), str(row.position)]
        case DelayRow():
            return [str(row.position), *_delay_cells(row)]
        case TimeRow():
            return [str(row.number), readable(row.highest_timestamp)]
        case FrameRow():
            return [str(row.position), *_frame_cells(row.frame)]
        case ProducerRow():
            return _producer_cells(row.id, row.state)
        case _:
            assert_never(row)


def _batch_cells(envelope: Envelope) -> list[str]:
    producer = f"{envelope.producer_id}/{envelope.producer_epoch}/{envelope.base_sequence}"
    return [
        str(envelope.base_offset),
        str(envelope.record_count),
        str(envelope.size),
        str(envelope.leader_epoch),
        str(envelope.durable_offset),
        readable(envelope.append_time),
        readable(envelope.highest_timestamp),
        producer if envelope.producer_id else "-",
        ",".join(lane_names(envelope.priority_mask)) or "-",
        ",".join(flag_names(Attribute(envelope.attributes))) or "-",
    ]


def _record_cells(row: RecordRow) -> list[str]:
    record = row.record
    headers = (f"{printable(name)}={preview(value)}" for name, value in record.headers.items())
    return [
        str(record.offset),
        readable(record.timestamp),
        record.priority.name.lower(),
        preview(record.key, KEY_WIDTH) if record.key is not None else "-",
        preview(record.value if row.entry is None else repr(row.entry).encode()),
        ",".join(flag_names(record.flags)) or "-",
        _due_cell(record.due),
        " ".join(headers) or "-",
    ]


def _frame_cells(frame: JournalFrame) -> list[str]:
    numbers = (frame.number, frame.durable, frame.size)
    payloads = " ".join(map(preview, payloads_in(frame)))
    shown = payloads if len(payloads) <= PREVIEW_WIDTH else payloads[: PREVIEW_WIDTH - 1] + "…"
    return [frame.kind.name.lower(), *map(str, numbers), shown or "-"]


def _producer_cells(producer_id: int, state: ProducerState) -> list[str]:
    """For each batch its sequences, and the offset of the first of them."""
    batches = [f"{batch.first_sequence}-{batch.last_sequence}@{batch.base_offset}" for batch in state.batches]
    return [str(producer_id), str(state.epoch), readable(state.last_append_time), " ".join(batches)]


def _due_cell(due: int | None) -> str:
    if due is None:
        return "-"
    return f"after {(due ^ DELAY_BIT) / 1_000_000} s" if due & DELAY_BIT else readable(due)


def _delay_cells(row: DelayRow) -> list[str]:
    """A mark has neither a message nor a time; a hidden entry shows a mask instead of a time."""
    entry, carried = row.entry, "yes" if row.is_carried else "no"
    if entry.state is DelayState.MARK:
        return ["mark", "-", "-", str(entry.at), carried]
    if entry.state is DelayState.HIDDEN:
        return ["hidden", str(entry.offset), f"{entry.time:#x}", str(entry.at), carried]
    return [entry.state.name.lower(), str(entry.offset), readable(entry.time), str(entry.at), carried]
