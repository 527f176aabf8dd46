"""What it can cost at most to hold a value to a schema, found before anybody does.

The compiled validator cannot be interrupted, and its calls nest: a schema that unfolds to a million schemas, or one
that nests deep for each level of a value, would stop the broker, or end it where the stack ends.

A loop of the graph through `here` alone would never come to an end, and is refused. A loop through `below` is a
recursive schema; the validator remembers which value was held to which schema in a loop, so that each pair costs
once. Outside of loops it remembers nothing, and what is reached in two ways counts twice.

When it explains a refusal it remembers nothing at all. Members of unions take no part in an explanation
(`compiling`); a loop that a value can be sent round in two ways at once is not explained.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field

from goqueue.core.schemas.reading.documents import Documents
from goqueue.core.schemas.reading.graph import SchemaNode, graph_of
from goqueue.core.schemas.reading.keywords import Applies, Subschema
from goqueue.core.schemas.reading.loops import Component, components_of
from goqueue.core.schemas.reading.parsing import WALKED_AT_ONCE
from goqueue.core.schemas.reading.refusing import refused

LOAD_MAX = 50_000
"""Limit of the schemas that one part of a value may be held to."""
NESTING_MAX = 1_000
"""Limit of calls within calls. One takes up to 1.5 KiB of stack."""
DEPTH_MIN = 16
"""A recursive schema can be used for values that are nested as deep, at least."""
DEPTH_MAX = 1_024
"""Limit of the depth of any value: that of the parser."""
ENTRIES_PER_UNIT = 10
"""To look up this many names costs as much as to hold a value to a schema."""


@dataclass(frozen=True, slots=True)
class SchemaCost:
    load: int
    """How many schemas one part of a value may be held to."""
    depth_max: int
    """How deep a value may be nested."""
    is_recursive: bool
    forks: bool
    """A part of a value can come round a loop in two ways at once."""


@dataclass(slots=True)
class _Fan:
    """The load of one property, and of one item, of a value."""

    properties: int = 0
    items: int = 0

    def add(self, other: "_Fan") -> None:
        self.properties += other.properties
        self.items += other.items

    @property
    def widest(self) -> int:
        return max(self.properties, self.items)


@dataclass(slots=True)
class _Measured:
    weight: int
    height: int = 1
    """How many schemas `here` leads to in a row."""
    size: int = 1
    """How many it leads to in all."""
    fan: _Fan = field(default_factory=_Fan)
    load: int = 1
    reach: int = 1
    """How many schemas in a row there are down to the last part of a value; only where there are no loops."""


def cost_of(documents: Documents) -> Generator[None, None, SchemaCost]:
    """Raises `InvalidSchema` for a schema that could cost too much with any value; yields now and then."""
    nodes = yield from graph_of(documents)
    measuring = _Measuring(nodes)
    yield from measuring.here()
    groups = yield from components_of([list(node.inner) for node in nodes])
    yield from measuring.below(groups)
    loops = [group for group in groups if group.is_loop]
    forks = False
    for loop in loops:
        forks = forks or (yield from _forks(nodes, loop))
    return SchemaCost(measuring.load, measuring.depth_max(bool(loops)), bool(loops), forks)


class _Measuring:
    def __init__(self, nodes: Sequence[SchemaNode]) -> None:
        self._nodes = nodes
        self._all = [_Measured(_weight(node)) for node in nodes]

    @property
    def load(self) -> int:
        return max(measured.load for measured in self._all)

    def depth_max(self, is_recursive: bool) -> int:
        if not is_recursive and max(measured.reach for measured in self._all) <= NESTING_MAX:
            return DEPTH_MAX
        return min(DEPTH_MAX, NESTING_MAX // max(measured.height for measured in self._all))

    def here(self) -> Generator[None, None, None]:
        for group in (yield from components_of([node.here for node in self._nodes])):
            node, measured = self._nodes[group.nodes[0]], self._all[group.nodes[0]]
            if group.is_loop:
                raise refused(node.place.path, "it refers to itself for the same value, without an end")
            inner = [self._all[index] for index in node.here]
            measured.height = 1 + max((each.height for each in inner), default=0)
            measured.size = _bounded(node, measured.weight + sum(each.size for each in inner))
            if measured.height > NESTING_MAX // DEPTH_MIN:
                raise refused(node.place.path, f"more than {NESTING_MAX // DEPTH_MIN} schemas in a row for a value")

    def below(self, groups: Sequence[Component]) -> Generator[None, None, None]:
        for number, group in enumerate(groups):
            if group.is_loop:
                self._measure_loop(group)
            else:
                self._measure(group.nodes[0])
            if number % WALKED_AT_ONCE == 0:
                yield

    def _measure(self, index: int) -> None:
        node, measured = self._nodes[index], self._all[index]
        measured.fan = _own_fan([(child, self._all[below].load) for child, below in node.below])
        for each in node.here:
            measured.fan.add(self._all[each].fan)
        measured.load = _bounded(node, max(measured.size, measured.fan.widest))
        measured.reach = 1 + max((self._all[each].reach for each in node.inner), default=0)

    def _measure_loop(self, group: Component) -> None:
        """Each member once, and whatever it leads out to."""
        members = set(group.nodes)
        load = 0
        for index in group.nodes:
            exits = set(self._nodes[index].inner) - members
            load += self._all[index].weight + sum(self._all[each].load for each in exits)
        for index in group.nodes:
            self._all[index].load = _bounded(self._nodes[index], load)
            self._all[index].fan = _Fan(load, load)


def _weight(node: SchemaNode) -> int:
    schema = node.place.schema
    if isinstance(schema, bool):
        return 1
    return 1 + sum(len(value) for value in schema.values() if isinstance(value, list | dict)) // ENTRIES_PER_UNIT


def _bounded(node: SchemaNode, load: int) -> int:
    if load > LOAD_MAX:
        raise refused(node.place.path, f"one value may be held to more than {LOAD_MAX:,} schemas; split the schema")
    return load


def _own_fan(below: Sequence[tuple[Subschema, int]]) -> _Fan:
    """A property has one schema by its name, or that for the rest; and all those that are for any."""
    fan, one = _Fan(), _Fan()
    for child, load in below:
        is_one = child.slot is not None or child.is_rest
        if child.applies is Applies.PROPERTY:
            one.properties = max(one.properties, load if is_one else 0)
            fan.properties += 0 if is_one else load
        else:
            one.items = max(one.items, load if is_one else 0)
            fan.items += 0 if is_one else load
    fan.add(one)
    return fan


def _forks(nodes: Sequence[SchemaNode], loop: Component) -> Generator[None, None, bool]:
    """Whether a part of a value can come round the loop in two ways at once."""
    places = {index: at for at, index in enumerate(loop.nodes)}
    inside = [[places[index] for index in nodes[member].firm if index in places] for member in loop.nodes]
    fans: dict[int, _Fan] = {}
    for single in (yield from components_of(inside)):
        at = single.nodes[0]
        fan = fans[at] = _own_fan([(child, 1) for child, index in nodes[loop.nodes[at]].below if index in places])
        for each in inside[at]:
            fan.add(fans[each])
        if fan.widest > 1:
            return True
    return False
