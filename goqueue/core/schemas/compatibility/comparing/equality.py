"""Where nothing but equality will do: for keywords whose changes cannot be judged."""

from collections.abc import Iterator
from typing import TypeAlias

from goqueue.core.schemas.compatibility.comparing.comparison import Comparison, Steps, compared
from goqueue.core.schemas.compatibility.reading.documents import Resource
from goqueue.core.schemas.compatibility.reading.keywords import (
    IGNORED,
    LIST_KEYWORDS,
    MAP_KEYWORDS,
    SCHEMA_KEYWORDS,
)
from goqueue.core.schemas.compatibility.reading.nodes import REFERENCES, Node, Side
from goqueue.core.schemas.compatibility.reading.values import ABSENT, Absent, Json, key_of

CONDITIONS = ("if", "then", "else")
_Place: TypeAlias = tuple[Json, Resource]


def is_equal(one: Node, other: Node, *, is_inside: bool) -> Steps[bool]:
    """Each permits what the other one does."""
    there = yield from compared(one, other, is_inside=is_inside)
    if not there.is_compatible:
        return False
    back = yield from compared(other, one, is_inside=is_inside)
    return back.is_compatible


def equal_schema(comparison: Comparison, keyword: str) -> Steps[None]:
    """For `contains`, `propertyNames`, `if`, `then` and `else`."""
    reader, writer = comparison.reader, comparison.writer
    if keyword == "contains" and "array" not in comparison.types:
        return
    if keyword == "propertyNames" and "object" not in comparison.types:
        return
    if keyword in reader.own and keyword in writer.own:
        pair = reader.child(reader.own[keyword]), writer.child(writer.own[keyword])
        if (yield from is_equal(*pair, is_inside=keyword not in CONDITIONS)):
            return
    refuse_change(comparison, keyword, writer.own.get(keyword, ABSENT), reader.own.get(keyword, ABSENT))


def unknown_keywords(comparison: Comparison) -> Steps[None]:
    """Nobody knows what they mean: they have to be the same."""
    reader, writer = comparison.reader, comparison.writer
    for keyword in {**reader.unknown, **writer.unknown}:
        old, new = writer.unknown.get(keyword, ABSENT), reader.unknown.get(keyword, ABSENT)
        if _are_different(old, new) or not (yield from _means_the_same(reader.side, writer.side, keyword)):
            refuse_change(comparison, keyword, old, new)
        yield None


def _are_different(old: Json | Absent, new: Json | Absent) -> bool:
    return isinstance(old, Absent) or isinstance(new, Absent) or key_of(old) != key_of(new)


def _means_the_same(one: Side, other: Side, keyword: str) -> Steps[bool]:
    """What a dynamic reference means depends on the whole document."""
    return keyword not in REFERENCES or (yield from is_same(one.root(), other.root()))


def refuse_change(comparison: Comparison, keyword: str, old: Json | Absent, new: Json | Absent) -> None:
    kind = "ADDED" if isinstance(old, Absent) else "REMOVED" if isinstance(new, Absent) else "CHANGED"
    comparison.refuse(f"{type_of_keyword(keyword)}_{kind}", *([keyword] if keyword else []), old=old, new=new)


def type_of_keyword(keyword: str) -> str:
    """`propertyNames` is PROPERTY_NAMES in the types of findings."""
    letters = ("_" + each if each.isupper() else each for each in keyword[:100] if each.isalnum() or each in "-_")
    return "".join(letters).replace("-", "_").upper() or "SCHEMA"


def is_same(one: Node, other: Node) -> Steps[bool]:
    """Both say the same in the same words, references followed and annotations apart."""
    waiting: list[tuple[_Place, _Place]] = [((one.value, one.resource), (other.value, other.resource))]
    seen = set[tuple[int, int]]()
    while waiting:
        first, second = waiting.pop()
        pair = id(first[0]), id(second[0])
        if pair in seen:
            continue
        seen.add(pair)
        found = _pairs(one.side, first, other.side, second)
        if found is None:
            return False
        waiting.extend(found)
        yield None
    return True


def _pairs(one: Side, first: _Place, other: Side, second: _Place) -> list[tuple[_Place, _Place]] | None:
    """What has to be the same for these to be the same; None: they are not."""
    (old, around_old), (new, around_new) = first, second
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return [] if key_of(old) == key_of(new) else None
    inner_old = around_old.document.resource_of(old, around_old)
    inner_new = around_new.document.resource_of(new, around_new)
    values = list(_values(old, new))
    if old.keys() - IGNORED != new.keys() - IGNORED or inner_old.draft != inner_new.draft or None in values:
        return None
    pairs = [((each[0], inner_old), (each[1], inner_new)) for each in values if each is not None]
    for keyword in REFERENCES:
        targets = one.target(old, keyword, inner_old), other.target(new, keyword, inner_new)
        if targets[0] is not None and targets[1] is not None:
            pairs.append((targets[0], targets[1]))
    return pairs


def _values(old: dict[str, Json], new: dict[str, Json]) -> Iterator[tuple[Json, Json] | None]:
    for keyword in old.keys() - IGNORED & new.keys():
        yield from _values_of(keyword, old[keyword], new[keyword])


def _values_of(keyword: str, old: Json, new: Json) -> Iterator[tuple[Json, Json] | None]:
    """Pairs of schemas; None: the two differ."""
    if keyword in MAP_KEYWORDS and isinstance(old, dict) and isinstance(new, dict):
        yield from ((old[name], new[name]) for name in old.keys() & new.keys())
        yield from () if old.keys() == new.keys() else (None,)
    elif keyword in LIST_KEYWORDS and isinstance(old, list) and isinstance(new, list):
        yield from zip(old, new, strict=False)
        yield from () if len(old) == len(new) else (None,)
    elif keyword in SCHEMA_KEYWORDS:
        yield old, new
    elif key_of(old) != key_of(new):
        yield None
