"""Enumerated values: `enum`, and `const`, which is an enumeration of one."""

from collections.abc import Mapping

from goqueue.core.schemas.compatibility.comparing.comparison import Comparison, Steps
from goqueue.core.schemas.compatibility.nodes.node import Node
from goqueue.core.schemas.compatibility.nodes.values import Json, key_of

KEYED_AT_ONCE = 200
"""Values that are looked at before others get their turn."""


def values_of(node: Node) -> Steps[Mapping[str, Json] | None]:
    """By their keys; None: the values are not enumerated."""
    found = None
    if "enum" in node.own:
        found = dict[str, Json]()
        for place, value in enumerate(node.own["enum"]):
            found[key_of(value)] = value
            if place % KEYED_AT_ONCE == KEYED_AT_ONCE - 1:
                yield None
    if "const" in node.own:
        key = key_of(node.own["const"])
        found = {key: node.own["const"]} if found is None or key in found else {}
    return found


def enumeration(comparison: Comparison) -> Steps[None]:
    reader, writer = comparison.reader, comparison.writer
    old, new = (yield from values_of(writer)), (yield from values_of(reader))
    keyword = _keyword(reader if new is not None else writer)
    if new is None:
        comparison.note("ENUM_ARRAY_REMOVED", keyword, old=writer.get(keyword))
    elif old is None:
        comparison.refuse("ENUM_ARRAY_ADDED", keyword, new=reader.get(keyword))
    elif old.keys() != new.keys():
        was = writer.get(_keyword(writer))
        if old.keys() < new.keys():
            comparison.note("ENUM_ARRAY_EXTENDED", keyword, old=was, new=reader.get(keyword))
        else:
            type_ = "ENUM_ARRAY_NARROWED" if new.keys() < old.keys() else "ENUM_ARRAY_CHANGED"
            comparison.refuse(type_, keyword, old=was, new=reader.get(keyword))


def _keyword(node: Node) -> str:
    return "enum" if "enum" in node.own else "const"
