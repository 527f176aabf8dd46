"""Entries of a ledger's journal, and its snapshots, as they are written down."""

from typing import Any

import msgpack
import pytest

from goqueue.core.ledger.attempts import AttemptRun
from goqueue.core.ledger.deadletters import Destination
from goqueue.core.ledger.entries import (
    Acked,
    Began,
    Begun,
    Committed,
    CutBack,
    Damaged,
    Delivered,
    Entry,
    Expired,
    Extended,
    LaneOffsets,
    LanesDelivered,
    LaneTaken,
    LettersDismissed,
    Nacked,
    PassedOver,
    Rejected,
    Released,
    Removed,
    Repaired,
    Reset,
    RetryAfter,
    SentAgain,
    Skipped,
    TransferBegun,
    TransferDone,
)
from goqueue.core.ledger.handout import Recipient
from goqueue.core.ledger.ledger import Ledger
from goqueue.core.ledger.settings import LedgerSettings
from goqueue.core.offsetset import OffsetSet, Run
from goqueue.errors import UnknownFormat
from tests.core.ledger.test_delivering import Desk, run

RUNS = (AttemptRun(4, 7, 1), AttemptRun(9, 9, 2))
FLAT = [4, 7, 1, 9, 9, 2]

LANES_TAKEN = (LaneTaken(0, 5_000, OffsetSet([Run(1, 1), Run(4_096, 4_096)])), LaneTaken(4, 15, OffsetSet()))

# These numbers and orders lie on disks: a change here is a new format.
WRITTEN: list[tuple[Entry, list[Any]]] = [
    (Damaged(4, 9, "0.log", OffsetSet([Run(4, 5)])), [17, 4, 9, "0.log", [0, b"\x30"]]),
    (Repaired(4, 9, (LaneOffsets(2, OffsetSet([Run(4, 5)])),)), [18, 4, 9, [[2, [0, b"\x30"]]]]),
    (Skipped(4, 9, 2, letters=False), [19, 4, 9, 2, False]),
    (Began(5), [1, 5]),
    (
        Delivered(99, "ann", 7, 30.0, RUNS, (Run(10, 12),), 15, is_alone=False),
        [2, 99, "ann", 7, 30.0, FLAT, [10, 12], 15, False],
    ),
    (
        Delivered(99, "ann", 7, 30.0, RUNS, (Run(10, 12),), 15, is_alone=False, lane=4),
        [2, 99, "ann", 7, 30.0, FLAT, [10, 12], 15, False, 4],
    ),
    (
        Delivered(99, "ann", 7, 30.0, RUNS, (Run(10, 12),), 15, is_alone=False, tells_begun=True),
        [2, 99, "ann", 7, 30.0, FLAT, [10, 12], 15, False, 2, True],
    ),
    (PassedOver((Run(1, 2), Run(4, 4)), 9, "compacted"), [3, [1, 2, 4, 4], 9, "compacted"]),
    (PassedOver((), 3, "", (9, 8, 7, 6, 5)), [3, [], 3, "", [9, 8, 7, 6, 5]]),
    (Acked(7, RUNS), [4, 7, FLAT]),
    (Acked(7, None), [4, 7, None]),
    (Nacked(7, (RetryAfter(2.5, RUNS),), RUNS, "broken"), [5, 7, [[2.5, FLAT]], FLAT, "broken"]),
    (Rejected(7, RUNS, "bad"), [6, 7, FLAT, "bad"]),
    (Rejected(7, RUNS, "sent", Destination("x", True)), [6, 7, FLAT, "sent", ["x", True]]),
    (Rejected(7, RUNS, "sent", Destination()), [6, 7, FLAT, "sent", [None, False]]),
    (Released(7, RUNS), [7, 7, FLAT]),
    (Extended(7, None, 30.0), [8, 7, None, 30.0]),
    (Extended(7, RUNS, 30.0), [8, 7, FLAT, 30.0]),
    (Expired(7, RUNS, None), [9, 7, FLAT, None]),
    (Expired(7, RUNS, "late"), [9, 7, FLAT, "late"]),
    (TransferBegun(3, (Run(1, 2),)), [10, 3, [1, 2]]),
    (TransferDone(3), [11, 3]),
    (TransferDone(3, 99), [11, 3, 99]),
    (TransferDone(3, 99, OffsetSet([(0, 1)])), [11, 3, 99, [0, b"\x03"]]),
    (Removed(8, 2), [12, 8, 2]),
    (CutBack(8), [13, 8]),
    (Reset(8), [14, 8]),
    (Committed(8), [15, 8]),
    (
        LanesDelivered(99, "ann", 7, 30.0, RUNS, LANES_TAKEN, is_alone=False),
        [16, 99, "ann", 7, 30.0, FLAT, [[0, 5_000, [0, b"\x02", 1, b"\x01"]], [4, 15, []]], False],
    ),
    (
        LanesDelivered(99, "ann", 7, 30.0, RUNS, LANES_TAKEN, is_alone=False, tells_begun=True),
        [16, 99, "ann", 7, 30.0, FLAT, [[0, 5_000, [0, b"\x02", 1, b"\x01"]], [4, 15, []]], False, True],
    ),
    (Begun(7, RUNS), [20, 7, FLAT]),
    (LettersDismissed(7, RUNS, 99, "known"), [21, 7, FLAT, 99, "known"]),
    (SentAgain(OffsetSet([(0, 1)]), Destination("x", True), "sent"), [22, [0, b"\x03"], ["x", True], "sent"]),
]


@pytest.mark.parametrize(("entry", "plain"), WRITTEN, ids=lambda value: type(value).__name__)
def test_an_entry_is_written_as_it_always_was_and_read_back(entry: Entry, plain: list[Any]) -> None:
    assert entry.to_plain() == plain
    assert Entry.from_plain(msgpack.unpackb(msgpack.packb(plain))) == entry


def test_every_kind_of_entry_is_written_above() -> None:
    assert {type(entry).__name__ for entry, _ in WRITTEN} == {kind.__name__ for kind in Entry.__subclasses__()}


LATER: dict[int, list[Any]] = {2: [2, False], 3: [[]], 6: [None], 11: [None, []], 16: [False]}
"""The defaults of fields that came later, and are left out, by the number of the entry."""
FIRST_FIELDS = {2: 9, 3: 4, 6: 4, 11: 2, 16: 8}
"""How long such an entry is without them."""


@pytest.mark.parametrize(("entry", "plain"), WRITTEN, ids=lambda value: type(value).__name__)
def test_fields_that_a_newer_goqueue_added_are_passed_over(entry: Entry, plain: list[Any]) -> None:
    left_out = LATER.get(plain[0], [])[max(0, len(plain) - FIRST_FIELDS.get(plain[0], len(plain))) :]
    assert Entry.from_plain([*plain, *left_out, "new", 1]) == entry


@pytest.mark.parametrize(
    "plain",
    [
        None,
        [],
        {},
        "text",
        [0],
        [17, 1],
        [16, 1],
        [16, 99, "ann", 7, 30.0, [], [[5, 9, []]], False],
        [16, 99, "ann", 7, 30.0, [], [[0, 9, [0]]], False],
        [16, 99, "ann", 7, 30.0, [], [], False, 1],
        [2, 99, "ann", 7, 30.0, FLAT, [10, 12], 15, False, 5],
        [3, [], 3, "", [9, 8, 7, 6]],
        ["1", 1],
        [True, 1],
        [[1], 1],
        [4, 7],
        [4, "x", []],
        [4, 7, [1, 2]],
        [14, 1.5],
        [15, 1.5],
    ],
)
def test_an_entry_that_is_not_known_stops_the_replay(plain: object) -> None:
    """To pass over it could hand out again what is done."""
    with pytest.raises(UnknownFormat, match="start a goqueue that knows it"):
        Entry.from_plain(plain)


def busy_ledger() -> Desk:
    desk = Desk()
    nonce = desk.receive(9)
    desk.ack(nonce, run(2), run(4))
    desk.nack(nonce, run(5), delay=7)
    desk.release(nonce, run(6))
    desk.reject(nonce, run(0), run(7))
    desk.extend(nonce, run(8), visibility=60)
    desk.write(desk.ledger.begin_transfer(0, [Run(7, 7)]))
    return desk


def test_a_snapshot_says_how_much_time_is_left_not_when() -> None:
    desk = busy_ledger()
    restored = Ledger.restore(desk.ledger.snapshot(desk.now + 2), LedgerSettings(), 5_000.0)
    assert restored.next_deadline() == 5_005.0
    assert restored.progress(5_000.0) == desk.ledger.progress(desk.now)


def test_a_replay_whose_clock_is_a_hair_off_takes_a_retry_that_is_not_quite_due() -> None:
    """Wall time that is put into today's monotonic time is rounded."""
    desk = Desk()
    desk.nack(desk.receive(3), run(0, 2), delay=1.0)
    desk.now += 1.0 - 1e-9
    entry = Delivered(7, "bob", 2, 30.0, (AttemptRun(1, 1, 2),), (), 3, is_alone=False)
    desk.write(entry)
    assert desk.counts() == {"in_flight": 1, "waiting": 2}
    desk.pass_time(1)
    assert desk.plan(member="eve").again == (run(0, attempt=2), run(2, attempt=2))


def test_a_snapshot_shares_nothing_with_the_ledger() -> None:
    desk = busy_ledger()
    plain = desk.ledger.snapshot(desk.now)
    restored = Ledger.restore(plain, LedgerSettings(), desk.now)
    before = msgpack.packb(plain)
    desk.pass_time(100)
    assert msgpack.packb(plain) == before == msgpack.packb(restored.snapshot(100.0))


def test_a_snapshot_keeps_how_often_it_was_reset() -> None:
    desk = busy_ledger()
    for _ in range(2):
        desk.write(desk.ledger.reset(desk.ledger.committed))
    plain = desk.ledger.snapshot(desk.now)
    assert Ledger.restore(plain, LedgerSettings(), desk.now).resets == 2


def test_a_snapshot_keeps_the_place_of_each_lane_and_what_is_ahead() -> None:
    desk = busy_ledger()
    taken = [LaneTaken(0, 40, OffsetSet([Run(20, 20), Run(30, 31)])), LaneTaken(2, 15, OffsetSet([Run(9, 10)]))]
    desk.carry_out(desk.decide_lanes(taken, Recipient(5, "bob", 99, 30.0)))
    restored = Ledger.restore(desk.ledger.snapshot(desk.now), LedgerSettings(), desk.now)
    assert restored.fresh_places == desk.ledger.fresh_places == [40, 9, 15, 9, 9]
    assert restored.progress(desk.now) == desk.ledger.progress(desk.now)
    assert restored.progress(desk.now).lag(50) == desk.ledger.progress(desk.now).lag(50) == 41 - 5 + 12


@pytest.mark.parametrize("damage", [None, [], [2], 7, ["x"] * 9, [1, True, [], [], [], [], [], 0, 0]])
def test_a_snapshot_that_cannot_be_read_is_refused(damage: object) -> None:
    with pytest.raises(UnknownFormat):
        Ledger.restore(damage, LedgerSettings(), 0.0)


def test_a_snapshot_of_a_newer_version_is_refused_by_its_number() -> None:
    plain = busy_ledger().ledger.snapshot(100.0)
    with pytest.raises(UnknownFormat, match="version 4"):
        Ledger.restore([4, *plain[1:]], LedgerSettings(), 0.0)


def test_a_snapshot_keeps_what_is_damaged() -> None:
    """Else damaged messages would be taken for done (G5)."""
    desk = busy_ledger()
    desk.write(desk.ledger.damage.note(desk.now, 100, 119, "0.log"))
    damaged = desk.ledger.snapshot(desk.now)
    restored = Ledger.restore(damaged, LedgerSettings(), desk.now)
    assert restored.progress(desk.now).damages == ((100, 119, "0.log", 20),)
