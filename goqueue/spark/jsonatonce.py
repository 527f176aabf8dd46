"""Messages that are known to fit at once: by one regular expression on their text, and `from_json` for the values.

The walk of jsoncolumns.py knows every message, at ten microseconds each. Most messages of most topics are plain:
an object of scalars, and of objects of scalars, in one order, and none unknown. A regular expression made from the
schema knows these. It may miss a message that fits, which is then walked; it must never match one that does not.
What it leaves open (bounds, lengths, days that exist) is asked of the values, which `from_json` reads right once
their types are known.

Loops over groups are bounded: Java's regular expressions go one level deeper with each turn.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 (as all of Spark's own pages do)
from pyspark.sql.types import DataType, StringType, StructField, StructType

from goqueue.spark.jsoncolumns import DATE, DATE_TIME, limits_of, type_of
from goqueue.spark.jsontypes import Kind, Plain, Record, Scalar

FIELDS_MAX = 100
_NAME = re.compile("[A-Za-z_][A-Za-z0-9_ .-]*")
_SPACE = r"[ \t\r\n]*+"
_END_OF_NUMBER = "(?![0-9.eE])"
_ESCAPED = r'\\(?:["\\/bfnrt]|u(?![dD][89a-fA-F])[0-9a-fA-F]{4})'
_UNESCAPED = r'[^"\\\x00-\x1f]*+'
_TEXTS = {
    Scalar.STRING: f'"{_UNESCAPED}(?:{_ESCAPED}{_UNESCAPED}){{0,100}}+"',
    Scalar.DATE: f'"{DATE[1:-1]}"',
    Scalar.DATE_TIME: f'"{DATE_TIME[1:-1]}"'.replace("[Tt]", "T").replace("[Zz]", "Z"),
    Scalar.INTEGER: f"-?(?:0|[1-9][0-9]{{0,17}}){_END_OF_NUMBER}",
    Scalar.NUMBER: rf"-?(?:0|[1-9][0-9]{{0,14}})(?:\.[0-9]{{1,15}})?{_END_OF_NUMBER}",
    Scalar.BOOLEAN: "(?:true|false)",
}
_TIMES = {Scalar.DATE: "date", Scalar.DATE_TIME: "timestamp"}


@dataclass(frozen=True)
class AtOnce:
    """For one schema. `text` is the message as a string that is UTF-8."""

    record: Record
    pattern: str

    def values(self, text: Column) -> Column:
        """A struct; right where `fits` is true."""
        return F.from_json(text, _struct(self.record), {"mode": "PERMISSIVE"})

    def columns(self, values: Column) -> list[Column]:
        return [
            _converted(field.kind, values.getField(field.name)).alias(field.name) for field in self.record.fields
        ]

    def looks_right(self, text: Column) -> Column:
        return F.coalesce(F.is_valid_utf8(text) & text.rlike(self.pattern), F.lit(False))

    def keeps_limits(self, values: Column) -> Column:
        """Of a message that looks right; the columns of `columns` are at hand under their names."""
        checks = _kept_by_fields(self.record, lambda name: F.col(f"`{name}`"), values)
        return F.coalesce(reduce(and_, checks, F.lit(True)), F.lit(False))


def at_once(record: Record, example: Any = None) -> AtOnce | None:
    """None where its messages can be more than the expression knows. `example` is one of them: programs write the
    fields of their messages in one order, which need not be the schema's.
    """
    pattern = _object(record, example) if _count(record) <= FIELDS_MAX else None
    return None if pattern is None else AtOnce(record, f"(?s)^{_SPACE}{pattern}{_SPACE}$")


def _count(record: Record) -> int:
    return sum(1 + (_count(field.kind) if isinstance(field.kind, Record) else 0) for field in record.fields)


def _object(record: Record, example: Any) -> str | None:
    """Its fields in the order of the example, and after these in that of the schema; none twice, none unknown."""
    seen = list(example) if isinstance(example, dict) else []
    fields = sorted(record.fields, key=lambda each: seen.index(each.name) if each.name in seen else len(seen))
    parts = []
    for field in fields:
        text = _text(field.kind, example.get(field.name) if isinstance(example, dict) else None)
        if text is None or not _NAME.fullmatch(field.name):
            return None
        one = f'"{re.escape(field.name)}"{_SPACE}:{_SPACE}{text}{_SPACE}(?:,{_SPACE}(?!\\}})|(?=\\}}))'
        parts.append(one if field.is_required else f"(?:{one})?")
    return f"\\{{{_SPACE}{''.join(parts)}\\}}"


def _text(kind: Kind, example: Any) -> str | None:
    match kind:
        case Record():
            text = _object(kind, example)
        case Plain():
            text = _TEXTS.get(kind.scalar)
        case _:
            text = None
    return f"(?:{text}|null)" if text is not None and kind.is_nullable else text


# Values


def _struct(record: Record) -> StructType:
    return StructType([StructField(field.name, _read_as(field.kind)) for field in record.fields])


def _read_as(kind: Kind) -> DataType:
    """Times as they are spelt: Spark's own cast of them is faster than that of from_json."""
    match kind:
        case Record():
            return _struct(kind)
        case Plain(scalar=scalar) if scalar in _TIMES:
            return StringType()
        case _:
            return type_of(kind)


def _converted(kind: Kind, value: Column) -> Column:
    match kind:
        case Record():
            fields = [_converted(field.kind, value.getField(field.name)).alias(field.name) for field in kind.fields]
            return F.when(value.isNotNull(), F.struct(*fields))
        case Plain(scalar=scalar) if scalar in _TIMES:
            return value.try_cast(_TIMES[scalar])
        case _:
            return value


def _kept_by_fields(record: Record, column: Callable[[str], Column], values: Column) -> Iterator[Column]:
    for field in record.fields:
        typed, spelt = column(field.name), values.getField(field.name)
        match field.kind:
            case Record():
                inner = _kept_by_fields(field.kind, typed.getField, spelt)
                yield from (spelt.isNull() | each for each in inner)
            case Plain():
                if field.kind.scalar in _TIMES:
                    yield spelt.isNull() | typed.isNotNull()
                yield from (spelt.isNull() | kept for kept, _ in limits_of(field.kind, typed, spelt))
