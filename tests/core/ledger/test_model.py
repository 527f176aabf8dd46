"""The ledger against a model that keeps every message by itself (G4, G5, G6, G7).

Receipts of all times are handed in, good, old and forged; time passes; the log grows, loses its beginning and its
end. At any time the journal is replayed, or a snapshot is restored, and the ledger must be what it was. Hypothesis
finds the short stories that break it; dice tell long ones, in which messages live to see everything.
"""

from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from goqueue.core.ledger.attempts import AttemptRun
from goqueue.core.ledger.entries import (
    Acked,
    Delivered,
    Entry,
    Expired,
    Extended,
    LanesDelivered,
    Nacked,
    PassedOver,
    Repaired,
)
from goqueue.core.ledger.ledger import REPLACED
from tests.core.ledger.parts import Choose, State
from tests.core.ledger.world import LedgerWorld

CHOICES = st.data()


def chosen(data: st.DataObject) -> Choose:
    return lambda options: data.draw(st.sampled_from(options))


class LedgerMachine(RuleBasedStateMachine):
    @initialize(data=CHOICES)
    def begin(self, data: st.DataObject) -> None:
        self.world = LedgerWorld(chosen(data))

    @rule(data=CHOICES)
    def grow(self, data: st.DataObject) -> None:
        self.world.grow(chosen(data))

    @rule(data=CHOICES)
    def wait(self, data: st.DataObject) -> None:
        self.world.wait(chosen(data))

    @rule(data=CHOICES)
    def receive(self, data: st.DataObject) -> None:
        self.world.receive(chosen(data))

    @precondition(lambda self: self.world.slips)
    @rule(data=CHOICES)
    def settle(self, data: st.DataObject) -> None:
        self.world.settle(chosen(data))

    @precondition(lambda self: self.world.slips)
    @rule(data=CHOICES)
    def settle_together(self, data: st.DataObject) -> None:
        self.world.settle_together(chosen(data))

    @precondition(lambda self: self.world.state(State.IN_FLIGHT))
    @rule(data=CHOICES)
    def close(self, data: st.DataObject) -> None:
        self.world.close(chosen(data))

    @precondition(lambda self: self.world.state(State.IN_FLIGHT))
    @rule(data=CHOICES)
    def replace(self, data: st.DataObject) -> None:
        self.world.replace(chosen(data))

    @precondition(lambda self: self.world.can_transfer())
    @rule(data=CHOICES)
    def transfer_next(self, data: st.DataObject) -> None:
        self.world.transfer_next(chosen(data))

    @precondition(lambda self: self.world.under_way)
    @rule()
    def arrive(self) -> None:
        self.world.arrive()

    @precondition(lambda self: self.world.messages)
    @rule(data=CHOICES)
    def disturb(self, data: st.DataObject) -> None:
        self.world.disturb(chosen(data))

    @rule(data=CHOICES)
    def damage(self, data: st.DataObject) -> None:
        self.world.damage(chosen(data))

    @rule(data=CHOICES)
    def repair(self, data: st.DataObject) -> None:
        self.world.repair(chosen(data))

    @rule(data=CHOICES)
    def skip(self, data: st.DataObject) -> None:
        self.world.skip(chosen(data))

    @rule(data=CHOICES)
    def commit(self, data: st.DataObject) -> None:
        self.world.commit(chosen(data))

    @rule(data=CHOICES)
    def start_again(self, data: st.DataObject) -> None:
        self.world.start_again(chosen(data))

    @invariant()
    def the_ledger_is_as_the_model_has_it(self) -> None:
        self.world.check()


TestLedger = LedgerMachine.TestCase
TestLedger.settings = settings(stateful_step_count=80)


def walk(world: LedgerWorld, dice: Random) -> None:
    """One step; what throws much away is seldom taken."""
    at_work, now_and_then = [world.receive, world.settle, world.wait, world.grow], [world.close, world.replace]
    steps = [*at_work, *now_and_then, world.start_again, world.disturb, world.commit]
    steps += [world.damage, world.repair, world.skip, world.settle_together]
    (step,) = dice.choices(steps, weights=(40, 40, 14, 8, 2, 1, 3, 1, 0.25, 2, 2, 0.5, 4))
    step(dice.choice)
    if world.can_transfer() and dice.random() < 0.2:
        world.transfer_next(dice.choice)
    elif world.under_way and dice.random() < 0.2:
        world.arrive()


def come_to_rest(world: LedgerWorld, dice: Random) -> None:
    """Everything is acked or arrives, and the group has come to the end of the log (G5)."""
    for _ in range(1_000):
        if world.committed() == len(world.log):
            return
        world.repair_range(0, len(world.log) - 1)
        world.now += 100
        world.tick()
        world.receive(dice.choice)
        for slip in filter(world.is_good, world.slips):
            world.ack(slip.nonce, [slip], [AttemptRun(slip.offset, slip.offset, slip.attempt)])
        if world.can_transfer():
            world.transfer_next(dice.choice)
        if world.under_way:
            world.arrive()
        world.check()
    raise AssertionError("something is never handed out")


def turns(entry: Entry) -> Iterator[str]:
    """The kind of an entry, and what is rare about it."""
    yield type(entry).__name__
    match entry:
        case Delivered(again=again, fresh=fresh, is_alone=is_alone, tells_begun=tells_begun):
            yield from ["alone"] * is_alone
            yield from ["alone to who tells"] * (is_alone and tells_begun)
            yield from ["again and fresh together"] * bool(again and fresh)
            yield from ["several numbers in one delivery"] * (len({run.attempt for run in again}) > 1)
        case LanesDelivered(again=again, lanes=lanes):
            yield from ["several lanes at once"] * (sum(bool(each.offsets) for each in lanes) > 1)
            yield from ["again and of lanes"] * bool(again and lanes)
        case PassedOver(lanes=lanes):
            yield from ["lanes passed over"] * bool(lanes)
        case Repaired(lanes=lanes):
            yield from ["fresh messages repaired"] * bool(lanes)
        case Acked(runs=runs):
            yield "all acked" if runs is None else "a part acked"
        case Extended(runs=runs):
            yield "all extended" if runs is None else "a part extended"
        case Expired(reason=str(reason)) if reason.startswith(REPLACED):
            yield "replaced for the last time"
        case Expired(reason=reason):
            yield "expired" if reason is None else "expired for the last time"
        case Nacked(retries=retries, leaving=leaving):
            yield from ["nacked for the last time"] * bool(leaving)
            yield from ["several delays in one nack"] * (len(retries) > 1)


OF_REDRIVES = {"LettersDismissed", "SentAgain"}
"""Entries that no other group has: tests/core/ledger/test_letters.py."""
RARE = {
    "alone",
    "alone to who tells",
    "again and fresh together",
    "several numbers in one delivery",
    "several lanes at once",
    "again and of lanes",
    "lanes passed over",
    "fresh messages repaired",
    "all acked",
    "a part acked",
    "all extended",
    "a part extended",
    "expired",
    "expired for the last time",
    "replaced for the last time",
    "nacked for the last time",
    "several delays in one nack",
}


@pytest.mark.parametrize("seed", range(20))
def test_a_long_life_goes_as_the_model_has_it(seed: int) -> None:
    """G4, G5, G6, G7"""
    dice = Random(seed)
    world = LedgerWorld(dice.choice)
    for _ in range(400):
        walk(world, dice)
        world.check()
    come_to_rest(world, dice)


def test_the_long_lives_see_everything() -> None:
    """Else the model would prove little: every kind of entry, and the rare turns of the common ones."""
    seen = set[str]()
    for seed in range(10):
        dice = Random(seed)
        world = LedgerWorld(dice.choice)
        for _ in range(400):
            walk(world, dice)
        seen.update(turn for _, entry in world.journal for turn in turns(entry))
    assert seen == RARE | {kind.__name__ for kind in Entry.__subclasses__()} - OF_REDRIVES
