"""What it can cost at most to hold a value to a schema, found before anybody does.

The compiled validator cannot be interrupted, and its calls nest: a schema that unfolds to a million schemas, or one
that nests deep for each level of a value, would stop the broker, or end it where the stack ends. So it is found out
for the graph of a schema how deep the calls nest for one part of a value, to how many schemas that part may be held
(its load), and how large the patterns are that it is matched with.

A loop of the graph through `here` alone would never come to an end, and is refused. A loop through `below` is a
recursive schema; the validator remembers which value was held to which schema in a loop, so that each pair costs
once. Outside of loops it remembers nothing, and what is reached in two ways counts twice.

When it explains a refusal it remembers nothing at all. Members of unions take no part in an explanation
(`validation/forms`); a loop that a value can be sent round in two ways at once is not explained.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass

from goqueue.core.schemas.reading.documents import Documents, Place
from goqueue.core.schemas.reading.graph import SchemaNode, graph_of
from goqueue.core.schemas.reading.keywords import Applies, Subschema
from goqueue.core.schemas.reading.loops import Component, components_of
from goqueue.core.schemas.reading.parsing import WALKED_AT_ONCE
from goqueue.core.schemas.reading.patterns import PatternCost, Patterns
from goqueue.core.schemas.reading.refusing import refused

LOAD_MAX = 50_000
"""Limit of the schemas that one part of a value may be held to."""
MATCHING_MAX = 256 * 1024
"""Limit of the bytes of compiled patterns that one part of a value may be matched with."""
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
    patterns: PatternCost
    """What one part of a value may be matched with."""
    depth_max: int
    """How deep a value may be nested."""
    is_recursive: bool
    forks: bool
    """A part of a value can come round a loop in two ways at once."""


def cost_of(documents: Documents, patterns: Patterns) -> Generator[None, None, SchemaCost]:
    """Raises `InvalidSchema` for a schema that could cost too much with any value; yields now and then."""
    nodes = yield from graph_of(documents)
    heights = yield from _heights(nodes)
    components = yield from components_of([list(node.inner) for node in nodes])
    loads = _Loads(nodes, [_weight(node.place) for node in nodes], LOAD_MAX, "schemas")
    yield from loads.measure(components)
    matched = yield from _matched(nodes, components, patterns)
    loops = [component for component in components if component.is_loop]
    forks = False
    for loop in loops:
        forks = forks or (yield from _forks(nodes, loop))
    depth_max = NESTING_MAX // max(heights)
    if not loops and (yield from _reach(nodes, components)) <= NESTING_MAX:
        depth_max = DEPTH_MAX
    return SchemaCost(loads.highest, matched, min(DEPTH_MAX, depth_max), bool(loops), forks)


def _matched(
    nodes: Sequence[SchemaNode], components: Sequence[Component], patterns: Patterns
) -> Generator[None, None, PatternCost]:
    costs = [patterns.cost_at(node.place) for node in nodes]
    if not any(cost != PatternCost() for cost in costs):
        return PatternCost()
    found: list[int] = []
    for weights, most in (
        ([cost.reading_on for cost in costs], MATCHING_MAX),
        ([cost.tied for cost in costs], MATCHING_MAX),
        ([cost.tied_at_most for cost in costs], MATCHING_MAX**2),
    ):
        loads = _Loads(nodes, weights, most, "bytes of patterns")
        yield from loads.measure(components)
        found.append(loads.highest)
    return PatternCost(*found)


def _weight(place: Place) -> int:
    if isinstance(place.schema, bool):
        return 1
    entries = sum(len(value) for value in place.schema.values() if isinstance(value, list | dict))
    return 1 + entries // ENTRIES_PER_UNIT


# How deep


def _heights(nodes: Sequence[SchemaNode]) -> Generator[None, None, list[int]]:
    """How many schemas each leads to in a row, for the same value."""
    heights = [1] * len(nodes)
    for component in (yield from components_of([node.here for node in nodes])):
        [*_, index] = component.nodes
        node = nodes[index]
        if component.is_loop:
            raise refused(node.place.path, "it refers to itself for the same value, without an end")
        heights[index] += max((heights[each] for each in node.here), default=0)
        if heights[index] > NESTING_MAX // DEPTH_MIN:
            raise refused(node.place.path, f"more than {NESTING_MAX // DEPTH_MIN} schemas in a row for one value")
    return heights


def _reach(nodes: Sequence[SchemaNode], components: Sequence[Component]) -> Generator[None, None, int]:
    """How many schemas in a row there are, down to the last part of a value. There are no loops."""
    reach = [1] * len(nodes)
    for number, component in enumerate(components):
        [index] = component.nodes
        reach[index] += max((reach[each] for each in nodes[index].inner), default=0)
        if number % WALKED_AT_ONCE == 0:
            yield
    return max(reach)


# How much


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


class _Loads:
    """The load of each schema: of the value that is held to it, or of any part of the value, where that is more."""

    def __init__(self, nodes: Sequence[SchemaNode], weights: Sequence[int], most: int, noun: str) -> None:
        self._nodes = nodes
        self._weights = weights
        self._most, self._noun = most, noun
        self._own = [0] * len(nodes)
        """The load of the value itself."""
        self._fans = [_Fan() for _ in nodes]
        self._loads = [0] * len(nodes)

    @property
    def highest(self) -> int:
        return max(self._loads)

    def measure(self, components: Sequence[Component]) -> Generator[None, None, None]:
        for number, component in enumerate(components):
            if component.is_loop:
                self._measure_loop(component)
            else:
                self._measure(component.nodes[0])
            if number % WALKED_AT_ONCE == 0:
                yield

    def _measure(self, index: int) -> None:
        node = self._nodes[index]
        fan = self._fans[index] = _own_fan([(child, self._loads[each]) for child, each in node.below])
        for each in node.here:
            fan.add(self._fans[each])
        own = self._own[index] = self._weights[index] + sum(self._own[each] for each in node.here)
        self._loads[index] = self._bounded(node, max(own, fan.widest))

    def _measure_loop(self, loop: Component) -> None:
        """Each member once, and whatever it leads out to."""
        members = set(loop.nodes)
        load = 0
        for index in loop.nodes:
            exits = set(self._nodes[index].inner) - members
            load += self._weights[index] + sum(self._loads[each] for each in exits)
        for index in loop.nodes:
            self._own[index] = self._loads[index] = self._bounded(self._nodes[index], load)
            self._fans[index] = _Fan(load, load)

    def _bounded(self, node: SchemaNode, load: int) -> int:
        if load > self._most:
            raise refused(
                node.place.path, f"one value may meet more than {self._most:,} {self._noun}; split the schema"
            )
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
