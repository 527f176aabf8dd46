"""The state of every message of a partition for one group, and what each entry does to it.

Every offset that its lane has scanned (progress.py) is in exactly one state:

    done           in none of the others
    in flight      in a delivery, under a lease
    waiting        for its retry
    ready again    behind a retry, an expiry or a release
    leaving        waiting for its way to the dead-letter topic
    in transfer    on that way
    damaged        the log cannot read it (damage.py)

What is not done holds the committed offset (G5). Nothing is decided here: an entry was decided before it was
journaled, and applying it neither fails nor asks the settings. An entry that does not fit the state is a bug, and
asserts.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from goqueue.core.ledger import entries
from goqueue.core.ledger.attempts import FRESH, AttemptRuns, Attempts, Standing, StandingRun, count
from goqueue.core.ledger.damage import Damages, LateDeliveries, Timed, held_in
from goqueue.core.ledger.deadletters import (
    DeadLetterQueue,
    DeadRun,
    Decision,
    Decisions,
    Destination,
    LetterVerdict,
)
from goqueue.core.ledger.deliveries import Deliveries, Delivery
from goqueue.core.ledger.entries import Entry
from goqueue.core.ledger.firstdeliveries import FirstDeliveries
from goqueue.core.ledger.leases import DeliveryLeases, Lease
from goqueue.core.ledger.progress import LaneProgress
from goqueue.core.ledger.retries import Retries
from goqueue.core.ledger.settlements import Settlement
from goqueue.core.ledger.shares import LANES
from goqueue.core.log.producers import SEQUENCES
from goqueue.core.offsetset import OffsetSet, Run
from goqueue.core.receipts import OFFSET_MAX
from goqueue.errors import UnknownFormat
from goqueue.types import Microseconds, Offset

VERSION = 3
NOTHING = OffsetSet()


class LedgerState:
    def __init__(self) -> None:
        self.has_begun = False
        self.lanes = LaneProgress()
        self.deliveries = Deliveries()
        self.retries = Retries()
        self.dead_letters = DeadLetterQueue()
        self.damages = Damages()
        self.firsts = [FirstDeliveries() for _ in LANES]
        self.late = LateDeliveries()
        self.decisions = Decisions()
        """What became of dead letters, in the ledger of a redrive."""
        self.next_sequence = 0
        self.removed_unacked = 0
        self.resets = 0

    def apply(self, entry: Entry, now: float) -> None:
        match entry:  # what comes most often comes first
            case entries.Acked():
                self._acked(entry)
            case entries.Begun():
                self.deliveries.note_begun(entry.nonce, entry.runs)
            case entries.Delivered():
                self._delivered(entry, now)
            case entries.Began():
                self._began(entry)
            case entries.LanesDelivered():
                self._lanes_delivered(entry, now)
            case entries.PassedOver():
                self._passed_over(entry)
            case entries.Nacked():
                self._nacked(entry, now)
            case entries.Rejected():
                self._rejected(entry)
            case entries.Released():
                self._released(entry)
            case entries.Extended():
                self._extended(entry, now)
            case entries.Expired():
                self._expired(entry)
            case entries.TransferBegun():
                self._in_transfer(entry)
            case entries.TransferDone():
                self._transferred(entry)
            case entries.Removed():
                self._removed(entry)
            case entries.CutBack():
                self._cut_back(entry)
            case entries.Reset():
                self.resets += 1
                self._begin_again(entry.offset)
            case entries.Committed():
                self._begin_again(entry.offset)
            case entries.Damaged():
                self._damaged(entry)
            case entries.Repaired():
                self._repaired(entry)
            case entries.Skipped():
                self._skipped(entry)
            case entries.LettersDismissed():
                self._dismissed(entry)
            case entries.SentAgain():
                self._sent_again(entry)
            case _:
                raise AssertionError(f"{entry} is nothing that happens to a ledger")

    # Delivered

    def _began(self, entry: entries.Began) -> None:
        assert not self.has_begun, "a group begins once; afterwards it is reset"
        self.has_begun = True
        self.lanes = LaneProgress(entry.offset)

    def _delivered(self, entry: entries.Delivered, now: float) -> None:
        lease, lanes, lane = self._begun_lease(entry, now), self.lanes, entry.lane
        if entry.fresh:
            self.firsts[lane].note(lanes.fresh[lane], entry.wall)
        lease.out.add_all(FRESH[lane], lanes.look_over(lane, entry.fresh, entry.scanned_to))
        self._hand_out(entry, lease, [lane])

    def _lanes_delivered(self, entry: entries.LanesDelivered, now: float) -> None:
        lease, lanes = self._begun_lease(entry, now), self.lanes
        for lane, scanned_to, offsets in entry.lanes:
            if offsets:
                self.firsts[lane].note(lanes.fresh[lane], entry.wall)
            lanes.look_into(lane, offsets, scanned_to)
            lease.out.add_all(FRESH[lane], offsets)
        self._hand_out(entry, lease, [lane for lane, _, _ in entry.lanes])

    def _begun_lease(self, entry: entries.Delivered | entries.LanesDelivered, now: float) -> Lease:
        lease = Lease(now + entry.visibility, entry.visibility)
        if entry.again:
            taken = self._taken_back(entry.again)
            self.late.note(taken.values(), entry.wall)
            lease.out.merge(taken)
        return lease

    def _hand_out(
        self, entry: entries.Delivered | entries.LanesDelivered, lease: Lease, lanes: Sequence[int]
    ) -> None:
        begun = OffsetSet() if entry.tells_begun else None
        leases = DeliveryLeases([lease])
        self.deliveries.hand_out(
            Delivery(entry.nonce, entry.member, entry.wall, entry.is_alone, leases, begun=begun)
        )
        for lane in lanes:
            if self.firsts[lane].have_grown:
                self.firsts[lane].tidy(self._held_in_time(lane), self.lanes.fresh[lane])
        if self.late.have_grown:
            self.late.tidy(self._held())

    def _held_of(self, lane: int | None) -> OffsetSet:
        """The messages of a lane, or of all, that were delivered and may still become dead letters: in flight,
        waiting for their retry, ready again, or ready again before they were damaged."""
        held, damaged = OffsetSet(), self.damages.again.items()
        for standing, offsets in (*self.deliveries.standing_sets(), *self.retries.standing_sets(), *damaged):
            if lane is None or standing.lane == lane:
                held.update(offsets)
        return held

    def _held(self) -> OffsetSet:
        return self._held_of(None)

    def _held_in_time(self, lane: int) -> OffsetSet:
        """Without repaired messages: `late` knows when these were first delivered."""
        return self.late.without(self._held_of(lane))

    def _taken_back(self, runs: AttemptRuns) -> Attempts:
        taken = self.retries.take(runs)
        assert len(taken) == count(runs), f"not all of {runs} were to be handed out again"
        return taken

    def _passed_over(self, entry: entries.PassedOver) -> None:
        for run in entry.runs:
            assert self.count_unheld(run) == run.size, f"{run} was not to be handed out again, nor leaving"
            self.retries.take_within(*run)
            self.dead_letters.take(*run)
            self.lanes.settle(*run)
        for lane, place in enumerate(entry.lanes or [entry.scanned_to] * len(LANES)):
            self.lanes.look_into(lane, NOTHING, max(place, self.lanes.fresh[lane]))

    def count_unheld(self, run: Run) -> int:
        """How many of these were delivered and are held by no member: ready again, waiting or leaving."""
        return self.retries.count_within(*run) + self.dead_letters.count_leaving(run)

    def unsettled(self) -> list[Run]:
        """The messages that are in flight, wait for their retry or are ready again, in order."""
        return sorted([*self.deliveries.runs(), *self.retries.runs()])

    # Settled, or to be redelivered

    def _acked(self, entry: entries.Acked) -> None:
        if entry.runs is not None and len(entry.runs) == 1:
            [run] = entry.runs
            self.deliveries.take_run(entry.nonce, run, Settlement.ACKED)
            self.lanes.settle(run.first, run.last)
            return
        for offsets in self.deliveries.take(entry.nonce, entry.runs, Settlement.ACKED).values():
            self.lanes.settle_all(offsets)

    def _nacked(self, entry: entries.Nacked, now: float) -> None:
        wall = self._wall(entry.nonce)
        for delay, runs in entry.retries:
            for standing, run in self.deliveries.take(entry.nonce, runs, Settlement.NACKED).standing_runs():
                self.retries.hold_back(now + delay, standing.attempt + 1, run, standing.lane)
        if entry.leaving:
            self._leave(self.deliveries.take(entry.nonce, entry.leaving, Settlement.NACKED), wall, entry.reason)

    def _rejected(self, entry: entries.Rejected) -> None:
        wall = self._wall(entry.nonce)
        taken = self.deliveries.take(entry.nonce, entry.runs, Settlement.REJECTED)
        self._leave(taken, wall, entry.reason, entry.to)

    def _released(self, entry: entries.Released) -> None:
        """As if they had not been delivered: their standing stays."""
        self.retries.ready.merge(self.deliveries.take(entry.nonce, entry.runs, Settlement.RELEASED))

    def _extended(self, entry: entries.Extended, now: float) -> None:
        self.deliveries.extend(entry.nonce, entry.runs, entry.visibility, now)

    def _expired(self, entry: entries.Expired) -> None:
        wall = self._wall(entry.nonce)
        taken = self.deliveries.take(entry.nonce, entry.runs)
        if entry.reason is not None:
            self._leave(taken, wall, entry.reason)
            return
        for standing, run in taken.standing_runs():
            self.retries.ready.add(Standing(standing.attempt + 1, lost=True, lane=standing.lane), run)

    def _wall(self, nonce: int) -> Microseconds:
        delivery = self.deliveries.get(nonce)
        assert delivery is not None, f"delivery {nonce:x} is not under way"
        return delivery.wall

    # Dead letters

    def _leave(
        self, taken: Attempts, last_delivery: Microseconds, reason: str, to: Destination | None = None
    ) -> None:
        for standing, run in taken.standing_runs():
            for piece, first_delivery in self._first_deliveries(standing.lane, run):
                dead = DeadRun(*piece, standing.attempt, first_delivery, last_delivery, reason, to)
                self.dead_letters.add(dead)

    def _first_deliveries(self, lane: int, run: Run) -> Iterator[Timed]:
        return self.late.split(run, self.firsts[lane].split)

    def _in_transfer(self, entry: entries.TransferBegun) -> None:
        self.dead_letters.begin(entry.sequence, entry.runs)
        self.next_sequence = (entry.sequence + sum(run.size for run in entry.runs)) % SEQUENCES

    def _transferred(self, entry: entries.TransferDone) -> None:
        under_way = self.dead_letters.under_way
        assert under_way is not None
        assert under_way.sequence == entry.sequence
        settled = OffsetSet(self.dead_letters.end())
        self.lanes.settle_all(settled)
        self._note_redriven(under_way.runs, settled, entry)

    def _note_redriven(self, letters: Sequence[DeadRun], settled: OffsetSet, entry: entries.TransferDone) -> None:
        """A letter of another topic that was put back is a decision of its own; what no longer holds the committed
        offset is not noted, since its offset may be another message's by now."""
        for to in dict.fromkeys(letter.to for letter in letters if letter.to is not None):
            sent = OffsetSet((letter.first, letter.last) for letter in letters if letter.to == to).common(settled)
            self.decisions.note(Decision(LetterVerdict.REDRIVEN, entry.decided, to), sent.without(entry.returned))
        self.decisions.note(Decision(LetterVerdict.RETURNED, entry.decided), entry.returned.common(settled))

    def _dismissed(self, entry: entries.LettersDismissed) -> None:
        decision = Decision(LetterVerdict.DISMISSED, entry.decided, None, entry.note)
        for offsets in self.deliveries.take(entry.nonce, entry.runs, Settlement.ACKED).values():
            self.lanes.settle_all(offsets)
            self.decisions.note(decision, offsets)

    def _sent_again(self, entry: entries.SentAgain) -> None:
        self.decisions.note_missing(entry.letters)
        self.lanes.open_again(entry.letters)
        for first, last in entry.letters.runs():
            self.dead_letters.add(DeadRun(first, last, 1, 0, 0, entry.reason, entry.to))

    # What happened to the log, or was wished by an operator

    def _removed(self, entry: entries.Removed) -> None:
        self._forget(0, entry.offset - 1)
        self.lanes.pass_to(entry.offset)
        self.removed_unacked += entry.unacked

    def _cut_back(self, entry: entries.CutBack) -> None:
        self._forget(entry.end, OFFSET_MAX)
        self.lanes.cut_back(entry.end)
        for firsts in self.firsts:
            firsts.cut_back(entry.end)

    def _damaged(self, entry: entries.Damaged) -> None:
        again, letters, fresh = list[StandingRun](), list[DeadRun](), entry.offsets.copy()
        for run in entry.offsets.runs():
            again += self.retries.take_within(*run)
            letters += self.dead_letters.take(*run)
        for first, last in held_in(again, letters):
            fresh.discard(first, last)
        self.damages.add(fresh, again, letters)
        self.damages.name(entry.first, entry.last, entry.path)
        self.lanes.hold(fresh)

    def _repaired(self, entry: entries.Repaired) -> None:
        taken = self.damages.take(entry.first, entry.last)
        for standing, run in taken.again:
            self.retries.ready.add(standing, run)
        for letter in taken.letters:
            self.dead_letters.add(letter)
        passed_over = taken.fresh
        for lane, offsets in entry.lanes:
            found, passed_over = passed_over.common(offsets), passed_over.without(offsets)
            self.retries.ready.add_all(FRESH[lane], found)
            self.late.wait(found)
        self.lanes.settle_all(passed_over)

    def _skipped(self, entry: entries.Skipped) -> None:
        given_up = self.damages.take(entry.first, entry.last).offsets
        if entry.letters:
            given_up.update(self.dead_letters.hand_over(entry.first, entry.last))
        self.lanes.settle_all(given_up)
        self.removed_unacked += entry.unacked

    def _begin_again(self, offset: Offset) -> None:
        self._forget(0, OFFSET_MAX)
        self.deliveries = Deliveries()  # and the remembered settlements: old receipts are stale
        self.firsts, self.late = [FirstDeliveries() for _ in LANES], LateDeliveries()
        self.lanes = LaneProgress(offset)

    def _forget(self, first: Offset, last: Offset) -> None:
        self.deliveries.take_within(first, last)
        self.retries.take_within(first, last)
        self.dead_letters.let_go(first, last)
        self.damages.take(first, last)
        self.late.forget(first, last)
        self.decisions.forget(first, last)

    # Written down

    def to_plain(self, now: float) -> list[Any]:
        return [
            VERSION,
            self.has_begun,
            self.lanes.to_plain(),
            self.deliveries.to_plain(now),
            self.retries.to_plain(now),
            self.dead_letters.to_plain(),
            [self.firsts[lane].to_plain(self._held_in_time(lane), self.lanes.fresh[lane]) for lane in LANES],
            self.next_sequence,
            self.removed_unacked,
            self.resets,
            self.late.to_plain(self._held()),
            self.damages.to_plain(),
            *([decisions] if (decisions := self.decisions.to_plain()) else []),
        ]

    @classmethod
    def from_plain(cls, plain: Any, now: float) -> "LedgerState":
        state = cls()
        try:
            version, has_begun, lanes, deliveries, retries, dead_letters, firsts, *later = plain
            if version != VERSION:
                raise UnknownFormat(f"a ledger of version {version!r} is unknown; start a goqueue that knows it")
            state.next_sequence, state.removed_unacked, state.resets, late, damages = later[:5]
            state.has_begun = has_begun
            state.deliveries = Deliveries.from_plain(deliveries, now)
            state.retries = Retries.from_plain(retries, now)
            state.dead_letters = DeadLetterQueue.from_plain(dead_letters)
            state.late, state.damages = LateDeliveries.from_plain(late), Damages.from_plain(damages)
            state.decisions = Decisions.from_plain(*later[5:6] or [()])
            handed_out = [*state.deliveries.runs(), *state.retries.runs(), *state.dead_letters.runs()]
            state.lanes = LaneProgress.from_plain(lanes, [*handed_out, *state.damages.runs()])
            state.firsts = list(map(FirstDeliveries.from_plain, firsts))
        except (TypeError, ValueError, IndexError) as error:
            raise UnknownFormat("a ledger is not as it is written; start a goqueue that knows it") from error
        return state
