"""Limits: of lengths, numbers and counts. A reader may raise an upper one and lower a lower one."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from goqueue.core.schemas.compatibility.comparing.comparison import Comparison
from goqueue.core.schemas.compatibility.nodes.node import Node
from goqueue.core.schemas.compatibility.nodes.typesets import NUMBERS
from goqueue.core.schemas.compatibility.nodes.values import (
    ABSENT,
    Absence,
    Json,
    Number,
    is_multiple,
    is_number,
)
from goqueue.core.schemas.reading.drafts import Draft

SimpleRule: TypeAlias = Callable[[Comparison, str], None]
_STRINGS, _ARRAYS, _OBJECTS = frozenset({"string"}), frozenset({"array"}), frozenset({"object"})


@dataclass(frozen=True, slots=True)
class Limit:
    name: str
    """In the types of findings."""
    types: frozenset[str]
    is_upper: bool
    beside: str | None = None
    """The other keyword that limits the same: `exclusiveMaximum` beside `maximum`."""

    def is_at_most(self, number: Number, other: Number) -> bool:
        """Whether `number` limits as much as `other`, or more."""
        return number <= other if self.is_upper else number >= other

    def grown(self, old: Number, new: Number) -> str:
        return f"{self.name}_INCREASED" if new > old else f"{self.name}_DECREASED"


LIMITS: Mapping[str, Limit] = {
    "maxLength": Limit("MAX_LENGTH", _STRINGS, True),
    "minLength": Limit("MIN_LENGTH", _STRINGS, False),
    "maximum": Limit("MAXIMUM", NUMBERS, True, "exclusiveMaximum"),
    "minimum": Limit("MINIMUM", NUMBERS, False, "exclusiveMinimum"),
    "exclusiveMaximum": Limit("EXCLUSIVE_MAXIMUM", NUMBERS, True, "maximum"),
    "exclusiveMinimum": Limit("EXCLUSIVE_MINIMUM", NUMBERS, False, "minimum"),
    "maxItems": Limit("MAX_ITEMS", _ARRAYS, True),
    "minItems": Limit("MIN_ITEMS", _ARRAYS, False),
    "maxProperties": Limit("MAX_PROPERTIES", _OBJECTS, True),
    "minProperties": Limit("MIN_PROPERTIES", _OBJECTS, False),
    "maxContains": Limit("MAX_CONTAINS", _ARRAYS, True),
    "minContains": Limit("MIN_CONTAINS", _ARRAYS, False),
}
_COUNTS_FROM_ZERO = frozenset({"minLength", "minItems", "minProperties"})
_EXCLUSIVE = frozenset({"exclusiveMaximum", "exclusiveMinimum"})


def limit_of(node: Node, keyword: str) -> Number | None:
    """In the words of newer drafts: in draft 4 `exclusiveMaximum` says true of `maximum`."""
    value: Json = node.own.get(keyword)
    if node.draft is Draft.DRAFT_4 and (beside := LIMITS[keyword].beside):
        is_exclusive = node.own.get(keyword if keyword in _EXCLUSIVE else beside) is True
        value = node.own.get(beside if keyword in _EXCLUSIVE else keyword)
        return value if is_number(value) and is_exclusive == (keyword in _EXCLUSIVE) else None
    if keyword in ("minContains", "maxContains") and "contains" not in node.own:
        return None
    if keyword == "minContains" and "contains" in node.own:
        return value if is_number(value) else 1
    return value if is_number(value) and not (value == 0 and keyword in _COUNTS_FROM_ZERO) else None


def limit(comparison: Comparison, keyword: str) -> None:
    rule = LIMITS[keyword]
    if not rule.types & comparison.types:
        return
    old, new = limit_of(comparison.writer, keyword), limit_of(comparison.reader, keyword)
    if old == new:
        return
    values = _shown(old), _shown(new)
    type_ = f"{rule.name}_ADDED" if old is None else f"{rule.name}_REMOVED" if new is None else rule.grown(old, new)
    is_granted = new is None or _grants(comparison.writer, keyword, new)
    note = comparison.note if is_granted else comparison.refuse
    note(type_, keyword, old=values[0], new=values[1])


def _grants(writer: Node, keyword: str, new: Number) -> bool:
    """Whether the writer keeps within the reader's limit."""
    rule, old = LIMITS[keyword], limit_of(writer, keyword)
    if old is not None and rule.is_at_most(old, new):
        return True
    other = limit_of(writer, rule.beside) if rule.beside else None
    return other is not None and rule.is_at_most(other, new) and (other != new or keyword not in _EXCLUSIVE)


def _shown(number: Number | None) -> Json | Absence:
    return ABSENT if number is None else number


def multiple_of(comparison: Comparison, keyword: str) -> None:
    if not NUMBERS & comparison.types:
        return
    old, new = comparison.writer.own.get(keyword), comparison.reader.own.get(keyword)
    if old == new:
        return
    if new is None:
        comparison.note("MULTIPLE_OF_REMOVED", keyword, old=old)
    elif old is not None and is_multiple(old, new):
        comparison.note("MULTIPLE_OF_REDUCED", keyword, old=old, new=new)
    elif "fraction" not in comparison.types and is_multiple(1, new):
        comparison.note("MULTIPLE_OF_ADDED", keyword, old=_shown(old), new=new)
    elif old is None:
        comparison.refuse("MULTIPLE_OF_ADDED", keyword, new=new)
    else:
        type_ = "MULTIPLE_OF_EXPANDED" if is_multiple(new, old) else "MULTIPLE_OF_CHANGED"
        comparison.refuse(type_, keyword, old=old, new=new)


def pattern(comparison: Comparison, keyword: str) -> None:
    if "string" not in comparison.types:
        return
    old, new = comparison.writer.own.get(keyword), comparison.reader.own.get(keyword)
    if old == new:
        return
    if new is None:
        comparison.note("PATTERN_REMOVED", keyword, old=old)
    elif old is None:
        comparison.refuse("PATTERN_ADDED", keyword, new=new)
    else:
        comparison.refuse("PATTERN_CHANGED", keyword, old=old, new=new)


def unique_items(comparison: Comparison, keyword: str) -> None:
    old, new = (node.own.get(keyword, False) for node in (comparison.writer, comparison.reader))
    if old == new or "array" not in comparison.types:
        return
    if new:
        comparison.refuse("UNIQUE_ITEMS_ADDED", keyword, old=comparison.writer.get(keyword), new=new)
    else:
        comparison.note("UNIQUE_ITEMS_REMOVED", keyword, old=old)


SIMPLE_RULES: Mapping[str, SimpleRule] = {
    **dict.fromkeys(LIMITS, limit),
    "multipleOf": multiple_of,
    "pattern": pattern,
    "uniqueItems": unique_items,
}
