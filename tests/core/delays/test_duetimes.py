"""Due times of pending messages: a map in little memory."""

import sys

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from goqueue.core.delays.duetimes import CHUNK_BITS, DueTimes

NEAR = 3 << CHUNK_BITS
OFFSETS = st.integers(0, NEAR) | st.sampled_from([0, (1 << CHUNK_BITS) - 1, 1 << CHUNK_BITS, 2**62])
DUES = st.integers(0, 2**64 - 1)


class DueTimesBesideADict(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.dues = DueTimes()
        self.model: dict[int, int] = {}

    @rule(offset=OFFSETS, due=DUES)
    def set(self, offset: int, due: int) -> None:
        self.dues.set(offset, due)
        self.model[offset] = due

    @rule(first=OFFSETS, dues=st.lists(DUES, max_size=40), step=st.sampled_from([1, 1, 3, 500, -1, 0]))
    def set_all(self, first: int, dues: list[int], step: int) -> None:
        offsets = [max(0, first + number * step) for number in range(len(dues))]
        self.dues.set_all(offsets, dues)
        self.model.update(zip(offsets, dues, strict=True))

    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        if self.model:
            offset = data.draw(st.sampled_from(sorted(self.model)))
            self.dues.remove(offset)
            del self.model[offset]

    @rule(end=OFFSETS)
    def remove_below(self, end: int) -> None:
        self.dues.remove_below(end)
        self.model = {offset: due for offset, due in self.model.items() if offset >= end}

    @rule(offset=OFFSETS)
    def ask(self, offset: int) -> None:
        assert self.dues.get(offset) == self.model.get(offset)

    @invariant()
    def all_are_known(self) -> None:
        assert all(self.dues[offset] == due for offset, due in self.model.items())
        assert min(self.dues.earliest_of_each(), default=None) == min(self.model.values(), default=None)


test_due_times_are_a_map = DueTimesBesideADict.TestCase


@given(st.integers(0, 2**40))
def test_nothing_is_kept_of_what_was_removed(first: int) -> None:
    dues = DueTimes()
    dues.set_all(range(first, first + 100), range(100))
    for offset in range(first, first + 100):
        dues.remove(offset)
    assert list(dues.earliest_of_each()) == []
    assert not dues._chunks


def test_a_pending_message_takes_ten_bytes() -> None:
    dues, count = DueTimes(), 100_000
    dues.set_all(range(count), range(count))
    columns = [column for chunk in dues._chunks.values() for column in (chunk.lows, chunk.dues)]
    assert sum(map(sys.getsizeof, columns)) / count < 12
