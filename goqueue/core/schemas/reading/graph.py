"""The places of a schema as a graph: to which schemas the same value is held, and to which a part of it.

here     `allOf`, `anyOf`, `$ref` … lead to schemas that the same value is held to
below    `properties`, `items` … lead to schemas for a part of the value
"""

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field

from goqueue.core.schemas.reading.documents import Documents, Place
from goqueue.core.schemas.reading.keywords import Applies, Subschema
from goqueue.core.schemas.reading.parsing import WALKED_AT_ONCE


@dataclass(slots=True)
class SchemaNode:
    place: Place
    here: list[int] = field(default_factory=list)
    firm: list[int] = field(default_factory=list)
    """Those of `here` that are no members of a union."""
    below: list[tuple[Subschema, int]] = field(default_factory=list)

    @property
    def inner(self) -> Iterator[int]:
        yield from self.here
        for _, index in self.below:
            yield index


def graph_of(documents: Documents) -> Generator[None, None, list[SchemaNode]]:
    indexes = {id(place): index for index, place in enumerate(documents.places)}
    nodes: list[SchemaNode] = []
    for place in documents.places:
        nodes.append(_node(place, indexes))
        if len(nodes) % WALKED_AT_ONCE == 0:
            yield
    return nodes


def _node(place: Place, indexes: dict[int, int]) -> SchemaNode:
    node = SchemaNode(place)
    for target in {id(each): each for each in (*place.refs.values(), *place.others)}.values():
        node.here.append(indexes[id(target)])
        node.firm.append(indexes[id(target)])
    if not place.stands_alone:
        for inner in place.children:
            assert inner.child is not None
            _connect(node, inner.child, indexes[id(inner)])
    return node


def _connect(node: SchemaNode, child: Subschema, index: int) -> None:
    if child.applies in (Applies.HERE, Applies.UNION):
        node.here.append(index)
    if child.applies is Applies.HERE:
        node.firm.append(index)
    if child.applies in (Applies.PROPERTY, Applies.ITEM):
        node.below.append((child, index))
