"""Rows of a record batch as calls of a producer: neighbours that differ only in value, key and priority share one.

Most batches are one such run. Then no row is looked at by itself: values and keys become lists, whole columns at a
time. If headers, times, partitions or topics differ, each change begins the next run, so the order of rows is kept.

Nothing here publishes. A fault of a row is `RowRefused`, with the row's number in its batch.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from goqueue.client.producing.content import priority_of
from goqueue.core.records.inspection import own_headers_fault
from goqueue.core.records.record import BROKER_HEADER_PREFIX, FLAGS_FROM_CLIENTS
from goqueue.errors import InvalidMessage, RowRefused
from goqueue.spark.schema import DELAY, DELIVER_AT, HEADERS, KEY, PARTITION, PRIORITY, TOPIC, VALUE
from goqueue.types import Priority

if TYPE_CHECKING:
    import pyarrow as pa

MILLION = 1_000_000


class SendRun(NamedTuple):
    first: int
    """The number of its first row."""
    topic: str
    options: Mapping[str, Any]
    """The producer's arguments that all of its rows share; others have the producer's defaults."""
    values: Sequence[bytes | None]
    """None is a tombstone."""
    keys: Sequence[bytes | None] | None
    priorities: Sequence[Priority] | None
    """None if all rows of the batch have the same, which is among the options then."""


def runs_of(batch: "pa.RecordBatch", topic: str | None) -> Iterator[SendRun]:
    """The rows in order. `topic` is that of all rows, whatever a column says."""
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    values, keys = _bytes_of(columns[VALUE]), _keys(columns.get(KEY))
    priorities = _mixed_priorities(columns.get(PRIORITY))
    beside = {TOPIC if topic else None, PRIORITY if priorities else None}
    common = {name: columns[name] for name in READERS if name in columns and name not in beside}
    first = 0
    for options, count in _alike(common, batch.num_rows):
        run = slice(first, first + count)
        named = topic or options.pop(TOPIC)
        yield SendRun(first, named, options, values[run], keys and keys[run], priorities and priorities[run])
        first += count


# Values and keys


def _keys(column: "pa.Array | None") -> list[bytes | None] | None:
    if column is None or column.null_count == len(column):
        return None
    return _bytes_of(column)


def _bytes_of(column: "pa.Array") -> list[Any]:
    """By NumPy, which makes the objects in C: a fifth of the time of `to_pylist`."""
    import pyarrow as pa  # noqa: PLC0415

    if pa.types.is_string(column.type):
        column = column.view(pa.binary())
    elif pa.types.is_large_string(column.type):
        column = column.view(pa.large_binary())
    made: list[Any] = column.to_numpy(zero_copy_only=False).tolist()
    return made


# Shared options


def _alike(columns: Mapping[str, "pa.Array"], count: int) -> Iterator[tuple[dict[str, Any], int]]:
    """Options, and the number of neighbouring rows that share them."""
    import pyarrow.compute as pc  # noqa: PLC0415

    constant: dict[str, Any] = {}
    differing: dict[str, list[Any]] = {}
    for name, column in columns.items():
        if name != HEADERS and len(pc.unique(column)) == 1:
            [constant[name]] = READERS[name](column[:1])
        else:
            differing[name] = READERS[name](column)
    if not differing:
        yield constant, count
        return
    for common, rows in groupby(zip(*differing.values(), strict=True)):
        yield {**constant, **dict(zip(differing, common, strict=True))}, sum(1 for _ in rows)


def _topics(column: "pa.Array") -> list[str]:
    if column.null_count:
        raise refused(_first(column.is_null()), "its topic is null, and the option topic is not given")
    topics: list[str] = column.to_pylist()
    return topics


def _headers(column: "pa.Array") -> list[dict[str, bytes] | None]:
    return [None if each is None else _header(number, each) for number, each in enumerate(column.to_pylist())]


def _header(number: int, pairs: list[Any]) -> dict[str, bytes] | None:
    """Headers from a map come as pairs, from an array as dicts."""
    made: dict[str, bytes] = {}
    for pair in pairs:
        name, value = (None, None) if pair is None else pair if isinstance(pair, tuple) else tuple(pair.values())
        if name is None or value is None:
            raise refused(number, f"its header {name!r} is null; headers have a name and a value")
        if name in made:
            raise refused(number, f"it has two headers {name!r}; a name stands once")
        made[name] = value.encode() if isinstance(value, str) else value
    own = {name: value for name, value in made.items() if name.startswith(BROKER_HEADER_PREFIX)}
    if fault := own_headers_fault(own, FLAGS_FROM_CLIENTS):
        raise refused(number, fault.message)
    return made or None


def _priorities(column: "pa.Array") -> list[Priority]:
    given = column.to_pylist()
    known: dict[Any, Priority] = {None: Priority.NORMAL}
    for each in set(given) - {None}:
        try:
            known[each] = priority_of(int(each) if isinstance(each, str) and each.isdecimal() else each)
        except InvalidMessage as error:
            raise refused(given.index(each), error.message) from None
    return [known[each] for each in given]


def _mixed_priorities(column: "pa.Array | None") -> list[Priority] | None:
    import pyarrow.compute as pc  # noqa: PLC0415

    return None if column is None or len(pc.unique(column)) <= 1 else _priorities(column)


def _whole(column: "pa.Array") -> list[int | None]:
    numbers: list[int | None] = column.to_pylist()
    return numbers


def _seconds(column: "pa.Array") -> list[float | None]:
    """Also from decimals."""
    return [None if each is None else float(each) for each in column.to_pylist()]


def _moments(column: "pa.Array") -> list[float | None]:
    """Without conversion to dates, whose zone need not be known here."""
    import pyarrow as pa  # noqa: PLC0415

    exact = column.cast(pa.timestamp("us", column.type.tz)).view(pa.int64())
    return [None if each is None else each / MILLION for each in exact.to_pylist()]


READERS: Mapping[str, Any] = {
    TOPIC: _topics,
    HEADERS: _headers,
    PRIORITY: _priorities,
    PARTITION: _whole,
    DELAY: _seconds,
    DELIVER_AT: _moments,
}


# Refusals


def refused(row: int, why: str) -> RowRefused:
    return RowRefused(why, row=row)


def _first(where: "pa.Array") -> int:
    import pyarrow.compute as pc  # noqa: PLC0415

    return int(pc.index(where, True).as_py())
