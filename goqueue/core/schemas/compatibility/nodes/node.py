"""A schema as it is compared: without what never matters, and with what it stands for in place of a `$ref`.

A schema is a conjunction: its own keywords, the members of `allOf`, the target of a `$ref` that has keywords beside
it, and its unions (`anyOf`, `oneOf`). A schema that only refers, or only has a single member, is what it refers to.
Everything is made when it is asked for, and kept: a schema may have 20,000 parts.
"""

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from goqueue.core.schemas.compatibility.nodes.shapes import IGNORED, constraining
from goqueue.core.schemas.compatibility.nodes.typesets import EVERYTHING, types_named, types_of_values
from goqueue.core.schemas.compatibility.nodes.values import ABSENT, Absence, Json
from goqueue.core.schemas.reading.documents import Documents, Place
from goqueue.core.schemas.reading.drafts import Draft
from goqueue.core.schemas.schema import ResolvedSchema
from goqueue.errors import InvalidSchema

PARTS_MAX = 32
"""Conjuncts of a schema that are looked through for one that grants what another one asks."""
TYPES_EFFORT, TYPES_DEPTH = 100, 8
"""Schemas that are looked at to learn which types a schema takes."""
VALUES_TYPED_MAX = 500
REFERENCES_MAX = 200
"""Limit of the schemas that do nothing but refer to the next one."""

OPENED_AT_ONCE = 500

GROUPS = ("allOf", "anyOf", "oneOf")
REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_COMBINING = frozenset({*GROUPS, *REFERENCES})
_IN_PLACE = frozenset({"if", "then", "else", "dependentSchemas", "dependencies"})
Path: TypeAlias = tuple[str, ...]


@dataclass(slots=True)
class Side:
    """One of the two schemas, with all its nodes."""

    documents: Documents
    places: dict[int, Place] = field(default_factory=dict)
    """By the identity of the schema that is there."""
    definitions: set[tuple[str, str | int]] = field(default_factory=set)
    """Keywords of a document that hold what references lead to, whatever they are called."""
    nodes: dict[int, "Node"] = field(default_factory=dict)

    def root(self) -> "Node":
        return self.node(self.documents.main.root, self.documents.places[0])

    def node(self, value: Json, around: Place) -> "Node":
        """The node of a schema that lies in `around`."""
        node = self.nodes.get(id(value))
        if node is None:
            node = self.nodes[id(value)] = self._behind(value, around)
        return node

    def _behind(self, value: Json, around: Place) -> "Node":
        for step in self.chain(value, around):
            schema, place = step
        if self.next(schema, place) is not None:
            schema = True  # a circle of references refuses nothing
        node = self.nodes.get(id(schema)) or Node(self, schema, place)
        self.nodes[id(schema)] = node
        return node

    def chain(self, value: Json, around: Place) -> Iterator[tuple[Json, Place]]:
        """The schema, and what it stands for: through references and single members, up to a circle."""
        seen = set[int]()
        step: tuple[Json, Place] | None = (value, self.place_of(value, around))
        while step is not None and id(step[0]) not in seen:
            seen.add(id(step[0]))
            _check_length(len(seen))
            yield step
            step = self.next(*step)

    def place_of(self, value: Json, around: Place) -> Place:
        return self.places.get(id(value), around)

    def next(self, schema: Json, place: Place) -> tuple[Json, Place] | None:
        """What a schema stands for that has nothing else to say."""
        if not isinstance(schema, dict):
            return None
        if place.stands_alone:
            return self.target("$ref", place)
        said = [keyword for keyword in schema if keyword not in IGNORED]
        if len(said) != 1 or said[0] not in _COMBINING:
            return None
        if said[0] in REFERENCES:
            return self.target(said[0], place)
        members = schema[said[0]]
        if not isinstance(members, list) or len(members) != 1:
            return None
        return members[0], self.place_of(members[0], place)

    def target(self, keyword: str, place: Place) -> tuple[Json, Place] | None:
        """What the schema there refers to; None: that depends on the way of a value to it."""
        target = place.refs.get(keyword)
        is_known = target is not None and (keyword == "$ref" or all(each is target for each in place.others))
        return (target.schema, target) if target is not None and is_known else None


def opened(schema: ResolvedSchema) -> Generator[None, None, Side]:
    side = Side(Documents())
    yield from side.documents.load(schema)
    yield from side.documents.resolve()
    for number, place in enumerate(side.documents.places):
        if not isinstance(place.schema, bool):
            side.places[id(place.schema)] = place
        if place.child is None and place.steps:
            side.definitions.add((place.document.uri, place.steps[0]))
        if number % OPENED_AT_ONCE == 0:
            yield
    return side


def _check_length(count: int) -> None:
    if count > REFERENCES_MAX:
        raise InvalidSchema(
            f"more than {REFERENCES_MAX} references lead from one to the next; refer to the last one",
            error_code=42201,
        )


@dataclass(slots=True)
class Conjunct:
    """A schema that holds for all values of another one, and its place there."""

    path: Path
    side: Side
    value: Json
    around: Place

    @property
    def node(self) -> "Node":
        return self.side.node(self.value, self.around)


@dataclass(frozen=True, slots=True)
class UnionMembers:
    """The members of a union, or of `allOf`."""

    node: "Node"
    keyword: str
    values: list[Json]

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, place: int) -> "Node":
        return self.node.child(self.values[place])

    def path(self, place: int) -> Path:
        return (self.keyword, str(place)) if self.keyword in GROUPS else ()

    @property
    def shown(self) -> Json:
        return self.values if self.keyword in GROUPS else self.node.own[self.keyword]


class Node:
    def __init__(self, side: Side, value: Json, place: Place) -> None:
        self.side, self.value, self.place = side, value, place
        self.is_false = value is False
        self.own: dict[str, Json] = {}
        """The keywords that constrain, without those that combine schemas."""
        self.unknown: dict[str, Json] = {}
        self.combined: dict[str, Json] = {}
        self._sort(value if isinstance(value, dict | bool) else {"": value})
        self._conjuncts: list[Conjunct] | None = None
        self._parts: list[Node] | None = None
        self._types: frozenset[str] | None = None
        self._bare: Node | None = None
        self._by_type: UnionMembers | None = None

    @property
    def draft(self) -> Draft:
        return self.place.document.draft

    def _sort(self, value: Json) -> None:
        if isinstance(value, dict):
            self.own, self.unknown = constraining(value, self.draft)
        if "$ref" in self.own and self.place.stands_alone:
            self.own = {"$ref": self.own["$ref"]}
            self.unknown = {}
        if value is self.place.document.root:
            uri, definitions = self.place.document.uri, self.side.definitions
            self.unknown = {name: each for name, each in self.unknown.items() if (uri, name) not in definitions}
        for keyword in [each for each in self.own if each in _COMBINING]:
            self._put_aside(keyword, self.own.pop(keyword))

    def _put_aside(self, keyword: str, value: Json) -> None:
        is_known = keyword in GROUPS or self.side.target(keyword, self.place) is not None
        if not value or not is_known:
            self.unknown[keyword] = value
        else:
            self.combined[keyword] = value

    def child(self, value: Json) -> "Node":
        return self.side.node(value, self.place)

    def has_default(self, value: Json) -> bool:
        """Whether a schema within this one, or one that it refers to, says a default."""
        chain = self.side.chain(value, self.place)
        return any(isinstance(schema, dict) and "default" in schema for schema, _ in chain)

    @property
    def is_true(self) -> bool:
        return not (self.is_false or self.own or self.unknown or self.combined)

    @property
    def is_alone(self) -> bool:
        """Nothing beside its own keywords says something about the same value."""
        return not self.combined and not (_IN_PLACE & self.own.keys()) and not (_COMBINING & self.unknown.keys())

    @property
    def is_only_union(self) -> bool:
        return not (self.own or self.unknown or self.conjuncts) and len(self.unions) == 1

    @property
    def conjuncts(self) -> list[Conjunct]:
        """A single member of a union is one of them."""
        if self._conjuncts is None:
            self._conjuncts = list(self._made_conjuncts())
        return self._conjuncts

    def _made_conjuncts(self) -> Iterator[Conjunct]:
        for keyword in REFERENCES:
            if keyword in self.combined:
                target = self.side.target(keyword, self.place)
                assert target is not None
                yield Conjunct((), self.side, *target)
        for keyword in GROUPS:
            values = self.combined.get(keyword, ())
            if keyword == "allOf" or len(values) == 1:
                for place, value in enumerate(values):
                    yield Conjunct((keyword, str(place)), self.side, value, self.place)

    @property
    def unions(self) -> list[UnionMembers]:
        groups = [(keyword, self.combined.get(keyword, ())) for keyword in ("anyOf", "oneOf")]
        return [UnionMembers(self, keyword, values) for keyword, values in groups if len(values) > 1]

    @property
    def parts(self) -> list["Node"]:
        """The node itself and its conjuncts, theirs too: each of them holds for all values of the node."""
        if self._parts is None:
            self._parts = [self]
            for part in self._parts:  # grows meanwhile
                for conjunct in part.conjuncts[: PARTS_MAX - len(self._parts)]:
                    if not any(conjunct.node is known for known in self._parts):
                        self._parts.append(conjunct.node)
        return self._parts

    @property
    def all_unions(self) -> list[UnionMembers]:
        return [union for part in self.parts for union in part.unions]

    @property
    def types(self) -> frozenset[str]:
        """The types that its values may have, or more."""
        return self._types_within([TYPES_EFFORT], TYPES_DEPTH)

    def _types_within(self, effort: list[int], depth: int) -> frozenset[str]:
        if self._types is None:
            effort[0] -= 1
            own = self._own_types()
            if effort[0] <= 0 or depth == 0:
                return own
            self._types = own  # what refers to itself meanwhile is told too much
            for conjunct in self.conjuncts[:PARTS_MAX]:
                self._types &= conjunct.node._types_within(effort, depth - 1)
            for union in self.unions:
                self._types &= self._types_of(union, effort, depth - 1)
        return self._types

    def _own_types(self) -> frozenset[str]:
        if self.is_false:
            return frozenset()
        types = types_named(self.own["type"]) if "type" in self.own else EVERYTHING
        if "const" in self.own:
            types &= types_of_values([self.own["const"]])
        values = self.own.get("enum", ())
        return types & types_of_values(values) if 0 < len(values) <= VALUES_TYPED_MAX else types

    def _types_of(self, union: UnionMembers, effort: list[int], depth: int) -> frozenset[str]:
        if len(union) > effort[0]:
            return EVERYTHING
        return frozenset[str]().union(*(union[place]._types_within(effort, depth) for place in range(len(union))))

    @property
    def bare(self) -> "Node":
        """The same without what it combines."""
        if not self.combined:
            return self
        if self._bare is None:
            self._bare = Node(self.side, {**self.own, **self.unknown}, self.place)
        return self._bare

    @property
    def by_type(self) -> UnionMembers | None:
        """An array of types is a union, too: one of schemas that differ in their type."""
        types = self.own.get("type")
        if self._by_type is None and isinstance(types, list) and len(types) > 1:
            self._by_type = UnionMembers(self, "type", [{**self.value, "type": each} for each in types])
        return self._by_type

    def get(self, keyword: str) -> Json | Absence:
        """The keyword's value as it was written."""
        return self.value.get(keyword, ABSENT) if isinstance(self.value, dict) else ABSENT
