"""What all partitions keep of what they have read is bounded, and the newest stays."""

from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.offsetset import Run
from goqueue.core.slices.cachebudget import CacheBudget
from goqueue.core.slices.readcache import BatchCache, PartitionCache, StretchCache
from tests.core.slices.test_lanesahead import a_stretch
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


USES = st.tuples(st.integers(0, 4), st.sampled_from(["batch", "stretch", "index", "close"]), st.integers(1, 40))


def kept_by(partitions: list[PartitionCache]) -> int:
    return sum(
        cache.kept.bytes_kept for each in partitions for cache in (each.indexes, each.stretches, each.batches)
    )


def use(cache: PartitionCache, kind: str, size: int) -> None:
    data = a_batch(100 * size, size)
    match kind:
        case "batch":
            cache.batches.note(data, 0)
        case "stretch":
            stretch = a_stretch(1, 100 * size, size)
            cache.stretches.note_used(stretch, stretch.start, 0)
        case "index":
            cache.indexes.cut_down(data, [Run(100 * size, 100 * size)])
        case "close":
            cache.close()


@given(st.lists(USES, max_size=60), st.integers(500, 10_000))
def test_everything_that_partitions_keep_is_counted_and_a_closed_one_gives_its_share_back(
    uses: list[tuple[int, str, int]], bytes_max: int
) -> None:
    budget = CacheBudget(bytes_max)
    partitions = [PartitionCache(budget) for _ in range(5)]
    for number, kind, size in uses:
        use(partitions[number], kind, size)
        assert kept_by(partitions) == budget.bytes_kept <= bytes_max
        assert kind != "close" or kept_by([partitions[number]]) == 0
    for each in partitions:
        each.close()
    assert budget.bytes_kept == 0
