"""A JSON Schema, read as the columns of a table. Pure: no Spark here.

A schema describes any JSON; a table has columns with types. So only schemas with a type everywhere are accepted:

| schema | column |
|---|---|
| string | string |
| string with format date, date-time | date, timestamp |
| integer | long |
| number | double |
| boolean | boolean |
| object with properties | struct; others are left out, or refused with additionalProperties: false |
| object with a schema as additionalProperties | map of string to that |
| object without both, or no type at all | its JSON as a string |
| array with items | array |
| null beside another type (a list of types, oneOf, anyOf) | the same column, null |

Limits of values (enum, const, bounds, lengths, pattern, required) are checked for each message. A keyword that
cannot be expressed is an error with its JSON pointer before anything starts; descriptions (title, default) are
ignored.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from math import ceil, floor, isfinite
from typing import Any
from urllib.parse import unquote

from goqueue.errors import InvalidConfig

DEPTH_MAX = 32
FIELDS_MAX = 2_000
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1
DESCRIBING = {
    "$schema", "$id", "$comment", "$defs", "definitions", "title", "description", "default", "examples",
    "deprecated", "readOnly", "writeOnly", "contentMediaType", "contentEncoding",
}  # fmt: skip


class Scalar(Enum):
    """The name is that in a schema, the value that of a column."""

    STRING = "string"
    DATE = "date"
    DATE_TIME = "timestamp"
    INTEGER = "bigint"
    NUMBER = "double"
    BOOLEAN = "boolean"
    OBJECT = "an object as text"
    """An object whose fields are not known."""
    ANYTHING = "anything as text"


Value = str | int | float | bool


@dataclass(frozen=True, slots=True)
class ValueLimits:
    """The limits of a scalar's values; None and () if there is no limit."""

    values: tuple[Value, ...] | None = None
    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None
    multiple_of: int | None = None
    length_least: int | None = None
    length_most: int | None = None
    pattern: str | None = None


@dataclass(frozen=True, slots=True)
class Plain:
    scalar: Scalar
    limits: ValueLimits = ValueLimits()
    is_nullable: bool = False


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    kind: "Kind"
    is_required: bool


@dataclass(frozen=True, slots=True)
class JsonObject:
    """An object whose fields are known. `is_closed`: it has no others."""

    fields: tuple[Field, ...]
    is_closed: bool = False
    is_nullable: bool = False


@dataclass(frozen=True, slots=True)
class Sequenced:
    items: "Kind"
    length_least: int | None = None
    length_most: int | None = None
    is_nullable: bool = False


@dataclass(frozen=True, slots=True)
class Mapped:
    values: "Kind"
    is_nullable: bool = False


Kind = Plain | JsonObject | Sequenced | Mapped


def record_of(schema: Any, reserved: frozenset[str] = frozenset()) -> JsonObject:
    """The columns of a table. `reserved` are names of its other columns; `InvalidConfig` names what is wrong."""
    kind = _Reader(schema).kind(schema, "#", ())
    if not isinstance(kind, JsonObject) or kind.is_nullable:
        raise _wrong("#", "a table needs an object with properties")
    for field in kind.fields:
        if field.name.lower() in reserved:
            raise _wrong(f"#/properties/{_step(field.name)}", "the table has a column of this name of its own")
    return kind


def _wrong(pointer: str, why: str) -> InvalidConfig:
    return InvalidConfig(f"the schema cannot be a table at {pointer}: {why}", pointer=pointer)


def _step(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


class _Reader:
    def __init__(self, root: Any) -> None:
        self._root = root
        self._fields = 0

    def kind(self, schema: Any, pointer: str, references: tuple[str, ...]) -> Kind:
        if pointer.count("/") > 4 * DEPTH_MAX:
            raise _wrong(pointer, "it is nested too deeply")
        if schema is True:
            return Plain(Scalar.ANYTHING, is_nullable=True)
        if not isinstance(schema, dict):
            raise _wrong(pointer, "a schema is an object")
        said = {name: value for name, value in schema.items() if not _describes(name)}
        for word in ("$ref", "oneOf", "anyOf", "allOf"):
            if word in said:
                self._check_alone(said, word, pointer)
                if word == "$ref":
                    return self._referred(said[word], f"{pointer}/$ref", references)
                return self._alternatives(said[word], f"{pointer}/{word}", references)
        return self._typed(said, pointer, references)

    @staticmethod
    def _check_alone(said: Mapping[str, Any], word: str, pointer: str) -> None:
        beside = sorted(set(said) - {word})
        if beside:
            raise _wrong(pointer, f"{word} stands beside {', '.join(beside)}")

    def _referred(self, target: Any, pointer: str, references: tuple[str, ...]) -> Kind:
        if not isinstance(target, str) or not target.startswith("#"):
            raise _wrong(pointer, f"{target!r} is not a part of this schema, like #/$defs/address")
        if target in references:
            raise _wrong(pointer, f"{target} holds itself, and a table has no endless columns")
        found = self._root
        for step in unquote(target[1:]).split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, dict) or name not in found:
                raise _wrong(pointer, f"there is no {target}")
            found = found[name]
        return self.kind(found, target, (*references, target))

    def _alternatives(self, given: Any, pointer: str, references: tuple[str, ...]) -> Kind:
        """Null and one other schema, or one schema alone."""
        if not isinstance(given, list) or not given:
            raise _wrong(pointer, "it is a list of schemas")
        nulls = [each for each in given if isinstance(each, dict) and each.get("type") == "null"]
        others = [(number, each) for number, each in enumerate(given) if each not in nulls]
        if len(others) != 1 or (nulls and pointer.endswith("allOf")):
            raise _wrong(pointer, "a column has one type, and null beside it")
        number, other = others[0]
        kind = self.kind(other, f"{pointer}/{number}", references)
        return replace(kind, is_nullable=kind.is_nullable or bool(nulls))

    def _typed(self, said: Mapping[str, Any], pointer: str, references: tuple[str, ...]) -> Kind:
        type_, is_nullable = _type_of(said, pointer)
        words = {word: value for word, value in said.items() if word != "type"}
        if type_ == "object":
            return self._object(words, pointer, references, is_nullable=is_nullable)
        if type_ == "array":
            return self._array(words, pointer, references, is_nullable=is_nullable)
        return _plain(type_, words, pointer, is_nullable=is_nullable)

    def _object(
        self, words: Mapping[str, Any], pointer: str, references: tuple[str, ...], *, is_nullable: bool
    ) -> Kind:
        _check_words(words, {"properties", "required", "additionalProperties"}, pointer, "an object")
        properties, rest = words.get("properties"), words.get("additionalProperties", True)
        if not properties:
            return self._without_properties(words, rest, pointer, references, is_nullable=is_nullable)
        if not isinstance(rest, bool):
            raise _wrong(f"{pointer}/additionalProperties", "a schema for them cannot stand beside properties")
        required = _required(words, properties, pointer)
        _check_names(properties, f"{pointer}/properties")
        self._fields += len(properties)
        if self._fields > FIELDS_MAX:
            raise _wrong(pointer, f"it has more than {FIELDS_MAX} fields")
        fields = tuple(
            Field(name, self.kind(each, f"{pointer}/properties/{_step(name)}", references), name in required)
            for name, each in properties.items()
        )
        return JsonObject(fields, is_closed=not rest, is_nullable=is_nullable)

    def _without_properties(
        self,
        words: Mapping[str, Any],
        rest: Any,
        pointer: str,
        references: tuple[str, ...],
        *,
        is_nullable: bool,
    ) -> Kind:
        if words.get("required") or rest is False:
            raise _wrong(pointer, "an object without properties is any object: no required, no closed one")
        if isinstance(rest, dict) and rest:
            return Mapped(self.kind(rest, f"{pointer}/additionalProperties", references), is_nullable=is_nullable)
        return Plain(Scalar.OBJECT, is_nullable=is_nullable)

    def _array(
        self, words: Mapping[str, Any], pointer: str, references: tuple[str, ...], *, is_nullable: bool
    ) -> Kind:
        _check_words(words, {"items", "minItems", "maxItems"}, pointer, "an array")
        items = self.kind(words.get("items", True), f"{pointer}/items", references)
        least, most = (_count(words, word, pointer) for word in ("minItems", "maxItems"))
        return Sequenced(items, least, most, is_nullable=is_nullable)


def _describes(word: str) -> bool:
    return word in DESCRIBING or word.startswith("x-")


def _check_words(words: Mapping[str, Any], known: set[str], pointer: str, what: str) -> None:
    for word in words:
        if word not in known:
            raise _wrong(f"{pointer}/{_step(word)}", f"{what} cannot be checked for this")


def _check_names(properties: Any, pointer: str) -> None:
    if not isinstance(properties, dict):
        raise _wrong(pointer, "it is an object of schemas")
    seen: dict[str, str] = {}
    for name in properties:
        if not name or ('"' in name and "'" in name) or "`" in name or not name.isprintable():
            raise _wrong(f"{pointer}/{_step(name)}", f"{name!r} cannot be the name of a column")
        if name.lower() in seen:
            raise _wrong(f"{pointer}/{_step(name)}", f"Spark cannot tell it from {seen[name.lower()]}")
        seen[name.lower()] = name


def _required(words: Mapping[str, Any], properties: Mapping[str, Any], pointer: str) -> frozenset[str]:
    given = words.get("required", [])
    if not isinstance(given, list) or not all(isinstance(name, str) for name in given):
        raise _wrong(f"{pointer}/required", "it is a list of names")
    for name in given:
        if name not in properties:
            raise _wrong(f"{pointer}/required", f"{name!r} is not among the properties")
    return frozenset(given)


# Types

_TYPES = ("object", "array", "string", "integer", "number", "boolean", "null")


def _type_of(said: Mapping[str, Any], pointer: str) -> tuple[str | None, bool]:
    """The type, and whether it may be null; without a type that of enum or const, else None."""
    given = said.get("type", [])
    names = given if isinstance(given, list) else [given]
    if not all(name in _TYPES for name in names):
        raise _wrong(f"{pointer}/type", f"{given!r} is none of {', '.join(_TYPES)}")
    if not names and ("enum" in said or "const" in said):
        names = list(dict.fromkeys(_type_of_value(each) for each in _enum(said, pointer)))
    kept = [name for name in names if name != "null"]
    if "number" in kept:
        kept = [name for name in kept if name != "integer"]
    if len(kept) > 1 or (names and not kept):
        raise _wrong(f"{pointer}/type", "a column has one type, and null beside it")
    if not kept and (words := sorted(set(said) - {"type"})):
        raise _wrong(pointer, f"it says {', '.join(words)} but no type")
    return (kept[0] if kept else None), "null" in names or not names


def _type_of_value(value: Any) -> str:
    names = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null", list: "array"}
    return names.get(type(value), "object")


def _enum(words: Mapping[str, Any], pointer: str) -> list[Any]:
    if "const" in words:
        return [words["const"]]
    given = words["enum"]
    if not isinstance(given, list) or not given:
        raise _wrong(f"{pointer}/enum", "it is a list of values")
    return given


_LIMITING = {
    "string": {"format", "minLength", "maxLength", "pattern"},
    "integer": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "format"},
    "number": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "format"},
    "boolean": set[str](),
}
_SCALARS = {"string": Scalar.STRING, "integer": Scalar.INTEGER, "number": Scalar.NUMBER, "boolean": Scalar.BOOLEAN}
_FORMATS = {"date": Scalar.DATE, "date-time": Scalar.DATE_TIME}
"""Other formats describe, and are not checked."""


def _plain(type_: str | None, words: Mapping[str, Any], pointer: str, *, is_nullable: bool) -> Plain:
    if type_ is None:
        return Plain(Scalar.ANYTHING, is_nullable=True)
    _check_words(words, _LIMITING[type_] | {"enum", "const"}, pointer, f"a {type_}")
    scalar = _SCALARS[type_]
    if type_ == "string":
        scalar = _FORMATS.get(str(words.get("format")), scalar)
    values = _values(words, type_, pointer)
    if values is not None:
        is_nullable = is_nullable and None in _enum(words, pointer)
    return Plain(scalar, _limits(words, type_, values, pointer), is_nullable)


def _values(words: Mapping[str, Any], type_: str, pointer: str) -> tuple[Value, ...] | None:
    if not {"enum", "const"} & set(words):
        return None
    allowed = {"string": (str,), "boolean": (bool,), "integer": (int,), "number": (int, float)}[type_]
    values = tuple(each for each in _enum(words, pointer) if each is not None)
    if not values or not all(type(each) in allowed for each in values):
        raise _wrong(f"{pointer}/enum", f"its values are not all of type {type_}")
    if type_ == "integer" and not all(LONG_MIN <= each <= LONG_MAX for each in values):
        raise _wrong(f"{pointer}/enum", "a value is beyond 64 bits")
    return values


def _limits(words: Mapping[str, Any], type_: str, values: tuple[Value, ...] | None, pointer: str) -> ValueLimits:
    least, most, above, below = (
        _bound(words, word, pointer) for word in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
    )
    if type_ == "integer":
        least, most, above, below = _whole_bounds(least, most, above, below)
    return ValueLimits(
        values,
        least,
        most,
        above,
        below,
        _multiple(words, pointer),
        _count(words, "minLength", pointer),
        _count(words, "maxLength", pointer),
        _text(words, "pattern", pointer),
    )


def _whole_bounds(*bounds: float | None) -> Iterator[float | None]:
    """Bounds of whole numbers: at least 1.5 is at least 2, above 1.5 is above 1."""
    for bound, rounded in zip(bounds, (ceil, floor, floor, ceil), strict=True):
        yield None if bound is None else rounded(bound)


def _bound(words: Mapping[str, Any], word: str, pointer: str) -> float | None:
    given = words.get(word)
    if given is None:
        return None
    if type(given) not in (int, float) or not isfinite(given):
        raise _wrong(f"{pointer}/{word}", f"{given!r} is not a number")
    if not LONG_MIN <= given <= LONG_MAX:
        raise _wrong(f"{pointer}/{word}", f"{given!r} is beyond 64 bits")
    return float(given) if isinstance(given, float) else given


def _multiple(words: Mapping[str, Any], pointer: str) -> int | None:
    given = words.get("multipleOf")
    if given is not None and (type(given) is not int or not 0 < given <= LONG_MAX):
        raise _wrong(f"{pointer}/multipleOf", f"{given!r} is not a whole number above 0")
    return given


def _count(words: Mapping[str, Any], word: str, pointer: str) -> int | None:
    given = words.get(word)
    if given is not None and (type(given) is not int or not 0 <= given < 2**31):
        raise _wrong(f"{pointer}/{word}", f"{given!r} is not a count")
    return given


def _text(words: Mapping[str, Any], word: str, pointer: str) -> str | None:
    given = words.get(word)
    if given is not None and not isinstance(given, str):
        raise _wrong(f"{pointer}/{word}", f"{given!r} is not text")
    return given


def patterns_of(kind: Kind) -> Sequence[str]:
    """The regular expressions in it, in Java's syntax."""
    match kind:
        case Plain():
            return [kind.limits.pattern] if kind.limits.pattern is not None else []
        case JsonObject():
            return [each for field in kind.fields for each in patterns_of(field.kind)]
        case Sequenced():
            return patterns_of(kind.items)
        case Mapped():
            return patterns_of(kind.values)
