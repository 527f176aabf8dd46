"""A delivery is one decision: the entries, the messages that are given, and what each lane was served."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.ledger.entries import Delivered, Entry, LanesDelivered, PassedOver, Released
from goqueue.core.ledger.handout import RUNS_MAX, HandOut, LaneScan, Recipient, Scanned
from goqueue.core.ledger.ledger import Ledger
from goqueue.core.ledger.settings import LedgerSettings
from goqueue.core.ledger.shares import ALL_LANES, LANES
from goqueue.core.ledger.views import FreshLanes, Plan
from goqueue.core.offsetset import OffsetSet, Run
from tests.core.ledger.parts import singles
from tests.core.ledger.test_delivering import Desk, run

NOW, WANTED = 100.0, 10
TO = Recipient(7, "ann", 1, 30.0)
SEVERAL, ONE = FreshLanes(ALL_LANES, is_mixed=True), FreshLanes(1 << 2, is_mixed=False)

Record = tuple[int, int | None]
"""The lane of a record, and its key, if it has one: lanes share none."""


def begun(*, key_order: bool) -> Ledger:
    ledger = Ledger(LedgerSettings(key_order=key_order))
    ledger.apply(ledger.begin(0), NOW)
    if key_order:
        ledger.learn_keys(())
    return ledger


def scans_of(records: Sequence[Record], lanes: Sequence[int]) -> list[LaneScan]:
    keys = {offset: lane * 10 + key for offset, (lane, key) in enumerate(records) if key is not None}
    there = [[offset for offset, record in enumerate(records) if record[0] == lane] for lane in lanes]
    return [
        LaneScan(lane, len(records), (), OffsetSet.of(some), {each: keys[each] for each in some if each in keys})
        for lane, some in zip(lanes, there, strict=True)
    ]


def named(decided: HandOut) -> list[int]:
    return [offset for offset, _ in singles(decided.runs or decided.sets.runs())]


def carry_out(ledger: Ledger, decided: HandOut) -> None:
    for entry in decided.entries:
        ledger.apply(entry, NOW)
    ledger.handed_out(NOW, decided)


def plan_of(ledger: Ledger, count: int, fresh: FreshLanes) -> Plan:
    return ledger.plan(NOW, "ann", count, is_busy=False, fresh=fresh)


records = st.lists(st.tuples(st.sampled_from([0, 2, 4]), st.integers(0, 5) | st.none()), min_size=1, max_size=60)


@given(records, st.integers(1, 40), st.booleans())
def test_of_each_key_the_first_is_given_and_the_others_use_no_attempt(
    drawn: list[Record], wanted: int, are_mixed: bool
) -> None:
    """The delivery takes all, and what is held back is released in the same write."""
    all_records = drawn if are_mixed else [(2, key) for _, key in drawn]
    ledger = begun(key_order=True)
    plan = plan_of(ledger, wanted, SEVERAL if are_mixed else ONE)
    decided = ledger.hand_out(NOW, TO, plan, Scanned(scans_of(all_records, LANES if are_mixed else [2])))
    first_of = {record: offset for offset, record in reversed(list(enumerate(all_records)))}
    may_go = [
        offset for offset, record in enumerate(all_records) if record[1] is None or first_of[record] == offset
    ]
    assert set(named(decided)) <= set(may_go)
    assert are_mixed or named(decided) == may_go[:wanted]
    assert sum(decided.counts or ()) == len(named(decided)) <= wanted
    carry_out(ledger, decided)
    progress = ledger.progress(NOW)
    assert (progress.in_flight, progress.ready_again) == (len(named(decided)), len(drawn) - len(named(decided)))
    again = plan_of(ledger, 100, ONE).again
    assert {offset for offset, attempt in singles(again) if attempt == 1} == set(may_go) - set(named(decided))


@given(records)
def test_nothing_changes_before_it_is_carried_out_and_a_replay_says_the_same(drawn: list[Record]) -> None:
    ledger = begun(key_order=True)
    before, plan = ledger.snapshot(NOW), plan_of(ledger, WANTED, SEVERAL)
    scanned = Scanned(scans_of(drawn, LANES))
    decided = ledger.hand_out(NOW, TO, plan, scanned)
    assert decided == ledger.hand_out(NOW, TO, plan, scanned)
    assert (ledger.snapshot(NOW), ledger.served, ledger.longest_backlog()) == (before, [0] * len(LANES), None)
    carry_out(ledger, decided)
    assert ledger.served == decided.counts
    replayed = begun(key_order=False)
    for entry in decided.entries:
        replayed.apply(Entry.from_plain(entry.to_plain()), NOW)
    assert replayed.snapshot(NOW) == ledger.snapshot(NOW)


def test_the_next_look_knows_the_keys_of_the_one_before() -> None:
    ledger = begun(key_order=True)
    carry_out(ledger, ledger.hand_out(NOW, TO, plan_of(ledger, WANTED, ONE), Scanned(scans_of([(2, 1)], [2]))))
    scan = LaneScan(2, 3, (), OffsetSet([(1, 2)]), {1: 21, 2: 22})
    plan = plan_of(ledger, WANTED, ONE)
    assert named(ledger.hand_out(NOW, TO._replace(nonce=2), plan, Scanned([scan]))) == [2]


def test_when_all_are_held_back_nothing_is_given_and_the_group_scans_on() -> None:
    ledger = begun(key_order=True)
    carry_out(ledger, ledger.hand_out(NOW, TO, plan_of(ledger, WANTED, ONE), Scanned(scans_of([(2, 1)], [2]))))
    scan = LaneScan(2, 2, (), OffsetSet([(1, 1)]), {1: 21})
    decided = ledger.hand_out(NOW, TO._replace(nonce=2), plan_of(ledger, WANTED, ONE), Scanned([scan]))
    assert (decided.gives, decided.counts) == (False, [0] * len(LANES))
    assert [type(entry) for entry in decided.entries] == [Delivered, Released]


def test_redeliveries_that_are_gone_are_passed_over_in_the_same_write_before_the_delivery() -> None:
    desk = Desk()
    desk.release(desk.receive(4), run(0, 3))
    scan = LaneScan(2, 4, [run(2, 3)], OffsetSet())
    decided = desk.ledger.hand_out(desk.now, TO._replace(nonce=9), desk.plan(), Scanned([scan], gone=[Run(0, 1)]))
    assert [type(entry) for entry in decided.entries] == [PassedOver, Delivered]
    desk.carry_out(decided)
    assert (desk.ledger.committed, desk.counts()) == (2, {"in_flight": 2})


def test_when_all_are_gone_that_is_journaled_and_nothing_is_given() -> None:
    desk = Desk()
    desk.release(desk.receive(2), run(0, 1))
    scan = LaneScan(2, 2, (), OffsetSet())
    decided = desk.ledger.hand_out(desk.now, TO._replace(nonce=9), desk.plan(), Scanned([scan], gone=[Run(0, 1)]))
    assert ([type(entry) for entry in decided.entries], decided.gives) == ([PassedOver], False)


@pytest.mark.parametrize("fresh", [[Run(0, 99)], [Run(2 * number, 2 * number) for number in range(RUNS_MAX + 1)]])
def test_fresh_messages_of_one_lane_are_named_by_runs(fresh: list[Run]) -> None:
    decided = Desk().decide((), fresh, 100)
    assert (decided.runs, decided.sets) == (tuple(run(*each) for each in fresh), ())


def test_many_redeliveries_are_named_by_sets_beside_fresh_ones_on_the_same_attempt() -> None:
    desk = Desk()
    nonce = desk.receive(60, count=60)
    scattered = [run(3 * number) for number in range(RUNS_MAX + 1)]
    desk.release(nonce, *scattered[1:])
    desk.nack(nonce, scattered[0], delay=0)
    again = [scattered[0]._replace(attempt=2), *scattered[1:]]
    decided = desk.decide(again, [Run(60, 61)], 62, TO._replace(nonce=9))
    assert decided.runs == ()
    assert singles(decided.sets.runs()) == [*singles(again), (60, 1), (61, 1)]
    assert decided.offsets == OffsetSet([*[(each.first, each.last) for each in again], (60, 61)])


@pytest.mark.parametrize(("size", "is_by_sets"), [(RUNS_MAX, False), (RUNS_MAX + 1, True)])
def test_few_messages_of_several_lanes_are_named_by_runs_in_the_order_of_lanes(size: int, is_by_sets: bool) -> None:
    ledger, lanes = begun(key_order=False), [4, 0] * size
    decided = ledger.hand_out(
        NOW, TO, plan_of(ledger, size, SEVERAL), Scanned(scans_of([(lane, None) for lane in lanes[:size]], LANES))
    )
    assert isinstance(decided.entries[0], LanesDelivered)
    assert bool(decided.sets) == is_by_sets
    assert sorted(named(decided)) == list(range(size))
    if not is_by_sets:
        assert named(decided) == [*range(1, size, 2), *range(0, size, 2)]
