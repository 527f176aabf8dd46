"""The ledgers of a partition's groups, and the companion log that is written before a change is answered.

The first group creates the log: a partition without groups has none. A write reaches the file at once and so
survives the end of the process; it is synced within a second, at a stop, and before an answer that promises it.
"""

import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count
from random import Random
from typing import Any, NamedTuple

import trio

from goqueue.actors.delivery.asking import Askers
from goqueue.actors.delivery.requests import LedgerHolder
from goqueue.actors.runtime.ref import ActorRef
from goqueue.actors.statistics.groups import GroupCounts
from goqueue.core.deadlines import Deadlines
from goqueue.core.groups.takers import Takers
from goqueue.core.groups.tenure import Tenure
from goqueue.core.ledger.entries import (
    Acked,
    Begun,
    Committed,
    CutBack,
    Damaged,
    Entry,
    PassedOver,
    Removed,
    Reset,
    TransferBegun,
)
from goqueue.core.ledger.ledger import Ending, Ledger
from goqueue.core.ledger.settings import LedgerSettings
from goqueue.core.log.durability import UNSYNCED_SECONDS_MAX
from goqueue.core.offsetset import Run
from goqueue.core.slices.deliverable import NO_BATCH, LastBatch
from goqueue.environment import WallClock
from goqueue.errors import Closed, DiskFull, TooManyFiles, UnknownGroup
from goqueue.storage.log.log import Log
from goqueue.storage.log.volume import Volume
from goqueue.storage.snapshotlog.ledgers import (
    FOLDER,
    LedgerLog,
    LostProgress,
    Payload,
    WrittenLedger,
    draw_producer_id,
    forgotten,
    happened,
    reads_here,
    snapshot_parts,
)
from goqueue.storage.snapshotlog.snapshotlog import SnapshotLog
from goqueue.types import Microseconds, Offset

logger = logging.getLogger("goqueue.ledgers")

ROUNDS_PER_CLAIM = 5
"""Under constant writes a recovery point claims what is durable at every fifth sync."""
IDLE_SECONDS_BEFORE_CLAIM = 0.5
"""Else it comes once nothing more is written: it takes as long as several syncs."""

TAKING_AWAY = (PassedOver, Removed, CutBack, Reset, Committed, Damaged)
"""Entries that may remove messages from a plan."""
WITHOUT_DEADLINES = (Acked, Begun)
"""Entries after which no lease and no retry ends earlier than before."""


class StreamPosition(NamedTuple):
    """The offset to which the owner of a stream has fetched. Only its commits say how far its program is."""

    offset: Offset
    damage: Run | None = None
    """The damaged range at this offset, as it was found then."""


@dataclass(slots=True, eq=False)
class GroupHere:
    """The state of a group on this partition."""

    written: WrittenLedger
    listener: ActorRef | None = None
    """None until the group has attached."""
    tenure: Tenure = field(default_factory=Tenure)
    is_stream: bool = False
    last_batch: LastBatch = NO_BATCH
    """The batch of the last delivery: the next one probably begins in it."""
    removals: int = 0
    """Counts changes that may remove messages from a plan: nothing read at an older count is delivered."""
    turn: trio.Lock = field(default_factory=trio.Lock)
    """Held by the request that reads from the disk: one of a group at a time."""
    readers: int = 0
    """The number of requests that hold or await that lock; later ones queue behind them."""
    takers: Takers = field(default_factory=Takers)
    askers: Askers = field(default_factory=Askers)
    last_delivery: tuple[str, float] | None = None
    """The member, and when in Trio's time."""
    place: StreamPosition | None = None
    """The position to which the owner of a stream has fetched."""
    knows_damage: bool = False
    """The damage that was found when the log was opened is in the ledger."""
    is_watched: bool = False
    """A task checks whether damaged ranges can be read again."""
    held_letters: Run | None = None
    """Dead letters of a transfer that cannot be read: they wait for a repair."""
    begun_at: int = 0
    """The offset behind the records that began its ledger; 0 if the log already had it."""
    name: str = field(init=False)
    ledger: Ledger = field(init=False)

    def __post_init__(self) -> None:
        self.name, self.ledger = self.written.group, self.written.ledger

    def assign(self, member: str | None, generation: int) -> None:
        """The position of a new owner is not known before it fetches."""
        before = self.tenure.member
        if member != before:
            self.place = None
            if before is not None:
                self.askers.forget(before)
        self.tenure.assign(member, generation)

    def note_fetch(self, member: str, offset: Offset, now: float) -> None:
        """A stream's owner fetches at `offset`: it has everything below."""
        if self.place is not None and self.place.offset < offset:
            self.last_delivery = (member, now)
        self.place = StreamPosition(offset)
        self.askers.note(member, now)

    def note_gone(self, member: str) -> None:
        """The consumer of this member left or was replaced: the position of the next one is not known."""
        self.place = self.place if member != self.tenure.member else None


class Ledgers:
    def __init__(
        self, volume: Volume, clock: WallClock, directory: str, random: Random, counts: GroupCounts
    ) -> None:
        self._volume = volume
        self._clock = clock
        self._directory = directory
        self._random = random
        self._counts = counts
        self._log: LedgerLog | None = None
        self._unsynced = trio.Event()
        self._before_sync: trio.CancelScope | None = None
        """The wait for more before the next sync. A write that failed ends it: its traces are cut off by a commit,
        and nothing is written before."""
        self.groups: dict[str, GroupHere] = {}
        self.deadlines: Deadlines[str] = Deadlines()
        """When each group's ledger is to be looked at, if it has a deadline. Some looks are for nothing: a
        settlement does not move the deadline to a later time."""
        self.is_doubtful = False
        """Groups may have been lost: an unknown group begins at the earliest offset."""
        self.lost_count = 0
        """The number of ledgers that lost entries when their log was opened."""
        self._compared: tuple[Offset, Offset] | None = None
        """The starts of the partition's log and the end of the companion when all ledgers were last compared."""

    @property
    def is_open(self) -> bool:
        return self._log is not None

    @property
    def companion(self) -> SnapshotLog:
        assert self._log is not None, "the log is there before the first group"
        return self._log.log

    def find(self, group: str) -> GroupHere:
        here = self.groups.get(group)
        if here is None:
            raise UnknownGroup(f"group {group} does not read here; join it again")
        return here

    def is_durable(self, group: str) -> bool:
        here = self.groups.get(group)
        return here is not None and self.companion.durable >= here.begun_at

    def holders(self) -> tuple[LedgerHolder, ...]:
        ledgers = [here.written for here in self.groups.values()]
        return tuple(
            LedgerHolder(each.group, each.group_id, each.settings, each.group_settings) for each in ledgers
        )

    # The life of the companion log

    async def open_if_there(self, log: Log) -> None:
        if LedgerLog.is_there(self._volume, self._directory):
            await self.open(log)
            self._fit_all(log)

    async def open(self, log: Log) -> None:
        """The companion is led with the partition's log, under its epoch."""
        now, wall = trio.current_time(), self._clock.now()
        self._log, found = await LedgerLog.open(self._volume, self._directory, log.leader_epoch, now, wall)
        self.is_doubtful = found.is_doubtful
        self.groups = {name: GroupHere(written) for name, written in found.ledgers.items()}
        for here in self.groups.values():
            self._note_deadline(here)
        for report in found.reports:
            logger.warning("%s", report)
        if found.lost:
            self.lost_count = len(self.groups)
            logger.warning(
                "%s/%s lost entries: its groups fall back to where they stood before, and some messages come again",
                self._directory,
                FOLDER,
            )
        if found.lost or found.torn:
            with suppress(DiskFull):
                await self._compact()
        if not self.companion.is_claimed:
            self._unsynced.set()
        self._volume.journals.enter(self._directory, self._snapshot)

    def _snapshot(self) -> bytes:
        """All ledgers as they are now, for a backup."""
        ledgers = [here.written for here in self.groups.values()]
        now, wall = trio.current_time(), self._clock.now()
        return snapshot_parts(ledgers, now, wall, self.is_doubtful, math.inf)[0]

    def _fit_all(self, log: Log) -> None:
        """Cut progress back that lies outside a log which lost its end or its beginning."""
        now = trio.current_time()
        for here in self.groups.values():
            cut = here.ledger.cut_back(log.end_offset)
            if cut is not None:
                logger.warning("group %s had come further than %s goes: cut back", here.name, self._directory)
                self.write(here, [cut], now)
        self.note_removed_from_all(log.log_start)

    async def keep(self) -> None:
        """Sync the log, claim what is durable, and take a snapshot when it has grown, until closed."""
        with suppress(Closed):
            for round_ in count():
                await self._unsynced.wait()
                with trio.move_on_after(UNSYNCED_SECONDS_MAX) as self._before_sync:
                    await trio.sleep_forever()
                self._unsynced, self._before_sync = trio.Event(), None
                try:
                    await self._keep(claims=round_ % ROUNDS_PER_CLAIM == ROUNDS_PER_CLAIM - 1)
                except (TooManyFiles, DiskFull):
                    self._unsynced.set()  # try again, until there is a free descriptor, or room

    async def _keep(self, *, claims: bool) -> None:
        await self.companion.commit()
        if self.companion.has_grown:
            await self._compact()  # which claims it too
            return
        with trio.move_on_after(0.0 if claims else IDLE_SECONDS_BEFORE_CLAIM):
            await self._unsynced.wait()
        if claims or not self._unsynced.is_set():
            await self.companion.checkpoint()

    async def _compact(self) -> None:
        assert self._log is not None
        ledgers = [here.written for here in self.groups.values()]
        await self._log.compact(ledgers, trio.current_time(), self._clock.now(), self.is_doubtful)

    async def commit(self) -> None:
        await self.companion.commit()

    async def close(self) -> None:
        if self._log is not None:
            await self._log.log.close()

    def abandon(self) -> None:
        self._volume.journals.leave(self._directory, self._snapshot)
        if self._log is not None:
            self._log.log.abandon()

    # Changes: written, then made

    def write(self, here: GroupHere, entries: Sequence[Entry], now: float) -> None:
        """`DiskFull` changes nothing."""
        self.write_together({here: entries}, now)

    def write_together(self, changes: Mapping[GroupHere, Sequence[Entry]], now: float) -> None:
        """The entries of several groups in one write: all of them or none."""
        self.apply(self.journal(changes), now)

    def journal(self, changes: Mapping[GroupHere, Sequence[Entry]]) -> Sequence["WrittenChange"]:
        """The first half of `write_together`. Nothing else may look at these ledgers before the second."""
        wall, written, payloads = self._clock.now(), list[WrittenChange](), list[Payload]()
        for here, entries in changes.items():
            renewed = self._renewed_for(entries) if here.written.is_spent else ()
            written.append(WrittenChange(here, entries, renewed))
            for id_ in renewed:
                payloads.append(reads_here(here.written, wall, here.written.settings, id_))
            for ahead, entry in enumerate(entries, len(renewed)):
                payloads.append(happened(here.written, wall, entry, ahead))
        self._append(payloads, wall)
        return written

    def apply(self, written: Sequence["WrittenChange"], now: float) -> None:
        for here, entries, renewed in written:
            for producer_id in renewed:
                here.written.take_producer(producer_id)
            self._apply(here, entries, now)
            here.written.number += len(renewed) + len(entries)

    def _apply(self, here: GroupHere, entries: Sequence[Entry], now: float) -> None:
        ledger, brings_deadlines = here.ledger, False
        for entry in entries:
            ledger.apply(entry, now)
            here.removals += isinstance(entry, TAKING_AWAY)
            brings_deadlines = brings_deadlines or not isinstance(entry, WITHOUT_DEADLINES)
        if brings_deadlines:
            self._note_deadline(here)
        if here.listener is not None:
            here.listener.hint()

    def _renewed_for(self, entries: Sequence[Entry]) -> Sequence[int]:
        """A transfer needs a producer id with free numbers: a spent id is replaced by a new one."""
        begins = any(isinstance(entry, TransferBegun) for entry in entries)
        return [draw_producer_id(self._random)] if begins else []

    def begin(
        self,
        group: str,
        group_id: int,
        settings: LedgerSettings,
        offset: Offset,
        *,
        group_settings: dict[str, Any] | None = None,
        lost: LostProgress | None = None,
    ) -> GroupHere:
        """Begin a ledger: the group is new, or was created again with the same name, or its ledger was lost."""
        wall, now, old = self._clock.now(), trio.current_time(), self.groups.get(group)
        ledger = WrittenLedger.ledger_class(settings)
        written = WrittenLedger(group, group_id, draw_producer_id(self._random), ledger)
        written.group_settings, written.lost = group_settings, lost
        began = written.ledger.begin(offset)
        parting = [forgotten(old.written, wall)] if old is not None else []
        self._append([*parting, reads_here(written, wall, settings), happened(written, wall, began, 1)], wall)
        written.ledger.apply(began, now)
        written.number += 2
        if old is not None:
            old.removals += 1
        self.groups[group] = here = GroupHere(written, begun_at=self.companion.written)
        return here

    def change_settings(
        self, here: GroupHere, settings: LedgerSettings, group_settings: dict[str, Any] | None
    ) -> None:
        if (settings, group_settings) != (here.ledger.settings, here.written.group_settings):
            changed = replace(here.written, group_settings=group_settings)
            wall = self._clock.now()
            self._append([reads_here(changed, wall, settings)], wall)
            here.ledger.settings, here.written.group_settings = settings, group_settings
            here.written.number += 1
            here.removals += 1  # which messages may be delivered together has changed

    def forgive_loss(self, here: GroupHere) -> None:
        """An operator has chosen where the group goes on: the earlier loss is no longer reported."""
        if here.written.lost is not None:
            changed = replace(here.written, lost=None)
            wall = self._clock.now()
            self._append([reads_here(changed, wall, here.ledger.settings)], wall)
            here.written.lost = None
            here.written.number += 1

    def forget(self, here: GroupHere) -> None:
        wall = self._clock.now()
        self._append([forgotten(here.written, wall)], wall)
        del self.groups[here.name]
        self.deadlines.drop(here.name)
        here.removals += 1

    def _append(self, payloads: Sequence[Payload], wall: Microseconds) -> None:
        assert self._log is not None
        if not self._unsynced.is_set():
            self._unsynced.set()
        try:
            self._log.append(payloads, wall)
        except DiskFull:
            if self._before_sync is not None:
                self._before_sync.cancel()
            raise

    def _note_deadline(self, here: GroupHere) -> None:
        deadline = here.ledger.next_deadline()
        if deadline is not None:
            self.deadlines.note_earlier(here.name, deadline)

    # Removal and time

    def note_removed_from_all(self, log_start: Offset) -> None:
        """On a full disk it is noted at the group's next request. Idle groups cost nothing: since the last time
        neither the log's start nor any ledger has changed."""
        if not self.groups or self._compared == (log_start, self.companion.written):
            return
        with suppress(DiskFull):
            for here in self.groups.values():
                self.note_removed(here, log_start)
            self._compared = (log_start, self.companion.written)

    def note_removed(self, here: GroupHere, log_start: Offset) -> None:
        removed = here.ledger.removed_below(log_start)
        if removed is None:
            return
        self.write(here, [removed], trio.current_time())
        if removed.unacked:
            self._counts.of[here.name].removed_unacked += removed.unacked
            logger.warning(
                "%d messages below offset %d of %s were removed before group %s had done with them",
                removed.unacked,
                log_start,
                self._directory,
                here.name,
            )

    def tick(self, now: float) -> Iterable[tuple[GroupHere, Sequence[Ending]]]:
        """The groups with a deadline now, and their expired leases. On a full disk it is tried again."""
        for name in self.deadlines.take_passed(now):
            here = self.groups[name]
            expired = here.ledger.tick(now)
            try:
                if expired:
                    self.write(here, expired, now)
            except DiskFull:
                self.deadlines.note_earlier(name, now + UNSYNCED_SECONDS_MAX)
            else:
                self._note_deadline(here)
                yield here, expired


class WrittenChange(NamedTuple):
    """Entries of one group that are journaled, and not applied yet."""

    here: GroupHere
    entries: Sequence[Entry]
    renewed: Sequence[int]
    """Producer ids that were journaled before them."""
