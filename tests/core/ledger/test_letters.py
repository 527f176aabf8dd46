"""What the ledger of a redrive says of dead letters: waiting, redriven or dismissed, when, and where to (G5)."""

from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.ledger import deadletters
from goqueue.core.ledger.attempts import AttemptRun, AttemptRuns
from goqueue.core.ledger.deadletters import REDRIVEN_SOMETIME, Decision, Decisions, Destination, LetterVerdict
from goqueue.core.ledger.entries import Entry
from goqueue.core.ledger.ledger import Ledger
from goqueue.core.ledger.settings import LedgerSettings
from goqueue.core.offsetset import OffsetSet
from tests.core.ledger.test_delivering import Desk, run

REDRIVEN, DISMISSED, RETURNED = LetterVerdict
BACK, ELSEWHERE = Destination(), Destination("hospital", True)


class Inbox(Desk):
    """The desk of a redrive, which journals what it writes."""

    def __init__(self) -> None:
        self.journal: list[Any] = []
        super().__init__(max_deliveries=0)

    def write(self, entry: Entry | None) -> None:
        super().write(entry)
        if entry is not None:
            self.journal.append(entry.to_plain())

    def redrive(self, *runs: AttemptRun, nonce: int, at: int | None, to: Destination = BACK) -> None:
        entry, stale = self.ledger.reject(self.now, nonce, runs, "redriven", to)
        assert stale == ()
        self.write(entry)
        self.transfer(at)

    def transfer(self, at: int | None, *returned: int) -> None:
        sequence = self.ledger.next_sequence
        self.write(self.ledger.begin_transfer(sequence, self.ledger.next_dead_letters(100)))
        self.write(self.ledger.transferred(sequence, at, OffsetSet.of(returned)))

    def dismiss(self, *runs: AttemptRun, nonce: int, at: int, note: str = "") -> AttemptRuns:
        entry, stale = self.ledger.letters.dismiss(self.now, nonce, runs, at, note)
        self.write(entry)
        return stale

    def decided(self, ledger: Ledger | None = None) -> dict[int, Decision]:
        found = (ledger or self.ledger).letters.decided(0, 99)
        return {offset: decision for decision, letters in found for offset in letters.offsets()}


def test_a_letter_waits_until_it_is_redriven_or_dismissed() -> None:
    inbox = Inbox()
    assert inbox.decided() == {}
    nonce = inbox.receive(4)
    assert inbox.decided() == {}, "to look at it decides nothing"
    inbox.redrive(run(0), nonce=nonce, at=50)
    inbox.redrive(run(1), nonce=nonce, at=60, to=ELSEWHERE)
    assert inbox.dismiss(run(2), nonce=nonce, at=70, note="known") == ()
    assert inbox.decided() == {
        0: Decision(REDRIVEN, 50, BACK),
        1: Decision(REDRIVEN, 60, ELSEWHERE),
        2: Decision(DISMISSED, 70, None, "known"),
    }
    assert inbox.counts() == {"in_flight": 1}


def test_a_letter_on_its_way_is_not_redriven_yet() -> None:
    inbox = Inbox()
    nonce = inbox.receive(1)
    entry, _ = inbox.ledger.reject(inbox.now, nonce, [run(0)], "redriven", BACK)
    inbox.write(entry)
    assert inbox.decided() == {}


def test_to_dismiss_twice_changes_nothing_and_a_stale_one_is_named() -> None:
    inbox = Inbox()
    nonce = inbox.receive(2)
    inbox.dismiss(run(0), nonce=nonce, at=70)
    assert inbox.dismiss(run(0), nonce=nonce, at=80) == ()
    assert inbox.dismiss(run(1), nonce=nonce + 1, at=80) == (run(1),)
    assert inbox.decided() == {0: Decision(DISMISSED, 70)}


def test_what_earlier_versions_sent_back_is_redriven_at_an_unknown_time() -> None:
    inbox = Inbox()
    nonce = inbox.receive(2)
    inbox.redrive(run(0), nonce=nonce, at=None)
    plain = inbox.ledger.snapshot(inbox.now)
    assert plain.pop() == [[[1, None, [None, False], ""], [0, b"\x01"]]]
    older = Ledger.restore(plain, LedgerSettings(), inbox.now)
    assert inbox.decided(older) == {0: REDRIVEN_SOMETIME}


def test_a_letter_that_could_only_go_back_to_its_topic_was_not_redriven() -> None:
    inbox = Inbox()
    nonce = inbox.receive(2)
    entry, _ = inbox.ledger.reject(inbox.now, nonce, [run(0, 1)], "redriven", BACK)
    inbox.write(entry)
    inbox.transfer(50, 1)
    assert inbox.decided() == {
        0: Decision(REDRIVEN, 50, BACK),
        1: Decision(RETURNED, 50),
    }


def test_decided_letters_are_sent_again_without_waiting_in_between() -> None:
    inbox = Inbox()
    nonce = inbox.receive(4)
    inbox.redrive(run(0), nonce=nonce, at=50)
    inbox.dismiss(run(1), nonce=nonce, at=60)
    assert inbox.ledger.letters.send_again(OffsetSet.of([2, 9]), ELSEWHERE) is None, "they were not decided upon"
    before = inbox.decided()
    inbox.write(inbox.ledger.letters.send_again(OffsetSet.of([0, 1, 2]), ELSEWHERE))
    assert inbox.ledger.committed == 0
    assert inbox.ledger.letters.send_again(OffsetSet.of([0, 1]), BACK) is None, "they leave already"
    assert inbox.decided() == before
    inbox.transfer(80)
    assert inbox.decided() == dict.fromkeys((0, 1), Decision(REDRIVEN, 80, ELSEWHERE))
    assert (inbox.ledger.committed, inbox.counts()) == (2, {"in_flight": 2})


def test_a_letter_that_is_sent_again_does_not_wait_though_nobody_knows_when_it_was_sent() -> None:
    inbox = Inbox()
    inbox.redrive(run(0), nonce=inbox.receive(1), at=None)
    inbox.ledger = Ledger.restore(inbox.ledger.snapshot(0.0)[:-1], LedgerSettings(), 0.0)
    inbox.write(inbox.ledger.letters.send_again(OffsetSet.of([0]), BACK))
    assert inbox.decided() == {0: REDRIVEN_SOMETIME}


def test_what_the_log_no_longer_has_is_forgotten() -> None:
    """An offset behind a cut is given to another letter."""
    inbox = Inbox()
    inbox.dismiss(run(0, 5), nonce=inbox.receive(6), at=60)
    inbox.write(inbox.ledger.cut_back(4))
    assert sorted(inbox.decided()) == [0, 1, 2, 3]
    inbox.receive(2)
    assert sorted(inbox.decided()) == [0, 1, 2, 3]
    inbox.write(inbox.ledger.removed_below(2))
    assert [offset for offset, decision in inbox.decided().items() if decision.at] == [2, 3]
    inbox.write(inbox.ledger.reset(0))
    assert inbox.decided() == {}


def test_a_transfer_says_nothing_of_letters_that_were_cut_off_meanwhile() -> None:
    inbox = Inbox()
    nonce = inbox.receive(2)
    entry, _ = inbox.ledger.reject(inbox.now, nonce, [run(0, 1)], "redriven", BACK)
    inbox.write(entry)
    inbox.write(inbox.ledger.begin_transfer(0, inbox.ledger.next_dead_letters(9)))
    inbox.write(inbox.ledger.cut_back(1))
    inbox.receive(3)
    inbox.write(inbox.ledger.transferred(0, 50))
    assert sorted(inbox.decided()) == [0]


STEPS = st.lists(
    st.tuples(st.sampled_from(["redrive", "dismiss", "again", "receive"]), st.integers(0, 12), st.integers(1, 3)),
    max_size=30,
)


@given(STEPS)
def test_journal_and_snapshot_give_the_same_decisions(steps: list[tuple[str, int, int]]) -> None:
    """Whatever is decided: every letter has the newest decision, and nothing else has one."""
    inbox, model, held = Inbox(), dict[int, tuple[LetterVerdict, int]](), dict[int, int]()
    for step, at, size in steps:
        if step == "receive":
            begin = inbox.ledger.next_fresh
            nonce = inbox.receive(size)
            held |= dict.fromkeys(range(begin, begin + size), nonce)
        elif step == "again":
            chosen = OffsetSet.of(sorted(model)[:size])
            if (entry := inbox.ledger.letters.send_again(chosen, ELSEWHERE)) is not None:
                inbox.write(entry)
                inbox.transfer(at)
                model |= dict.fromkeys(chosen.offsets(), (REDRIVEN, at))
        elif held:
            offset, nonce = held.popitem()
            if step == "redrive":
                inbox.redrive(run(offset), nonce=nonce, at=at)
            else:
                inbox.dismiss(run(offset), nonce=nonce, at=at)
            model[offset] = (REDRIVEN if step == "redrive" else DISMISSED), at
    replayed = Ledger(LedgerSettings(max_deliveries=0))
    for plain in inbox.journal:
        replayed.apply(Entry.from_plain(msgpack.unpackb(msgpack.packb(plain))), 0.0)
    restored = Ledger.restore(msgpack.unpackb(msgpack.packb(inbox.ledger.snapshot(0.0))), LedgerSettings(), 0.0)
    for ledger in (inbox.ledger, replayed, restored):
        assert {offset: each[:2] for offset, each in inbox.decided(ledger).items()} == model


def test_details_of_the_oldest_decisions_are_given_up_but_not_what_was_decided(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(deadletters, "DECISIONS_MAX", 3)
    made = Decisions()
    for number in range(6):
        made.note(Decision(LetterVerdict(1 + number % 2), number, None, "n"), OffsetSet.of([number]))
    found = {offset: each for each, letters in made.items() for offset in letters.offsets()}
    assert len(list(made.items())) <= 3
    assert [found[number].verdict for number in range(6)] == [1, 2, 1, 2, 1, 2]
    assert [found[number].at for number in range(6)] == [None, None, None, None, None, 5]
