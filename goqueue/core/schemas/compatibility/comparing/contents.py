"""What schemas say of the properties of an object, by name: those they list, patterns, and all the rest."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from goqueue.core.schemas.compatibility.nodes.namepatterns import matches
from goqueue.core.schemas.compatibility.nodes.node import Node
from goqueue.core.schemas.compatibility.nodes.values import Json

PATTERNS_TRIED_MAX = 20
"""Beyond this many patterns nobody asks which of them match a name."""
EVALUATING_MAX = 64
"""Schemas of one value that are looked through for the properties that they list."""


@dataclass(frozen=True, slots=True)
class ContentModel:
    node: Node
    properties: Mapping[str, Json] = field(default_factory=dict)
    patterns: Mapping[str, Json] = field(default_factory=dict)
    rest: Node | None = None
    """The schema of all other properties; None: they may be anything."""
    rest_keyword: str = "additionalProperties"
    covers_all: bool = False
    """It says something of each property, be it that anything will do."""

    @property
    def is_closed(self) -> bool:
        return self.rest is not None and self.rest.is_false

    def is_matched(self, name: str) -> bool | None:
        """Whether a pattern matches the name; None: that cannot be told."""
        if not self.patterns:
            return False
        if len(self.patterns) > PATTERNS_TRIED_MAX:
            return None
        found = [matches(pattern, name) for pattern in self.patterns]
        return True if True in found else None if None in found else False

    def of(self, name: str) -> Iterator[Node]:
        """The schemas that a property of this name certainly fits."""
        if name in self.properties:
            yield self.node.child(self.properties[name])
        is_matched = self.is_matched(name)
        if is_matched:
            yield from (self.node.child(each) for pattern, each in self.patterns.items() if matches(pattern, name))
        if self.rest is not None and is_matched is False and name not in self.properties:
            yield self.rest


def contents_of(node: Node) -> ContentModel:
    own = node.own
    keyword = "additionalProperties"
    if keyword not in own and node.is_alone:
        keyword = "unevaluatedProperties"
    rest = node.child(own[keyword]) if keyword in own else None
    return ContentModel(
        node,
        own.get("properties", {}),
        own.get("patternProperties", {}),
        None if rest is None or rest.is_true else rest,
        keyword,
        rest is not None,
    )


def all_contents_of(node: Node) -> list[ContentModel]:
    """What holds for the properties of each value of a node, its own first."""
    contents = [contents_of(node)]
    contents += [each for each in map(contents_of, node.parts[1:]) if _says_something(each)]
    outermost = _contents_with_unevaluated(node)
    return contents if outermost is None else [*contents, outermost]


def _says_something(contents: ContentModel) -> bool:
    return bool(contents.properties or contents.patterns or contents.rest is not None)


def evaluated_at_least(node: Node, unevaluated: Node) -> ContentModel | None:
    """What `unevaluatedProperties` leaves to a schema, or more; None: nothing."""
    parts = [contents_of(part) for part in node.parts]
    if any(each.covers_all for each in parts):
        return None
    return _merged(node, parts, unevaluated)


def _contents_with_unevaluated(node: Node) -> ContentModel | None:
    """What it grants of properties that no schema for the value lists, in whatever branch."""
    if "unevaluatedProperties" not in node.own or node.is_alone:
        return None
    nodes = _evaluating(node)
    parts = None if nodes is None else [contents_of(each) for each in nodes]
    if parts is None or any(each.covers_all for each in parts) or _is_evaluated_inside(nodes or []):
        return None
    rest = node.child(node.own["unevaluatedProperties"])
    return None if rest.is_true else _merged(node, parts, rest)


def _is_evaluated_inside(nodes: list[Node]) -> bool:
    return any("unevaluatedProperties" in each.own for each in nodes[1:])


def _merged(node: Node, parts: list[ContentModel], rest: Node) -> ContentModel:
    properties = {name: value for each in parts for name, value in each.properties.items()}
    patterns = {pattern: value for each in parts for pattern, value in each.patterns.items()}
    return ContentModel(node, properties, patterns, rest, "unevaluatedProperties", True)


def _evaluating(node: Node) -> list[Node] | None:
    """All schemas for the same value; None: they are too many, or not to be told."""
    found = [node]
    for each in found:  # grows meanwhile
        if any(keyword.startswith("$") for keyword in each.unknown):
            return None
        for other in _in_place(each):
            if not any(other is known for known in found):
                found.append(other)
            if len(found) > EVALUATING_MAX:
                return None
    return found


def _in_place(node: Node) -> Iterator[Node]:
    yield from (conjunct.node for conjunct in node.conjuncts)
    for union in node.unions:
        yield from (union[place] for place in range(len(union)))
    yield from (node.child(node.own[keyword]) for keyword in ("if", "then", "else") if keyword in node.own)
    for keyword in ("dependentSchemas", "dependencies"):
        schemas = node.own.get(keyword, {}).values()
        yield from (node.child(each) for each in schemas if isinstance(each, dict))
