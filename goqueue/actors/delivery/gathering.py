"""Reads the messages of a plan from the log: the records, and the batches that hold them.

Redeliveries are scattered, so their batches are cut down to the records that are needed; fresh messages follow each
other, and are sent in whole batches, unless few are wanted of large ones. Redeliveries that are no longer in the
log, or have expired, are reported: the group skips them. A damaged range is reported, too, and reading goes on
behind it.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

from goqueue.core.ledger.attempts import AttemptRun, Messages, as_set, count, offsets_of, without
from goqueue.core.ledger.handout import HandOut, LaneScan, Scanned
from goqueue.core.ledger.keys import Keyed
from goqueue.core.ledger.views import Plan
from goqueue.core.offsetset import OffsetSet, Run
from goqueue.core.slices.batchindex import BatchIndexes
from goqueue.core.slices.deliverable import (
    EVERYTHING,
    NO_BATCH,
    Deliverable,
    LastBatch,
    Reader,
    base_offset,
    find_deliverable,
    join,
)
from goqueue.core.slices.readcache import BatchCache
from goqueue.errors import DamagedData
from goqueue.storage.log.log import Log
from goqueue.storage.log.views import LogSlice
from goqueue.types import Buffer, Offset, Priority

READS_MAX = 16
"""Maximum number of reads in one request, for scattered messages; the next request reads the rest."""
SPARSE_READ_BYTES = 64 * 1024
SLACK_BYTES = 4 * 1024
SPARSE_BYTES_MIN, SPARSE_TIMES = 16 * 1024, 4
"""Batches larger than this many times the wanted messages are cut down: a consumer that takes single messages of a
batch of thousands would otherwise receive, and hold in memory, the whole batch for each."""
KEYS_READ_BYTES = 256 * 1024
DENSE_SHARE = 0.8
"""Batches are sent uncut between the first and the last message if this share of the offsets is delivered."""


@dataclass(slots=True)
class FoundMessages:
    """The messages of one lane that were found."""

    lane: int = Priority.NORMAL
    scanned_to: Offset = 0
    """The lane's position: everything of the lane below it was scanned."""
    again: list[AttemptRun] = field(default_factory=list)
    gone: list[Run] = field(default_factory=list)
    apart: list[Buffer] = field(default_factory=list)
    """Batches cut down to the redeliveries."""
    parts: list[Buffer] = field(default_factory=list)
    """Batches with fresh messages, and perhaps some redeliveries; of one lane, whole ones."""
    damages: list[DamagedData] = field(default_factory=list)
    """Ranges that cannot be read: the group notes them."""

    parts_size: int = 0

    @property
    def size(self) -> int:
        return (sum(map(len, self.apart)) if self.apart else 0) + self.parts_size

    def scan_of(self, fresh: Messages, keyed_by: BatchIndexes | None) -> LaneScan:
        """`keyed_by`: read the keys of the fresh messages, too."""
        keys = dict[Offset, int]()
        if keyed_by is not None:
            wanted = as_set(fresh)
            for part in self.parts:
                keyed_by.keys_in(part, wanted, keys)
        return LaneScan(self.lane, self.scanned_to, self.again, fresh, keys)


@dataclass(slots=True)
class Gathered(FoundMessages):
    fresh: list[Run] = field(default_factory=list)
    last_batch: LastBatch = NO_BATCH
    is_sparse: bool = False
    """Most of these batches was not asked for: they are cut down before they are sent."""

    def add_fresh(self, chosen: Deliverable, set_aside: OffsetSet) -> int:
        """Returns their number. A batch with redeliveries, too, is added once, as a whole."""
        runs: Sequence[Run] = chosen.runs
        if set_aside:
            runs = list(OffsetSet(runs).without(set_aside).runs())
        while self.apart and base_offset(self.apart[-1]) >= base_offset(chosen.data):
            self.apart.pop()
        self.parts.append(chosen.data)
        self.parts_size += len(chosen.data)
        join(self.fresh, runs)
        return sum(last - first + 1 for first, last in runs)

    def scanned(self, keyed_by: BatchIndexes | None) -> Scanned:
        return Scanned([self.scan_of(self.fresh, keyed_by)], self.gone)

    def data_of(self, decided: HandOut, indexes: BatchIndexes) -> Buffer:
        """Cut down if most of the batches was not asked for, or messages in them are held back."""
        parts: Sequence[Buffer] = self.parts
        if parts and (self.is_sparse or decided.holds_back):
            parts = cut_down(parts, _given_from(base_offset(parts[0]), decided), indexes)
        return joined_parts([*self.apart, *parts])


def _given_from(first: Offset, decided: HandOut) -> list[Run]:
    """The messages that are given, from an offset on."""
    if decided.sets:
        return list(decided.offsets.runs(first))
    return [Run(max(run.first, first), run.last) for run in sorted(decided.runs) if run.last >= first]


def cut_down(parts: Sequence[Buffer], runs: list[Run], indexes: BatchIndexes) -> list[Buffer]:
    """Cut the records that are not given out of the batches, unless they are few: to cut each of them out would
    cost more than to send it."""
    if runs and (runs[-1].last - runs[0].first + 1) * DENSE_SHARE <= count(runs):
        runs = [Run(runs[0].first, runs[-1].last)]
    return [piece for part in parts for piece in indexes.cut_down(part, runs)]


def joined_parts(parts: list[Buffer]) -> Buffer:
    return parts[0] if len(parts) == 1 else b"".join(parts)


class LogGatherer:
    """Reads a log for a group, up to the high watermark at its creation."""

    def __init__(self, log: Log, indexes: BatchIndexes) -> None:
        self.log = log
        self.indexes = indexes
        self.set_aside = OffsetSet()
        """Offsets that the group noted when they were damaged: they are not fresh."""
        self.recent: BatchCache | None = None
        """The read cache."""
        self.reads_again = False
        """The group reads the same batches again: all are kept. Else only a batch of which little was wanted."""
        self.end = log.high_watermark
        """Messages behind it are for the next plan: their lanes are not known."""
        self.message_bytes = 1 + log.size // max(1, log.end_offset - log.log_start)

    async def gather(
        self, plan: Plan, reader: Reader, bytes_max: int, last_batch: LastBatch = NO_BATCH
    ) -> Gathered:
        """`last_batch`: the fresh messages probably begin in it, so redeliveries from it are read with them."""
        gathered = Gathered(lane=plan.lane, scanned_to=plan.fresh_from, last_batch=last_batch)
        has_fresh = plan.look_max > 0 and plan.fresh_from < self.end
        apart, beside = split(plan.again, last_batch.base) if has_fresh else (plan.again, [])
        are_all = await self.gather_again(gathered, apart, reader, bytes_max)
        if are_all and has_fresh and gathered.size < bytes_max:
            await self._gather_fresh(gathered, plan, beside, reader, bytes_max)
        return gathered

    async def gather_again(
        self, gathered: FoundMessages, runs: Sequence[AttemptRun], reader: Reader, room: int
    ) -> bool:
        """Whether all of them were read: fresh messages come after them."""
        for _ in range(READS_MAX):
            if not runs or room <= 0:
                break
            found = await self._read_near(runs[0].first, min(room, self._likely_bytes(runs)))
            inside, runs = split(runs, end_of(found))
            if isinstance(found, DamagedData):
                gathered.damages.append(found)
                continue
            again = _sort_out(gathered, found.data, inside, reader)
            parts = self.indexes.cut_down(found.data, again)
            gathered.apart += parts
            room -= sum(map(len, parts))
        return not runs

    def _likely_bytes(self, runs: Sequence[AttemptRun]) -> int:
        """The probable size of the first run; more if several runs may lie close together."""
        size = runs[0].size * self.message_bytes + SLACK_BYTES
        return size if len(runs) == 1 else max(size, SPARSE_READ_BYTES)

    async def _gather_fresh(
        self, gathered: Gathered, plan: Plan, beside: Sequence[AttemptRun], reader: Reader, bytes_max: int
    ) -> None:
        """Reads the probable size of the wanted messages, as checksums are verified for the whole window."""
        offset, end, count_left = plan.fresh_from, self.end, plan.look_max
        room, past_changes = bytes_max - gathered.size, self.log.past_changes
        for _ in range(READS_MAX):
            if offset >= end or count_left <= 0 or (gathered.size and room < self.message_bytes):
                break
            likely = max(count_left * self.message_bytes, gathered.last_batch.size) + SLACK_BYTES
            found = await self._read_near(offset, min(room, likely))
            if isinstance(found, DamagedData):
                gathered.damages.append(found)
                offset = min(end_of(found), end)
                continue
            chosen = find_deliverable(found.data, offset, count_left, reader)
            if gathered.size and len(chosen.data) > room:
                break
            if beside and not _are_inside(beside, chosen):
                if not await self.gather_again(gathered, beside, reader, room):
                    break
                room, beside = bytes_max - gathered.size, ()
                continue  # redeliveries go first, and may leave no room for more
            offset, gathered.last_batch = chosen.scanned_to, chosen.last_batch
            if chosen.runs:
                if beside:
                    _sort_out(gathered, chosen.data, beside, reader)
                    beside = ()
                count_left -= gathered.add_fresh(chosen, self.set_aside)
                room -= len(chosen.data)
        gathered.scanned_to = offset
        asked_for = (plan.look_max - count_left) * self.message_bytes
        gathered.is_sparse = gathered.parts_size > max(SPARSE_BYTES_MIN, SPARSE_TIMES * asked_for)
        if gathered.is_sparse and self.recent is not None:
            self.recent.note(gathered.parts[-1], past_changes)

    async def read_keys(self, runs: Sequence[Run]) -> list[Keyed]:
        """The keys of these messages, as far as the log has them, read in order; neighbours in one read."""
        wanted, found, end = OffsetSet(runs), list[Keyed](), 0
        for run in runs:
            while end <= run.last:
                offset = max(end, run.first)
                read = await self.read(offset, KEYS_READ_BYTES)
                end = max(end_of(read), offset + 1)
                if isinstance(read, LogSlice):
                    found += self.indexes.keys_in(read.data, wanted).items()
        return found

    async def _read_near(self, offset: Offset, bytes_max: int) -> LogSlice | DamagedData:
        """From the read cache, if it has the batch."""
        log, recent = self.log, self.recent
        if recent is None:
            return await self.read(offset, bytes_max)
        past_changes = log.past_changes
        kept = recent.holding(offset, past_changes)
        if kept is not None:
            return LogSlice(kept.data, kept.end, log.log_start, log.high_watermark)
        found = await self.read(offset, bytes_max)
        if self.reads_again and isinstance(found, LogSlice):
            recent.note(found.data, past_changes)
        return found

    async def read(self, offset: Offset, bytes_max: int) -> LogSlice | DamagedData:
        try:
            return await self.log.read(offset, bytes_max, self.end)
        except DamagedData as damage:
            return damage


def end_of(found: LogSlice | DamagedData) -> Offset:
    return found.end_offset if isinstance(found, DamagedData) else found.next_offset


def split(runs: Sequence[AttemptRun], end: Offset) -> tuple[list[AttemptRun], list[AttemptRun]]:
    """The parts of these sorted runs before an offset, and the rest."""
    place = bisect_left(runs, (end,))
    before, rest = list(runs[:place]), list(runs[place:])
    if before and before[-1].last >= end:
        rest.insert(0, before[-1]._replace(first=end))
        before[-1] = before[-1]._replace(last=end - 1)
    return before, rest


def _are_inside(runs: Sequence[AttemptRun], chosen: Deliverable) -> bool:
    return bool(chosen.runs) and base_offset(chosen.data) <= runs[0].first


def _sort_out(
    gathered: FoundMessages, data: Buffer, wanted: Sequence[AttemptRun], reader: Reader
) -> list[AttemptRun]:
    """The wanted messages that the log has; the others are noted as gone."""
    there = OffsetSet(find_deliverable(data, wanted[0].first, EVERYTHING, reader).runs)
    if not offsets_of(wanted).without(there):  # the common case
        gathered.again += wanted
        return list(wanted)
    again = list[AttemptRun]()
    for run in wanted:
        found = list(there.runs(run.first, run.last))
        again += [AttemptRun(*piece, run.attempt) for piece in found]
        gathered.gone += [Run(rest.first, rest.last) for rest in without(run, found)]
    gathered.again += again
    return again
