"""Reads messages for a member when several lanes have some.

Each lane is read from its own position, found by the lane index: a critical message behind ten million others costs
a look at the masks of segments and stretches, and one read. The highest lane goes first. The unused part of a
lane's allotment goes to the others, so that no consumer waits while there are messages (G9).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from goqueue.actors.delivery.gathering import READS_MAX, FoundMessages, LogGatherer, end_of, joined_parts
from goqueue.core.ledger.attempts import AttemptRuns, count, split_messages
from goqueue.core.ledger.handout import HandOut, Scanned
from goqueue.core.ledger.shares import ENDLESS, LANES, Counts
from goqueue.core.ledger.views import Dealt, FreshLanes, Plan
from goqueue.core.offsetset import OffsetSet, Run
from goqueue.core.records.batch import parse_envelope
from goqueue.core.slices.batchindex import BatchIndexes
from goqueue.core.slices.deliverable import Reader, base_offset
from goqueue.core.slices.lanestretch import LaneStretch, OfLane, WantedRecords, cut_lane
from goqueue.core.slices.readcache import StretchCache
from goqueue.errors import DamagedData
from goqueue.storage.log.log import Log
from goqueue.types import Buffer, Offset

DEALS_MAX = len(LANES) + 1
"""Maximum number of times that unused allotments are dealt to other lanes; the next request gets the rest."""
WINDOW_BYTES_MIN, WINDOW_BYTES_MAX = 16 * 1024, 256 * 1024
"""Limits of one read for a lane; twice the maximum after a read that had nothing of the lane."""


@dataclass(slots=True)
class LaneFound(FoundMessages):
    offsets: OffsetSet = field(default_factory=OffsetSet)
    """The fresh messages."""
    has_no_fresh: bool = False
    rest: AttemptRuns = ()
    """The redeliveries that were not taken."""

    @property
    def is_exhausted(self) -> bool:
        return self.has_no_fresh and not self.rest

    @property
    def work(self) -> int:
        """The number of messages left, as far as is known."""
        return count(self.rest) + (0 if self.has_no_fresh else ENDLESS)

    @property
    def count(self) -> int:
        return count(self.again) + len(self.offsets)

    def add(self, chosen: OfLane) -> None:
        """A whole batch is added once, and holds its redeliveries, too. Other batches of redeliveries stay, also
        those that lie between the batches of fresh messages."""
        parts, base = chosen.parts, base_offset(chosen.parts[0])
        if self.apart:
            whole = {each for part in parts if isinstance(part, memoryview) for each in _bases_in(part)}
            self.apart = [part for part in self.apart if base_offset(part) not in whole]
        if isinstance(parts[0], memoryview) and self.parts and base_offset(self.parts[-1]) == base:
            self.parts_size -= len(self.parts.pop())
        self.parts += parts
        self.parts_size += sum(map(len, parts))
        self.offsets.update(chosen.offsets)


def _bases_in(part: memoryview) -> Iterator[Offset]:
    """The base offset of each batch."""
    position = 0
    while position < len(part):
        envelope = parse_envelope(part, position)
        assert envelope is not None, "parts are sound batches"
        yield envelope.base_offset
        position += envelope.size


@dataclass(slots=True)
class GatheredLanes:
    lanes: list[LaneFound]

    @property
    def gone(self) -> list[Run]:
        return sorted(run for each in self.lanes for run in each.gone)

    @property
    def damages(self) -> list[DamagedData]:
        return [damage for each in self.lanes for damage in each.damages]

    @property
    def counts(self) -> Counts:
        return [each.count for each in self.lanes]

    @property
    def exhausted(self) -> int:
        """The exhausted lanes, as a mask."""
        return sum(each.is_exhausted << each.lane for each in self.lanes)

    @property
    def size(self) -> int:
        return sum([each.size for each in self.lanes])

    def scanned(self, keyed_by: BatchIndexes | None) -> Scanned:
        return Scanned([each.scan_of(each.offsets, keyed_by) for each in self.lanes], self.gone, self.exhausted)

    def data_of(self, _: HandOut, __: BatchIndexes) -> Buffer:
        """The highest lane first, and in each lane redeliveries first: the order of the delivery."""
        return joined_parts([part for each in self.lanes for part in (*each.apart, *each.parts)])


class LaneGatherer(LogGatherer):
    def __init__(self, log: Log, indexes: BatchIndexes, ahead: StretchCache) -> None:
        super().__init__(log, indexes)
        self._ahead = ahead

    def fresh_lanes(self, places: Sequence[Offset], lowest: Offset) -> FreshLanes:
        """The lanes with messages behind their positions, by the masks of segments."""
        end = self.end = self.log.high_watermark
        seen = self.log.lanes_from(lowest) if lowest < end else 0
        if not seen & (seen - 1):  # the common case
            return FreshLanes(seen, is_mixed=False)
        has = [lane for lane in LANES if places[lane] < end and self.log.lanes_from(places[lane]) >> lane & 1]
        return FreshLanes(sum(1 << lane for lane in has), is_mixed=True)

    async def gather_lanes(
        self, plan: Plan, dealt: Dealt, places: Sequence[Offset], reader: Reader, bytes_max: int
    ) -> GatheredLanes:
        gathered = GatheredLanes(
            [LaneFound(lane=lane, scanned_to=places[lane], rest=dealt.ready[lane]) for lane in LANES]
        )
        self._pass_by_idle(gathered, dealt)
        counts = dealt.counts
        for _ in range(DEALS_MAX):
            for found in gathered.lanes:
                wanted, room = counts[found.lane], bytes_max - gathered.size
                if wanted and found.rest:
                    again, found.rest = split_messages(found.rest, wanted)
                    wanted -= count(again)
                    if room <= 0 or not await self.gather_again(found, again, reader, room):
                        return gathered
                if wanted and not found.has_no_fresh:
                    wanted = _how_far(wanted, plan)
                    if not await self._gather_lane(gathered, found, wanted, reader, bytes_max):
                        return gathered
            taken, work = gathered.counts, [found.work for found in gathered.lanes]
            left = dealt.wanted - sum(taken)
            if left <= 0 or not any(work):
                break
            counts = dealt.further(taken, left, work)
        return gathered

    def _pass_by_idle(self, gathered: GatheredLanes, dealt: Dealt) -> None:
        """Move lanes without messages to the high watermark."""
        end = self.end
        for found in gathered.lanes:
            if found.scanned_to >= end or not self.log.lanes_from(found.scanned_to) >> found.lane & 1:
                found.scanned_to, found.has_no_fresh = max(found.scanned_to, end), True
            found.has_no_fresh |= not dealt.has_fresh(found.lane)

    async def _gather_lane(
        self, gathered: GatheredLanes, found: LaneFound, wanted: int, reader: Reader, bytes_max: int
    ) -> bool:
        """Gather fresh messages of one lane. Returns whether there was room for them."""
        empty = 0
        for _ in range(READS_MAX):
            size = gathered.size
            room = bytes_max - size
            if wanted <= 0:
                return True
            if room < self.message_bytes and size:
                return False
            past_changes = self.log.past_changes
            stretch = await self._stretch(found, wanted, reader, empty)
            if found.has_no_fresh:
                return True
            if stretch is None:
                continue
            chosen = stretch.first(found.scanned_to, min(wanted, max(1, room // self.message_bytes)))
            if size and sum(map(len, chosen.parts)) > room:
                return False
            found.scanned_to = chosen.scanned_to
            self._ahead.note_used(stretch, found.scanned_to, past_changes)
            if self.set_aside:
                chosen = chosen.without(self.set_aside, self.indexes)
            if chosen.parts:
                found.add(chosen)
            wanted, empty = wanted - len(chosen.offsets), 0 if chosen.offsets else empty + 1
        return True

    async def _stretch(self, found: LaneFound, wanted: int, reader: Reader, empty: int) -> LaneStretch | None:
        """The stretch at the lane's position, which is moved there. None: there is none, or damage, behind which
        the lane goes on. `empty`: the number of stretches before it without messages of the lane."""
        kept = self._ahead.holding(found.lane, found.scanned_to, self.log.past_changes)
        if kept is not None:
            return kept
        end, lane = self.end, found.lane
        start = await self.log.stretch_of_lane(lane, found.scanned_to, end) if found.scanned_to < end else None
        if start is None:
            found.scanned_to, found.has_no_fresh = max(found.scanned_to, end), True
            return None
        likely = max(8 * wanted * self.message_bytes, WINDOW_BYTES_MIN) << empty
        bytes_max = 2 * WINDOW_BYTES_MAX if empty else WINDOW_BYTES_MAX
        read = await self.read(start, min(self._ahead.how_much(lane, found.scanned_to, likely), bytes_max))
        if isinstance(read, DamagedData):
            found.damages.append(read)
            found.scanned_to = min(end_of(read), end)
            return None
        found.scanned_to = max(found.scanned_to, start)
        return cut_lane(
            read.data, read.next_offset, WantedRecords(lane, found.scanned_to, wanted), reader, self.indexes
        )


def _how_far(wanted: int, plan: Plan) -> int:
    """Where the order of keys is kept, more messages are scanned than delivered: some have to wait."""
    if plan.look_max <= plan.fresh_max:
        return wanted
    return max(wanted, wanted * plan.look_max // max(1, plan.fresh_max))
