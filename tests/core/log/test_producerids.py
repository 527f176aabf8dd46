"""Ids of producers rise, whatever the clock does."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.log.producerids import BROKER_ID_MAX, NUMBER_BITS, ProducerIds, is_of_broker, issued_at
from goqueue.storage.snapshotlog.ledgers import draw_producer_id

NOW = 1_700_000_000_000_000
ID_MAX = 2**63 - 1
"""The wire ends there."""


@given(st.lists(st.tuples(st.integers(0, 2**55), st.integers(0, 2**62 + 2**61)), min_size=1), st.integers(0, 2**32))
def test_each_id_is_above_the_one_before_and_above_all_forgotten_ones(
    steps: list[tuple[int, int]], seed: int
) -> None:
    ids, random, last = ProducerIds(), Random(seed), BROKER_ID_MAX
    for now, forgotten_to in steps:
        given_out = ids.next(now, random.getrandbits(NUMBER_BITS), forgotten_to)
        assert max(last, forgotten_to) < given_out <= ID_MAX
        assert not is_of_broker(given_out)
        last = given_out


def test_an_id_says_when_it_was_given_out() -> None:
    given_out = ProducerIds().next(NOW + 999, 5, 0)
    assert issued_at(given_out) == NOW
    assert issued_at(2**62 - 1) == issued_at(7) == 0


def test_the_brokers_own_ids_are_told_apart() -> None:
    assert all(is_of_broker(draw_producer_id(Random(seed))) for seed in range(1_000))
