"""The rules for what a consumer settles: what would harm a ledger is refused before it gets there (G14)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.ledger.attempts import AttemptRun, AttemptSets
from goqueue.core.ledger.damage import check_skip
from goqueue.core.ledger.settlements import (
    DELAY_MS_MAX,
    LEASE_MS_MAX,
    MESSAGES_MAX,
    Action,
    check_lease,
    check_settlement,
    named_messages,
)
from goqueue.core.offsetset import CHUNK_SIZE, OffsetSet
from goqueue.errors import InvalidName, ProtocolError


@pytest.mark.parametrize("milliseconds", [1, LEASE_MS_MAX])
def test_a_lease_has_a_length_and_an_end(milliseconds: int) -> None:
    check_lease("visibility_ms", milliseconds)
    check_settlement(Action.EXTEND, milliseconds, is_whole=False, is_named=False)


@pytest.mark.parametrize("milliseconds", [0, LEASE_MS_MAX + 1])
def test_a_lease_without_length_or_end_is_refused(milliseconds: int) -> None:
    with pytest.raises(ProtocolError, match="visibility_ms"):
        check_lease("visibility_ms", milliseconds)
    with pytest.raises(ProtocolError, match="delay_ms"):
        check_settlement(Action.EXTEND, milliseconds, is_whole=False, is_named=False)


def test_an_extension_says_how_long() -> None:
    with pytest.raises(ProtocolError):
        check_settlement(Action.EXTEND, None, is_whole=False, is_named=False)


def test_a_retry_comes_within_a_year() -> None:
    check_settlement(Action.NACK, DELAY_MS_MAX, is_whole=False, is_named=True)
    check_settlement(Action.NACK, 0, is_whole=False, is_named=True)
    with pytest.raises(ProtocolError):
        check_settlement(Action.NACK, DELAY_MS_MAX + 1, is_whole=False, is_named=True)


def test_a_whole_delivery_is_acked_without_names() -> None:
    check_settlement(Action.ACK, None, is_whole=True, is_named=False)
    for action, is_named in ((Action.ACK, True), (Action.NACK, False), (Action.REJECT, False)):
        with pytest.raises(ProtocolError, match="whole"):
            check_settlement(action, None, is_whole=True, is_named=is_named)


def test_runs_come_in_any_order_and_are_put_in_order() -> None:
    assert named_messages([(30, 39, 2), (10, 19, 1)], []) == (AttemptRun(10, 19, 1), AttemptRun(30, 39, 2))


@pytest.mark.parametrize("runs", [[(5, 4, 1)], [(1, 5, 1), (5, 6, 1)], [(5, 6, 1), (1, 5, 2)]])
def test_runs_that_overlap_or_end_before_they_begin_are_refused(runs: list[tuple[int, int, int]]) -> None:
    with pytest.raises(ProtocolError, match="overlap"):
        named_messages(runs, [])


@given(st.dictionaries(st.integers(0, 3 * CHUNK_SIZE), st.integers(1, 3), max_size=200))
def test_sets_name_the_messages_that_were_put_in(attempts: dict[int, int]) -> None:
    sets = AttemptSets(
        (attempt, OffsetSet((offset, offset) for offset, own in attempts.items() if own == attempt))
        for attempt in set(attempts.values())
    )
    named = named_messages([], [(attempt, list(offsets.chunks())) for attempt, offsets in sets])
    assert {offset: run.attempt for run in named for offset in range(run.first, run.last + 1)} == attempts


@pytest.mark.parametrize(
    "chunks",
    [
        [(number, b"") for number in range(MESSAGES_MAX // CHUNK_SIZE + 1)],
        [(0, bytes(CHUNK_SIZE // 8 + 1))],
        [(2**63 - 1, b"\x01")],
    ],
    ids=["more than a delivery has", "more than a chunk has", "beyond all offsets"],
)
def test_sets_that_cannot_be_are_refused(chunks: list[tuple[int, bytes]]) -> None:
    with pytest.raises(ProtocolError):
        named_messages([], [(1, chunks)])


def test_offsets_that_are_given_up_are_named_in_order() -> None:
    check_skip("orders", 5, 5)
    with pytest.raises(ProtocolError):
        check_skip("orders", 6, 5)
    with pytest.raises(InvalidName):
        check_skip("__metadata", 5, 5)
