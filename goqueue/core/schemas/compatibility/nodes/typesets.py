"""The types of JSON as sets: numbers are integers and fractions, so that `integer` is a part of `number`."""

from collections.abc import Iterable, Mapping

from goqueue.core.schemas.compatibility.nodes.values import Json

_TYPES: Mapping[str, frozenset[str]] = {
    "null": frozenset({"null"}),
    "boolean": frozenset({"boolean"}),
    "object": frozenset({"object"}),
    "array": frozenset({"array"}),
    "string": frozenset({"string"}),
    "integer": frozenset({"integer"}),
    "number": frozenset({"integer", "fraction"}),
}
EVERYTHING = frozenset[str]().union(*_TYPES.values())
NUMBERS = _TYPES["number"]
_CLASSES: Mapping[type, str] = {
    bool: "boolean",
    int: "integer",
    float: "fraction",
    str: "string",
    list: "array",
    dict: "object",
    type(None): "null",
}


def types_named(names: str | list[Json]) -> frozenset[str]:
    """What the keyword `type` says. A name that does not exist means no type."""
    if isinstance(names, str):
        return _TYPES.get(names, frozenset())
    return frozenset[str]().union(*(_TYPES.get(name, frozenset()) for name in names if isinstance(name, str)))


def types_of_values(values: Iterable[Json]) -> frozenset[str]:
    types = frozenset(_CLASSES[type(value)] for value in values)
    return types | NUMBERS if "fraction" in types else types
