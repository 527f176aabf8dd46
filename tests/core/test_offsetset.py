"""The set of offsets against Python's own."""

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.offsetset import CHUNK_SIZE, OffsetSet, Run
from goqueue.errors import UnknownFormat

EDGES = (0, 1, CHUNK_SIZE - 1, CHUNK_SIZE, CHUNK_SIZE + 1, 2 * CHUNK_SIZE, 3 * CHUNK_SIZE - 1, 10 * CHUNK_SIZE)
places = st.one_of(st.integers(0, 40), st.sampled_from(EDGES), st.integers(CHUNK_SIZE - 5, CHUNK_SIZE + 5))
ranges = st.tuples(places, st.one_of(st.integers(0, 9), st.sampled_from((CHUNK_SIZE, 2 * CHUNK_SIZE)))).map(
    lambda pair: Run(pair[0], pair[0] + pair[1])
)
changes = st.lists(st.tuples(st.booleans(), ranges), max_size=12)


def both(changes: list[tuple[bool, Run]]) -> tuple[OffsetSet, set[int]]:
    offsets, model = OffsetSet(), set[int]()
    for adds, run in changes:
        named = set(range(run.first, run.last + 1))
        if adds:
            assert offsets.add(*run) == len(named - model)
            model |= named
        else:
            assert offsets.discard(*run) == len(named & model)
            model -= named
    return offsets, model


def runs_of(model: set[int]) -> list[Run]:
    firsts = sorted(offset for offset in model if offset - 1 not in model)
    lasts = sorted(offset for offset in model if offset + 1 not in model)
    return [Run(first, last) for first, last in zip(firsts, lasts, strict=True)]


@given(changes)
def test_it_holds_what_a_plain_set_would(changes: list[tuple[bool, Run]]) -> None:
    offsets, model = both(changes)
    assert len(offsets) == len(model)
    assert bool(offsets) == bool(model)
    assert list(offsets.runs()) == runs_of(model)
    assert all((offset in offsets) == (offset in model) for offset in {*EDGES, *range(45)})


@given(changes, ranges)
def test_a_range_of_it_is_cut_and_counted(changes: list[tuple[bool, Run]], run: Run) -> None:
    offsets, model = both(changes)
    inside = model & set(range(run.first, run.last + 1))
    assert list(offsets.runs(*run)) == runs_of(inside)
    assert offsets.count(*run) == len(inside)
    assert offsets.has_any([(*run, 1)]) == bool(inside)


@given(changes, changes)
def test_another_set_is_taken_out_of_it(changes: list[tuple[bool, Run]], others: list[tuple[bool, Run]]) -> None:
    (offsets, model), (asked, others_model) = both(changes), both(others)
    removed = offsets.copy()
    removed.remove(asked)
    assert list(offsets.take(asked).runs()) == runs_of(model & others_model)
    assert list(offsets.runs()) == runs_of(model - others_model)
    assert removed == offsets
    assert len(removed) == len(model - others_model)


@given(changes, places)
def test_the_first_run_and_the_first_gap_from_an_offset_are_found(changes: list[tuple[bool, Run]], at: int) -> None:
    offsets, model = both(changes)
    assert offsets.first_run(at) == next(iter(runs_of({offset for offset in model if offset >= at})), None)
    assert offsets.first_gap(at) == next(
        offset for offset in range(at, at + 20 * CHUNK_SIZE) if offset not in model
    )


@given(changes)
def test_written_down_it_is_the_same_and_has_one_form(changes: list[tuple[bool, Run]]) -> None:
    offsets, model = both(changes)
    plain = msgpack.unpackb(msgpack.packb(offsets.to_plain()))
    assert list(OffsetSet.from_plain(plain).runs()) == runs_of(model)
    assert OffsetSet(runs_of(model)).to_plain() == plain


def test_full_chunks_take_next_to_nothing_when_written_down() -> None:
    offsets = OffsetSet([Run(0, 100 * CHUNK_SIZE - 1)])
    assert len(msgpack.packb(offsets.to_plain())) < 400


def test_a_range_without_end_costs_only_what_is_in_it() -> None:
    """Would it walk the range, this would never come back."""
    offsets = OffsetSet([Run(5, 9), Run(2**62, 2**62)])
    assert offsets.count(0, 2**63 - 1) == 6
    assert offsets.discard(6, 2**63 - 1) == 5
    assert list(offsets.runs()) == [Run(5, 5)]


def test_ranges_that_cannot_be_hold_nothing() -> None:
    offsets = OffsetSet([Run(0, 20)])
    assert (offsets.count(9, 3), list(offsets.runs(9, 3)), offsets.discard(9, 3)) == (0, [], 0)
    assert list(offsets.runs(-5, 1)) == [Run(0, 1)]


@pytest.mark.parametrize("plain", [None, [1], [b"", 1], ["a", b"b"], 7])
def test_what_was_not_written_so_is_refused(plain: object) -> None:
    with pytest.raises(UnknownFormat):
        OffsetSet.from_plain(plain)


@given(st.sets(st.integers(0, 3 * CHUNK_SIZE)), st.integers(0, 2 * CHUNK_SIZE), st.integers(0, 2**200 - 1))
def test_offsets_one_by_one_and_by_a_mask(offsets: set[int], base: int, mask: int) -> None:
    found = OffsetSet.of(offsets)
    assert list(found.offsets()) == sorted(offsets)
    assert (found.first, found.bounds) == (
        min(offsets, default=None),
        Run(min(offsets), max(offsets)) if offsets else None,
    )
    found.add_mask(base, mask)
    offsets |= {base + place for place in range(200) if mask >> place & 1}
    assert found == OffsetSet.of(offsets)
    assert OffsetSet.from_chunks(found.chunks()) == found
    assert found != OffsetSet.of(offsets | {9 * CHUNK_SIZE})


@given(st.sets(st.integers(0, 5 * CHUNK_SIZE)), st.integers(0, 6 * CHUNK_SIZE), st.integers(1, 50))
def test_what_lies_below_can_be_taken_at_once(offsets: set[int], end: int, count: int) -> None:
    rest = OffsetSet.of(offsets)
    before = rest.copy()
    taken = rest.take_below(end)
    assert before == OffsetSet.of(offsets)
    for found, expected in (
        (taken, {offset for offset in offsets if offset < end}),
        (rest, {offset for offset in offsets if offset >= end}),
    ):
        assert found == OffsetSet.of(expected)
        assert list(found.offsets()) == sorted(expected)
        assert (len(found), found.last(count)) == (len(expected), sorted(expected)[-count:])
    rest.update(taken)
    assert rest == before


@given(changes)
def test_words_of_64_say_it_all(changes: list[tuple[bool, Run]]) -> None:
    offsets, _ = both(changes)
    words, again = list(offsets.words()), OffsetSet()
    for base, word in words:
        assert base % 64 == 0
        assert 0 < word < 2**64
        again.add_mask(base, word)
    assert again == offsets
    assert len(words) <= offsets.words_max
