"""The columns of a table for the sink, and their types.

| column | type | |
|---|---|---|
| value | binary or string | must be there; null: a tombstone, which deletes its key |
| key | binary or string | null or empty: none |
| headers | array<struct<key: string, value: binary>>, as a source has them, or map<string, binary> | null: none |
| priority | a whole number, 0 (critical) to 4 (background), or string: the name | null: normal |
| delay | a number: seconds | null: none |
| deliver_at | timestamp | null: at once; a row has `delay` or this, not both |
| partition | a whole number | null: by the key, else each batch to the next, and each task begins at another |
| topic | string | looked at where the option `topic` is not given, which wins over it |

All of this is checked before a task starts: faults are reported at once, as `InvalidConfig`.
"""

from collections.abc import Callable, Mapping

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    FractionalType,
    IntegralType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from goqueue.errors import InvalidConfig
from goqueue.spark.optionvalues import nearest
from goqueue.spark.schema import (
    DELAY,
    DELIVER_AT,
    HEADERS,
    KEY,
    OFFSET,
    PARTITION,
    PRIORITY,
    TIMESTAMP,
    TOPIC,
    VALUE,
)

THE_BROKERS = {OFFSET, TIMESTAMP}
"""Columns of a source that no sink can write: the log assigns them."""


def check_columns(schema: StructType, *, topic_is_given: bool) -> None:
    """`InvalidConfig` names everything that is wrong with these columns."""
    faults = [fault for field in schema for fault in _faults_of(field.name, field.dataType)]
    names = [field.name for field in schema]
    faults += [f"there are two columns {name}" for name in sorted(set(names)) if names.count(name) > 1]
    if VALUE not in names:
        faults.append("there is no column value")
    if TOPIC not in names and not topic_is_given:
        faults.append("nothing says which topic: give the option topic, or a column of this name")
    if faults:
        raise InvalidConfig(f"the columns of this write are wrong: {'; '.join(faults)}", faults=faults)


def _faults_of(name: str, kind: DataType) -> list[str]:
    if name in THE_BROKERS:
        return [f'{name} is given by the broker and cannot be written; leave it out, as by drop("{name}")']
    if name not in COLUMNS:
        meant = nearest(name, tuple(COLUMNS))
        hint = f"did you mean {meant}?" if meant else f"there are {', '.join(COLUMNS)}"
        return [f"there is no column {name}; {hint}"]
    fits, wanted = COLUMNS[name]
    return [] if fits(kind) else [f"{name} is {kind.simpleString()}; it must be {wanted}"]


def _is_bytes(kind: DataType) -> bool:
    return isinstance(kind, BinaryType | StringType)


def _are_headers(kind: DataType) -> bool:
    if isinstance(kind, MapType):
        return isinstance(kind.keyType, StringType) and _is_bytes(kind.valueType)
    if not (isinstance(kind, ArrayType) and isinstance(kind.elementType, StructType)):
        return False
    fields = {field.name: field.dataType for field in kind.elementType}
    return set(fields) == {"key", "value"} and isinstance(fields["key"], StringType) and _is_bytes(fields["value"])


COLUMNS: Mapping[str, tuple[Callable[[DataType], bool], str]] = {
    VALUE: (_is_bytes, "binary or string"),
    KEY: (_is_bytes, "binary or string"),
    HEADERS: (_are_headers, "array<struct<key:string,value:binary>> or map<string,binary>"),
    PRIORITY: (lambda kind: isinstance(kind, IntegralType | StringType), "a whole number or string"),
    DELAY: (lambda kind: isinstance(kind, IntegralType | FractionalType), "a number of seconds"),
    DELIVER_AT: (lambda kind: isinstance(kind, TimestampType), "timestamp"),
    PARTITION: (lambda kind: isinstance(kind, IntegralType), "a whole number"),
    TOPIC: (lambda kind: isinstance(kind, StringType), "string"),
}
