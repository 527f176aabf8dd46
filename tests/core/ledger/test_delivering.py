"""A ledger with its shell, for the examples in the files beside this one."""

from collections.abc import Sequence

from goqueue.core.ledger.attempts import AttemptRun, AttemptRuns
from goqueue.core.ledger.entries import Entry, LaneTaken
from goqueue.core.ledger.handout import HandOut, LaneScan, Recipient, Scanned
from goqueue.core.ledger.ledger import Ledger
from goqueue.core.ledger.settings import LedgerSettings
from goqueue.core.ledger.shares import ALL_LANES
from goqueue.core.ledger.views import FreshLanes, Plan
from goqueue.core.offsetset import Run
from goqueue.types import Priority

ANN = Recipient(0, "ann", 1, 30.0)


class Desk:
    """A ledger and its shell: what is decided is applied at once. Time stands still until it is told to pass."""

    def __init__(self, max_deliveries: int = 3, start: int = 0) -> None:
        self.ledger = Ledger(LedgerSettings(max_deliveries))
        self.now, self.nonce = 100.0, 0
        self.write(self.ledger.begin(start))

    def write(self, entry: Entry | None) -> None:
        if entry is not None:
            self.ledger.apply(entry, self.now)

    def plan(
        self, count: int = 10, member: str = "ann", *, is_busy: bool = False, lasts_max: int | None = None
    ) -> Plan:
        return self.ledger.plan(self.now, member, count, is_busy=is_busy, lasts_max=lasts_max)

    def receive(
        self,
        fresh: int = 0,
        member: str = "ann",
        *,
        count: int = 10,
        visibility: float = 30.0,
        tells_begun: bool = False,
    ) -> int:
        """All that a plan allows, and so many fresh ones of those it allows. The nonce."""
        plan = self.plan(count, member)
        runs = [Run(plan.fresh_from, plan.fresh_from + fresh - 1)] if fresh and plan.fresh_max else []
        return self.hand_out(plan.again, runs, member, visibility, tells_begun=tells_begun)

    def hand_out(
        self,
        again: AttemptRuns,
        fresh: Sequence[Run],
        member: str = "ann",
        visibility: float = 30.0,
        *,
        tells_begun: bool = False,
    ) -> int:
        end = fresh[-1].last + 1 if fresh else self.ledger.next_fresh
        self.nonce += 1
        to = Recipient(int(self.now), member, self.nonce, visibility, tells_begun)
        self.carry_out(self.decide(again, fresh, end, to))
        return self.nonce

    def decide(
        self,
        again: Sequence[AttemptRun] = (),
        fresh: Sequence[Run] = (),
        scanned_to: int = 0,
        to: Recipient = ANN,
    ) -> HandOut:
        """A delivery of one lane, whatever a plan would allow."""
        plan = self.ledger.plan(self.now, to.member, 1, is_busy=False)
        scan = LaneScan(Priority.NORMAL, scanned_to, again, fresh)
        return self.ledger.hand_out(self.now, to, plan, Scanned([scan]))

    def decide_lanes(self, lanes: Sequence[LaneTaken], to: Recipient) -> HandOut:
        """A delivery of several lanes, without redeliveries."""
        lanes_there = FreshLanes(ALL_LANES, is_mixed=True)
        plan = self.ledger.plan(self.now, to.member, 10, is_busy=False, fresh=lanes_there)
        scans = [LaneScan(lane, scanned_to, (), offsets) for lane, scanned_to, offsets in lanes]
        return self.ledger.hand_out(self.now, to, plan, Scanned(scans))

    def carry_out(self, decided: HandOut) -> None:
        for entry in decided.entries:
            self.write(entry)
        self.ledger.handed_out(self.now, decided)

    def ack(self, nonce: int, *runs: AttemptRun) -> AttemptRuns:
        entry, stale = self.ledger.ack(self.now, nonce, runs)
        self.write(entry)
        return stale

    def nack(self, nonce: int, *runs: AttemptRun, delay: float | None = None, reason: str = "") -> AttemptRuns:
        entry, stale = self.ledger.nack(self.now, nonce, runs, delay, reason)
        self.write(entry)
        return stale

    def reject(self, nonce: int, *runs: AttemptRun, reason: str = "") -> AttemptRuns:
        entry, stale = self.ledger.reject(self.now, nonce, runs, reason)
        self.write(entry)
        return stale

    def release(self, nonce: int, *runs: AttemptRun) -> AttemptRuns:
        entry, stale = self.ledger.release(self.now, nonce, runs)
        self.write(entry)
        return stale

    def begin(self, nonce: int, *runs: AttemptRun) -> AttemptRuns:
        entry, stale = self.ledger.note_begun(self.now, nonce, runs)
        self.write(entry)
        return stale

    def extend(self, nonce: int, *runs: AttemptRun, visibility: float = 30.0) -> AttemptRuns:
        entry, stale = self.ledger.extend(self.now, nonce, runs or None, visibility)
        self.write(entry)
        return stale

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        for entry in self.ledger.tick(self.now):
            self.write(entry)

    def transfer_next(self) -> None:
        leaving = self.ledger.next_dead_letters(100)
        sequence = self.ledger.next_sequence
        self.write(self.ledger.begin_transfer(sequence, leaving))
        self.write(self.ledger.transferred(sequence))

    def counts(self) -> dict[str, int]:
        """What is not nothing."""
        progress = self.ledger.progress(self.now)
        named = {name: getattr(progress, name) for name in ("in_flight", "waiting", "ready_again", "leaving")}
        return {name: value for name, value in named.items() if value}


def run(first: int, last: int | None = None, attempt: int = 1) -> AttemptRun:
    return AttemptRun(first, first if last is None else last, attempt)
