"""The receipts of one request: by delivery, in runs, and what became of each (G6)."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.receipts import receipt_text
from goqueue.errors import Unavailable
from goqueue.http.members.holding import DeliveryKey
from goqueue.http.members.receipts import (
    DELIVERIES_AT_ONCE,
    RUNS_AT_ONCE,
    DeliveryReceipts,
    ReceiptSettlement,
    portions_of,
    receipts_by_group,
)
from goqueue.http.server.errors import InvalidRequest
from goqueue.net.wire.groups import DeliveryRun
from tests.steps import steps_of


def receipt(offset: int, attempt: int = 1, nonce: int = 0, group: str = "g") -> str:
    return receipt_text(group, "t", 0, offset, attempt, nonce)


async def read(texts: Sequence[str]) -> tuple[list[DeliveryReceipts], ReceiptSettlement]:
    settlement = ReceiptSettlement()
    groups = await receipts_by_group(texts, settlement)
    return [each for group in groups.values() for each in group], settlement


async def test_receipts_in_any_order_are_runs_and_each_counts_once() -> None:
    [named], settlement = await read([receipt(each) for each in (5, 6, 7, 2, 3, 6, 9, 4)])
    assert named.delivery_runs == (DeliveryRun(2, 7, 1), DeliveryRun(9, 9, 1))
    settlement.note_settled(named, ())
    assert (settlement.status, settlement.in_json) == (200, {"settled": 7, "stale": []})


async def test_neighbours_on_other_attempts_are_runs_of_their_own() -> None:
    [named], _ = await read([receipt(1), receipt(2, attempt=2), receipt(3, attempt=2)])
    assert named.delivery_runs == (DeliveryRun(1, 1, 1), DeliveryRun(2, 3, 2))


@pytest.mark.parametrize("order", [1, -1])
async def test_two_receipts_of_one_message_are_refused(order: int) -> None:
    """Which of them is good, nobody knows before one of them has changed something."""
    with pytest.raises(InvalidRequest, match="send the newest"):
        await read([*[receipt(each) for each in range(4)], receipt(2, attempt=2)][::order])


async def test_the_others_of_a_run_are_settled_when_some_are_stale() -> None:
    texts = [receipt(each) for each in range(10)]
    [named], settlement = await read(texts)
    settlement.note_settled(named, [DeliveryRun(0, 1, 1), DeliveryRun(4, 4, 1)])
    assert settlement.status == 207
    assert settlement.in_json == {"settled": 7, "stale": [texts[0], texts[1], texts[4]]}
    [(key, offsets)] = settlement.settled
    assert key == DeliveryKey("g", "t", 0, 0)
    assert list(offsets.offsets()) == [2, 3, 5, 6, 7, 8, 9]


async def test_what_fails_is_named_receipt_by_receipt() -> None:
    [named], settlement = await read([receipt(1), receipt(2, attempt=2), "nonsense"])
    settlement.note_failed(named.texts(), Unavailable("later"))
    assert settlement.status == 503, "the worst of all"
    assert [each["receipt"] for each in settlement.failed] == [receipt(1), receipt(2, attempt=2)]
    assert settlement.stale == ["nonsense"]


@given(st.lists(st.integers(1, 3 * RUNS_AT_ONCE), max_size=4), st.integers(0, 2 * DELIVERIES_AT_ONCE))
async def test_what_is_settled_together_has_a_bound_and_nothing_is_left_out(runs: list[int], small: int) -> None:
    group = (
        await read([receipt(2 * each, nonce=number) for number, most in enumerate(runs) for each in range(most)])
    )[0]
    group += (await read([receipt(0, nonce=1_000 + each) for each in range(small)]))[0]
    portions = list(portions_of(group))
    assert all(len(each) <= DELIVERIES_AT_ONCE for each in portions)
    assert all(sum(len(each.runs) for each in portion) <= RUNS_AT_ONCE for portion in portions)
    assert [text for portion in portions for each in portion for text in each.texts()] == [
        text for each in group for text in each.texts()
    ]


async def test_the_cost_of_stale_receipts_rises_with_their_number_alone() -> None:
    """Ten thousand forged ones, each a run of its own, stopped the broker for three seconds."""

    async def note(count: int) -> int:
        [named], settlement = await read([receipt(2 * each) for each in range(count)])
        return steps_of(lambda: settlement.note_settled(named, named.delivery_runs))

    assert await note(1_000) < 3 * await note(500)
