"""The bound on producers that the partitions of a node share."""

from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.log.nodeproducers import NodeProducers, ProducerLimits
from goqueue.core.log.producers import ProducerStates, WrittenBatch

CLIENT = 2**62


def node_with(node_max: int, partition_max: int = 100) -> NodeProducers:
    return NodeProducers(ProducerLimits(partition_max=partition_max, node_max=node_max))


def write(states: ProducerStates, number: int, time: int) -> None:
    states.note(CLIENT + number, 0, WrittenBatch(0, 0, time), time)


def known(states: ProducerStates) -> list[int]:
    return [each - CLIENT for each in states.ids()]


def test_the_longest_silent_of_the_node_is_forgotten_first() -> None:
    node, one, other = node_with(3), ProducerStates(), ProducerStates()
    node.enter(one)
    node.enter(other)
    write(one, 1, 10)
    write(other, 2, 20)
    write(one, 3, 30)
    write(one, 1, 40)
    write(other, 4, 50)
    assert (known(one), known(other)) == ([3, 1], [4])
    assert (len(node), node.forgotten, node.forgotten_to) == (3, 1, CLIENT + 2)
    assert other.may_be_forgotten(CLIENT + 2)
    assert not one.may_be_forgotten(CLIENT + 2), "this partition has forgotten nobody"


def test_the_first_producer_of_a_partition_is_not_the_one_that_goes() -> None:
    node, old, new = node_with(2), ProducerStates(), ProducerStates()
    node.enter(old)
    write(old, 1, 10)
    write(old, 2, 20)
    node.enter(new)
    write(new, 3, 30)
    assert (known(old), known(new)) == ([2], [3])


def test_a_partition_that_opens_brings_its_producers_and_one_that_closes_takes_them_along() -> None:
    node, old, new = node_with(3), ProducerStates(), ProducerStates()
    for number in range(3):
        write(old, number, number)
        write(new, 10 + number, 10 + number)
    node.enter(old)
    node.enter(new)
    assert (known(old), known(new), len(node)) == ([], [10, 11, 12], 3)
    node.leave(new)
    node.leave(new)
    assert len(node) == 0
    write(new, 20, 20)
    assert len(node) == 0


def test_partitions_that_closed_are_not_kept_in_memory() -> None:
    """Topics come and go while the node is far from its bound."""
    node = NodeProducers()
    for number in range(1_000):
        states = ProducerStates()
        write(states, number, number)
        node.enter(states)
        node.leave(states)
    assert len(node._silent) == 0


def test_an_old_partition_with_more_than_its_bound_is_cut_down_to_it() -> None:
    node, states = node_with(100, partition_max=2), ProducerStates()
    for number in range(5):
        write(states, number, number)
    node.enter(states)
    assert known(states) == [3, 4]
    assert states.forgotten_to == CLIENT + 2


def test_a_new_id_is_never_one_that_may_be_forgotten() -> None:
    node, states = node_with(1), ProducerStates()
    node.enter(states)
    write(states, 5, 0)
    write(states, 6, 0)
    assert not states.may_be_forgotten(node.next_id(0, 0))


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 12), st.booleans()), max_size=80),
    st.integers(1, 6),
)
def test_as_many_as_the_bound_allows_are_remembered(steps: list[tuple[int, int, bool]], node_max: int) -> None:
    """The same as one list for the whole node, in order of the last write."""
    node, partitions = node_with(node_max), [ProducerStates() for _ in range(4)]
    for states in partitions:
        node.enter(states)
    model: dict[tuple[int, int], None] = {}
    for time, (partition, number, opens_anew) in enumerate(steps, 1):
        if opens_anew:
            node.leave(partitions[partition])
            node.enter(partitions[partition])
        write(partitions[partition], number, time)
        model.pop((partition, number), None)
        model[(partition, number)] = None
        while len(model) > node_max:
            del model[next(iter(model))]
    found = {(number, each) for number, states in enumerate(partitions) for each in known(states)}
    assert found == set(model)
    assert len(node) == len(model)
