"""A delivery, decided as a whole: the entries to journal, the messages that are given, and the count of each lane.

The messages of several lanes are scattered, each lane with a position of its own; one lane is the case with one
element. The order is a rule:

    1. redeliveries that are gone from the log are passed over
    2. the delivery takes all messages that were scanned
    3. messages that the order of keys holds back are released at once, and use no attempt
    4. the entries of all this are journaled in one write, and answered: nothing that may fail comes between
    5. `Ledger.handed_out` notes what no entry says: the keys that were looked at, and how the lanes were served

Few messages are named by runs, in the order of the delivery, and so are those of one lane without gaps. Scattered
messages are named by sets of offsets.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

from goqueue.core.ledger.attempts import (
    FRESH_ATTEMPT,
    NO_SETS,
    AttemptRun,
    AttemptRuns,
    AttemptSets,
    Messages,
    as_runs,
    as_set,
    by_attempt,
    count,
    offsets_of,
)
from goqueue.core.ledger.entries import Delivered, Entry, LanesDelivered, LaneTaken, PassedOver
from goqueue.core.ledger.keys import LedgerKeys, Looked, hold_back
from goqueue.core.ledger.settings import LedgerSettings
from goqueue.core.ledger.shares import LANES, Counts
from goqueue.core.ledger.state import LedgerState
from goqueue.core.ledger.views import Plan
from goqueue.core.offsetset import OffsetSet, Run
from goqueue.core.receipts import NONCE_BITS
from goqueue.types import Microseconds, Offset

RUNS_MAX = 16
"""Maximum number of runs that name a delivery; more are sent as sets of offsets."""
GONE = "no longer in the log"
NO_KEYS: dict[Offset, int] = {}

DeliveryEntry: TypeAlias = Delivered | LanesDelivered


class Recipient(NamedTuple):
    """Who gets a delivery, when by the wall clock, and under which lease."""

    wall: Microseconds
    member: str
    nonce: int
    visibility: float
    tells_begun: bool = False


class LaneScan(NamedTuple):
    """The messages of a plan that the log has in one lane, redeliveries first."""

    lane: int
    scanned_to: Offset
    """Messages of the lane before it that are neither fresh nor damaged are never delivered: hidden, expired or
    compacted."""
    again: Sequence[AttemptRun]
    fresh: Messages
    keys: dict[Offset, int] = NO_KEYS
    """The key hashes of the fresh messages; needed where the order of keys is kept."""


class Scanned(NamedTuple):
    """The messages of a plan that the log has: of one lane, if no other has any, or of each lane."""

    lanes: Sequence[LaneScan]
    gone: Sequence[Run] = ()
    """Redeliveries that are no longer in the log."""
    exhausted: int = 0
    """The lanes that have no more, as a mask."""


class HandOut(NamedTuple):
    """A delivery that is decided. Nothing has changed yet."""

    plan: Plan
    entries: Sequence[Entry]
    """Journaled in one write."""
    nonce: int = 0
    runs: AttemptRuns = ()
    """The messages that are given. Without any, the group scans on: all were passed over or held back."""
    sets: AttemptSets = NO_SETS
    """Used instead of runs when these would be many."""
    counts: Counts | None = None
    """Messages given, by lane. None: no delivery is journaled."""
    looked: Sequence[Looked] = ()
    exhausted: int = 0
    holds_back: bool = False

    @property
    def gives(self) -> bool:
        return bool(self.runs or self.sets)

    @property
    def offsets(self) -> OffsetSet:
        """The messages that are given."""
        given = offsets_of(self.runs)
        for _, offsets in self.sets:
            given.update(offsets)
        return given


class Delivering(NamedTuple):
    """The part of a ledger that decides deliveries."""

    state: LedgerState
    settings: LedgerSettings
    keys: LedgerKeys

    def decide(self, now: float, to: Recipient, plan: Plan, scanned: Scanned) -> HandOut:
        passed = [passed_over(self.state, scanned.gone, GONE)] if scanned.gone else []
        delivery = self._delivery(now, to, plan, scanned.lanes)
        if delivery is None or isinstance(delivery, PassedOver):
            return HandOut(plan, passed if delivery is None else [*passed, delivery])
        looked = self._look(plan, scanned.lanes) if self.settings.key_order else ()
        return _decided(plan, scanned, passed, delivery, looked)

    def _delivery(
        self, now: float, to: Recipient, plan: Plan, lanes: Sequence[LaneScan]
    ) -> DeliveryEntry | PassedOver | None:
        """None when nothing was found, and nothing passed over. The messages of one lane are one entry of runs:
        then other lanes have no messages there, and all lanes move together."""
        again = [run for each in lanes for run in each.again]
        has_fresh = self._check_fresh(lanes)
        is_alone = self._check_delivery(now, to, again, has_fresh=has_fresh)
        if not again and not has_fresh:
            return self._scanned_in_vain(plan, lanes)
        lease = to.wall, to.member, to.nonce, to.visibility
        if plan.dealt is None:
            lane, scanned_to, _, fresh, _ = lanes[0]
            runs = tuple(as_runs(fresh))
            return Delivered(*lease, tuple(again), runs, scanned_to, is_alone, lane, to.tells_begun)
        places = self.state.lanes.fresh
        moved = [each for each in lanes if each.fresh or each.scanned_to > places[each.lane]]
        taken = tuple(LaneTaken(each.lane, each.scanned_to, as_set(each.fresh)) for each in moved)
        return LanesDelivered(*lease, tuple(sorted(again)), taken, is_alone, to.tells_begun)

    def _check_delivery(self, now: float, to: Recipient, again: Sequence[AttemptRun], *, has_fresh: bool) -> bool:
        """A delivery that does not fit must not reach the journal (G7). Returns whether it is of one message
        alone."""
        state = self.state
        assert state.has_begun
        assert 0 <= to.nonce < 1 << NONCE_BITS
        assert to.nonce not in state.deliveries, "a nonce names one delivery"
        state.retries.move_on(now)
        assert not again or state.retries.ready.count_of(again) == count(again), f"some of {again} are not ready"
        held = state.deliveries.held_by(to.member)
        assert not held.is_alone or not (again or has_fresh), "whoever holds a message alone is given nothing else"
        is_alone = bool(again) and any(map(self.settings.goes_alone, state.retries.standings_of(again)))
        assert not is_alone or (count(again), has_fresh, held.count) == (1, False, 0)
        return is_alone

    def _check_fresh(self, lanes: Iterable[LaneScan]) -> bool:
        """Returns whether there are any."""
        has_fresh = False
        for lane, scanned_to, _, fresh, _ in lanes:
            at = self.state.lanes.fresh[lane]
            assert at <= scanned_to, f"lane {lane} was looked at before"
            for first, last in _bounds(fresh) if isinstance(fresh, OffsetSet) else fresh:
                assert at <= first <= last < scanned_to, f"{first} to {last} are not fresh"
                at, has_fresh = last + 1, True
        return has_fresh

    def _scanned_in_vain(self, plan: Plan, lanes: Sequence[LaneScan]) -> PassedOver | None:
        before, next_fresh = self.state.lanes.fresh, self.state.lanes.next_fresh
        if plan.dealt is None:
            scanned_to = lanes[0].scanned_to
            return PassedOver((), scanned_to, "") if scanned_to > next_fresh else None
        places = before[:]
        for each in lanes:
            places[each.lane] = each.scanned_to
        return PassedOver((), next_fresh, "", tuple(places)) if places != before else None

    def _look(self, plan: Plan, lanes: Iterable[LaneScan]) -> list[Looked]:
        """The messages of each lane that must wait for their keys. Lanes share no keys."""
        left, looked = max(plan.fresh_max, 1), list[Looked]()
        for lane, _, again, fresh, keys in lanes:
            allotted = left if plan.dealt is None else max(0, plan.dealt.counts[lane] - count(again))
            looked.append(self.keys.look(as_runs(fresh), keys, min(left, allotted)))
            left -= _size(fresh) - len(looked[-1].held)
        return looked


def passed_over(state: LedgerState, runs: Iterable[Run | AttemptRun], why: str) -> PassedOver:
    gone = tuple(Run(run.first, run.last) for run in runs)
    assert all(state.count_unheld(run) == run.size for run in gone), f"not all of {gone} are to be passed"
    return PassedOver(gone, state.lanes.next_fresh, why)


def _decided(
    plan: Plan, scanned: Scanned, passed: Sequence[Entry], delivery: DeliveryEntry, looked: Sequence[Looked]
) -> HandOut:
    """`looked`: where the order of keys is kept, the look at each lane."""
    nonce, lanes, entries = delivery.nonce, scanned.lanes, [*passed, delivery]
    released = hold_back(nonce, looked) if looked else None
    if released is not None:
        entries.append(released)
        given = [as_set(each.fresh).without(look.held_set) for each, look in zip(lanes, looked, strict=True)]
        lanes = [each._replace(fresh=fresh) for each, fresh in zip(lanes, given, strict=True)]
    counts = [0] * len(LANES)
    for each in lanes:
        counts[each.lane] = count(each.again) + _size(each.fresh)
    has_gaps = released is not None
    runs, sets = _named(lanes, delivery, sum(counts), has_gaps=has_gaps)
    return HandOut(plan, entries, nonce, runs, sets, counts, looked, scanned.exhausted, has_gaps)


def _named(
    lanes: Sequence[LaneScan], delivery: DeliveryEntry, size: int, *, has_gaps: bool
) -> tuple[AttemptRuns, AttemptSets]:
    if isinstance(delivery, Delivered) and not has_gaps and len(delivery.again) <= RUNS_MAX:  # as most often
        return (*delivery.again, *_as_fresh(delivery.fresh)), NO_SETS
    if size > RUNS_MAX:
        return (), _sets_of(lanes)
    return tuple(run for each in lanes for run in (*each.again, *_as_fresh(as_runs(each.fresh)))), NO_SETS


def _bounds(offsets: OffsetSet) -> list[Run]:
    return [offsets.bounds] if offsets.bounds is not None else []


def _size(messages: Messages) -> int:
    return len(messages) if isinstance(messages, OffsetSet) else count(messages)


def _as_fresh(runs: Iterable[Run]) -> list[AttemptRun]:
    return [AttemptRun(first, last, FRESH_ATTEMPT) for first, last in runs]


def _sets_of(lanes: Sequence[LaneScan]) -> AttemptSets:
    sets = by_attempt(run for each in lanes for run in each.again)
    fresh = sets.setdefault(FRESH_ATTEMPT, OffsetSet())
    for each in lanes:
        fresh.update(as_set(each.fresh))
    return AttemptSets(item for item in sets.items() if item[1])
