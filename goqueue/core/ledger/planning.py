"""What a member may be delivered: which redeliveries, and how many fresh messages after them.

Most often all messages are of one priority. Then redeliveries go first, and fresh messages follow from one position
on. If several lanes have work, they share the delivery (shares.py), and within each lane redeliveries go before
fresh messages: that is the order of their offsets.
"""

from collections.abc import Callable, Iterator, Sequence
from heapq import merge

from goqueue.core.ledger.attempts import (
    FRESH_ATTEMPT,
    AttemptRun,
    AttemptRuns,
    Standing,
    count,
    first_messages,
    in_order,
    split_messages,
)
from goqueue.core.ledger.keys import LOOK_AHEAD_MAX, LedgerKeys, StandingSet, how_far_to_look
from goqueue.core.ledger.settings import LedgerSettings
from goqueue.core.ledger.shares import ENDLESS, LANES, Counts, LaneShares
from goqueue.core.ledger.state import LedgerState
from goqueue.core.ledger.views import Dealt, FreshLanes, Plan
from goqueue.types import Offset, Priority

ONE_LANE = FreshLanes(1 << Priority.NORMAL, is_mixed=False)


class Planning:
    """The part of a ledger that plans deliveries."""

    def __init__(self, settings: LedgerSettings) -> None:
        self._settings = settings
        self._state = LedgerState()
        self._keys = LedgerKeys()
        self._shares = LaneShares(is_strict=settings.strict_lanes)

    @property
    def settings(self) -> LedgerSettings:
        """They may be replaced at any time: entries say what was decided by them."""
        return self._settings

    @settings.setter
    def settings(self, settings: LedgerSettings) -> None:
        self._settings = settings
        self._shares.is_strict = settings.strict_lanes
        if not settings.key_order:
            self._keys.forget()

    @property
    def next_fresh(self) -> Offset:
        """Every lane was scanned below this offset."""
        return self._state.lanes.next_fresh

    @property
    def fresh_places(self) -> Sequence[Offset]:
        """The position of each lane: the lane was scanned below it."""
        return self._state.lanes.fresh

    @property
    def looks_no_further(self) -> bool:
        """Whether so many messages are ready or wait for their keys that fresh ones are not looked at."""
        return self._settings.key_order and len(self._state.retries.ready) >= LOOK_AHEAD_MAX

    @property
    def served(self) -> Sequence[int]:
        return self._shares.served

    def lane_waits(self, now: float) -> list[float | None]:
        return self._shares.waits(now)

    def plan(
        self,
        now: float,
        member: str,
        count_max: int,
        *,
        is_busy: bool,
        lasts_max: int | None = None,
        fresh: FreshLanes = ONE_LANE,
    ) -> Plan:
        """`is_busy`: the member holds unsettled messages, of any partition.

        `lasts_max`: limit of the messages on their last permitted delivery, those that its program sees at once. A
        message in the prefetch of a client that dies would be given up unseen.
        """
        retries = self._state.retries
        retries.move_on(now)
        held = self._state.deliveries.held_by(member)
        lasts_max = count_max if lasts_max is None else min(lasts_max, count_max)
        if not retries.ready and not held.is_alone and not fresh.is_mixed:  # as most often
            return self._plan((), self._fresh_max(count_max, lasts_max), fresh)
        alone = first_messages(self._ready(self._settings.goes_alone), 1) if retries.ready else ()
        if held.is_alone or count_max <= 0:
            return self._plan((), 0, fresh, alone_waiting=bool(alone))
        if alone and lasts_max and not is_busy and not held.count:
            return self._plan(alone, 0, fresh, is_alone=True)
        if fresh.is_mixed or self._ready_lanes() & ~(1 << fresh.lane):
            return self._deal(now, count_max, lasts_max, fresh, alone_waiting=bool(alone))
        lasts = first_messages(self._ready(self._is_last_with_others), lasts_max)
        again = self._with_others(lasts, self._ready(self._is_not_last), count_max)
        fresh_max = self._fresh_max(count_max - count(again), lasts_max - count(lasts))
        return self._plan(again, fresh_max, fresh, alone_waiting=bool(alone))

    def _with_others(self, lasts: AttemptRuns, others: Iterator[AttemptRun], count_max: int) -> AttemptRuns:
        return first_messages(merge(lasts, others) if lasts else others, count_max)

    def _fresh_max(self, count_max: int, lasts_max: int) -> int:
        return max(0, min(count_max, lasts_max) if self._settings.is_last(FRESH_ATTEMPT) else count_max)

    def _plan(
        self,
        again: AttemptRuns,
        fresh_max: int,
        fresh: FreshLanes,
        *,
        is_alone: bool = False,
        alone_waiting: bool = False,
        dealt: Dealt | None = None,
    ) -> Plan:
        look_max = fresh_max
        if self._settings.key_order:
            look_max = how_far_to_look(fresh_max, len(self._state.retries.ready))
            fresh_max = min(fresh_max, look_max)
        places, lane = self._state.lanes.fresh, fresh.lane
        if fresh.is_mixed:  # this plan alone delivers nothing fresh, and may move no lane
            lane = places.index(self.next_fresh)
        return Plan(again, places[lane], fresh_max, look_max, is_alone, alone_waiting, lane, dealt)

    # Several lanes

    def _deal(self, now: float, count_max: int, lasts_max: int, fresh: FreshLanes, *, alone_waiting: bool) -> Plan:
        if self._settings.is_last(FRESH_ATTEMPT):
            count_max = min(count_max, lasts_max)
        has_ready = bool(self._state.retries.ready)
        lasts = self._lasts(count_max, lasts_max) if has_ready else [()] * len(LANES)
        others = [self._those_ready(self._in_lane(lane, self._is_not_last)) if has_ready else [] for lane in LANES]
        sizes = [sum(len(offsets) for _, offsets in sets) for sets in others]
        mask = 0 if self.looks_no_further else fresh.mask
        work = [count(lasts[lane]) + sizes[lane] + ENDLESS * (mask >> lane & 1) for lane in LANES]
        self._shares.note_work(now, work)
        counts = self._shares.allot(now, count_max, work)
        ready = tuple(
            self._with_others(lasts[lane], in_order(others[lane]), count_max) if has_ready else () for lane in LANES
        )
        dealt = Dealt(now, sum(counts), counts, work, ready, self._shares)
        runs = tuple(run for lane in LANES for run in split_messages(ready[lane], counts[lane])[0])
        return self._plan(runs, sum(counts) - count(runs), fresh, alone_waiting=alone_waiting, dealt=dealt)

    def _lasts(self, count_max: int, lasts_max: int) -> list[AttemptRuns]:
        """For each lane the messages on their last permitted delivery that may be delivered with others. If
        `lasts_max` is below `count_max`, it limits all lanes together, and higher lanes come first."""
        found, left = list[AttemptRuns](), lasts_max
        for lane in LANES:
            ready = self._ready(self._in_lane(lane, self._is_last_with_others))
            found.append(first_messages(ready, left))
            left -= count(found[-1]) if lasts_max < count_max else 0
        return found

    def _note_served(self, now: float, plan: Plan, counts: Counts, exhausted: int) -> None:
        """By this plan `counts` messages of each lane were delivered; the lanes of the mask `exhausted` had no
        more."""
        if plan.dealt is None:
            self._shares.took_alone(now, plan.lane, counts[plan.lane])
        else:
            work = [
                counts[lane] if exhausted >> lane & 1 else max(counts[lane], plan.dealt.work[lane])
                for lane in LANES
            ]
            self._shares.took(now, counts, work)

    # What is ready again

    def _ready(self, chosen: Callable[[Standing], bool]) -> Iterator[AttemptRun]:
        return in_order(self._those_ready(chosen))

    def _those_ready(self, chosen: Callable[[Standing], bool]) -> list[StandingSet]:
        ready = [item for item in self._state.retries.ready.items() if chosen(item[0])]
        return list(self._keys.those_that_may_leave(ready))

    def _in_lane(self, lane: int, chosen: Callable[[Standing], bool]) -> Callable[[Standing], bool]:
        return lambda standing: standing.lane == lane and chosen(standing)

    def _ready_lanes(self) -> int:
        """The lanes of the ready messages, as a mask."""
        lanes = {standing.lane for standing, _ in self._state.retries.ready.items()}
        return sum(1 << lane for lane in lanes)

    def _is_last_with_others(self, standing: Standing) -> bool:
        return self._settings.is_last(standing.attempt) and not standing.lost

    def _is_not_last(self, standing: Standing) -> bool:
        return not self._settings.is_last(standing.attempt)
