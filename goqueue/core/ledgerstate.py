"""Where every message of a partition stands for one group, and what each entry does to that.

Every offset below `next_fresh` is in exactly one place:

    done           in the lane: below its prefix, or in the set beyond it
    in flight      in a delivery, under a lease
    waiting        for its retry
    ready again    behind a retry, an expiry or a release
    leaving        waiting for its way to the dead-letter topic
    departing      on that way

What is not done holds the prefix (G5). Nothing is decided here: an entry was decided before it was journaled, and
applying it neither fails nor asks the settings. An entry that does not fit the state is a bug, and asserts.
"""

from collections.abc import Iterable
from typing import Any

from goqueue.core import ledgerentries as entries
from goqueue.core.leases import Deliveries, Delivery, Lease
from goqueue.core.ledgerattempts import FRESH, AttemptRuns, Attempts, Standing, count
from goqueue.core.ledgerdepartures import DeadRun, Departures
from goqueue.core.ledgerentries import Entry
from goqueue.core.ledgerfirsts import FirstDeliveries
from goqueue.core.ledgerlane import LaneProgress
from goqueue.core.offsetset import OffsetSet, Run
from goqueue.core.producers import SEQUENCES
from goqueue.core.receipts import OFFSET_MAX
from goqueue.core.returns import Returns
from goqueue.errors import UnknownFormat
from goqueue.types import Microseconds, Offset

VERSION = 1


class LedgerState:
    def __init__(self) -> None:
        self.has_begun = False
        self.lanes: tuple[LaneProgress, ...] = (LaneProgress(),)
        self.deliveries = Deliveries()
        self.returns = Returns()
        self.departures = Departures()
        self.firsts = FirstDeliveries()
        self.next_sequence = 0
        self.removed_unacked = 0

    @property
    def lane(self) -> LaneProgress:
        """The one that all messages are in, until there are more."""
        (lane,) = self.lanes
        return lane

    def apply(self, entry: Entry, now: float) -> None:
        match entry:
            case entries.Began():
                self._began(entry)
            case entries.Delivered():
                self._delivered(entry, now)
            case entries.PassedOver():
                self._passed_over(entry)
            case entries.Acked():
                self._acked(entry)
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
            case entries.Departing():
                self._departing(entry)
            case entries.Departed():
                self._departed(entry)
            case entries.Removed():
                self._removed(entry)
            case entries.CutBack():
                self._cut_back(entry)
            case entries.Reset():
                self._begin_again(entry.offset)
            case entries.Committed():
                self._begin_again(entry.offset)
            case _:
                raise AssertionError(f"{entry} is nothing that happens to a ledger")

    # Handed out

    def _began(self, entry: entries.Began) -> None:
        assert not self.has_begun, "a group begins once; afterwards it is reset"
        self.has_begun = True
        self.lanes = (LaneProgress(entry.offset),)

    def _delivered(self, entry: entries.Delivered, now: float) -> None:
        lease = Lease(now + entry.visibility, entry.visibility)
        if entry.again:
            lease.out.merge(self._taken_back(entry.again))
        lease.out.add_all(FRESH, OffsetSet(entry.fresh))
        if entry.fresh:
            self.firsts.note(self.lane.next_fresh, entry.wall)
        self._look_over(entry.fresh, entry.scanned_to)
        self.deliveries.hand_out(Delivery(entry.nonce, entry.member, entry.wall, entry.is_alone, [lease]))
        self.firsts.tidy(self.lane.first_unsettled, self.lane.next_fresh)

    def _taken_back(self, runs: AttemptRuns) -> Attempts:
        taken = self.returns.take(runs)
        assert len(taken) == count(runs), f"not all of {runs} were to be handed out again"
        return taken

    def _look_over(self, fresh: Iterable[Run], scanned_to: Offset) -> None:
        """All that was looked at and is not fresh is done."""
        at = self.lane.next_fresh
        assert scanned_to >= at, f"{scanned_to} was looked at before"
        for run in fresh:
            assert at <= run.first <= run.last < scanned_to, f"{run} is not fresh"
            self.lane.settle(at, run.first - 1)
            at = run.last + 1
        self.lane.settle(at, scanned_to - 1)
        self.lane.next_fresh = scanned_to

    def _passed_over(self, entry: entries.PassedOver) -> None:
        for run in entry.runs:
            assert self.count_unheld(run) == run.size, f"{run} was not to be handed out again, nor leaving"
            self.returns.forget(*run)
            self.departures.take(*run)
            self.lane.settle(*run)
        self._look_over((), entry.scanned_to)

    def count_unheld(self, run: Run) -> int:
        """How many of these nobody holds though they were handed out: ready again, waiting or leaving."""
        return self.returns.count_within(*run) + self.departures.count_leaving(run)

    def unsettled(self) -> list[Run]:
        """What is in flight, waits for its retry or is ready again, in order."""
        return sorted([*self.deliveries.runs(), *self.returns.runs()])

    # Settled, or to be handed out again

    def _acked(self, entry: entries.Acked) -> None:
        for offsets in self.deliveries.ack(entry.nonce, entry.runs).values():
            self.lane.settle_all(offsets)

    def _nacked(self, entry: entries.Nacked, now: float) -> None:
        wall = self._wall(entry.nonce)
        for delay, runs in entry.retries:
            for standing, run in self.deliveries.take(entry.nonce, runs).standing_runs():
                self.returns.hold_back(now + delay, standing.attempt + 1, run)
        if entry.leaving:
            self._leave(self.deliveries.take(entry.nonce, entry.leaving), wall, entry.reason)

    def _rejected(self, entry: entries.Rejected) -> None:
        wall = self._wall(entry.nonce)
        self._leave(self.deliveries.take(entry.nonce, entry.runs), wall, entry.reason)

    def _released(self, entry: entries.Released) -> None:
        """As if they had not been handed out: what was lost before is so still."""
        self.returns.make_all_ready(self.deliveries.take(entry.nonce, entry.runs))

    def _extended(self, entry: entries.Extended, now: float) -> None:
        self.deliveries.extend(entry.nonce, entry.runs, entry.visibility, now)

    def _expired(self, entry: entries.Expired) -> None:
        wall = self._wall(entry.nonce)
        taken = self.deliveries.take(entry.nonce, entry.runs)
        if entry.reason is not None:
            self._leave(taken, wall, entry.reason)
            return
        for standing, run in taken.standing_runs():
            self.returns.make_ready(Standing(standing.attempt + 1, lost=True), run)

    def _wall(self, nonce: int) -> Microseconds:
        delivery = self.deliveries.get(nonce)
        assert delivery is not None, f"delivery {nonce:x} is not under way"
        return delivery.wall

    # Dead letters

    def _leave(self, taken: Attempts, last_delivery: Microseconds, reason: str) -> None:
        for standing, run in taken.standing_runs():
            for piece, first_delivery in self.firsts.split(run):
                dead = DeadRun(*piece, standing.attempt, first_delivery, last_delivery, reason)
                self.departures.add(dead)

    def _departing(self, entry: entries.Departing) -> None:
        self.departures.begin(entry.sequence, entry.runs)
        self.next_sequence = (entry.sequence + sum(run.size for run in entry.runs)) % SEQUENCES

    def _departed(self, entry: entries.Departed) -> None:
        under_way = self.departures.under_way
        assert under_way is not None
        assert under_way.sequence == entry.sequence
        for run in self.departures.end():
            self.lane.settle(*run)

    # What happened to the log, or was wished by an operator

    def _removed(self, entry: entries.Removed) -> None:
        self._forget(0, entry.offset - 1)
        self.lane.pass_to(entry.offset)
        self.removed_unacked += entry.unacked

    def _cut_back(self, entry: entries.CutBack) -> None:
        self._forget(entry.end, OFFSET_MAX)
        self.lane.cut_back(entry.end)
        self.firsts.cut_back(entry.end)

    def _begin_again(self, offset: Offset) -> None:
        self._forget(0, OFFSET_MAX)
        self.deliveries = Deliveries()  # with what was acked: old receipts are stale
        self.firsts = FirstDeliveries()
        self.lanes = (LaneProgress(offset),)

    def _forget(self, first: Offset, last: Offset) -> None:
        self.deliveries.take_within(first, last)
        self.returns.forget(first, last)
        self.departures.let_go(first, last)

    # Written down

    def to_plain(self, now: float) -> list[Any]:
        lane = self.lane
        return [
            VERSION,
            self.has_begun,
            [lane.to_plain() for lane in self.lanes],
            self.deliveries.to_plain(now),
            self.returns.to_plain(now),
            self.departures.to_plain(),
            self.firsts.to_plain(lane.first_unsettled, lane.next_fresh),
            self.next_sequence,
            self.removed_unacked,
        ]

    @classmethod
    def from_plain(cls, plain: Any, now: float) -> "LedgerState":
        state = cls()
        try:
            version, has_begun, lanes, deliveries, returns, departures, firsts, sequence, removed, *_ = plain
            if version != VERSION:
                raise UnknownFormat(f"a ledger of version {version!r} is unknown; start a goqueue that knows it")
            state.has_begun = has_begun
            state.lanes = tuple(map(LaneProgress.from_plain, lanes))
            state.deliveries = Deliveries.from_plain(deliveries, now)
            state.returns = Returns.from_plain(returns, now)
            state.departures = Departures.from_plain(departures)
            state.firsts = FirstDeliveries.from_plain(firsts)
            state.next_sequence, state.removed_unacked = sequence, removed
        except (TypeError, ValueError, IndexError) as error:
            raise UnknownFormat("a ledger is not as it is written; start a goqueue that knows it") from error
        return state
