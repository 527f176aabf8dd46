"""What the benchmark of rebalances makes of receipts: a wrong reading would show a product that is not there."""

from itertools import count
from xml.etree import ElementTree

import pytest

from benchmarks.rebalance.goals import figures_of
from benchmarks.rebalance.plot import picture, stretches
from benchmarks.rebalance.reading import (
    Outcome,
    doubled,
    first_receipts,
    least_moves,
    longest_gap,
    lost,
    outcomes,
)
from benchmarks.rebalance.receipts import Receipt
from benchmarks.rebalance.scene import Event, Kind, Run

INTERVAL = 0.1


class Film:
    """Receipts of partitions, one each tenth of a second, by whoever is said to own them."""

    def __init__(self, partitions: int) -> None:
        self.run = Run("queue", partitions, 1 / INTERVAL, published=[0] * partitions)
        self._offsets = [count() for _ in range(partitions)]
        self._tick = 0

    def event(self, kind: Kind, seat: int | None = None) -> None:
        self.run.events.append(Event(self._tick * INTERVAL - INTERVAL / 2, kind, seat))

    def show(self, owners: dict[int, int], ticks: int = 10) -> None:
        for _ in range(ticks):
            for partition, seat in owners.items():
                at, offset = self._tick * INTERVAL, next(self._offsets[partition])
                self.run.receipts.append(Receipt(at, seat, partition, offset, at))
                self.run.published[partition] += 1
            self._tick += 1


def whole_run() -> Run:
    film = Film(4)
    film.event(Kind.JOIN, 0)
    film.show({0: 0, 1: 0, 2: 0, 3: 0})
    film.event(Kind.JOIN, 1)
    film.show({0: 0, 1: 0}, ticks=3)
    film.show({0: 0, 1: 0, 2: 1, 3: 1})
    film.event(Kind.STEADY)
    film.show({0: 0, 1: 0, 2: 1, 3: 1})
    film.event(Kind.KILL, 0)
    film.show({2: 1, 3: 1}, ticks=52)
    film.show({0: 1, 1: 1, 2: 1, 3: 1})
    film.event(Kind.JOIN, 0)
    film.show({0: 1, 1: 1, 2: 0, 3: 0})
    film.event(Kind.RESTART, 1)
    film.show({2: 0, 3: 0}, ticks=2)
    film.show({0: 1, 1: 1, 2: 0, 3: 0})
    film.event(Kind.END)
    return film.run


def outcome_of(run: Run, kind: Kind) -> Outcome:
    return next(each for each in outcomes(run) if each.event.kind is kind)


def partitions(outcome: Outcome) -> tuple[list[int], list[int], list[int]]:
    stayed, moved, back = (
        [each.partition for each in some] for some in (outcome.stayed, outcome.moved, outcome.back)
    )
    return stayed, moved, back


def test_partitions_that_stay_and_that_move_are_told_apart_with_their_gaps() -> None:
    join = outcome_of(whole_run(), Kind.JOIN)
    assert partitions(join) == ([0, 1], [2, 3], [])
    assert longest_gap(join.stayed) == pytest.approx(INTERVAL)
    assert longest_gap(join.moved) == pytest.approx(4 * INTERVAL)
    assert (join.moves, join.least) == (2, 2)
    assert join.settled_after == pytest.approx(3.5 * INTERVAL)


def test_what_a_killed_member_had_waits_for_it_first_and_then_moves() -> None:
    kill = outcome_of(whole_run(), Kind.KILL)
    assert partitions(kill) == ([2, 3], [0, 1], [])
    assert longest_gap(kill.moved) == pytest.approx(53 * INTERVAL)
    assert kill.behind_grace == pytest.approx(52.5 * INTERVAL - 5)


def test_partitions_of_one_that_was_started_again_are_its_own_again() -> None:
    restart = outcome_of(whole_run(), Kind.RESTART)
    assert partitions(restart) == ([2, 3], [], [0, 1])
    assert longest_gap(restart.back) == pytest.approx(3 * INTERVAL)
    assert (restart.moves, restart.least) == (0, 0)


def test_a_partition_that_goes_a_long_way_round_counts_every_move() -> None:
    film = Film(2)
    film.event(Kind.JOIN, 0)
    film.show({0: 0, 1: 0})
    film.event(Kind.JOIN, 1)
    for owner in (1, 2, 1):
        film.show({0: 0, 1: owner})
    film.event(Kind.END)
    [join] = outcomes(film.run)
    assert (join.moves, join.least) == (3, 1)


@pytest.mark.parametrize(
    ("shares", "seats", "least"),
    [
        ({0: 100}, {0, 1}, 50),
        ({0: 50, 1: 50}, {0, 1, 2}, 33),
        ({0: 34, 1: 33, 2: 33}, {0, 1}, 33),
        ({0: 4, 1: 3, 2: 3}, {0, 1, 2}, 0),
        ({0: 1, 1: 1}, {0, 1, 2}, 0),
        ({0: 10}, {1}, 10),
    ],
)
def test_the_least_moves_are_those_that_make_shares_even(
    shares: dict[int, int], seats: set[int], least: int
) -> None:
    assert least_moves(shares, seats) == least


def test_what_was_lost_or_came_twice_is_counted_and_where() -> None:
    run = whole_run()
    assert (lost(run), doubled(run)) == (0, (0, 0))
    by_killed = next(each for each in run.receipts if each.partition == 0)
    missed = next(each for each in run.receipts if each.partition == 2)
    run.receipts += [by_killed._replace(at=9.0), missed._replace(partition=3, at=9.0)]
    run.receipts.remove(missed)
    assert (lost(run), doubled(run)) == (1, (1, 1))


def test_what_came_twice_though_nobody_was_killed_is_told_apart() -> None:
    film = Film(1)
    film.event(Kind.JOIN, 0)
    film.show({0: 0})
    film.event(Kind.END)
    film.run.receipts.append(film.run.receipts[0]._replace(at=0.9))
    assert doubled(film.run) == (0, 1)


def test_what_comes_again_fills_no_gap() -> None:
    early, late = Receipt(0.0, 0, 0, 0, 0.0), Receipt(5.0, 1, 0, 1, 0.1)
    assert first_receipts([early, early._replace(at=2.0), late]) == {0: [early, late]}


def test_a_stretch_ends_where_something_was_due_or_the_owner_changed() -> None:
    track = [Receipt(at, seat, 0, 0, 0.0) for at, seat in [(0.0, 0), (0.1, 0), (0.5, 0), (0.6, 1)]]
    drawn = [(each.seat, each.begin, each.end) for each in stretches(track, INTERVAL)]
    assert drawn == [(0, 0.0, 0.2), (0, 0.5, 0.6), (1, 0.6, 0.7)]


def test_figures_say_what_was_missed() -> None:
    met = {figure.name: figure.met for figure in figures_of(whole_run())}
    assert met["queue: a member joins: longest gap of one that moves"] is True
    assert met["queue: moves in all, 6 being the least"] is True
    assert met["queue: never received"] is True
    run = whole_run()
    run.receipts = [each for each in run.receipts if each.partition != 2 or not 1.2 < each.at < 2.2]
    met = {figure.name: figure.met for figure in figures_of(run)}
    assert met["queue: a member joins: longest gap of one that moves"] is False
    assert met["queue: never received"] is False


def test_the_plot_names_what_happened_and_is_small() -> None:
    drawn = picture([whole_run(), whole_run()])
    texts = [each.text for each in ElementTree.fromstring(drawn).iter("{http://www.w3.org/2000/svg}text")]
    assert {"queue", "nothing", "B is killed,", "2 moves, 5.3 s"} <= set(texts)
    assert len(drawn) < 15_000
