"""Whether no value fits two schemas: what `oneOf` needs to know. Where that cannot be told quickly it is denied."""

from collections.abc import Iterator

from goqueue.core.schemas.compatibility.comparing.contents import contents_of
from goqueue.core.schemas.compatibility.nodes.node import Node, UnionMembers
from goqueue.core.schemas.compatibility.nodes.values import key_of

DEPTH_MAX = 4
EFFORT_MAX = 500
"""Pairs of schemas that are looked at."""
NAMES_MAX = 50
VALUES_MAX = 100


def are_disjoint(one: Node, other: Node) -> bool:
    return _are_disjoint(one, other, DEPTH_MAX, [EFFORT_MAX])


def _are_disjoint(one: Node, other: Node, depth: int, effort: list[int]) -> bool:
    effort[0] -= 1
    if depth == 0 or effort[0] < 0:
        return False
    common = one.types & other.types
    if not common or _have_other_values(one, other):
        return True
    if any(_are_all_disjoint(union, other, depth - 1, effort) for union in one.all_unions):
        return True
    if any(_are_all_disjoint(union, one, depth - 1, effort) for union in other.all_unions):
        return True
    return common == {"object"} and _have_other_properties(one, other, depth - 1, effort)


def _are_all_disjoint(union: UnionMembers, other: Node, depth: int, effort: list[int]) -> bool:
    return all(_are_disjoint(union[place], other, depth, effort) for place in range(len(union)))


def _have_other_values(one: Node, other: Node) -> bool:
    ours, theirs = list(_values_of(one)), list(_values_of(other))
    return any(not (each & every) for each in ours for every in theirs)


def _values_of(node: Node) -> Iterator[set[str]]:
    for part in node.parts:
        if "const" in part.own:
            yield {key_of(part.own["const"])}
        if 0 < len(values := part.own.get("enum", ())) <= VALUES_MAX:
            yield set(map(key_of, values))


def _have_other_properties(one: Node, other: Node, depth: int, effort: list[int]) -> bool:
    """A property tells them apart that one always has, and the other one has with other values or never."""
    ours, theirs = _present(one), _present(other)
    for name in list(ours | theirs)[:NAMES_MAX]:
        is_present = ours.get(name, False) or theirs.get(name, False) or (name in ours and name in theirs)
        pairs = ((each, every) for each in _of(one, name) for every in _of(other, name))
        if is_present and any(_are_disjoint(each, every, depth, effort) for each, every in pairs):
            return True
    return False


def _present(node: Node) -> dict[str, bool]:
    """Properties that are required (True), and constant ones with a default (False)."""
    names = dict[str, bool]()
    for part in node.parts:
        for name, value in list(part.own.get("properties", {}).items())[:NAMES_MAX]:
            if isinstance(value, dict) and "default" in value and ("const" in value or "enum" in value):
                names[name] = False
        required = part.own.get("required", ())[:NAMES_MAX]
        names |= dict.fromkeys((name for name in required if isinstance(name, str)), True)
    return names


def _of(node: Node, name: str) -> list[Node]:
    return [each for part in node.parts for each in contents_of(part).of(name)]
