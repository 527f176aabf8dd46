"""Messages that are known to fit at once: Arrow reads whole blocks of them, in the task that has fetched them.

The walk of columns.py judges every message, with the reason if it does not fit, at ten microseconds each. Arrow's
reader of JSON takes half of one. It may miss a message that fits, which is then walked; it must never accept one
that does not. So this has to be true of an accepted message:

- Apart from blanks around it, it begins with {, ends with } and has no line break. With line breaks between
  messages no document spans two of them, since no text may hold one; so if there are as many documents as messages,
  each message is one.
- Arrow refuses other types, integers with a fraction, duplicate names, and text that is no JSON: the whole block,
  which is then halved until the pieces are small. Messages in a small piece with a bad one are walked.
- Missing and null are the same to Arrow. If they differ in the schema, the text decides, or the walk.
- Arrow accepts NaN and Infinity, times of many spellings and text that is not UTF-8. These are checked for.
- Java has limits of nesting and of digits; a message that comes near to them is walked.

Limits of values (bounds, lengths, patterns) are checked later (`keeps_limits` of columns.py).
"""

import re
from collections.abc import Mapping
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from goqueue.spark.json.types import Field, JsonObject, Kind, Plain, Scalar, Sequenced, ValueLimits

Longs: TypeAlias = npt.NDArray[np.int64]
Truths: TypeAlias = npt.NDArray[np.bool_]

PIECE_MIN = 64
SIZE_MAX = 64 * 1024
LONG = 500
"""Messages up to this size cannot reach Java's limits of nesting and digits; larger ones are checked for them."""
_NESTED_MAX = 500
_DIGITS_MANY = r"[0-9]{500}"

_READ_AS: Mapping[Scalar, pa.DataType] = {
    Scalar.STRING: pa.string(),
    Scalar.DATE: pa.string(),
    Scalar.DATE_TIME: pa.string(),
    Scalar.INTEGER: pa.int64(),
    Scalar.NUMBER: pa.float64(),
    Scalar.BOOLEAN: pa.bool_(),
}
_DATE = r"[1-9][0-9]{3}-[0-9]{2}-[0-9]{2}"
_TIME = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?(?:Z|[+-](?:0[0-9]|1[0-7]):[0-5][0-9])"
_SPELLINGS = {Scalar.DATE: rf"\A{_DATE}\z", Scalar.DATE_TIME: rf"\A{_DATE}T{_TIME}\z"}
"""The spellings that Arrow and Spark read alike. Arrow checks whether there is such a day."""
_BLANKS = " \t\r\n"
_NAME = re.compile("[A-Za-z0-9_-]+")


def can_be_at_once(kind: Kind) -> bool:
    """Whether everything in a schema can be checked here, or on the values."""
    match kind:
        case Plain():
            is_time = kind.scalar in _SPELLINGS
            return kind.scalar in _READ_AS and not (is_time and kind.limits != ValueLimits())
        case JsonObject():
            return bool(kind.fields) and all(can_be_at_once(field.kind) for field in kind.fields)
        case Sequenced():
            return can_be_at_once(kind.items) and not _has_limits(kind.items)
        case _:
            return False


def _has_limits(kind: Kind) -> bool:
    match kind:
        case Plain():
            return kind.limits != ValueLimits()
        case JsonObject():
            return any(_has_limits(field.kind) for field in kind.fields)
        case Sequenced():
            return (kind.length_least, kind.length_most) != (None, None) or _has_limits(kind.items)
        case _:
            return True


class ArrowReading:
    """Reads messages of one schema for which `can_be_at_once` holds."""

    def __init__(self, record: JsonObject, kind: pa.StructType) -> None:
        """`kind` is the type of the values in Spark."""
        assert can_be_at_once(record)
        self._record = record
        self._kind = kind
        self._options = pj.ParseOptions(
            explicit_schema=pa.schema(list(_read_as(record))), unexpected_field_behavior="infer"
        )

    def read(self, values: pa.Array) -> pa.Array:
        """A struct for each message; null if it is not known to fit."""
        values = _trimmed(values)
        is_plain = _are_plain(values)
        if is_plain.all():
            return self._read_some(values)
        found = self._read_some(values.filter(pa.array(is_plain)))
        return found.take(pa.array(np.cumsum(is_plain) - 1, mask=~is_plain))

    def _read_some(self, values: pa.Array) -> pa.Array:
        try:
            if len(values):
                return self._read_block(values)
        except pa.ArrowInvalid:
            half = len(values) // 2
            if len(values) > PIECE_MIN:
                return pa.concat_arrays([self._read_some(values[:half]), self._read_some(values[half:])])
        return pa.nulls(len(values), self._kind)

    def _read_block(self, values: pa.Array) -> pa.Array:
        text = _joined(values)
        options = pj.ReadOptions(use_threads=False, block_size=text.size + 1)
        found = pj.read_json(pa.BufferReader(text), options, self._options)
        if len(found) != len(values):
            raise pa.ArrowInvalid("a message has more than one document")
        rows = found.to_struct_array().combine_chunks()
        return _Block(values).taken(self._record, rows, self._kind)


def _read_as(record: JsonObject) -> pa.StructType:
    return pa.struct([(field.name, _kind_read(field.kind)) for field in record.fields])


def _kind_read(kind: Kind) -> pa.DataType:
    match kind:
        case JsonObject():
            return _read_as(kind)
        case Sequenced():
            return pa.list_(_kind_read(kind.items))
        case Plain():
            return _READ_AS[kind.scalar]
        case _:
            raise AssertionError("others are walked")


def _joined(values: pa.Array) -> pa.Buffer:
    """All values in one buffer, with line breaks between them."""
    whole = pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)
    return pc.binary_join(whole, b"\n").buffers()[2]


# Checks of the text


def _trimmed(values: pa.Array) -> pa.Array:
    """Without blanks before and after a document, such as a line break at the end."""
    if pc.all(_are_braced(values)).as_py() is not False:
        return values
    return pc.ascii_trim(values.view(pa.string()), _BLANKS).view(pa.binary())


def _are_braced(values: pa.Array) -> pa.Array:
    return pc.and_(pc.starts_with(values, "{"), pc.ends_with(values, "}"))


def _are_plain(values: pa.Array) -> Truths:
    sizes = pc.binary_length(values)
    is_plain = pc.and_not(_are_braced(values), pc.match_substring(values, "\n"))
    is_plain = _truths(pc.and_(is_plain, pc.less_equal(sizes, SIZE_MAX)))
    is_plain &= _are_texts(values)
    are_long = np.flatnonzero(is_plain & _truths(pc.greater(sizes, LONG)))
    if len(are_long):
        is_plain[are_long] = _are_small_to_java(values.take(pa.array(are_long)))
    return is_plain


def _truths(answers: pa.Array) -> Truths:
    found: Truths = pc.fill_null(answers, False).to_numpy(zero_copy_only=False).copy()
    return found


def _are_texts(values: pa.Array) -> Truths:
    try:
        values.cast(pa.string())
    except pa.ArrowInvalid:
        return np.array([_is_text(value) for value in values.to_pylist()])
    return np.ones(len(values), np.bool_)


def _is_text(value: bytes | None) -> bool:
    try:
        return value is not None and value.decode() is not None
    except UnicodeDecodeError:
        return False


def _are_small_to_java(values: pa.Array) -> Truths:
    nested = pc.add(pc.count_substring(values, "{"), pc.count_substring(values, "["))
    has_many_digits = pc.match_substring_regex(values, _DIGITS_MANY)
    return _truths(pc.and_not(pc.less_equal(nested, _NESTED_MAX), has_many_digits))


# Checks of the values


class _Block:
    """Some messages whose values Arrow has read, and which of them still fit. `rows` are the numbers of the
    messages to which the entries of a column belong.
    """

    def __init__(self, texts: pa.Array) -> None:
        self._texts = texts
        self._fits: Truths = np.ones(len(texts), np.bool_)
        self._has_strangers = False

    def taken(self, record: JsonObject, rows: pa.Array, kind: pa.StructType) -> pa.Array:
        made = self._objects(record, rows, np.arange(len(rows)), kind)
        if self._has_strangers:
            self._fits &= ~self._says_no_number
        if self._fits.all():
            return made
        return pc.if_else(pa.array(self._fits), made, pa.scalar(None, kind))

    def _values(self, kind: Kind, column: pa.Array, rows: Longs, becomes: pa.DataType) -> pa.Array:
        match kind:
            case JsonObject():
                return self._objects(kind, column, rows, becomes)
            case Sequenced():
                return self._lists(kind, column, rows, becomes)
            case Plain(scalar=Scalar.NUMBER):
                self._let_go(rows, ~pc.fill_null(pc.is_finite(column), True).to_numpy(zero_copy_only=False))
            case Plain(scalar=scalar) if scalar in _SPELLINGS:
                return self._times(column, rows, _SPELLINGS[scalar], becomes)
        return column

    def _times(self, column: pa.Array, rows: Longs, spelling: str, becomes: pa.DataType) -> pa.Array:
        is_right = pc.match_substring_regex(column, spelling)
        self._let_go(rows, ~pc.fill_null(is_right, True).to_numpy(zero_copy_only=False))
        return pc.if_else(is_right, column, pa.scalar(None, pa.string())).cast(becomes)

    def _lists(self, kind: Sequenced, column: pa.Array, rows: Longs, becomes: pa.ListType) -> pa.Array:
        items = column.values
        of_items: Longs = rows[pc.list_parent_indices(column).to_numpy()]
        if items.null_count and not kind.items.is_nullable:
            self._let_go(of_items, _truths(items.is_null()))
        made = self._values(kind.items, items, of_items, becomes.value_type)
        nulls = column.is_null() if column.null_count else None
        return pa.ListArray.from_arrays(column.offsets, made, type=becomes, mask=nulls)

    def _objects(self, record: JsonObject, column: pa.Array, rows: Longs, becomes: pa.StructType) -> pa.Array:
        self._look_for_strangers(record, column.type)
        made = list[pa.Array]()
        for field, target in zip(record.fields, becomes, strict=True):
            values = column.field(field.name)
            is_absent = values.is_null() if values.null_count else None
            if is_absent is not None:
                self._look_for_absent(field, rows[_truths(pc.and_(is_absent, column.is_valid()))])
            made.append(self._values(field.kind, values, rows, target.type))
        nulls = column.is_null() if column.null_count else None
        return pa.StructArray.from_arrays(made, fields=list(becomes), mask=nulls)

    def _look_for_strangers(self, record: JsonObject, kind: pa.StructType) -> None:
        if kind.num_fields > len(record.fields):
            if record.is_closed:
                raise pa.ArrowInvalid("a message has an unknown field")
            self._has_strangers = True

    def _look_for_absent(self, field: Field, rows: Longs) -> None:
        """`rows` are the messages in which the field is missing or null."""
        if field.is_required and field.kind.is_nullable:
            self._fits[rows] &= self._have_field(field.name, rows)
        elif field.is_required:
            self._fits[rows] = False
        elif not field.kind.is_nullable:
            rows = rows[self._says_null[rows]]
            self._fits[rows] &= ~self._may_have_null(field.name, rows)

    def _have_field(self, name: str, rows: Longs) -> Truths:
        """A colon follows, so it is a name; and if there is only one object, it is a name of that one."""
        if not _NAME.fullmatch(name):
            return np.zeros(len(rows), np.bool_)
        texts = self._texts.take(pa.array(rows))
        is_alone = pc.equal(pc.count_substring(texts, "{"), 1)
        return _truths(pc.and_(is_alone, pc.match_substring_regex(texts, rf'"{name}"[ \t\r]*:')))

    def _may_have_null(self, name: str, rows: Longs) -> Truths:
        """Anywhere in the text, or with a name that is spelt with escapes."""
        if not _NAME.fullmatch(name):
            return np.ones(len(rows), np.bool_)
        texts = self._texts.take(pa.array(rows))
        has_null = pc.match_substring_regex(texts, rf'"{name}"[ \t\r]*:[ \t\r]*null')
        return _truths(pc.or_(has_null, pc.match_substring(texts, "\\")))

    def _let_go(self, rows: Longs, are_bad: Truths) -> None:
        self._fits[rows[are_bad]] = False

    @cached_property
    def _says_null(self) -> Truths:
        return _truths(pc.match_substring(self._texts, "null"))

    @cached_property
    def _says_no_number(self) -> Truths:
        """True also if a text holds it. Of unknown fields Arrow has only checked that they are JSON to it."""
        return _truths(pc.or_(pc.match_substring(self._texts, "NaN"), pc.match_substring(self._texts, "Inf")))
