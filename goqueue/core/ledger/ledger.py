"""The ledger of one group on one partition: what is delivered next, and which receipts are good.

This is queue mode. A stream reads by itself and commits offsets: the ledger only keeps its committed offset.

Every change is decided first: the method returns the entry for it and mutates nothing, or names the receipts that
are stale. The shell journals the entry, then `apply` changes the state, then the shell speaks. After a crash the
same entries give the same state. Nothing else is applied between a decision and its `apply`, but what touches none
of its messages (settlements.py), and nothing at all between a plan and its delivery.

    what ended the delivery    comes again                     its number      at the last permitted delivery
    ack                        never: it is done
    nack                       after its delay, or backoff     one more        leaves, with the reason
    expiry                     at once                         one more        leaves
    its consumer was replaced  at once                         one more        leaves
    one of both, not begun     at once                         the same        comes again all the same
    release                    at once                         the same        comes again all the same
    reject                     never: it leaves; where there are no dead letters, a nack with the longest delay

A message that leaves goes to the dead-letter topic. It is done once it is there, and holds the committed offset
until then.

A consumer that dies takes the whole of a delivery with it, and one poison message would, three times over, send all
of its neighbours to the dead-letter topic. So a message whose delivery before expired is delivered alone when it is
on its last permitted one: to a member that holds nothing else, and that gets nothing else from here until it has
settled it. A release does not change the standing of a message.

A member that prefetches tells which messages its handlers have begun (`Begun`). What it has not begun when its
delivery ends without a word was seen by nobody, and comes again uncounted. A settlement says that much, too: what
is nacked or rejected counts, begun or not. The deliveries of other members count as a whole.

`now` is monotonic time in seconds and never falls. A lease ends, and its receipts are stale, when its deadline is
reached, whether `tick` has been called yet or not.
"""

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from goqueue.core.deadlines import earliest
from goqueue.core.ledger.attempts import AttemptRun, AttemptRuns, count, in_order
from goqueue.core.ledger.deadletters import DeadLetterTransfer, DeadRun, Destination
from goqueue.core.ledger.deliveries import Delivery
from goqueue.core.ledger.entries import (
    NO_OFFSETS,
    Acked,
    Began,
    Begun,
    Committed,
    CutBack,
    Entry,
    Expired,
    Extended,
    Nacked,
    PassedOver,
    Rejected,
    Released,
    Removed,
    Repaired,
    Reset,
    RetryAfter,
    TransferBegun,
    TransferDone,
)
from goqueue.core.ledger.handout import Delivering, HandOut, Recipient, Scanned, passed_over
from goqueue.core.ledger.keys import Keyed
from goqueue.core.ledger.leases import Lease
from goqueue.core.ledger.operators import LedgerDamage, LedgerLetters
from goqueue.core.ledger.planning import Planning
from goqueue.core.ledger.settings import LedgerSettings
from goqueue.core.ledger.settlements import Action, Settlement, SettleRequest
from goqueue.core.ledger.shares import LANES, Counts
from goqueue.core.ledger.state import LedgerState
from goqueue.core.ledger.views import LaneHeld, Plan, Progress
from goqueue.core.offsetset import OffsetSet, Run
from goqueue.errors import StaleReceipt
from goqueue.types import Microseconds, Offset

NONE_HELD = (LaneHeld(0, 0, None),) * len(LANES)
REASON_LENGTH_MAX = 1_000
VISIBILITY_SECONDS = 30.0
"""The visibility timeout of an extension that names none."""
REPLACED = "not settled when another consumer came in the place of this one"


Ending: TypeAlias = Expired | Released
"""How a delivery ends without a word of its member."""


class Ledger(Planning):
    def apply(self, entry: Entry, now: float) -> None:
        """Apply a journaled entry, a new one or one of a replay. `now` is the time at which it was journaled."""
        if self._keys.are_known:
            if isinstance(entry, Acked) and entry.runs is None:  # it does not name its messages
                self._keys.settle(self._state.deliveries.offsets_under(entry.nonce))
            else:
                self._keys.note_entry(entry)
        self._state.apply(entry, now)
        if isinstance(entry, Repaired):  # they lie before others of their keys: all are read again
            self._keys.forget()

    # Where the group stands

    @property
    def has_begun(self) -> bool:
        return self._state.has_begun

    @property
    def committed(self) -> Offset:
        return self._state.lanes.committed

    @property
    def resets(self) -> int:
        """The number of resets. A client that knows of fewer has an outdated position, even if the offset is the
        same."""
        return self._state.resets

    @property
    def next_sequence(self) -> int:
        """The sequence of the next transfer."""
        return self._state.next_sequence

    @property
    def transfer_under_way(self) -> DeadLetterTransfer | None:
        """The transfer that began and is not known to have ended: after a crash it is sent again under its
        sequence."""
        return self._state.dead_letters.under_way

    def progress(self, now: float) -> Progress:
        state, committed, next_fresh = self._state, self.committed, self.next_fresh
        state.retries.move_on(now)
        return Progress(
            committed=committed,
            next_fresh=next_fresh,
            in_flight=state.deliveries.count,
            waiting=state.retries.waiting_count,
            ready_again=len(state.retries.ready),
            leaving=state.dead_letters.leaving_count,
            in_transfer=state.dead_letters.transfer_count,
            removed_unacked=state.removed_unacked,
            first_unsettled=state.lanes.open.first,
            ahead=len(state.lanes.ahead),
            damaged=len(state.damages),
            damages=state.damages.ranges(),
        )

    @property
    def lacks_keys(self) -> bool:
        """Whether the keys of unsettled messages have to be learnt before anything is delivered."""
        return self._settings.key_order and not self._keys.are_known

    def learn_keys(self, keyed: Iterable[Keyed]) -> None:
        """Learn the keys of unsettled messages; some may have been settled since they were read."""
        self._keys.learn(self.unsettled(), keyed)

    def longest_backlog(self) -> tuple[Offset, int] | None:
        """The message that the most others of its key wait for, and how many they are; None when none waits."""
        return self._keys.longest_backlog()

    def count_behind_keys(self, now: float) -> int:
        """How many of the ready messages wait for an earlier one of their key."""
        self._state.retries.move_on(now)
        return self._keys.count_waiting(list(self._state.retries.ready.items()))

    def unsettled(self) -> list[Run]:
        """The messages that are in flight, wait for their retry or are ready again, in order."""
        return self._state.unsettled()

    def in_flight_by_member(self) -> dict[str, int]:
        return self._state.deliveries.counts()

    def held_in_lanes(self) -> Sequence[LaneHeld]:
        """By lane."""
        state = self._state
        if not (state.deliveries.count or state.retries.waiting_count or state.retries.ready):
            return NONE_HELD
        return [self._held_in(lane) for lane in LANES]

    def _held_in(self, lane: int) -> LaneHeld:
        in_flight, returned = OffsetSet(), OffsetSet()
        for sets, found in ((self._state.deliveries, in_flight), (self._state.retries, returned)):
            for standing, offsets in sets.standing_sets():
                if standing.lane == lane:
                    found.update(offsets)
        firsts = [first for first in (in_flight.first, returned.first) if first is not None]
        return LaneHeld(len(in_flight), len(returned), min(firsts, default=None))

    def counts_in_lanes(self) -> tuple[Counts, Counts]:
        """The messages in flight, and those that were returned, by lane."""
        in_flight = [0] * len(LANES)
        for standing, offsets in self._state.deliveries.standing_sets():
            in_flight[standing.lane] += len(offsets)
        return in_flight, self._state.retries.counts_in_lanes()

    def held_alone(self) -> frozenset[str]:
        """Members that hold a message that was delivered alone."""
        return self._state.deliveries.held_alone()

    def oldest_delivery(self) -> Delivery | None:
        return self._state.deliveries.oldest()

    def delivery(self, nonce: int) -> Delivery | None:
        """None unless the delivery is under way."""
        return self._state.deliveries.get(nonce)

    def next_retry(self) -> float | None:
        return self._state.retries.next_due()

    def has_ready(self, now: float) -> bool:
        """Whether a message is ready for a redelivery, alone or with others."""
        self._state.retries.move_on(now)
        return bool(self._state.retries.ready)

    def next_deadline(self) -> float | None:
        """When a lease ends or a retry comes due next: time for a `tick`."""
        return earliest(self._state.deliveries.deadlines.next(), self._state.retries.next_due())

    # Delivering

    def hand_out(self, now: float, to: Recipient, plan: Plan, scanned: Scanned) -> HandOut:
        """Decide the delivery of what a plan allowed and the log has."""
        return Delivering(self._state, self._settings, self._keys).decide(now, to, plan, scanned)

    def handed_out(self, now: float, decided: HandOut) -> None:
        """The entries are journaled and applied: note what they do not say."""
        for look in decided.looked:
            self._keys.note(look)
        if decided.counts is not None:
            self._note_served(now, decided.plan, decided.counts, decided.exhausted)

    def pass_over(self, runs: Iterable[Run | AttemptRun], why: str) -> PassedOver:
        """These were to be redelivered, or to become dead letters, and are no longer in the log: they are done."""
        return passed_over(self._state, runs, why[:REASON_LENGTH_MAX])

    # Receipts: the entry, if anything is to be done, and those that are stale (G6). What was settled in the same
    # way under this nonce before succeeds again, without an entry

    def settle(self, now: float, asked: SettleRequest) -> tuple[Entry | None, AttemptRuns]:
        nonce, runs = asked.nonce, asked.runs
        match asked.action:
            case Action.ACK:
                return self._ack_whole(now, nonce, asked.whole) if asked.whole else self.ack(now, nonce, runs)
            case Action.NACK:
                return self.nack(now, nonce, runs, asked.delay, asked.reason)
            case Action.REJECT:
                return self.reject(now, nonce, runs, asked.reason, asked.to)
            case Action.RELEASE:
                return self.release(now, nonce, runs)
            case Action.EXTEND:
                visibility = VISIBILITY_SECONDS if asked.delay is None else float(asked.delay)
                return self.extend(now, nonce, runs or None, visibility)
            case Action.BEGIN:
                return self.note_begun(now, nonce, runs)

    def ack(self, now: float, nonce: int, runs: Iterable[AttemptRun]) -> tuple[Acked | None, AttemptRuns]:
        good, stale = self._state.deliveries.judge(now, nonce, runs, Settlement.ACKED)
        return (Acked(nonce, self._unless_whole(nonce, good)) if good else None), stale

    def _unless_whole(self, nonce: int, good: AttemptRuns) -> AttemptRuns | None:
        """None if these are all of the delivery that are in flight: then no entry needs to name them."""
        delivery = self._state.deliveries.get(nonce)
        return None if delivery is not None and count(good) == delivery.leases.size else good

    def _ack_whole(self, now: float, nonce: int, size: int) -> tuple[Acked | None, AttemptRuns]:
        """All of its messages are in flight, or were acked before. Otherwise they have to be named."""
        if self._state.deliveries.are_out(now, nonce, size):
            return Acked(nonce, None), ()
        if not self._state.deliveries.were_acked(nonce, size):
            raise StaleReceipt(
                f"delivery {nonce:012x} is not as it was, or its lease has ended; name its messages by runs"
            )
        return None, ()

    def nack(
        self, now: float, nonce: int, runs: Iterable[AttemptRun], delay: float | None, reason: str
    ) -> tuple[Nacked | None, AttemptRuns]:
        """A delay replaces the backoff. A repeat changes neither delay nor reason."""
        good, stale = self._state.deliveries.judge(now, nonce, runs, Settlement.NACKED)
        leaving = tuple(run for run in good if self._settings.is_last(run.attempt))
        again = tuple(run for run in good if not self._settings.is_last(run.attempt))
        waits = self._settings.waits(nonce, again) if delay is None else [(float(delay), again)] if again else []
        reason = _shown(reason, f"nacked, delivery {self.settings.max_deliveries} was the last")
        return (Nacked(nonce, tuple(map(RetryAfter._make, waits)), leaving, reason) if good else None), stale

    def reject(
        self, now: float, nonce: int, runs: Iterable[AttemptRun], reason: str, to: Destination | None = None
    ) -> tuple[Rejected | Nacked | None, AttemptRuns]:
        if not self._settings.has_dead_letters:
            return self.nack(now, nonce, runs, self._settings.backoff_max, reason)
        good, stale = self._state.deliveries.judge(now, nonce, runs, Settlement.REJECTED)
        return (Rejected(nonce, good, _shown(reason, "rejected"), to) if good else None), stale

    def release(self, now: float, nonce: int, runs: Iterable[AttemptRun]) -> tuple[Released | None, AttemptRuns]:
        good, stale = self._state.deliveries.judge(now, nonce, runs, Settlement.RELEASED)
        return (Released(nonce, good) if good else None), stale

    def extend(
        self, now: float, nonce: int, runs: Iterable[AttemptRun] | None, visibility: float
    ) -> tuple[Extended | None, AttemptRuns]:
        """Without runs, all messages in flight: there are some."""
        deliveries = self._state.deliveries
        good, stale = (deliveries.out(now, nonce), ()) if runs is None else deliveries.judge(now, nonce, runs)
        if runs is None and not good:
            raise StaleReceipt(f"nothing of delivery {nonce:012x} is out; its lease has ended, or all is settled")
        return (Extended(nonce, self._unless_whole(nonce, good), visibility) if good else None), stale

    def note_begun(self, now: float, nonce: int, runs: Iterable[AttemptRun]) -> tuple[Begun | None, AttemptRuns]:
        """No entry for messages that were begun before, or of a delivery that counts as a whole."""
        good, stale = self._state.deliveries.judge(now, nonce, runs)
        begun = self._state.deliveries.not_begun(nonce, good)
        return (Begun(nonce, begun) if begun else None), stale

    def deliveries_to(self, member: str) -> frozenset[int]:
        """The nonces of the deliveries that it holds something of."""
        return frozenset(self._state.deliveries.held_by(member).nonces)

    def release_member(self, now: float, member: str) -> list[Released]:
        """The member closes in good order: its unsettled messages are released, uncounted."""
        held = self._state.deliveries.held_by(member)
        standing = [(nonce, self._state.deliveries.out(now, nonce)) for nonce in held.nonces]
        return [Released(nonce, out) for nonce, out in standing if out]

    # Time

    def tick(self, now: float) -> list[Ending]:
        """The ends of leases, earliest first. The entries do not touch each other: all may be journaled at once."""
        self._state.retries.move_on(now)
        return [
            ending
            for delivery, lease in self._state.deliveries.due(now)
            for ending in self._endings(delivery, lease, f"not settled within {lease.visibility:g} s")
        ]

    def expire_member(self, member: str) -> list[Ending]:
        """Another consumer replaced it: its unsettled messages are lost, as if their leases had ended."""
        held = list(self._state.deliveries.leases_of(member))
        return [ending for delivery, lease in held for ending in self._endings(delivery, lease, REPLACED)]

    def _endings(self, delivery: Delivery, lease: Lease, why: str) -> list[Ending]:
        """What the member has not begun comes again uncounted."""
        unseen = tuple(in_order(delivery.not_begun(lease)))
        released: list[Ending] = [Released(delivery.nonce, unseen)] if unseen else []
        return released + self._expiries(delivery, lease, why)

    def _expiries(self, delivery: Delivery, lease: Lease, why: str) -> list[Ending]:
        items, is_last = delivery.counted(lease), self._settings.is_last
        again = tuple(in_order(item for item in items if not is_last(item[0].attempt)))
        expiries: list[Ending] = [Expired(delivery.nonce, again, None)] if again else []
        for attempt in sorted({standing.attempt for standing, _ in items if is_last(standing.attempt)}):
            runs = tuple(in_order(item for item in items if item[0].attempt == attempt))
            reason = f"{why}, delivery {attempt} of {self.settings.max_deliveries}"
            expiries.append(Expired(delivery.nonce, runs, reason))
        return expiries

    def count_not_begun(self) -> int:
        """How many messages in flight their members hold ahead, and have not begun."""
        return self._state.deliveries.count_not_begun()

    # Dead letters

    def next_dead_letters(self, count_max: int) -> tuple[DeadRun, ...]:
        """The next dead letters to send, in offset order."""
        return self._state.dead_letters.next(count_max)

    def in_transfer_within(self, run: Run) -> int:
        """How many of these are in the transfer and hold the committed offset."""
        return self._state.dead_letters.count_in_transfer(run.first, run.last)

    def begin_transfer(self, sequence: int, runs: Iterable[Run | DeadRun]) -> TransferBegun:
        """The append to the dead-letter topic may begin once this is journaled; it takes one sequence for each
        message."""
        leaving = tuple(Run(run.first, run.last) for run in runs)
        assert self.transfer_under_way is None, "one transfer at a time"
        assert leaving
        assert all(self._state.dead_letters.count_leaving(run) == run.size for run in leaving), (
            "not all are leaving"
        )
        return TransferBegun(sequence, leaving)

    def transferred(
        self, sequence: int, decided: Microseconds | None = None, returned: OffsetSet = NO_OFFSETS
    ) -> TransferDone:
        """The transfer's messages are in the dead-letter topic, durably; or a redrive has sent them."""
        under_way = self.transfer_under_way
        assert under_way is not None
        assert under_way.sequence == sequence
        return TransferDone(sequence, decided, returned)

    @property
    def letters(self) -> LedgerLetters:
        return LedgerLetters(self._state)

    # The log, and operators

    def begin(self, offset: Offset) -> Began:
        assert not self.has_begun
        return Began(offset)

    def removed_below(self, offset: Offset) -> Removed | None:
        """Retention removed everything below `offset`. Messages that were not scanned count as not done."""
        if offset <= self.committed and not self._state.decisions.begin_below(offset):
            return None
        in_transfer = self._state.dead_letters.count_in_transfer(0, offset - 1)
        return Removed(offset, self._state.lanes.count_unsettled(offset) - in_transfer)

    def cut_back(self, end: Offset) -> CutBack | None:
        """The log ends here: what was done beyond it was not."""
        return CutBack(end) if end < self._state.lanes.reached else None

    def reset(self, offset: Offset) -> Reset:
        return Reset(offset)

    # What the log cannot read

    @property
    def damage(self) -> LedgerDamage:
        return LedgerDamage(self._state)

    # Streams

    def commit(self, offset: Offset) -> Committed | None:
        """Move the committed offset, forwards or backwards; None when it is there already."""
        assert self.has_begun
        is_there = self.committed == self.next_fresh == max(self._state.lanes.fresh) == offset
        return None if is_there else Committed(offset)

    # Written down

    def snapshot(self, now: float) -> list[Any]:
        """The whole state, as msgpack takes it. Equal states at equal times give equal snapshots."""
        return self._state.to_plain(now)

    def copy(self, now: float) -> "Ledger":
        """A copy, to see what entries would do."""
        return Ledger.restore(self.snapshot(now), self.settings, now)

    @classmethod
    def restore(cls, plain: Any, settings: LedgerSettings, now: float) -> "Ledger":
        """The ledger as it was; its durations count from now. `UnknownFormat` when it cannot be read."""
        ledger = cls(settings)
        ledger._state = LedgerState.from_plain(plain, now)
        return ledger


def _shown(reason: str, otherwise: str) -> str:
    return (reason or otherwise)[:REASON_LENGTH_MAX]
