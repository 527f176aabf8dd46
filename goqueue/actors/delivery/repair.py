"""Damaged ranges of a partition's log, and their repair, for the groups that meet them.

A group that meets such a range notes it in its ledger and goes on behind it. The range is read again every minute,
and at once when the partition has been opened: so its messages are delivered after a repair, with or without a
restart. Repaired messages are brought back in portions: each is one read and one entry.
"""

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import trio

from goqueue.actors.delivery.ledgers import GroupHere, Ledgers
from goqueue.actors.delivery.requests import SkipDamaged, SkippedHere
from goqueue.actors.delivery.writing import LedgerWriter
from goqueue.actors.runtime.parts import PartHost
from goqueue.core.groups.assignors import TopicPartition
from goqueue.core.ledger.entries import Entry, Repaired, Reset, Skipped
from goqueue.core.offsetset import Run
from goqueue.core.slices.batchindex import BatchIndexes
from goqueue.core.slices.deliverable import Reader
from goqueue.core.slices.lanestretch import messages_by_lane
from goqueue.environment import WallClock
from goqueue.errors import Closed, DamagedData, DiskFull, NotDamaged, OffsetOutOfRange
from goqueue.storage.log.log import Log
from goqueue.types import Offset

logger = logging.getLogger("goqueue.ledgers")

LOOK_AGAIN_SECONDS = 60.0
PORTION_BYTES = 256 * 1024
READY_MAX = 10_000
"""Limit of messages that wait for a redelivery; beyond it no repaired messages are brought back."""
READY_SECONDS = 1.0
READS_MAX = 1_000
"""Maximum number of reads in one look at the damaged ranges."""


@dataclass(eq=False, slots=True)
class Mending:
    """Notes, repairs and skips the damaged ranges of one partition."""

    ledgers: Ledgers
    log: Log
    host: PartHost
    partition: TopicPartition
    clock: WallClock
    indexes: BatchIndexes
    writer: LedgerWriter

    # Noting

    def note(self, here: GroupHere, damages: Sequence[DamagedData]) -> bool:
        """Whether any of it is new to the group: then a plan made before no longer holds."""
        is_news = False
        for damage in damages:
            last = min(damage.end_offset, self.log.high_watermark) - 1
            is_news |= self._note(here, damage.offset, last, damage.path)
        if is_news:
            self.watch(here)
        return is_news

    def take_up(self, here: GroupHere) -> None:
        """The group has attached. On a full disk its next request tries again."""
        if not here.is_stream:
            with suppress(DiskFull):
                self.note_known(here)
        self.watch(here)

    def note_known(self, here: GroupHere) -> None:
        """Note, once, the damage that was found when the log was opened. Its priorities are not known, so a lane
        would skip it without a read."""
        if here.knows_damage:
            return
        for damage in self.log.known_damage:
            first = max(damage.offset, here.ledger.next_fresh)
            self._note(here, first, min(damage.end_offset, self.log.high_watermark) - 1, damage.path)
        here.knows_damage = True
        self.watch(here)

    def _note(self, here: GroupHere, first: Offset, last: Offset, path: str) -> bool:
        entry = here.ledger.damage.note(trio.current_time(), first, last, path) if first <= last else None
        if entry is None:
            return False
        self.writer.write(here, [entry], trio.current_time())
        logger.warning(
            "group %s cannot have %d messages of %s: offsets %d to %d of %s are damaged; "
            "restore the file, or give them up with: goqueue group skip %s %s %d-%d",
            here.name,
            len(entry.offsets),
            self.partition.label,
            first,
            last,
            path,
            here.name,
            self.partition.label,
            first,
            last,
        )
        return True

    # Repaired

    def watch(self, here: GroupHere) -> None:
        """Start the task that looks for repairs, if there is damage."""
        if _needs_watch(here) and not here.is_watched:
            here.is_watched = True
            self.host.background(self._watch, here, endless=True)

    async def _watch(self, here: GroupHere) -> None:
        """Runs until nothing is damaged, or the group is gone."""
        with suppress(Closed):
            while _needs_watch(here) and self.ledgers.groups.get(here.name) is here:
                if here.held_letters is not None:
                    self.writer.report_dead_letters(here)
                await trio.sleep(await self._look(here))
        here.is_watched = False

    async def _look(self, here: GroupHere) -> float:
        """Bring back what can be read again. Returns the time until the next look."""
        try:
            return await self._look_at(here)
        except DiskFull:
            return LOOK_AGAIN_SECONDS

    async def _look_at(self, here: GroupHere) -> float:
        at = 0
        for _ in range(READS_MAX):
            if here.ledger.progress(trio.current_time()).ready_again >= READY_MAX:
                return READY_SECONDS
            run = next((run for run in here.ledger.damage.runs() if run.last >= at), None)
            if run is None or run.first >= self.log.high_watermark:
                break
            at = await self._repair(here, max(at, run.first))
        return LOOK_AGAIN_SECONDS

    async def _repair(self, here: GroupHere, at: Offset) -> Offset:
        """Repair the messages of one read from `at` on. Returns where to go on."""
        try:
            found = await self.log.read(at, PORTION_BYTES)
        except DamagedData as damage:
            return max(damage.end_offset, at + 1)
        except OffsetOutOfRange:  # removed by retention
            self.ledgers.note_removed(here, self.log.log_start)
            return max(self.log.log_start, at + 1)
        reader, last = Reader(here.name, self.clock.now()), max(at, found.next_offset - 1)
        lanes = messages_by_lane(found.data, Run(at, last), reader, self.indexes)
        if self.ledgers.groups.get(here.name) is here:
            self._bring_back(here, here.ledger.damage.repair(at, last, lanes))
        return last + 1

    def _bring_back(self, here: GroupHere, entry: Repaired | None) -> None:
        if entry is not None:
            self.writer.write(here, [entry], trio.current_time())
            span = (entry.first, entry.last)
            logger.warning(
                "offsets %d to %d of %s can be read again: group %s gets them",
                *span,
                self.partition.label,
                here.name,
            )

    # Given up

    async def skip(self, here: GroupHere, message: SkipDamaged) -> SkippedHere:
        """Give damaged messages up; durable when answered. `NotDamaged` when there are none."""
        wanted = Run(message.first, message.last)
        entries = await self._stream_to_skip(here, wanted) if message.is_stream else self._to_skip(here, wanted)
        before = here.ledger.progress(trio.current_time())
        skipped = here.ledger.copy(trio.current_time()) if message.dry_run else here.ledger
        if message.dry_run:
            for entry in entries:
                skipped.apply(entry, trio.current_time())
        else:
            self.writer.write(here, entries, trio.current_time())
            self.writer.report_dead_letters(here)
            await self.ledgers.commit()
        after = skipped.progress(trio.current_time())
        return SkippedHere(after.removed_unacked - before.removed_unacked, before.committed, after.committed)

    def _to_skip(self, here: GroupHere, wanted: Run) -> list[Entry]:
        held = here.held_letters
        letters = held is not None and held.first <= wanted.last and wanted.first <= held.last
        entry = here.ledger.damage.skip(*wanted, letters=letters)
        if entry is None:
            raise NotDamaged(
                f"none of the offsets {wanted.first} to {wanted.last} of {self.partition.label} is damaged for "
                f"group {here.name}; `goqueue group describe {here.name}` names those that are"
            )
        return [entry]

    async def _stream_to_skip(self, here: GroupHere, wanted: Run) -> list[Entry]:
        """A stream skips the damage that begins at its committed offset, and commits behind it."""
        begin = at = here.ledger.committed
        while wanted.first <= at <= wanted.last and (end := await _damaged_to(self.log, at)) is not None:
            at = min(end, wanted.last + 1)
        if at == begin:
            raise NotDamaged(
                f"group {here.name} has committed offset {begin} of {self.partition.label}, where no damage from "
                f"{wanted.first} to {wanted.last} begins; let it commit what it has done before, and name the "
                "offsets in the error that stopped it"
            )
        return [Skipped(begin, at - 1, at - begin, letters=False), Reset(at)]


def _needs_watch(here: GroupHere) -> bool:
    return bool(here.ledger.damage) or here.held_letters is not None


async def _damaged_to(log: Log, offset: Offset) -> Offset | None:
    """The end of the damage that begins here; None when there is none."""
    try:
        await log.read(offset, 1)
    except DamagedData as damage:
        return min(damage.end_offset, log.high_watermark)
    except OffsetOutOfRange:
        pass
    return None
