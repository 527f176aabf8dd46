"""Rows become Arrow record batches, without a Python object for each message.

Fields at a fixed position of every record (offset, timestamp, priority) are NumPy arrays already. Keys and values
are cut out by Arrow: an Arrow column of bytes is its bytes and the end of each entry, so the log's own bytes are a
column with four entries for each record, of which the first is the key and the third the value:

    | key | headers | value | next record's header | key | headers | value | …

Headers, and the origin of a dead letter, are read in Python, only if they are asked for.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from goqueue.core.groups.deadletter import Story
from goqueue.core.records.record import EXPIRES_AT_HEADER, MESSAGE_ID_HEADER, Flag
from goqueue.spark import schema as columns
from goqueue.spark.json.arrow import ArrowReading
from goqueue.spark.reading.rows import Rows, WantedRows, rows_of
from goqueue.types import Buffer

_NOT_SHOWN = (MESSAGE_ID_HEADER, EXPIRES_AT_HEADER)
_TOMBSTONE = int(Flag.TOMBSTONE)
_SPANS = 4
"""For each record: its key, its headers, its value, and the bytes before the next key."""


def record_batches(
    data: Buffer, wanted: WantedRows, schema: pa.Schema, at_once: ArrowReading | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of whole batches of the log; with `at_once` also the values that are known to fit."""
    for rows in rows_of(data, wanted):
        yield pa.RecordBatch.from_arrays(_arrays(rows, wanted, schema, at_once), schema=schema)


def _arrays(rows: Rows, wanted: WantedRows, schema: pa.Schema, at_once: ArrowReading | None) -> list[pa.Array]:
    spans, count = _spans(rows), len(rows)
    made = {
        columns.KEY: _keys(rows, spans),
        columns.VALUE: _values(rows, spans),
        columns.TOPIC: pa.repeat(wanted.topic, count),
        columns.PARTITION: pa.repeat(pa.scalar(wanted.partition, pa.int32()), count),
        columns.OFFSET: pa.array(rows.offsets),
        columns.TIMESTAMP: pa.array(rows.heads["timestamp"].astype(np.int64)).view(_TIMESTAMP),
        columns.PRIORITY: pa.array(rows.heads["priority"].astype(np.int32)),
    }
    if columns.HEADERS in schema.names:
        made[columns.HEADERS] = _headers(rows, schema.field(columns.HEADERS).type)
    if columns.ORIGIN_TOPIC in schema.names:
        made |= _origins(rows, schema)
    if at_once is not None:
        made[columns.KNOWN] = at_once.read(made[columns.VALUE])
    return [made[name] for name in schema.names]


_TIMESTAMP = pa.timestamp("us", "UTC")


def _spans(rows: Rows) -> pa.Array:
    bounds = np.empty((len(rows), _SPANS), np.int32)
    bounds[:, 0], bounds[:, 1] = rows.keys_at, rows.sections_at
    bounds[:, 2], bounds[:, 3] = rows.values_at, rows.ends
    ends = np.append(bounds, bounds[-1, 3])
    return pa.Array.from_buffers(pa.binary(), bounds.size, [None, pa.py_buffer(ends), pa.py_buffer(rows.data)])


def _keys(rows: Rows, spans: pa.Array) -> pa.Array:
    has_none = rows.heads["key_size"] == 0
    if has_none.all():
        return pa.nulls(len(rows), pa.binary())
    return spans.take(pa.array(np.arange(0, _SPANS * len(rows), _SPANS), mask=has_none))


def _values(rows: Rows, spans: pa.Array) -> pa.Array:
    """A tombstone has none."""
    is_tombstone = rows.heads["flags"] & _TOMBSTONE != 0
    return spans.take(pa.array(np.arange(2, _SPANS * len(rows), _SPANS), mask=is_tombstone))


# Headers


def _headers(rows: Rows, kind: pa.DataType) -> pa.Array:
    """An empty array if there are none."""
    names, values, counts = list[str](), list[bytes](), np.zeros(len(rows) + 1, np.int32)
    for number in rows.with_headers.tolist():
        shown = {name: each for name, each in rows.headers_of(number).items() if name not in _NOT_SHOWN}
        names += shown
        values += shown.values()
        counts[number + 1] = len(shown)
    entries = pa.StructArray.from_arrays(
        [pa.array(names, pa.string()), pa.array(values, pa.binary())], fields=list(kind.value_type)
    )
    return pa.ListArray.from_arrays(pa.array(np.cumsum(counts, dtype=np.int32)), entries, type=kind)


# The origin of a dead letter

_OF_STORIES: Mapping[str, Callable[[Story], Any]] = {
    columns.ORIGIN_TOPIC: lambda story: story.topic,
    columns.ORIGIN_PARTITION: lambda story: story.partition,
    columns.ORIGIN_OFFSET: lambda story: story.offset,
    columns.ORIGIN_GROUP: lambda story: story.group,
    columns.ATTEMPTS: lambda story: story.attempts,
    columns.FIRST_DELIVERY: lambda story: story.first_delivery,
    columns.LAST_DELIVERY: lambda story: story.last_delivery,
    columns.REASON: lambda story: story.reason,
}


def _origins(rows: Rows, schema: pa.Schema) -> dict[str, pa.Array]:
    """All null for a message that was published by a program, not by the broker."""
    stories: list[Story | None] = [None] * len(rows)
    for number in rows.with_headers.tolist():
        stories[number] = Story.from_headers(rows.headers_of(number))
    return {
        name: pa.array([None if story is None else told(story) for story in stories], schema.field(name).type)
        for name, told in _OF_STORIES.items()
    }
