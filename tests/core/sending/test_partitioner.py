"""Which partition a message goes to (G4)."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.sending.chunk import Chunk, Content
from goqueue.core.sending.partitioner import Partitioner, check_partition, partition_of_key
from goqueue.errors import UnknownPartition

keys = st.none() | st.binary(max_size=20)
MASK = 2**32 - 1


def choose_all(partitioner: Partitioner, keys: Sequence[bytes | None], partition: int | None = None) -> list[int]:
    """Where each message of one call goes; those without a key stay together, and the next call moves on."""
    chosen = [partitioner.choose(key, partition) for key in keys]
    if partition is None and not all(keys):
        partitioner.begin_next_batch()
    return chosen


def rotated(word: int, by: int) -> int:
    return (word << by | word >> 32 - by) & MASK


def mixed(word: int) -> int:
    return rotated(word * 0xCC9E2D51 & MASK, 15) * 0x1B873593 & MASK


def murmur3(data: bytes) -> int:
    """MurmurHash3 x86-32 with seed 0, written down once more from its definition."""
    state, whole = 0, len(data) // 4 * 4
    for position in range(0, whole, 4):
        state ^= mixed(int.from_bytes(data[position : position + 4], "little"))
        state = (rotated(state, 13) * 5 + 0xE6546B64) & MASK
    state ^= mixed(int.from_bytes(data[whole:], "little")) ^ len(data)
    state = (state ^ state >> 16) * 0x85EBCA6B & MASK
    state = (state ^ state >> 13) * 0xC2B2AE35 & MASK
    return state ^ state >> 16


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        (b"test", 0xBA6BD213),
        (b"Hello, world!", 0xC0363E43),
        (b"The quick brown fox jumps over the lazy dog", 0x2E4FF723),
        (b"\0\0\0\0", 0x2362F9DE),
        (b"\xff\xff\xff\xff", 0x76293B50),
        (b"!Ce\x87", 0xF55B516B),
    ],
)
def test_a_key_is_hashed_as_everywhere_else(key: bytes, hashed: int) -> None:
    """G4: published vectors of murmur3 x86-32 with seed 0; some would be negative if signed."""
    assert partition_of_key(key, 2**32) == hashed == murmur3(key)
    assert partition_of_key(key, 7) == hashed % 7


@given(st.binary(min_size=1, max_size=64), st.integers(1, 10_000))
def test_same_key_same_partition_whichever_producer_asks(key: bytes, partitions: int) -> None:
    """G4, O2."""
    chosen = {Partitioner(partitions, first).choose(key) for first in range(3)}
    assert chosen == {murmur3(key) % partitions}


def test_a_keyless_batch_stays_together_and_the_next_goes_to_the_next_partition() -> None:
    partitioner = Partitioner(3, first=1)
    assert [choose_all(partitioner, [None] * 4) for _ in range(4)] == [[1] * 4, [2] * 4, [0] * 4, [1] * 4]


def test_asking_again_before_the_batch_is_gone_gives_the_same_answer() -> None:
    """A keyless publish that chose twice would be counted in one partition and written in another."""
    partitioner = Partitioner(3, first=0)
    assert [partitioner.choose(), partitioner.choose(None), partitioner.choose(b"")] == [0, 0, 0]
    partitioner.begin_next_batch()
    assert partitioner.choose() == 1


def test_keyed_and_explicit_messages_do_not_move_the_keyless_on() -> None:
    partitioner = Partitioner(3, first=0)
    choose_all(partitioner, [b"a", b"b"])
    choose_all(partitioner, [None, None], partition=2)
    choose_all(partitioner, [])
    assert partitioner.choose() == 0


def test_an_explicit_partition_wins_over_the_key() -> None:
    partitioner = Partitioner(3, first=0)
    assert [partitioner.choose(b"key", partition) for partition in range(3)] == [0, 1, 2]


@pytest.mark.parametrize("partition", [-1, 3, 2**40, "1", 1.0, True, None])
def test_a_partition_that_is_not_there_is_refused_by_name(partition: object) -> None:
    with pytest.raises(UnknownPartition, match="partition"):
        check_partition(partition, 3)


def test_a_wrong_partition_moves_nothing() -> None:
    partitioner = Partitioner(3, first=0)
    with pytest.raises(UnknownPartition):
        choose_all(partitioner, [None], partition=3)
    assert partitioner.choose() == 0


@given(st.lists(st.tuples(st.integers(1, 9), st.lists(keys, max_size=5)), max_size=12), st.integers(0, 100))
def test_every_choice_is_a_partition_there_is_also_after_the_number_changed(
    calls: list[tuple[int, list[bytes | None]]], first: int
) -> None:
    partitioner = Partitioner(9, first)
    for partitions, call in calls:
        partitioner.resize(partitions)
        chosen = choose_all(partitioner, call)
        assert all(0 <= partition < partitions == partitioner.partitions for partition in chosen)
        assert len({place for place, key in zip(chosen, call, strict=True) if not key}) <= 1


@given(st.integers(1, 20), st.integers(0, 20))
def test_keyless_batches_reach_every_partition_in_one_round(partitions: int, first: int) -> None:
    partitioner = Partitioner(partitions, first)
    assert {choose_all(partitioner, [None])[0] for _ in range(partitions)} == set(range(partitions))


@given(st.integers(1, 9), st.sets(st.integers(0, 8)), st.integers(0, 20), st.integers(0, 20))
def test_keyless_batches_go_round_what_is_avoided_and_keys_stay_where_they_are(
    partitions: int, avoided: set[int], first: int, steps: int
) -> None:
    """G4"""
    partitioner = Partitioner(partitions, first)
    partitioner.avoid(avoided)
    usable = set(range(partitions)) - avoided
    for _ in range(steps):
        partitioner.begin_next_batch()
    assert partitioner.choose() in (usable or range(partitions))
    assert partitioner.choose(b"key") == partition_of_key(b"key", partitions)
    assert not usable or {choose_all(partitioner, [None])[0] for _ in range(partitions)} == usable


@given(st.integers(1, 20), st.integers(0, 19), st.integers(0, 40), st.integers(1, 20_000))
def test_many_keyless_messages_go_to_as_many_partitions_as_get_500_each(
    partitions: int, avoided: int, first: int, count: int
) -> None:
    partitioner = Partitioner(partitions, first)
    partitioner.avoid(range(min(avoided, partitions - 1)))
    usable = partitions - min(avoided, partitions - 1)
    begin = partitioner.choose()
    portions = partitioner.portions(Chunk(None, Content(0), [b""] * count, range(count)))
    assert [place for _, run in portions for place in run.places] == list(range(count))
    chosen = [number for number, _ in portions]
    assert chosen[0] == begin
    assert len(set(chosen)) == len(chosen) <= usable
    assert not set(chosen) & set(range(min(avoided, partitions - 1)))
    assert len(chosen) == 1 or min(len(run) for _, run in portions) >= 500
    assert len(chosen) == usable or count < 500 * (len(chosen) + 1)
    assert partitioner.choose() == begin or len(chosen) > 1


@given(st.lists(keys, min_size=1, max_size=50), st.integers(1, 9), st.integers(0, 9))
def test_a_call_is_cut_into_the_portions_of_its_partitions(
    given_keys: list[bytes | None], partitions: int, first: int
) -> None:
    """G4"""
    partitioner = Partitioner(partitions, first)
    values = [b"%d" % number for number in range(len(given_keys))]
    chunk = Chunk(None, Content(0), values, range(len(values)), given_keys)
    portions = dict(partitioner.portions(chunk))
    assert sorted(place for portion in portions.values() for place in portion.places) == list(range(len(values)))
    for number, portion in portions.items():
        assert list(portion.places) == sorted(portion.places)
        assert {partitioner.choose(key) for key in portion.keys or ()} == {number}
    chunk.partition = partitions - 1
    assert partitioner.portions(chunk) == [(partitions - 1, chunk)]
