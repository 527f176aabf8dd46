"""Lanes share by their weights, none starves, and nobody waits while there is work (G9)."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.ledger.shares import ENDLESS, GUARD_SECONDS, LANES, WEIGHTS, LaneShares, lanes_in

FULL = [ENDLESS] * len(LANES)
works = st.lists(st.sampled_from([0, 1, 3, 40, 700, ENDLESS]), min_size=5, max_size=5)


def take(shares: LaneShares, now: float, wanted: int, work: list[int]) -> list[int]:
    """As a ledger does: what is allotted is there, and taken."""
    shares.note_work(now, work)
    counts = shares.allot(now, wanted, work)
    shares.took(now, counts, work)
    return counts


@pytest.mark.parametrize("wanted", [1, 7, 100, 500, 10_000])
def test_with_all_lanes_full_shares_follow_the_weights(wanted: int) -> None:
    """G9, and "weights without effect": within two points, however many are wanted at a time."""
    shares = LaneShares()
    while sum(shares.served) < 100_000:
        take(shares, 0.0, wanted, FULL)
    total = sum(shares.served)
    assert all(abs(100 * shares.served[lane] / total - WEIGHTS[lane]) < 2 for lane in LANES)


@given(st.lists(st.integers(1, 900), min_size=1, max_size=20))
def test_after_each_delivery_no_lane_is_a_round_from_its_share(wishes: list[int]) -> None:
    """G9: not only in the long run."""
    shares = LaneShares()
    for wanted in wishes:
        take(shares, 0.0, wanted, FULL)
        total = sum(shares.served)
        assert all(abs(shares.served[lane] - total * WEIGHTS[lane] / 100) <= WEIGHTS[lane] for lane in LANES)


@given(works, st.lists(st.integers(1, 900), min_size=1, max_size=20))
def test_nobody_waits_while_there_is_work(work: list[int], wishes: list[int]) -> None:
    """As many as are wanted, if there are as many; and never more than a lane has."""
    shares, left = LaneShares(), work[:]
    for wanted in wishes:
        counts = take(shares, 0.0, wanted, left)
        assert sum(counts) == min(wanted, sum(left))
        assert all(0 <= count <= has for count, has in zip(counts, left, strict=True))
        left = [has if has == ENDLESS else has - count for has, count in zip(left, counts, strict=True)]


@given(st.integers(0, 2**32), st.booleans())
def test_credits_stay_between_nothing_and_what_is_owed(seed: int, is_strict: bool) -> None:
    """ "A loop below zero": whatever is really taken, be it less than was allotted."""
    dice, shares = Random(seed), LaneShares(is_strict=is_strict)
    for now in range(60):
        work = [dice.choice([0, 1, 50, 5_000, ENDLESS]) for _ in LANES]
        shares.note_work(now, work)
        counts = shares.allot(now, dice.choice([1, 10, 500]), work)
        taken = [dice.randint(0, count) for count in counts]
        shares.took(now, taken, work)
        assert all(0 <= credit <= 500 * WEIGHTS[0] for credit in shares._credits)


def test_critical_is_looked_at_first_in_each_round() -> None:
    shares = LaneShares()
    assert take(shares, 0.0, 60, FULL) == [50, 10, 0, 0, 0]
    assert take(shares, 0.0, 40, FULL) == [0, 15, 15, 7, 3]
    assert take(shares, 0.0, 1, FULL) == [1, 0, 0, 0, 0]


def test_a_critical_message_is_next_when_its_lane_was_idle() -> None:
    shares = LaneShares()
    for _ in range(7):
        take(shares, 0.0, 31, [0, 0, ENDLESS, ENDLESS, 0])
    assert take(shares, 0.0, 1, [1, 0, ENDLESS, ENDLESS, 0]) == [1, 0, 0, 0, 0]


def test_an_idle_lane_forgets_its_deficit() -> None:
    """However long it had nothing to do, it gets no more than its part of this round for that."""
    shares = LaneShares()
    take(shares, 0.0, 10_000, [0, ENDLESS, 0, 0, 0])
    assert take(shares, 0.0, 75, FULL) == [50, 0, 15, 7, 3]
    assert take(shares, 0.0, 100, FULL) == list(WEIGHTS)


def test_what_a_lane_did_not_get_for_want_of_room_it_gets_later() -> None:
    """Two hundred critical ones filled a frame: the others have two hundred of theirs next."""
    shares = LaneShares()
    shares.note_work(0.0, FULL)
    shares.took(0.0, [200, 0, 0, 0, 0], FULL)
    assert take(shares, 0.0, 200, FULL) == [0, 100, 60, 28, 12]


def test_a_lane_that_waited_for_thirty_seconds_is_served_next() -> None:
    """The guard: who takes a message a second would come to background once in a hundred seconds."""
    shares, served = LaneShares(), list[tuple[int, int]]()
    for second in range(600):
        (lane,) = lanes_in(sum((count > 0) << lane for lane, count in enumerate(take(shares, second, 1, FULL))))
        served.append((second, lane))
    for lane in LANES:
        times = [second for second, each in served if each == lane]
        assert max(later - earlier for earlier, later in zip([0, *times], [*times, 600], strict=True)) <= 35


def test_strict_gives_everything_to_the_highest_lane_but_for_the_guard() -> None:
    shares = LaneShares(is_strict=True)
    assert take(shares, 0.0, 1_000, [0, 30, ENDLESS, 0, ENDLESS]) == [0, 30, 970, 0, 0]
    assert take(shares, GUARD_SECONDS - 1, 1_000, [0, 0, ENDLESS, 0, ENDLESS]) == [0, 0, 1_000, 0, 0]
    assert take(shares, GUARD_SECONDS, 1_000, [0, 0, ENDLESS, 0, ENDLESS]) == [0, 0, 999, 0, 1]
    assert take(shares, GUARD_SECONDS + 1, 1_000, [0, 0, ENDLESS, 0, ENDLESS]) == [0, 0, 1_000, 0, 0]


@given(st.integers(0, 2**32), st.booleans())
def test_no_lane_starves(seed: int, is_strict: bool) -> None:
    """G9, whatever comes and however it is asked for: work is served within the guard and a few turns."""
    dice, shares, now = Random(seed), LaneShares(is_strict=is_strict), 0.0
    waits: dict[int, float] = {}
    for _ in range(200):
        now += dice.choice([0.01, 1.0, 5.0])
        work = [dice.choice([0, 1, ENDLESS, ENDLESS]) for _ in LANES]
        counts = take(shares, now, dice.choice([1, 2, 100]), work)
        waits = {lane: waits.get(lane, now) for lane in LANES if work[lane] and not counts[lane]}
        assert all(now - since <= GUARD_SECONDS + len(LANES) * 5.0 for since in waits.values())


def test_a_lane_alone_takes_nobody_s_turn() -> None:
    shares = LaneShares()
    shares.took_alone(0.0, 2, 5_000)
    assert shares.served == [0, 0, 5_000, 0, 0]
    assert take(shares, 0.0, 100, FULL) == list(WEIGHTS)
