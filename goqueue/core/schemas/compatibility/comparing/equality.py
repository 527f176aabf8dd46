"""Where nothing but equality will do: for keywords whose changes cannot be judged."""

from typing import TypeAlias

from goqueue.core.schemas.compatibility.comparing.comparison import Comparison, Steps, compared
from goqueue.core.schemas.compatibility.nodes.node import REFERENCES, Node, Side
from goqueue.core.schemas.compatibility.nodes.shapes import IGNORED
from goqueue.core.schemas.compatibility.nodes.values import ABSENT, Absence, Json, key_of
from goqueue.core.schemas.reading.documents import Place
from goqueue.core.schemas.reading.keywords import HOLDS_SCHEMAS

CONDITIONS = ("if", "then", "else")
_BY_NAME = frozenset({"properties", "patternProperties", "dependentSchemas", "dependencies"})
_At: TypeAlias = tuple[Json, Place]


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


def _are_different(old: Json | Absence, new: Json | Absence) -> bool:
    return isinstance(old, Absence) or isinstance(new, Absence) or key_of(old) != key_of(new)


def _means_the_same(one: Side, other: Side, keyword: str) -> Steps[bool]:
    """What a dynamic reference means depends on the whole document."""
    return keyword not in REFERENCES or (yield from is_same(one.root(), other.root()))


def refuse_change(comparison: Comparison, keyword: str, old: Json | Absence, new: Json | Absence) -> None:
    kind = "ADDED" if isinstance(old, Absence) else "REMOVED" if isinstance(new, Absence) else "CHANGED"
    comparison.refuse(f"{type_of_keyword(keyword)}_{kind}", *([keyword] if keyword else []), old=old, new=new)


def type_of_keyword(keyword: str) -> str:
    """`propertyNames` is PROPERTY_NAMES in the types of findings."""
    letters = ("_" + each if each.isupper() else each for each in keyword[:100] if each.isalnum() or each in "-_")
    return "".join(letters).replace("-", "_").upper() or "SCHEMA"


def is_same(one: Node, other: Node) -> Steps[bool]:
    """Both say the same in the same words, references followed and annotations apart."""
    waiting: list[tuple[_At, _At]] = [((one.value, one.place), (other.value, other.place))]
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


def _pairs(one: Side, first: _At, other: Side, second: _At) -> list[tuple[_At, _At]] | None:
    """What has to be the same for these to be the same; None: they are not."""
    (old, old_place), (new, new_place) = first, second
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return [] if key_of(old) == key_of(new) else None
    if old.keys() - IGNORED != new.keys() - IGNORED or old_place.document.draft != new_place.document.draft:
        return None
    pairs = list[tuple[_At, _At]]()
    for keyword in old.keys() - IGNORED:
        if not _is_alike(keyword, old[keyword], new[keyword]):
            return None
        inner = zip(_schemas_at(keyword, old[keyword]), _schemas_at(keyword, new[keyword]), strict=True)
        pairs += [((a, one.place_of(a, old_place)), (b, other.place_of(b, new_place))) for a, b in inner]
        targets = one.target(keyword, old_place), other.target(keyword, new_place)
        if targets[0] is not None and targets[1] is not None:
            pairs.append((targets[0], targets[1]))
    return pairs


def _is_alike(keyword: str, old: Json, new: Json) -> bool:
    """All but the schemas within."""
    if keyword not in HOLDS_SCHEMAS:
        return key_of(old) == key_of(new)
    if isinstance(old, dict) and isinstance(new, dict) and keyword in _BY_NAME:
        return old.keys() == new.keys()
    return type(old) is type(new) and (not isinstance(old, list) or len(old) == len(new))


def _schemas_at(keyword: str, value: Json) -> list[Json]:
    if keyword not in HOLDS_SCHEMAS:
        return []
    if isinstance(value, dict) and keyword in _BY_NAME:
        return [value[name] for name in sorted(value)]
    return value if isinstance(value, list) else [value]
