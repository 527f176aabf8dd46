"""The types of values."""

from goqueue.core.schemas.compatibility.comparing.comparison import Comparison
from goqueue.core.schemas.compatibility.nodes.node import Node
from goqueue.core.schemas.compatibility.nodes.typesets import EVERYTHING, NUMBERS, types_named


def compare_types(comparison: Comparison) -> bool:
    """Whether the two have a type in common, so that more is to be compared."""
    reader, writer = comparison.reader, comparison.writer
    if "type" not in reader.own and "type" not in writer.own:
        return True
    new, old = _named(reader), comparison.types
    values = {"old": writer.get("type"), "new": reader.get("type")}
    if not old <= new:
        comparison.refuse(_narrowed(writer, old, new), **values)
    elif _named(writer) != new and ("type" in reader.own or not reader.combined):
        comparison.note("SUM_TYPE_EXTENDED" if _has_several(reader) else "TYPE_EXTENDED", **values)
    return bool(old & new) or not old


def _named(node: Node) -> frozenset[str]:
    return types_named(node.own["type"]) if "type" in node.own else EVERYTHING


def _has_several(node: Node) -> bool:
    types = node.own.get("type")
    return isinstance(types, list) and len(types) > 1


def _narrowed(writer: Node, old: frozenset[str], new: frozenset[str]) -> str:
    if old & new and old <= NUMBERS:
        return "TYPE_NARROWED"
    if not old & new or not _has_several(writer):
        return "TYPE_CHANGED"
    return "SUM_TYPE_NARROWED" if new <= old else "COMBINED_TYPE_SUBSCHEMAS_CHANGED"
