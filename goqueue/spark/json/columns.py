"""Messages of JSON as typed columns, and why one does not fit: all as expressions that Spark compiles.

`from_json` is too lenient for a table that others rely on: it accepts a number as a string and a missing field as
null, and ignores text behind the document. So a message is parsed once into a VARIANT, which keeps the JSON types,
and its values are taken from there.

    {"d": <the message>, "e4f0…": true}

is what is parsed: the second field is found only if the message is one whole document. Its name is drawn anew for
each run, so that nobody can write a message that ends it early and goes on.

The document is walked field by field, which finds the reason. That is thorough and slow, so most messages do not
come here: arrow.py accepts plain ones at once, and only their limits are checked here.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from operator import and_

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 (as all of Spark's own pages do)
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from goqueue.spark.json.types import LONG_MAX, LONG_MIN, Field, JsonObject, Kind, Mapped, Plain, Scalar, Sequenced

DOCUMENT = "d"
WHOLE_DOCUMENT_SPELT = re.compile("e[0-9a-f]+")
DATE = r"^(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}$"
DATE_TIME = (
    r"^(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?([Zz]|[+-][0-9]{2}:[0-9]{2})$"
)
"""The spellings of RFC 3339; Spark checks whether there is such a day."""
FAR_OFFSET = r"^(.+)([+-])((?:18|19|2[0-3]):[0-5][0-9])$"
_SPELLINGS = {Scalar.DATE: DATE, Scalar.DATE_TIME: DATE_TIME}

NOT_JSON, NO_VALUE = "not JSON", "no value"

_TYPES: dict[Scalar, DataType] = {
    Scalar.STRING: StringType(),
    Scalar.DATE: DateType(),
    Scalar.DATE_TIME: TimestampType(),
    Scalar.INTEGER: LongType(),
    Scalar.NUMBER: DoubleType(),
    Scalar.BOOLEAN: BooleanType(),
    Scalar.OBJECT: StringType(),
    Scalar.ANYTHING: StringType(),
}
_SAID = {
    Scalar.STRING: "a string",
    Scalar.DATE: "a date",
    Scalar.DATE_TIME: "a time",
    Scalar.INTEGER: "a whole number",
    Scalar.NUMBER: "a number",
    Scalar.BOOLEAN: "true or false",
    Scalar.OBJECT: "an object",
}


def type_of(kind: Kind) -> DataType:
    """Every column may be null: a table outlives its schemas, and older rows lack fields that newer ones need."""
    match kind:
        case Plain():
            return _TYPES[kind.scalar]
        case JsonObject():
            return StructType([StructField(field.name, type_of(field.kind)) for field in kind.fields])
        case Sequenced():
            return ArrayType(type_of(kind.items))
        case Mapped():
            return MapType(StringType(), type_of(kind.values))


@dataclass(frozen=True)
class Parsing:
    """Parses the values of one run. Use `parsed` first, and the other methods on its column."""

    record: JsonObject
    ending: str
    """The name of the field after the document: e and secret hexadecimal digits."""

    def __post_init__(self) -> None:
        assert WHOLE_DOCUMENT_SPELT.fullmatch(self.ending)

    def parsed(self, value: Column) -> Column:
        """A VARIANT; null if the value is not JSON, not UTF-8, or names a field twice."""
        text = value.cast("string")
        wrapped = F.concat(F.lit(f'{{"{DOCUMENT}":'), text, F.lit(f',"{self.ending}":true}}'))
        return F.when(F.is_valid_utf8(text), F.try_parse_json(wrapped))

    def columns(self, parsed: Column) -> list[Column]:
        """One for each field, in the order of the schema; correct if the message fits."""
        return [
            _typed(field.kind, parsed, _path(DOCUMENT, field.name)).alias(field.name)
            for field in self.record.fields
        ]

    def reason(self, value: Column, parsed: Column) -> Column:
        """The reason why a message does not fit; null if it fits."""
        document = F.try_variant_get(parsed, f'$["{DOCUMENT}"]', "variant")
        ending = F.try_variant_get(parsed, f'$["{self.ending}"]', "boolean")
        return F.coalesce(
            F.when(value.isNull(), F.lit(NO_VALUE)),
            F.when(ending.isNull(), F.lit(NOT_JSON)),
            *_reasons(self.record, document, ""),
        )


def _path(*names: str) -> str:
    return "$" + "".join(f"['{name}']" if '"' in name else f'["{name}"]' for name in names)


# Values


def _typed(kind: Kind, variant: Column, path: str) -> Column:
    """The value at a path of a VARIANT; null if there is none."""
    match kind:
        case Plain(scalar=Scalar.DATE):
            return _string(variant, path).try_cast("date")
        case Plain(scalar=Scalar.DATE_TIME):
            return _moment(F.upper(_string(variant, path)))
        case Plain(scalar=Scalar.OBJECT | Scalar.ANYTHING):
            return F.to_json(_not_null(F.try_variant_get(variant, path, "variant")))
        case Plain():
            return F.try_variant_get(variant, path, kind.scalar.value)
        case JsonObject():
            fields = [
                _typed(each.kind, variant, path + _path(each.name)[1:]).alias(each.name) for each in kind.fields
            ]
            return F.when(_not_null(F.try_variant_get(variant, path, "variant")).isNotNull(), F.struct(*fields))
        case Sequenced():
            return F.transform(F.try_variant_get(variant, path, "array<variant>"), _typer(kind.items))
        case Mapped():
            values = F.try_variant_get(variant, path, "map<string,variant>")
            return F.transform_values(values, lambda _, each: _typed(kind.values, each, "$"))


def _moment(text: Column) -> Column:
    """With any zone offset of RFC 3339, up to 23:59: Java allows 18 hours, so larger ones are subtracted here."""
    local = F.concat(F.regexp_extract(text, FAR_OFFSET, 1), F.lit("Z")).try_cast("timestamp")
    offset = F.regexp_replace(text, FAR_OFFSET, "$20 $3:00").try_cast("interval day to second")
    return F.coalesce(text.try_cast("timestamp"), local - offset)


def _typer(kind: Kind) -> Callable[[Column], Column]:
    return lambda each: _typed(kind, each, "$")


def _string(variant: Column, path: str) -> Column:
    return F.try_variant_get(variant, path, "string")


def _not_null(variant: Column) -> Column:
    return F.when(~F.is_variant_null(variant), variant)


# Why a message does not fit, field by field


def _reasons(kind: Kind, variant: Column, pointer: str) -> Iterator[Column]:
    """Each is null, or the fault of a value."""
    where = pointer or "the message"
    outline = F.schema_of_variant(variant)
    is_null = outline == "VOID"
    if kind.is_nullable:
        present: Column = variant.isNotNull() & ~is_null
    else:
        yield F.when(is_null, F.lit(f"{where} is null"))
        present = variant.isNotNull()
    yield from (F.when(present, each) for each in _reasons_of_value(kind, variant, outline, pointer, where))


def _reasons_of_value(kind: Kind, variant: Column, outline: Column, pointer: str, where: str) -> Iterator[Column]:
    match kind:
        case Plain():
            yield from _reasons_of_plain(kind, variant, outline, where)
        case JsonObject():
            yield F.when(~outline.startswith("OBJECT<"), F.lit(f"{where} is not an object"))
            if kind.is_closed:
                names = F.map_keys(F.try_variant_get(variant, "$", "map<string,variant>"))
                known = F.array(*(F.lit(field.name) for field in kind.fields))
                yield F.when(F.size(F.array_except(names, known)) > 0, F.lit(f"{where} has an unknown field"))
            for field in kind.fields:
                yield from _reasons_of_field(field, variant, pointer)
        case Sequenced():
            yield F.when(~outline.startswith("ARRAY<"), F.lit(f"{where} is not an array"))
            elements = F.try_variant_get(variant, "$", "array<variant>")
            yield from _reasons_of_length(F.size(elements), kind.length_least, kind.length_most, where)
            yield _first_reason(elements, kind.items, f"{pointer}/*")
        case Mapped():
            yield F.when(~outline.startswith("OBJECT<"), F.lit(f"{where} is not an object"))
            values = F.map_values(F.try_variant_get(variant, "$", "map<string,variant>"))
            yield _first_reason(values, kind.values, f"{pointer}/*")


def _reasons_of_field(field: Field, variant: Column, pointer: str) -> Iterator[Column]:
    inner = f"{pointer}/{field.name.replace('~', '~0').replace('/', '~1')}"
    value = F.try_variant_get(variant, _path(field.name), "variant")
    if field.is_required:
        yield F.when(value.isNull(), F.lit(f"{inner} is missing"))
    yield from _reasons(field.kind, value, inner)


def _first_reason(elements: Column, kind: Kind, pointer: str) -> Column:
    reasons = F.transform(elements, lambda each: F.coalesce(*_reasons(kind, each, pointer), F.lit(None)))
    return F.get(F.filter(reasons, lambda reason: reason.isNotNull()), F.lit(0))


_IS_NUMBER = r"^(BIGINT|DOUBLE|DECIMAL.*)$"


def _reasons_of_plain(kind: Plain, variant: Column, outline: Column, where: str) -> Iterator[Column]:
    if kind.scalar is Scalar.ANYTHING:
        return
    unfit = F.lit(f"{where} is not {_SAID[kind.scalar]}")
    value = _typed(kind, variant, "$")
    match kind.scalar:
        case Scalar.OBJECT:
            yield F.when(~outline.startswith("OBJECT<"), unfit)
        case Scalar.BOOLEAN:
            yield F.when(outline != "BOOLEAN", unfit)
        case Scalar.STRING:
            yield F.when(outline != "STRING", unfit)
        case Scalar.DATE | Scalar.DATE_TIME:
            yield F.when(outline != "STRING", unfit)
            yield F.when(~_string(variant, "$").rlike(_SPELLINGS[kind.scalar]) | value.isNull(), unfit)
        case Scalar.NUMBER:
            yield F.when(~outline.rlike(_IS_NUMBER), unfit)
            yield F.when(~_is_finite(value), F.lit(f"{where} is out of range"))
        case Scalar.INTEGER:
            yield F.when(~outline.rlike(_IS_NUMBER), unfit)
            as_double = F.try_variant_get(variant, "$", "double")
            # Trailing zeros of a decimal do not count, so a decimal with a scale has a fraction.
            yield F.when(outline.startswith("DECIMAL") & ~outline.endswith(",0)"), unfit)
            yield F.when((outline == "DOUBLE") & _is_finite(as_double) & (F.floor(as_double) != as_double), unfit)
            yield F.when(~_is_finite(as_double) | ~_is_long(outline, as_double), F.lit(f"{where} is out of range"))
    for is_kept, what in limits_of(kind, value, _string(variant, "$")):
        yield F.when(~is_kept, F.lit(f"{where} {what}"))


def _is_finite(double: Column) -> Column:
    return ~F.isnan(double) & (F.abs(double) != F.lit(float("inf")))


def _is_long(outline: Column, as_double: Column) -> Column:
    """A whole number spelt as 1.0 or 1e3 counts if it is certainly within 64 bits."""
    return (outline == "BIGINT") | ((as_double >= F.lit(float(LONG_MIN))) & (as_double < F.lit(float(LONG_MAX))))


def _reasons_of_length(length: Column, least: int | None, most: int | None, where: str) -> Iterator[Column]:
    if least is not None:
        yield F.when(length < least, F.lit(f"{where} is too short"))
    if most is not None:
        yield F.when(length > most, F.lit(f"{where} is too long"))


def limits_of(kind: Plain, value: Column, spelt: Column) -> Iterator[tuple[Column, str]]:
    """The condition of each limit, and the fault if it fails. `spelt` is the value's text in the JSON."""
    limits = kind.limits
    if limits.values is not None:
        values = map(float, limits.values) if kind.scalar is Scalar.NUMBER else limits.values
        yield (spelt if _is_text(kind) else value).isin(*values), "is none of its values"
    bounds = (
        (limits.least, value.__ge__),
        (limits.most, value.__le__),
        (limits.above, value.__gt__),
        (limits.below, value.__lt__),
    )
    for bound, compare in bounds:
        if bound is not None:
            yield compare(F.lit(float(bound) if kind.scalar is Scalar.NUMBER else bound)), "is out of range"
    if limits.multiple_of is not None:
        yield value % F.lit(limits.multiple_of) == 0, f"is no multiple of {limits.multiple_of}"
    if limits.length_least is not None:
        yield F.char_length(spelt) >= limits.length_least, "is too short"
    if limits.length_most is not None:
        yield F.char_length(spelt) <= limits.length_most, "is too long"
    if limits.pattern is not None:
        yield spelt.rlike(limits.pattern), "does not match its pattern"


def keeps_limits(record: JsonObject, values: Column) -> Column:
    """Whether the values of a message with the right types, a struct, are within all limits."""
    return F.coalesce(reduce(and_, _kept(record, values), F.lit(True)), F.lit(False))


def _kept(record: JsonObject, values: Column) -> Iterator[Column]:
    for field in record.fields:
        value = values.getField(field.name)
        yield from (value.isNull() | kept for kept in _kept_by(field.kind, value))


def _kept_by(kind: Kind, value: Column) -> Iterator[Column]:
    match kind:
        case JsonObject():
            yield from _kept(kind, value)
        case Plain():
            yield from (kept for kept, _ in limits_of(kind, value, value))
        case Sequenced():
            if kind.length_least is not None:
                yield F.size(value) >= kind.length_least
            if kind.length_most is not None:
                yield F.size(value) <= kind.length_most


def _is_text(kind: Plain) -> bool:
    return kind.scalar in (Scalar.STRING, Scalar.DATE, Scalar.DATE_TIME)
