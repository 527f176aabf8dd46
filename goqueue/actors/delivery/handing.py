"""Makes a delivery of the messages gathered for a member: decided by the ledger, journaled, then answered.

Messages that are gone from the log are skipped first. Where the order of keys is kept, some of the scanned messages
are held back. A delivery of scattered messages is named by sets of offsets, not by runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import trio

from goqueue.actors.delivery.gathering import Gathered
from goqueue.actors.delivery.lanes import GatheredLanes, LaneFound
from goqueue.actors.delivery.ledgers import GroupHere, Ledgers
from goqueue.actors.delivery.requests import Take, Taken
from goqueue.actors.runtime.messages import Reply
from goqueue.actors.statistics.groups import GroupCounts
from goqueue.core.ledger.attempts import (
    FRESH_ATTEMPT,
    AttemptRun,
    AttemptSets,
    by_attempt,
    count,
    offsets_of,
)
from goqueue.core.ledger.entries import Delivered, Entry, LanesDelivered, LaneTaken
from goqueue.core.ledger.keyorder import Looked
from goqueue.core.ledger.shares import LANES, Counts
from goqueue.core.ledger.views import Plan
from goqueue.core.offsetset import OffsetSet, Run
from goqueue.core.receipts import NONCE_BITS
from goqueue.core.slices.batchindex import BatchIndexes
from goqueue.core.slices.deliverable import base_offset
from goqueue.environment import WallClock
from goqueue.types import Buffer, Offset

DENSE_SHARE = 0.8
"""Batches are sent uncut between the first and the last message if this share of the offsets is delivered."""
RUNS_MAX = 16
"""Maximum number of runs that name a delivery; more are sent as sets of offsets."""


@dataclass(frozen=True, slots=True)
class HandOut:
    """A delivery that is decided. Nothing has changed yet."""

    entries: Sequence[Entry] = ()
    """Journaled in one write."""
    taken: Taken | None = None
    """The answer. Without one the group scans on: everything was skipped or held back."""
    looked: Sequence[Looked] = ()
    counts: Counts | None = None
    """Messages served by lane. None: no message was delivered or held back."""
    exhausted: int = 0
    """The lanes that had no more, as a mask."""


class HandingOut:
    """A message uses an attempt when its delivery is journaled, so every such delivery must be answered.

    `hand_out` decides first: that builds the whole answer, and may fail. Then it journals and answers. Statistics
    come last.
    """

    def __init__(
        self, ledgers: Ledgers, clock: WallClock, random: Random, indexes: BatchIndexes, counts: GroupCounts
    ) -> None:
        self._ledgers = ledgers
        self._counts = counts
        self._clock = clock
        self._random = random
        self._indexes = indexes

    def hand_out(
        self, here: GroupHere, message: Take, plan: Plan, gathered: Gathered | GatheredLanes, reply: Reply[Taken]
    ) -> None:
        """Settle the reply with a delivery. An unsettled reply means: plan again, something was skipped."""
        now = trio.current_time()
        if gathered.gone:
            self._ledgers.write(here, [here.ledger.pass_over(gathered.gone, "no longer in the log")], now)
        if isinstance(gathered, Gathered):
            decided = self._from_one_lane(here, message, plan, gathered, now)
        else:
            decided = self._from_lanes(here, message, plan, gathered, now)
        self._journal_and_answer(here, decided, now, reply)
        if decided.counts is not None:
            here.ledger.note_served(now, plan, decided.counts, decided.exhausted)
            self._counts.note_served(decided.counts)
            here.last_delivery = (message.member, now)

    def _journal_and_answer(self, here: GroupHere, decided: HandOut, now: float, reply: Reply[Taken]) -> None:
        """Nothing that may fail comes between the two."""
        if decided.entries:
            self._ledgers.write(here, decided.entries, now)
        for look in decided.looked:
            here.ledger.keys.note(look)
        if decided.taken is not None:
            reply.resolve(decided.taken)

    # One lane

    def _from_one_lane(self, here: GroupHere, message: Take, plan: Plan, gathered: Gathered, now: float) -> HandOut:
        entry = here.ledger.deliver(
            now,
            self._clock.now(),
            message.member,
            self._random.getrandbits(NONCE_BITS),
            message.visibility,
            again=gathered.again,
            fresh=gathered.fresh,
            scanned_to=gathered.scanned_to,
            lane=plan.lane,
        )
        if not isinstance(entry, Delivered):
            return HandOut(() if entry is None else [entry])
        given, looked = self._given_of(here, entry, gathered, plan.fresh_max)
        if gathered.parts and (isinstance(given, OffsetSet) or gathered.is_sparse):
            self._cut_down(gathered, entry.again, given if isinstance(given, OffsetSet) else OffsetSet(given))
        counts = [0] * len(LANES)
        counts[plan.lane] = count(entry.again) + (len(given) if isinstance(given, OffsetSet) else count(given))
        taken = _taken(entry, gathered.data, plan, given) if counts[plan.lane] else None
        return HandOut(_with_held_back(here, entry, looked), taken, looked, counts)

    def _given_of(
        self, here: GroupHere, entry: Delivered, gathered: Gathered, give_max: int
    ) -> tuple[Sequence[Run] | OffsetSet, Sequence[Looked]]:
        """The fresh messages to deliver. Where the order of keys is kept, some of them are held back."""
        if not here.ledger.settings.key_order:
            return entry.fresh, ()
        looked = here.ledger.keys.look(entry.fresh, gathered.keys(self._indexes), give_max)
        given = OffsetSet(entry.fresh).without(looked.held_set) if looked.held else entry.fresh
        return given, [looked]

    def _cut_down(self, gathered: Gathered, again: Sequence[AttemptRun], given: OffsetSet) -> None:
        """Cut the records that are held back out of the batches, unless they are few: to cut each of them out
        would cost more than to send it."""
        begin = base_offset(gathered.parts[0])
        named = offsets_of(run for run in again if run.last >= begin)
        named.update(given)
        bounds = named.bounds
        is_dense = bounds is not None and bounds.size * DENSE_SHARE <= len(named)
        runs = [bounds] if bounds is not None and is_dense else list(named.runs())
        gathered.parts = [piece for part in gathered.parts for piece in self._indexes.cut_down(part, runs)]

    # Several lanes

    def _from_lanes(
        self, here: GroupHere, message: Take, plan: Plan, gathered: GatheredLanes, now: float
    ) -> HandOut:
        found = gathered.lanes
        entry = here.ledger.deliver_lanes(
            now,
            self._clock.now(),
            message.member,
            self._random.getrandbits(NONCE_BITS),
            message.visibility,
            again=[run for each in found for run in each.again],
            lanes=[LaneTaken(each.lane, each.place, each.offsets) for each in found],
        )
        if not isinstance(entry, LanesDelivered):
            return HandOut(() if entry is None else [entry])
        looks = self._looked_at(here, plan, found)
        given = [
            each.offsets if look is None else each.offsets.without(look.held_set)
            for each, look in zip(found, looks, strict=True)
        ]
        counts = [0] * len(LANES)
        for each, fresh in zip(found, given, strict=True):
            counts[each.lane] = count(each.again) + len(fresh)
        data = GatheredLanes(found).data
        taken = _taken_from_lanes(entry, data, plan, given, found) if any(counts) else None
        looked = [each for each in looks if each is not None]
        exhausted = gathered.exhausted if found is gathered.lanes else 0
        return HandOut(_with_held_back(here, entry, looked), taken, looked, counts, exhausted)

    def _looked_at(self, here: GroupHere, plan: Plan, found: Sequence[LaneFound]) -> list[Looked | None]:
        """Where the order of keys is kept: the messages of each lane that must wait. Lanes share no keys."""
        if not here.ledger.settings.key_order or plan.dealt is None:
            return [None] * len(found)
        left, looked = max(plan.fresh_max, 1), list[Looked | None]()
        for each in found:
            give_max = min(left, max(0, plan.dealt.counts[each.lane] - count(each.again)))
            look = here.ledger.keys.look(each.offsets.runs(), self._keys_of(each), give_max)
            left -= len(each.offsets) - len(look.held)
            looked.append(look)
        return looked

    def _keys_of(self, found: LaneFound) -> dict[Offset, int]:
        keys = dict[Offset, int]()
        for part in found.parts:
            self._indexes.keys_in(part, found.offsets, keys)
        return keys


def _with_held_back(
    here: GroupHere, entry: Delivered | LanesDelivered, looked: Sequence[Looked]
) -> Sequence[Entry]:
    """The delivery, and the release of the messages that the order of keys holds back: they use no attempt."""
    held_back = here.ledger.keys.hold_back(entry.nonce, looked) if looked else None
    return [entry] if held_back is None else [entry, held_back]


def _taken(entry: Delivered, data: Buffer, plan: Plan, given: Sequence[Run] | OffsetSet) -> Taken:
    if isinstance(given, OffsetSet) or len(entry.again) > RUNS_MAX:
        fresh = given if isinstance(given, OffsetSet) else OffsetSet(given)
        return _named_by_sets(entry.nonce, entry.again, fresh, data, plan)
    runs = (*entry.again, *(AttemptRun(first, last, FRESH_ATTEMPT) for first, last in given))
    return Taken(entry.nonce, runs, data, plan.is_alone, plan.alone_waiting)


def _taken_from_lanes(
    entry: LanesDelivered, data: Buffer, plan: Plan, given: Sequence[OffsetSet], found: Sequence[LaneFound]
) -> Taken:
    """Few messages are named by runs, in the order of the delivery."""
    if count(entry.again) + sum(map(len, given)) > RUNS_MAX:
        fresh = OffsetSet()
        for offsets in given:
            fresh.update(offsets)
        return _named_by_sets(entry.nonce, entry.again, fresh, data, plan)
    runs = list[AttemptRun]()
    for each, offsets in zip(found, given, strict=True):
        runs += each.again
        runs += (AttemptRun(first, last, FRESH_ATTEMPT) for first, last in offsets.runs())
    return Taken(entry.nonce, tuple(runs), data, plan.is_alone, plan.alone_waiting)


def _named_by_sets(nonce: int, again: Sequence[AttemptRun], fresh: OffsetSet, data: Buffer, plan: Plan) -> Taken:
    sets = by_attempt(again)
    if FRESH_ATTEMPT in sets:
        sets[FRESH_ATTEMPT].update(fresh)
    elif fresh:
        sets[FRESH_ATTEMPT] = fresh
    return Taken(nonce, (), data, plan.is_alone, plan.alone_waiting, AttemptSets(sets.items()))


def nothing(plan: Plan) -> Taken:
    return Taken(0, (), b"", False, plan.alone_waiting)
