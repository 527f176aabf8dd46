"""Where records lie, and their keys: walked once, remembered for a while."""

from sys import getsizeof

from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.offsetset import OffsetSet, Run
from goqueue.core.records.record import encode_record
from goqueue.core.slices.batchindex import (
    EMPTY_BYTES,
    INDEX_BYTES_MAX,
    NUMBER_BYTES,
    BatchIndex,
    BatchIndexes,
    key_at,
)
from goqueue.core.slices.deliverable import batches_in
from goqueue.types import LANE_COUNT
from tests.client.reading.test_message import sealed

KEYS = [b"a", b"", b"b" * 65_535, b"a"]


def two_batches() -> bytes:
    first = [encode_record(number, 0, b"x", key=key) for number, key in enumerate(KEYS)]
    second = [encode_record(number, 0, b"x", key=b"%d" % number) for number in range(2)]
    return sealed(*first, base_offset=10) + sealed(*second, base_offset=20)


def test_one_message_s_key_is_found_wherever_it_lies() -> None:
    found = {offset: key_at(two_batches(), offset) for offset in range(9, 23)}
    assert {offset: key for offset, key in found.items() if key is not None} == {
        10: b"a",
        12: KEYS[2],
        13: b"a",
        20: b"0",
        21: b"1",
    }


def test_the_hashes_of_those_that_are_wanted_are_found() -> None:
    indexes = BatchIndexes()
    for _ in range(2):
        found = indexes.keys_in(two_batches(), OffsetSet([Run(11, 13), Run(21, 30)]))
        assert list(found.items()) == [(12, hash(KEYS[2]) ^ 2), (13, hash(b"a") ^ 2), (21, hash(b"1") ^ 2)]


def test_only_the_last_batches_are_remembered() -> None:
    indexes, body = BatchIndexes(), [encode_record(number, 0, b"", key=b"k") for number in range(1_000)]
    for base in range(0, 40_000, 1_000):
        indexes.keys_in(sealed(*body, base_offset=base), OffsetSet([Run(base, base)]))
    kept = [index.envelope.base_offset for index in indexes.kept]
    assert kept == list(range(40_000 - 1_000 * len(kept), 40_000, 1_000))
    assert len(kept) > 16
    assert 1_000 * NUMBER_BYTES * len(kept) < indexes.kept.bytes_kept <= INDEX_BYTES_MAX


def test_the_index_of_a_large_batch_stays_until_the_next_one_comes() -> None:
    """A large batch is delivered in many parts, and would be walked for each."""
    indexes = BatchIndexes(bytes_max=100)
    for base in (0, 1_000):
        body = [encode_record(number, 0, b"", key=b"k") for number in range(1_000)]
        indexes.keys_in(sealed(*body, base_offset=base), OffsetSet([Run(base, base)]))
        assert [index.envelope.base_offset for index in indexes.kept] == [base]


@given(st.lists(st.binary(max_size=9), min_size=1, max_size=2_000), st.booleans())
def test_the_memory_of_an_index_is_estimated_well(keys: list[bytes], with_keys: bool) -> None:
    records = [encode_record(number, 0, b"v", key=key) for number, key in enumerate(keys)]
    [(_, envelope)] = batches_in(memoryview(sealed(*records)))
    index = BatchIndex(envelope, b"".join(records), with_keys=with_keys)
    columns = [index.lanes, index._hashes, *(each for each in (index._offsets, index._positions, index._keyed))]
    numbers = [*index._hashes, *(index._keyed if isinstance(index._keyed, list) else ())]
    taken = sum(map(getsizeof, [*columns, *numbers]))
    assert taken / 2 < index.bytes_kept < 2 * taken + EMPTY_BYTES


@given(
    st.lists(st.sampled_from([b"", b"a", b"bb", b"ccc"]), min_size=1, max_size=30), st.integers(0, LANE_COUNT - 1)
)
def test_a_batch_of_one_priority_says_what_a_walk_over_each_record_says(keys: list[bytes], lane: int) -> None:
    records = [encode_record(number, 0, b"v" * number, key=key, priority=lane) for number, key in enumerate(keys)]
    [(_, envelope)] = batches_in(memoryview(sealed(*records, base_offset=10)))
    body = b"".join(records)
    index, walked = (
        BatchIndex(each, body, with_keys=True) for each in (envelope, envelope._replace(priority_mask=3))
    )
    assert envelope.priority_mask == 1 << lane
    assert list(index.keyed(0, 99)) == list(walked.keyed(0, 99))
    assert list(index.keyed(12, 14)) == [each for each in walked.keyed(0, 99) if 12 <= each[0] <= 14]
    assert [offset for offset, _ in index.keyed(0, 99)] == [10 + at for at, key in enumerate(keys) if key]
    assert (index.lanes, list(index._positions)) == (walked.lanes, list(walked._positions))
    assert index.places_of(index.flags_of(lane)) == list(range(len(keys)))
