"""The loops of a graph: which nodes can be reached from each other (Tarjan's strongly connected components)."""

from collections.abc import Generator, Sequence
from typing import NamedTuple

WALKED_AT_ONCE = 500


class Component(NamedTuple):
    """Nodes that reach each other; a node alone is a loop if it leads to itself."""

    nodes: tuple[int, ...]
    is_loop: bool


def components_of(edges: Sequence[Sequence[int]]) -> Generator[None, None, list[Component]]:
    """Every group, those that it leads to before it. Without recursion, since graphs may be deep; yields now and
    then."""
    search = _Search(edges)
    for root in range(len(edges)):
        if search.order[root] < 0:
            yield from search.visit(root)
    return search.groups


class _Search:
    def __init__(self, edges: Sequence[Sequence[int]]) -> None:
        self._edges = edges
        self.order = [-1] * len(edges)
        self._lowest = [0] * len(edges)
        self._is_open = [False] * len(edges)
        self._open: list[int] = []
        self._count = self._steps = 0
        self.groups: list[Component] = []

    def visit(self, root: int) -> Generator[None, None, None]:
        self._begin(root)
        path = [(root, 0)]
        while path:
            node, taken = path.pop()
            self._steps += 1
            if self._steps % WALKED_AT_ONCE == 0:
                yield
            if taken == len(self._edges[node]):
                self._end(node)
                if path:
                    self._lower(path[-1][0], self._lowest[node])
                continue
            path.append((node, taken + 1))
            following = self._edges[node][taken]
            if self.order[following] < 0:
                self._begin(following)
                path.append((following, 0))
            elif self._is_open[following]:
                self._lower(node, self.order[following])

    def _begin(self, node: int) -> None:
        self.order[node] = self._lowest[node] = self._count
        self._count += 1
        self._open.append(node)
        self._is_open[node] = True

    def _lower(self, node: int, to: int) -> None:
        self._lowest[node] = min(self._lowest[node], to)

    def _end(self, node: int) -> None:
        if self._lowest[node] != self.order[node]:
            return
        members = [self._open.pop()]
        while members[-1] != node:
            members.append(self._open.pop())
        for member in members:
            self._is_open[member] = False
        self.groups.append(Component(tuple(members), len(members) > 1 or node in self._edges[node]))
