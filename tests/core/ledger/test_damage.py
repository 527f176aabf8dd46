"""Ranges that the log cannot read stay open in a group's ledger (G5)."""

from goqueue.core.ledger.entries import Entry, LaneOffsets, LaneTaken
from goqueue.core.ledger.handout import Recipient
from goqueue.core.ledger.ledger import Ledger
from goqueue.core.ledger.settings import LedgerSettings
from goqueue.core.offsetset import OffsetSet, Run
from goqueue.types import Priority
from tests.core.ledger.test_delivering import Desk, run


def normal(*runs: tuple[int, int]) -> list[LaneOffsets]:
    return [LaneOffsets(Priority.NORMAL, OffsetSet(runs))]


def damaged_desk() -> Desk:
    """4 to 9 of 0 to 19 cannot be read; the rest was handed out and acked."""
    desk = Desk()
    desk.write(desk.ledger.damage.note(desk.now, 4, 9, "0.log"))
    nonce = deliver(desk, [(0, 3), (10, 19)], 20)
    desk.write(desk.ledger.ack(desk.now, nonce, [run(0, 3), run(10, 19)])[0])
    return desk


def deliver(desk: Desk, fresh: list[tuple[int, int]], scanned_to: int) -> int:
    desk.nonce += 1
    runs = [Run(*each) for each in fresh]
    desk.carry_out(desk.decide((), runs, scanned_to, Recipient(5, "ann", desk.nonce, 30.0)))
    return desk.nonce


def test_the_committed_offset_stays_before_damage_and_the_group_goes_on_behind_it() -> None:
    """G5"""
    progress = damaged_desk().ledger.progress(0.0)
    assert (progress.committed, progress.next_fresh, progress.damaged) == (4, 20, 6)
    assert progress.lag(20) == 0, "damaged messages have a figure of their own"
    assert progress.damages == ((4, 9, "0.log", 6),)


def test_after_a_repair_messages_come_on_their_first_delivery_and_others_are_passed_over() -> None:
    desk = damaged_desk()
    desk.write(desk.ledger.damage.repair(4, 9, normal((4, 5), (8, 8))))
    assert desk.ledger.plan(desk.now, "ann", 10, is_busy=False).again == (run(4, 5), run(8, 8))
    assert desk.ledger.committed == 4
    assert not desk.ledger.damage


def test_a_message_that_was_to_come_again_keeps_its_number_over_damage_and_repair() -> None:
    desk = Desk()
    nonce = deliver(desk, [(0, 4)], 5)
    desk.write(desk.ledger.nack(desk.now, nonce, [run(2, 2)], 0.0, "")[0])
    desk.write(desk.ledger.ack(desk.now, nonce, [run(0, 1), run(3, 4)])[0])
    desk.write(desk.ledger.damage.note(desk.now, 1, 3, "0.log"))
    assert desk.ledger.plan(desk.now, "ann", 10, is_busy=False).again == ()
    assert desk.ledger.damage.runs() == [Run(2, 2)], "what is done stays so"
    desk.write(desk.ledger.damage.repair(1, 3, normal((1, 3))))
    assert desk.ledger.plan(desk.now, "ann", 10, is_busy=False).again == (run(2, 2, 2),)


def test_what_a_consumer_holds_is_not_damaged() -> None:
    desk = Desk()
    nonce = deliver(desk, [(0, 4)], 5)
    assert desk.ledger.damage.note(desk.now, 0, 4, "0.log") is None
    entry, stale = desk.ledger.ack(desk.now, nonce, [run(0, 4)])
    assert entry is not None
    assert stale == ()


def test_a_dead_letter_that_cannot_be_read_waits_and_leaves_after_the_repair() -> None:
    desk = Desk()
    nonce = deliver(desk, [(0, 0)], 1)
    desk.write(desk.ledger.reject(desk.now, nonce, [run(0, 0)], "bad")[0])
    (letter,) = desk.ledger.next_dead_letters(5)
    desk.write(desk.ledger.damage.note(desk.now, 0, 0, "0.log"))
    assert desk.ledger.next_dead_letters(5) == ()
    assert desk.ledger.progress(desk.now).damaged == 1
    desk.write(desk.ledger.damage.repair(0, 0, normal((0, 0))))
    assert desk.ledger.next_dead_letters(5) == (letter,)


def test_what_is_given_up_counts_as_removed_and_lets_the_group_pass() -> None:
    desk = damaged_desk()
    assert desk.ledger.damage.skip(10, 19) is None
    desk.write(desk.ledger.damage.skip(0, 6))
    assert (desk.ledger.committed, desk.ledger.progress(0.0).removed_unacked) == (7, 3)
    assert desk.ledger.progress(0.0).damages == ((4, 9, "0.log", 3),)
    desk.write(desk.ledger.damage.skip(7, 9))
    assert (desk.ledger.committed, desk.ledger.progress(0.0).removed_unacked) == (20, 6)
    assert desk.ledger.progress(0.0).damages == ()


def test_retention_takes_damaged_messages_as_removed_unacked() -> None:
    desk = damaged_desk()
    removed = desk.ledger.removed_below(7)
    assert removed is not None
    assert removed.unacked == 3
    desk.write(removed)
    assert desk.ledger.damage.runs() == [Run(7, 9)]


def test_a_lane_that_comes_to_a_repaired_range_later_does_not_hand_it_out_twice() -> None:
    """One lane met the range; another is before it when it is repaired (G7)."""
    desk = Desk()
    taken = [LaneTaken(0, 10, OffsetSet([(9, 9)]))]
    desk.write(desk.ledger.damage.note(desk.now, 4, 8, "0.log"))
    desk.carry_out(desk.decide_lanes(taken, Recipient(5, "ann", 1, 30.0)))
    desk.write(desk.ledger.damage.repair(4, 8, normal((4, 8))))
    assert list(desk.ledger.damage.set_aside.runs()) == [Run(4, 8)], "whoever reads on leaves these out"
    assert desk.ledger.progress(desk.now).ready_again == 5
    restored = Ledger.restore(desk.ledger.snapshot(desk.now), LedgerSettings(), desk.now)
    assert list(restored.damage.set_aside.runs()) == [Run(4, 8)]


def test_a_repaired_message_that_is_given_up_tells_when_it_was_first_handed_out() -> None:
    desk = damaged_desk()
    desk.write(desk.ledger.damage.repair(4, 9, normal((4, 9))))
    desk.nonce += 1
    desk.carry_out(desk.decide([run(4, 4)], (), 20, Recipient(77, "ann", desk.nonce, 30.0)))
    desk.write(desk.ledger.reject(desk.now, desk.nonce, [run(4, 4)], "bad")[0])
    (letter,) = desk.ledger.next_dead_letters(5)
    assert (letter.first_delivery, letter.last_delivery) == (77, 77)


def test_a_range_of_a_million_messages_costs_an_entry_of_a_few_kilobytes() -> None:
    desk = Desk()
    entry = desk.ledger.damage.note(desk.now, 0, 999_999, "0.log")
    assert entry is not None
    plain = entry.to_plain()
    assert sum(len(part) if isinstance(part, bytes) else 5 for part in plain[4]) < 4_000
    assert Entry.from_plain(plain) == entry
