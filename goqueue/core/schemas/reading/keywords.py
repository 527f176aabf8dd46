"""Where a schema has schemas within it, by keyword, in the drafts 4 to 2020-12."""

from collections.abc import Iterator
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

JsonSchema: TypeAlias = dict[str, Any] | bool


class Applies(Enum):
    """To what a schema within a schema is applied."""

    HERE = "to the same value"
    UNION = "to the same value, and it may fail"
    PROPERTY = "to a property"
    ITEM = "to an item"
    NEVER = "to nothing, unless a reference names it"


class Subschema(NamedTuple):
    """A schema within a schema. `slot` names the property, or is None where the keyword is for any of them."""

    steps: tuple[str | int, ...]
    schema: JsonSchema
    applies: Applies
    slot: str | int | None = None
    is_rest: bool = False
    """Only for properties or items that the schema beside it does not name."""


_ONE = {
    "not": Applies.UNION,
    "if": Applies.UNION,
    "then": Applies.HERE,
    "else": Applies.HERE,
    "additionalProperties": Applies.PROPERTY,
    "unevaluatedProperties": Applies.PROPERTY,
    "propertyNames": Applies.PROPERTY,
    "additionalItems": Applies.ITEM,
    "unevaluatedItems": Applies.ITEM,
    "contains": Applies.ITEM,
    "contentSchema": Applies.NEVER,
}
_MANY = {"allOf": Applies.HERE, "anyOf": Applies.UNION, "oneOf": Applies.UNION, "prefixItems": Applies.ITEM}
_NAMED = {
    "properties": Applies.PROPERTY,
    "patternProperties": Applies.PROPERTY,
    "dependentSchemas": Applies.HERE,
    "dependencies": Applies.HERE,
    "$defs": Applies.NEVER,
    "definitions": Applies.NEVER,
}
_REST = {"additionalProperties", "additionalItems"}
_BY_PLACE = {"properties", "prefixItems"}
HOLDS_SCHEMAS = frozenset({*_ONE, *_MANY, *_NAMED, "items"})


def is_schema(value: object) -> bool:
    return isinstance(value, dict | bool)


def children_of(schema: dict[str, Any]) -> Iterator[Subschema]:
    """The schemas directly within a schema. What is there instead of a schema is passed over."""
    for keyword, value in schema.items():
        if keyword in HOLDS_SCHEMAS:
            yield from _children_at(keyword, value, schema)


def _children_at(keyword: str, value: Any, schema: dict[str, Any]) -> Iterator[Subschema]:
    if keyword in _ONE and is_schema(value):
        yield Subschema((keyword,), value, _ONE[keyword], is_rest=keyword in _REST)
    elif keyword in _NAMED and isinstance(value, dict):
        for name, each in value.items():
            if is_schema(each):
                yield Subschema((keyword, name), each, _NAMED[keyword], name if keyword in _BY_PLACE else None)
    elif keyword == "items" and is_schema(value):
        yield Subschema((keyword,), value, Applies.ITEM, is_rest="prefixItems" in schema)
    elif keyword in ("items", *_MANY) and isinstance(value, list):
        applies = _MANY.get(keyword, Applies.ITEM)
        by_place = keyword in ("items", *_BY_PLACE)
        for place, each in enumerate(value):
            if is_schema(each):
                yield Subschema((keyword, place), each, applies, place if by_place else None)
