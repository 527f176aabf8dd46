"""Arrays: their items by place, as in a tuple, and those behind."""

from dataclasses import dataclass

from goqueue.core.schemas.compatibility.comparing.comparison import Comparison, Steps, compared
from goqueue.core.schemas.compatibility.comparing.equality import is_same
from goqueue.core.schemas.compatibility.nodes.node import Node
from goqueue.core.schemas.compatibility.nodes.shapes import is_since
from goqueue.core.schemas.compatibility.nodes.values import ABSENT, Json
from goqueue.core.schemas.reading.drafts import Draft

_NAMES = {
    "items": "ADDITIONAL_ITEMS",
    "additionalItems": "ADDITIONAL_ITEMS",
    "unevaluatedItems": "UNEVALUATED_ITEMS",
}


@dataclass(frozen=True, slots=True)
class Items:
    node: Node
    first: list[Json]
    """The schemas of the first items, by place."""
    keyword: str
    """The keyword of these."""
    rest: Node | None
    """The schema of all items behind them; None: they may be anything."""
    rest_keyword: str

    def at(self, place: int) -> Node:
        return self.node.child(self.first[place])


def items_of(node: Node) -> Items:
    """`prefixItems` and `items`, which before 2020-12 were an array of `items` and `additionalItems`."""
    own = node.own
    is_array = isinstance(own.get("items"), list)
    keyword, rest_keyword = ("items", "additionalItems") if is_array else ("prefixItems", "items")
    if rest_keyword not in own and _is_alone(node):
        rest_keyword = "unevaluatedItems"
    rest = node.child(own[rest_keyword]) if rest_keyword in own else None
    return Items(node, own.get(keyword, []), keyword, None if rest is None or rest.is_true else rest, rest_keyword)


def _is_alone(node: Node) -> bool:
    return node.is_alone and not ("contains" in node.own and is_since(node.draft, Draft.DRAFT_2020_12))


def items(comparison: Comparison) -> Steps[None]:
    if "array" not in comparison.types:
        return
    reader, writer = items_of(comparison.reader), items_of(comparison.writer)
    for place in range(max(len(reader.first), len(writer.first))):
        if place >= len(writer.first):
            yield from _added(comparison, reader, writer, place)
        elif place >= len(reader.first):
            yield from _removed(comparison, reader, writer, place)
        else:
            part = yield from compared(reader.at(place), writer.at(place), is_inside=True)
            comparison.include((reader.keyword, str(place)), part)
    yield from _rest(comparison, reader, writer)


def unevaluated_items(comparison: Comparison) -> Steps[None]:
    """Where other keywords beside it say which items are evaluated: what it leaves cannot be told."""
    reader, writer = comparison.reader, comparison.writer
    if "array" not in comparison.types:
        return
    if "unevaluatedItems" not in reader.own or _is_alone(reader):
        if not _is_alone(writer):
            comparison.note("UNEVALUATED_ITEMS_ADDED", "unevaluatedItems", old=writer.get("unevaluatedItems"))
        return
    is_moot = items_of(reader).rest_keyword in reader.own or reader.child(reader.own["unevaluatedItems"]).is_true
    if not is_moot and not (yield from is_same(reader, writer)):
        values = writer.get("unevaluatedItems"), reader.get("unevaluatedItems")
        comparison.refuse("UNEVALUATED_ITEMS_NARROWED", "unevaluatedItems", old=values[0], new=values[1])


def _added(comparison: Comparison, reader: Items, writer: Items, place: int) -> Steps[None]:
    path, new = (reader.keyword, str(place)), reader.at(place)
    if writer.rest is None:
        if new.is_true:
            comparison.note("ITEM_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL", *path, new=new.value)
        else:
            comparison.refuse("ITEM_ADDED_TO_OPEN_CONTENT_MODEL", *path, new=new.value)
        yield None
    elif writer.rest.is_false:
        comparison.note("ITEM_ADDED_TO_CLOSED_CONTENT_MODEL", *path, new=new.value)
        yield None
    else:
        yield from _covered(comparison, path, new, writer.rest, "ADDED")


def _removed(comparison: Comparison, reader: Items, writer: Items, place: int) -> Steps[None]:
    path, old = (writer.keyword, str(place)), writer.at(place)
    if reader.rest is None:
        comparison.note("ITEM_REMOVED_FROM_OPEN_CONTENT_MODEL", *path, old=old.value)
        yield None
    elif old.is_false:
        comparison.note("ITEM_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL", *path, old=old.value)
        yield None
    elif reader.rest.is_false:
        comparison.refuse("ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL", *path, old=old.value)
        yield None
    else:
        yield from _covered(comparison, path, reader.rest, old, "REMOVED")


def _covered(comparison: Comparison, path: tuple[str, str], new: Node, old: Node, kind: str) -> Steps[None]:
    part = yield from compared(new, old, is_inside=True)
    comparison.include(path, part)
    add = comparison.note if part.is_compatible else comparison.refuse
    verdict = "IS_COVERED" if part.is_compatible else "NOT_COVERED"
    add(f"ITEM_{kind}_{verdict}_BY_PARTIALLY_OPEN_CONTENT_MODEL", *path, old=old.value, new=new.value)


def _rest(comparison: Comparison, reader: Items, writer: Items) -> Steps[None]:
    keyword = reader.rest_keyword if reader.rest is not None else writer.rest_keyword
    old, new = (ABSENT if each.rest is None else each.rest.value for each in (writer, reader))
    name = _NAMES[keyword]
    if reader.rest is None:
        if writer.rest is not None:
            comparison.note(_without_limit(name, reader, writer), keyword, old=old)
    elif writer.rest is None:
        comparison.refuse(_with_new_limit(name, reader, writer), keyword, new=new)
    elif reader.rest.is_false and not writer.rest.is_false:
        comparison.refuse(f"{name}_REMOVED", keyword, old=old, new=new)
    elif writer.rest.is_false and not reader.rest.is_false:
        comparison.note(f"{name}_ADDED", keyword, old=old, new=new)
    else:
        comparison.include((keyword,), (yield from compared(reader.rest, writer.rest, is_inside=True)))


def _without_limit(name: str, reader: Items, writer: Items) -> str:
    assert writer.rest is not None
    if not reader.first and not writer.first:
        return "SCHEMA_REMOVED"
    return f"{name}_ADDED" if writer.rest.is_false else f"{name}_EXTENDED"


def _with_new_limit(name: str, reader: Items, writer: Items) -> str:
    assert reader.rest is not None
    if not reader.first and not writer.first:
        return "SCHEMA_ADDED"
    return f"{name}_REMOVED" if reader.rest.is_false else f"{name}_NARROWED"
