"""Of each key the first that is not settled, and no other."""

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.ledger.entries import PassedOver
from goqueue.core.ledger.keys import Keyed, LedgerKeys
from goqueue.core.offsetset import Run

A, B = 1, 2


def knowing(keyed: Iterable[Keyed] = ()) -> LedgerKeys:
    order = LedgerKeys()
    order.learn([Run(0, 99)], keyed)
    return order


def settle(order: LedgerKeys, *runs: Run) -> None:
    order.note_entry(PassedOver(runs, 0, ""))


def leaving(order: LedgerKeys, *offsets: int) -> list[int]:
    return [offset for offset in offsets if offset not in order.waiting]


def test_the_first_of_a_key_leaves_and_the_next_when_it_is_settled() -> None:
    order = knowing([(0, A), (1, B), (2, A)])
    assert leaving(order, 0, 1, 2) == [0, 1]
    settle(order, Run(0, 0))
    assert leaving(order, 1, 2) == [1, 2]


def test_messages_without_a_key_wait_for_nobody() -> None:
    order = knowing([(0, A), (2, A)])
    assert leaving(order, 1, 2, 3) == [1, 3]


def test_of_fresh_ones_the_first_of_each_key_that_nobody_is_at_is_given() -> None:
    order = knowing([(0, A)])
    keyed = [(1, A), (2, B), (3, B)]
    assert order.look([Run(1, 4)], keyed, 10).held == [1, 3]


def test_those_too_many_wait_and_so_do_others_of_their_keys() -> None:
    order = knowing()
    keyed = [(0, A), (1, B), (3, B)]
    assert order.look([Run(0, 3)], keyed, 1).held == [1, 2, 3]


def test_what_was_looked_at_counts_when_it_is_noted() -> None:
    order = knowing([(0, A)])
    looked = order.look([Run(1, 3)], [(1, A), (2, B), (3, B)], 10)
    assert leaving(order, 0, 1, 2, 3) == [0, 1, 2, 3]
    order.note(looked)
    assert leaving(order, 0, 1, 2, 3) == [0, 2]
    settle(order, Run(0, 0), Run(2, 2))
    assert leaving(order, 1, 3) == [1, 3]


def test_what_is_learnt_in_any_order_waits_in_the_order_of_offsets() -> None:
    order = knowing([(5, A), (3, A), (4, B)])
    assert leaving(order, 3, 4, 5) == [3, 4]


def test_the_longest_row_is_of_the_key_that_the_most_wait_for() -> None:
    order = knowing([(0, A), (1, B), (2, B), (3, A), (4, B)])
    assert order.longest_backlog() == (1, 2)
    settle(order, Run(1, 2))
    assert order.longest_backlog() == (0, 1)
    settle(order, Run(0, 0))
    assert order.longest_backlog() is None, "nobody waits"
    settle(order, Run(3, 4))
    assert order.longest_backlog() is None


@given(
    st.lists(st.integers(0, 3) | st.none(), max_size=30),
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=10),
)
def test_it_is_what_a_look_at_each_message_says(keys: list[int | None], settled: list[tuple[int, int]]) -> None:
    order = knowing((offset, key) for offset, key in enumerate(keys) if key is not None)
    standing = dict(enumerate(keys))
    for first, size in settled:
        settle(order, Run(first, first + size))
        standing = {offset: key for offset, key in standing.items() if not first <= offset <= first + size}
    earlier: set[int | None] = set()
    expected = []
    for offset, key in standing.items():
        if key is None or key not in earlier:
            expected.append(offset)
        earlier.add(key)
    assert leaving(order, *standing) == expected


def test_where_no_order_is_kept_nothing_is_noted_and_nobody_waits() -> None:
    order = knowing([(0, A), (1, A)])
    order.forget()
    order.note(order.look([Run(2, 3)], [(2, A), (3, A)], 10))
    assert (order.are_known, leaving(order, 0, 1, 2, 3), order.longest_backlog()) == (False, [0, 1, 2, 3], None)


def test_what_was_settled_while_keys_were_read_holds_nobody_back() -> None:
    order = LedgerKeys()
    order.learn([Run(1, 2)], [(0, A), (1, A), (2, B)])
    assert leaving(order, 1, 2) == [1, 2]
