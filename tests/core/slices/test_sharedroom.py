"""What all partitions keep of what they have read is bounded, and the newest stays."""

from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.slices.readcache import BatchCache, CacheBudget, StretchCache
from tests.core.slices.test_recentbatches import a_batch


class Holder:
    def __init__(self) -> None:
        self.size = 0

    def forget_all(self) -> None:
        self.size = 0


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 60))))
def test_all_together_keep_no_more_than_is_allowed_and_those_who_came_last_keep_theirs(
    uses: list[tuple[int, int]],
) -> None:
    room, holders, order = CacheBudget(100), [Holder() for _ in range(5)], list[int]()
    for number, size in uses:
        holders[number].size = size
        room.note(holders[number], size)
        order = [each for each in order if each != number] + [number]
        assert room.bytes_kept == sum(holder.size for holder in holders) <= 100
        assert holders[number].size == size
        kept = [each for each in order if holders[each].size]
        assert kept == order[len(order) - len(kept) :]


def test_the_least_that_must_go_goes() -> None:
    room, old, middle, new = CacheBudget(100), Holder(), Holder(), Holder()
    for holder, size in ((old, 40), (middle, 40), (new, 40)):
        holder.size = size
        room.note(holder, size)
    assert [each.size for each in (old, middle, new)] == [0, 40, 40]


def test_a_thousand_partitions_share_it() -> None:
    batch = a_batch(100)
    room = CacheBudget(10 * len(batch))
    partitions = [BatchCache(room) for _ in range(1_000)]
    for recent in partitions:
        recent.note(batch, 0)
        assert recent.holding(100, 0) is not None
    assert [recent.holding(100, 0) is not None for recent in partitions] == [False] * 990 + [True] * 10
    assert room.bytes_kept == 10 * len(batch)


def test_whoever_is_told_of_a_change_gives_back_its_own() -> None:
    room = CacheBudget()
    recent, ahead = BatchCache(room), StretchCache(room)
    recent.note(a_batch(100), 0)
    assert room.bytes_kept > 0
    assert recent.holding(100, 1) is None
    assert ahead.holding(1, 0, 1) is None
    assert room.bytes_kept == 0
