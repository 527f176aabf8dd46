"""The view of a group on a partition: its start, its progress, and the number of ready messages in each lane.

The number of messages of all lanes together is known without reading the log, and so is that of a single lane. Of
several lanes, those near the end of the log are counted; one that is further back has the rest. Where two or more
are far back, as behind a large backlog of all priorities, the numbers are unknown.
"""

from collections.abc import Sequence, Sized
from typing import NamedTuple

import trio

from goqueue.actors.delivery.ledgers import GroupHere
from goqueue.actors.delivery.requests import LedgerView
from goqueue.core.groups.start import Start
from goqueue.core.ledger.damage import DamagedRun
from goqueue.core.ledger.shares import LANES, Counts
from goqueue.core.ledger.views import LaneFigures, LaneHeld, Progress
from goqueue.core.offsetset import OffsetSet
from goqueue.core.slices.deliverable import batches_in
from goqueue.core.slices.lanecounts import count_lanes
from goqueue.environment import WallClock
from goqueue.errors import DamagedData, OffsetOutOfRange
from goqueue.storage.log.log import Log
from goqueue.storage.slices import Slices
from goqueue.types import Microseconds, Offset

NEAR_MAX = 100_000
"""Maximum distance from a lane's position to the end of the log at which its messages are counted."""
READ_BYTES = 256 * 1024
"""Bytes of one read."""
NONE_FRESH = (0,) * len(LANES)


async def _count_fresh(
    log: Log, places: Sequence[Offset], end: Offset, progress: Progress, hidden: OffsetSet, *, near_max: int
) -> Sequence[int | None]:
    """The number of fresh messages before `end` in each lane; None: unknown. `hidden` are never delivered."""
    there = _lanes_there(log, places, end)
    if len(there) < 2:
        return _fresh_of_one(there, end, progress, hidden)
    far = [lane for lane in there if end - places[lane] > near_max]
    counts = await _counted(log, [end if lane in far else place for lane, place in enumerate(places)], end, hidden)
    rest = max(0, _unseen(end, progress, hidden) - sum(counts)) if len(far) == 1 else None
    return [rest if lane in far else counts[lane] for lane in LANES]


def _known_fresh(
    log: Log, places: Sequence[Offset], end: Offset, progress: Progress, hidden: OffsetSet
) -> Sequence[int] | None:
    """The same without reading; None where several lanes have messages."""
    there = _lanes_there(log, places, end)
    return None if len(there) > 1 else _fresh_of_one(there, end, progress, hidden)


def _lanes_there(log: Log, places: Sequence[Offset], end: Offset) -> list[int]:
    masks = {place: log.lanes_from(place) for place in set(places) if place < end}
    return [lane for lane in LANES if masks.get(places[lane], 0) >> lane & 1]


def _fresh_of_one(there: Sequence[int], end: Offset, progress: Progress, hidden: OffsetSet) -> Sequence[int]:
    """There is one lane, or none."""
    if not there:
        return NONE_FRESH
    unseen = _unseen(end, progress, hidden)
    return [unseen if lane in there else 0 for lane in LANES]


def _unseen(end: Offset, progress: Progress, hidden: OffsetSet) -> int:
    return max(0, end - progress.next_fresh - progress.ahead - hidden.count(progress.next_fresh, end - 1))


async def _counted(log: Log, places: Sequence[Offset], end: Offset, hidden: OffsetSet) -> Counts:
    """Counted by reading everything behind these positions, except damaged ranges."""
    counts, at, slices = [0] * len(LANES), max(min(places), log.log_start), Slices()
    while at < end:
        await slices.step()
        try:
            found = await log.read(at, READ_BYTES)
        except DamagedData as error:
            at = error.end_offset
        except OffsetOutOfRange:  # it was removed meanwhile, from the front or from the end
            at = log.log_start if at < log.log_start else end
        else:
            count_lanes(found.data, places, hidden, counts)
            at = found.next_offset
    return counts


async def start_in(log: Log, start: Start) -> Offset:
    """An offset outside the log is moved to its nearer end."""
    if start.is_latest:
        return log.end_offset
    if start.last is not None:
        return max(log.log_start, log.end_offset - start.last)
    if start.time is not None:
        found = await log.offset_at_time(start.time)
        return log.high_watermark if found is None else found  # unsynced messages may be of a later time
    return max(log.log_start, min(start.offset or 0, log.end_offset))


MEMORY_MAX = 64
"""Maximum number of answers of each kind that are kept for a partition."""


class LogMemory:
    """Caches what was read from a log for one group: many groups are at the same offsets."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self._past_changes = log.past_changes
        self._append_times: dict[Offset, Microseconds] = {}
        self._next: dict[tuple[int, Offset], Offset] = {}

    async def append_time(self, offset: Offset) -> Microseconds | None:
        """None when there is no readable message."""
        self._forget_old(self._append_times)
        found = self._append_times.get(offset)
        if found is None and (found := await _append_time(self.log, offset)) is not None:
            self._append_times[offset] = found
        return found

    def known_append_time(self, offset: Offset) -> Microseconds | None:
        """None unless it was read before."""
        self._forget_old(self._append_times)
        return self._append_times.get(offset)

    async def next_of_lane(self, lane: int, offset: Offset) -> Offset | None:
        self._forget_old(self._next)
        found = self._next.get((lane, offset))
        if found is None and (found := await self.log.next_of_lane(lane, offset)) is not None:
            self._next[lane, offset] = found
        return found

    def _forget_old(self, answers: Sized) -> None:
        """Retention and compaction make answers invalid."""
        if self._past_changes != self.log.past_changes or len(answers) >= MEMORY_MAX:
            self._past_changes = self.log.past_changes
            self._append_times.clear()
            self._next.clear()


async def view_of(
    here: GroupHere, memory: LogMemory, clock: WallClock, hidden: OffsetSet, near_max: int | None = None
) -> LedgerView:
    """The lag counts every offset that was not scanned as a message, except those that are never delivered:
    originals of delayed messages, and control records."""
    ledger, log = here.ledger, memory.log
    progress, end, readable = ledger.progress(trio.current_time()), log.end_offset, log.high_watermark
    places, held, served = ledger.fresh_places[:], ledger.held_in_lanes(), ledger.served[:]
    age = await _age(memory, progress.committed, clock)
    near_max = NEAR_MAX if near_max is None else near_max
    fresh = await _count_fresh(log, places, readable, progress, hidden, near_max=near_max)
    lanes = []
    for lane in LANES:
        if fresh[lane] == 0 and held[lane].first is None:
            lanes.append(LaneFigures(0, 0, served[lane], None))
            continue
        first = await _first_in(memory, lane, places[lane], fresh[lane], held[lane])
        oldest = None if first is None else await _age(memory, first, clock)
        lanes.append(LaneFigures(_ready(fresh[lane], held[lane]), held[lane].in_flight, served[lane], oldest))
    if here.is_stream:
        progress = _with_damage_ahead(progress, log)
    passed_over = hidden.count(progress.next_fresh, end - 1)
    return LedgerView(progress, end, progress.lag(end, passed_over), age, tuple(lanes), here.written.lost)


def _with_damage_ahead(progress: Progress, log: Log) -> Progress:
    """A stream keeps no damage in its ledger: the known damage ahead of it counts."""
    found = [(max(each.offset, progress.committed), each.end_offset - 1, each.path) for each in log.damage_met]
    damages = tuple(
        DamagedRun(first, last, path, last - first + 1) for first, last, path in sorted(found) if first <= last
    )
    damaged = sum(each.messages for each in damages)
    return progress._replace(damaged=damaged, damages=damages, ahead=progress.ahead + damaged)


async def _first_in(
    memory: LogMemory, lane: int, place: Offset, fresh: int | None, held: LaneHeld
) -> Offset | None:
    """The first message of the lane that is not done; it has read up to `place`."""
    next_fresh = None if fresh == 0 else await memory.next_of_lane(lane, place)
    return min((each for each in (next_fresh, held.first) if each is not None), default=None)


def _ready(fresh: int | None, held: LaneHeld) -> int | None:
    return None if fresh is None else fresh + held.ready


async def _age(memory: LogMemory, offset: Offset, clock: WallClock) -> int | None:
    """In milliseconds."""
    appended = await memory.append_time(offset)
    return None if appended is None else max(0, clock.now() - appended) // 1_000


async def _append_time(log: Log, offset: Offset) -> Microseconds | None:
    if not log.log_start <= offset < log.high_watermark:
        return None
    try:
        found = await log.read(offset, 1)
    except (DamagedData, OffsetOutOfRange):
        return None
    return next((envelope.append_time for _, envelope in batches_in(memoryview(found.data))), None)


class LedgerGauges(NamedTuple):
    """How a group stands on a partition, in figures that are known without reading the log."""

    committed: Offset
    lag: int = 0
    in_flight: int = 0
    waiting_retry: int = 0
    leaving: int = 0
    ready_of: Sequence[int] | None = NONE_FRESH
    """By lane; None where several lanes have messages, so that they would have to be counted."""
    in_flight_of: Sequence[int] = NONE_FRESH
    """By lane."""
    only_lane: int | None = None
    """The lane that all messages are of which are not done; None if there are none, or of several."""


def gauges_of(here: GroupHere, log: Log, hidden: OffsetSet, now: float) -> LedgerGauges:
    """Most groups have nothing to do in most places: that costs next to nothing. Streams have no lanes."""
    ledger, end = here.ledger, log.end_offset
    committed = ledger.committed
    if committed >= end:
        return LedgerGauges(committed)
    progress = ledger.progress(now)
    if here.is_stream and log.damage_met:
        progress = _with_damage_ahead(progress, log)
    figures = LedgerGauges(
        committed,
        progress.lag(end, hidden.count(progress.next_fresh, end - 1)),
        progress.in_flight,
        progress.waiting,
        progress.leaving + progress.in_transfer,
    )
    if here.is_stream:
        return figures
    fresh = _known_fresh(log, ledger.fresh_places, log.high_watermark, progress, hidden)
    in_flight: Sequence[int] = NONE_FRESH
    returned: Sequence[int] = NONE_FRESH
    if progress.handed_out:
        in_flight, returned = ledger.counts_in_lanes()
    if fresh is None:
        return figures._replace(ready_of=None, in_flight_of=in_flight)
    there = [lane for lane in LANES if fresh[lane] or in_flight[lane] or returned[lane]]
    return figures._replace(
        ready_of=[each + back for each, back in zip(fresh, returned, strict=True)],
        in_flight_of=in_flight,
        only_lane=there[0] if len(there) == 1 else None,
    )
