"""The loops of a graph are found, and nothing that is none."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.schemas.reading.loops import Component, components_of
from goqueue.core.schemas.text import finished

Graph = Sequence[Sequence[int]]


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    size = draw(st.integers(1, 12))
    return draw(st.lists(st.lists(st.integers(0, size - 1), max_size=4), min_size=size, max_size=size))


def reached(graph: Graph, start: int) -> set[int]:
    """What the node leads to in one step or more."""
    found, waiting = set[int](), list(graph[start])
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += graph[node]
    return found


def found_in(graph: Graph) -> list[Component]:
    return finished(components_of(graph))


@given(graphs())
def test_nodes_that_reach_each_other_are_together(graph: Graph) -> None:
    leads_to = [reached(graph, node) for node in range(len(graph))]
    for component in found_in(graph):
        first = component.nodes[0]
        together = {node for node in leads_to[first] if first in leads_to[node]} | {first}
        assert set(component.nodes) == together
        assert component.is_loop == (first in leads_to[first])


@given(graphs())
def test_each_node_comes_once_and_behind_all_that_it_leads_out_to(graph: Graph) -> None:
    found = found_in(graph)
    assert sorted(node for component in found for node in component.nodes) == list(range(len(graph)))
    seen = set[int]()
    for component in found:
        seen.update(component.nodes)
        assert all(following in seen for node in component.nodes for following in graph[node])


def test_a_chain_of_any_length_is_no_matter_of_the_stack() -> None:
    chain = [*([node + 1] for node in range(100_000)), []]
    assert len(found_in(chain)) == len(chain)
