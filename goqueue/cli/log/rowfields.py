"""The rows of a dumped file as fields with names, for JSON. Times are microseconds, beside them as text."""

from dataclasses import asdict
from enum import IntFlag
from typing import Any, assert_never

from goqueue.cli.program.output import json_bytes, readable
from goqueue.core.delays.pending import DelayState
from goqueue.core.log.producers import ProducerStates, WrittenBatch
from goqueue.core.records.batch import Attribute, Envelope
from goqueue.core.records.record import DELAY_BIT, Record
from goqueue.storage.journals.file import FrameKind, JournalFrame, unpack_entries
from goqueue.storage.log.summary import History, SummaryHead
from goqueue.storage.verification.delaycheck import DelayRow
from goqueue.storage.verification.dump import FrameRow, PlaceRow, PointRow, ProducerRow, Row, SealRow, TimeRow
from goqueue.storage.verification.findings import Finding, FindingKind
from goqueue.storage.verification.segmentdump import BatchRow, RecordRow
from goqueue.types import LANE_COUNT, Microseconds, Priority

Fields = dict[str, Any]
DAMAGE_FIELDS = ("position", "end_position", "offset", "end_offset")


def fields_of(row: Row) -> Fields:
    match row:
        case BatchRow():
            return {"type": "batch", "position": row.position, **_batch(row.envelope)}
        case RecordRow():
            return {"type": "record", **_record(row)}
        case PlaceRow():
            return {"type": "place", **asdict(row)}
        case TimeRow():
            return {"type": "time", "number": row.number, **_time("highest_timestamp", row.highest_timestamp)}
        case SealRow():
            return {"type": "seal", **summary_fields(row.seal.head), **_history(row.seal.history)}
        case PointRow():
            return {"type": "recovery_point", **_point(row)}
        case FrameRow():
            return {"type": "frame", "position": row.position, **_frame(row.frame)}
        case DelayRow():
            return {"type": "delay", "position": row.position, **_delay(row)}
        case ProducerRow():
            return {"type": "producer", **_producer(*row.state.snapshot(row.id))}
        case Finding():
            return {"type": "torn_tail" if row.kind is FindingKind.TORN_TAIL else "damage", **asdict(row)}
        case _:
            assert_never(row)


def flag_names(flags: IntFlag) -> list[str]:
    """The flags that are set; bits without a name by their number."""
    unnamed = flags.value & ~sum(type(flags))
    return [*(each.name.lower() for each in flags if each.name), *([hex(unnamed)] if unnamed else [])]


def lane_names(mask: int) -> list[str]:
    unnamed = mask >> LANE_COUNT << LANE_COUNT
    return [*(each.name.lower() for each in Priority if mask >> each & 1), *([hex(unnamed)] if unnamed else [])]


def _time(name: str, value: Microseconds) -> Fields:
    return {name: value, f"{name}_text": readable(value)}


def _batch(envelope: Envelope) -> Fields:
    producer = {
        "id": envelope.producer_id,
        "epoch": envelope.producer_epoch,
        "base_sequence": envelope.base_sequence,
    }
    return {
        "size": envelope.size,
        "base_offset": envelope.base_offset,
        "end_offset": envelope.end_offset,
        "record_count": envelope.record_count,
        "leader_epoch": envelope.leader_epoch,
        "producer": producer if envelope.producer_id else None,
        "attributes": flag_names(Attribute(envelope.attributes)),
        "priorities": lane_names(envelope.priority_mask),
        **_time("highest_timestamp", envelope.highest_timestamp),
        **_time("append_time", envelope.append_time),
        **_time("wall_time", envelope.wall_time),
        "durable_offset": envelope.durable_offset,
    }


def _record(row: RecordRow) -> Fields:
    record = row.record
    return {
        "offset": record.offset,
        "batch_offset": row.batch_offset,
        "batch_position": row.batch_position,
        **_time("timestamp", record.timestamp),
        "priority": record.priority.name.lower(),
        "flags": flag_names(record.flags),
        **_due(record),
        "key": json_bytes(record.key) if record.key is not None else None,
        "headers": {name: json_bytes(value) for name, value in record.headers.items()},
        "value": json_bytes(record.value),
        **({} if row.entry is None else {"entry": _plain(row.entry)}),
    }


def _plain(entry: Any) -> Any:
    """What msgpack holds as JSON can say it: bytes as elsewhere, and the keys of maps as text."""
    if isinstance(entry, bytes):
        return json_bytes(entry)
    if isinstance(entry, dict):
        return {str(key): _plain(value) for key, value in entry.items()}
    return [_plain(each) for each in entry] if isinstance(entry, list | tuple) else entry


def _due(record: Record) -> Fields:
    if record.due is None:
        return {}
    if record.due & DELAY_BIT:
        return {"delay": record.due ^ DELAY_BIT}
    return _time("due", record.due)


def summary_fields(head: SummaryHead) -> Fields:
    summary, mark = head.summary, head.mark
    return {
        "base_offset": summary.base_offset,
        "end_offset": summary.end_offset,
        "size": summary.size,
        "records": summary.records,
        **_time("highest_timestamp", summary.highest_timestamp),
        **_time("first_append_time", summary.first_append_time),
        **_time("last_append_time", summary.last_append_time),
        "priorities": lane_names(summary.priority_mask),
        "holds_delayed": summary.holds_delayed,
        "holds_ids": summary.holds_ids,
        "damaged": summary.damaged,
        "index_entries": mark.entries,
        "index_crc": f"{mark.places_crc:08x}",
        "timeindex_crc": f"{mark.times_crc:08x}",
    }


def _history(history: History) -> Fields:
    return {
        "lanes": ["+".join(lane_names(mask)) for mask in history.lanes],
        "epochs": [{"leader_epoch": epoch, "from_offset": offset} for epoch, offset in history.epochs],
        "producers": _producers(history.producers),
        "damage": [dict(zip(DAMAGE_FIELDS, span, strict=True)) for span in history.damage],
    }


def _producers(states: ProducerStates | None) -> list[Fields] | None:
    """None when they are in a file of their own."""
    return None if states is None else [_producer(*fields) for fields in states.snapshot()]


def _producer(producer_id: int, epoch: int, last_append_time: Microseconds, batches: list[list[int]]) -> Fields:
    named = [WrittenBatch(*batch)._asdict() for batch in batches]
    return {"id": producer_id, "epoch": epoch, **_time("last_append_time", last_append_time), "batches": named}


def _point(row: PointRow) -> Fields:
    point = row.point
    return {
        "offset": point.offset,
        "log_start": point.log_start,
        "leader_epoch": point.leader_epoch,
        **_time("append_time", point.append_time),
        "compacted_to": point.compacted_to,
        "scan_from": point.scan_from._asdict(),
        "growing": summary_fields(row.growing) if row.growing is not None else None,
    }


def _delay(row: DelayRow) -> Fields:
    entry = row.entry
    return {
        "state": entry.state.name.lower(),
        "offset": entry.offset,
        **({"mask": f"{entry.time:#x}"} if entry.state is DelayState.HIDDEN else _time("time", entry.time)),
        "at": entry.at,
        "carried": row.is_carried,
    }


def _frame(frame: JournalFrame) -> Fields:
    return {
        "kind": frame.kind.name.lower(),
        "number": frame.number,
        "durable": frame.durable,
        "size": frame.size,
        "payloads": [json_bytes(payload) for payload in payloads_in(frame)],
    }


def payloads_in(frame: JournalFrame) -> list[bytes]:
    """The entries, or the one snapshot; a mark has none."""
    if frame.kind is FrameKind.ENTRIES:
        return unpack_entries(frame.payload)
    return [frame.payload] if frame.kind is FrameKind.SNAPSHOT else []
