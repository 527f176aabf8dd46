"""The delays of a partition: fires, cancels and moves delayed messages.

The log is the truth. A delayed message that falls due is written as an ordinary one, and that record is also the
mark that it has fired: neither a crash nor a power cut loses or doubles it (G8).

A cancel or a move removes the timer first: from then on the message cannot fire. If the record that says so cannot
be written, the timer is set again.
"""

import logging
from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Sequence
from random import Random

import trio

from goqueue.actors.delays.listing import delayed_views
from goqueue.actors.delays.pending import DelayedMessages
from goqueue.actors.delays.requests import CancelDelayed, CountDelayed, DelayedViews, ListDelayed, MoveDelayed
from goqueue.actors.delays.timerrequests import TakeDue, TakeTimer, TimersDue
from goqueue.actors.delivery.streams import GroupStreams
from goqueue.actors.runtime.handlers import defers, hears
from goqueue.actors.runtime.messages import Reply
from goqueue.actors.runtime.ref import ActorRef
from goqueue.actors.statistics.delays import DelayCounts
from goqueue.actors.statistics.groups import GroupCounts
from goqueue.core.delays.events import cancel_batch, due_time, move_batch
from goqueue.core.delays.firing import Original, fired_batch
from goqueue.core.delays.pending import DelayChange, DelayState
from goqueue.core.records.batch import Batch
from goqueue.core.records.record import TIMESTAMP_MAX
from goqueue.core.slices.cachebudget import CacheBudget
from goqueue.environment import WallClock
from goqueue.errors import DiskFull
from goqueue.storage.delays.scan import read_originals
from goqueue.storage.log.volume import Volume
from goqueue.types import Microseconds, Offset

logger = logging.getLogger("goqueue.delays")

FIRED_AT_ONCE = 500
READ_BYTES_MAX = 4 * 1024 * 1024
"""Limit of originals that are read together, so that firing takes little memory."""
COUNTED_AT_ONCE = 1_000
DISK_FULL_SECONDS = 1.0


class PartitionDelays(GroupStreams):
    """A subclass calls `open_delays` in its start, `close_delays` in its stop, `show_to_delays` after a sync."""

    def __init__(
        self,
        volume: Volume,
        clock: WallClock,
        directory: str,
        random: Random,
        counts: GroupCounts,
        *,
        budget: CacheBudget,
        timers: ActorRef | None,
        delay_counts: DelayCounts,
    ) -> None:
        super().__init__(volume, clock, directory, random, counts, budget=budget)
        self.delayed = DelayedMessages(volume, clock, directory, timers, delay_counts)
        self._is_keeping = self._is_ending = False
        self._fell_due = trio.Event()
        self._waiting_for_disk = trio.lowlevel.ParkingLot()
        self._changing: dict[Offset, trio.Event] = {}

    @abstractmethod
    def append_own(self, batch: Batch, fired: Sequence[Offset] = ()) -> Offset:
        """Write a batch of the broker's own, and have it synced. Returns its end. `DiskFull` writes nothing.

        For messages that fired, `fired` names the originals, so that they need not be parsed from the batch.
        """

    @property
    def delays(self) -> DelayedMessages:
        return self.delayed

    async def open_delays(self) -> None:
        await self.delayed.open(self.log, self.name, self.ref)
        if self.delayed.is_used:
            self._keep_delays()

    async def close_delays(self) -> None:
        self._is_ending = True
        await self.delayed.close()

    def show_to_delays(self, durable: Offset) -> None:
        self.delayed.show(durable)
        if not self._is_keeping and self.delayed.has_news.is_set():
            self._keep_delays()
        self._waiting_for_disk.unpark_all()

    def note_removed(self, below: Offset = 0) -> None:
        super().note_removed(below)
        self.delayed.remove_below(self.log.log_start)

    def _keep_delays(self) -> None:
        self._is_keeping = True
        self._fell_due.set()  # some may have fallen due before
        self.background(self.delayed.keep, endless=True)
        self.background(self._fire_what_is_due, endless=True)

    # Firing

    @hears(TimersDue)
    async def fell_due(self, _: str, __: TimersDue) -> None:
        self._fell_due.set()

    async def _fire_what_is_due(self) -> None:
        owner = await self.delayed.owner()
        while owner is not None:
            await self._fell_due.wait()
            self._fell_due = trio.Event()
            count = FIRED_AT_ONCE
            while count == FIRED_AT_ONCE and not self._is_ending:  # after fewer, the timers tell when more may fire
                due = await self.delayed.ask(TakeDue(owner, FIRED_AT_ONCE))
                await self._fire(due)
                count = len(due)

    async def _fire(self, due: Sequence[tuple[Offset, Microseconds]]) -> None:
        """Never before the wall clock has reached the due time, even if it was set back just now (G8)."""
        ledgers, now = self.delayed, self._wall_clock.now()
        pending = ledgers.delays.pending
        due = [timer for timer in due if timer[0] in pending]  # the originals of the others are gone
        ledgers.taken.update(due)
        waiting = [timer for timer in due if timer[1] <= now]
        if len(waiting) < len(due):
            ledgers.set_again([timer for timer in due if timer[1] > now])
        while waiting:
            found, unread_from = await read_originals(self.log, [offset for offset, _ in waiting], READ_BYTES_MAX)
            read = [timer for timer in waiting if timer[0] < unread_from]
            waiting = [timer for timer in waiting if timer[0] >= unread_from]
            if self._is_ending:
                return  # they are pending, and fire after the next start
            await self._write_fired(read, found)

    async def _write_fired(self, due: Sequence[tuple[Offset, Microseconds]], found: dict[Offset, bytes]) -> None:
        pending = self.delayed.delays.pending
        ready = [timer for timer in due if timer[0] in found and timer[0] in pending]
        if len(ready) < len(due):
            self._warn_of_unread([offset for offset, _ in due if offset not in found and offset in pending])
        if not ready:
            return
        try:
            originals = _originals(ready, found)
            self.append_own(fired_batch(originals), [offset for offset, _ in originals])
        except DiskFull:
            self.delayed.set_again(ready)
            await trio.sleep(DISK_FULL_SECONDS)

    def _warn_of_unread(self, offsets: Sequence[Offset]) -> None:
        for offset in offsets:
            if offset >= self.log.log_start:
                logger.warning("the delayed message at offset %d of %s cannot be read", offset, self.name)

    # Changes

    @defers(CancelDelayed)
    async def cancel_delayed(self, message: CancelDelayed, reply: Reply[bool]) -> None:
        self.background(self._answer, reply, self._cancel, message.offset)

    async def _cancel(self, offset: Offset) -> bool:
        due = await self._take_timer(offset)
        if due is None:
            return self.delayed.delays.was_cancelled(offset)
        return await self._change(offset, due, cancel_batch(offset, self._wall_clock.now()))

    @defers(MoveDelayed)
    async def move_delayed(self, message: MoveDelayed, reply: Reply[bool]) -> None:
        self.background(self._answer, reply, self._move, message)

    async def _move(self, message: MoveDelayed) -> bool:
        due = await self._take_timer(message.offset)
        if due is None:
            return False
        now = self._wall_clock.now()
        moved = min(due_time(message.due, now), TIMESTAMP_MAX)
        return await self._change(message.offset, due, move_batch(message.offset, moved, now))

    async def _take_timer(self, offset: Offset) -> Microseconds | None:
        """One change of a message at a time, and not before the message is durable and applied."""
        while offset in self._changing:
            await self._changing[offset].wait()
        self._changing[offset] = trio.Event()
        try:
            await self._until_durable(min(offset + 1, self.log.end_offset))
            owner = await self.delayed.owner() if offset in self.delayed.delays.pending else None
            due = None if owner is None else await self.delayed.ask(TakeTimer(owner, offset))
        except BaseException:
            self._end_change(offset)
            raise
        if due is None:
            self._end_change(offset)
        else:
            self.delayed.taken[offset] = due
        return due

    async def _change(self, offset: Offset, due: Microseconds, batch: Batch) -> bool:
        try:
            await self._until_durable(self.append_own(batch))
        except BaseException:
            self.delayed.set_again([(offset, due)])
            raise
        finally:
            self._end_change(offset)
        return True

    def _end_change(self, offset: Offset) -> None:
        self._changing.pop(offset).set()

    async def _until_durable(self, end: Offset) -> None:
        while self.log.high_watermark < end:
            self.sync_soon()
            await self._waiting_for_disk.park()

    async def _until_applied(self) -> None:
        """A question sees all confirmed messages, including those confirmed with acks=leader."""
        if self.delayed.has_unapplied:
            await self._until_durable(self.log.end_offset)

    @abstractmethod
    def sync_soon(self) -> None:
        """A caller waits for unsynced records."""

    # Questions

    @defers(ListDelayed)
    async def list_delayed(self, message: ListDelayed, reply: Reply[DelayedViews]) -> None:
        self.background(self._answer, reply, self._list, message)

    async def _list(self, message: ListDelayed) -> DelayedViews:
        await self._until_applied()
        delays = self.delayed.delays
        if message.finished:
            changes = delays.finished_from(message.first, message.count_max)
        else:
            changes = await self._pending(message.first, message.count_max)
        views = await delayed_views(self.log, changes)
        return DelayedViews(views, len(delays.pending))

    async def _pending(self, first: Offset, count_max: int) -> list[DelayChange]:
        """Up to `count_max` pending messages from `first` on; those that fire meanwhile are skipped."""
        delays, found = self.delayed.delays, list[DelayChange]()
        while len(found) < count_max and (offsets := delays.pending_from(first, count_max - len(found))):
            timers = zip(offsets, await self.delayed.due_times(offsets), strict=True)
            found += [
                DelayChange(DelayState.PENDING, *timer, timer[0]) for timer in timers if timer[0] in delays.pending
            ]
            first = offsets[-1] + 1
        return found

    @defers(CountDelayed)
    async def count_delayed(self, message: CountDelayed, reply: Reply[Sequence[int]]) -> None:
        self.background(self._answer, reply, self._count_delayed, message.edges)

    async def _count_delayed(self, edges: Sequence[Microseconds]) -> Sequence[int]:
        """Counts some at a time, so that others can run."""
        await self._until_applied()
        if not edges:
            return [len(self.delayed.delays.pending)]
        counts, first = [0] * (len(edges) + 1), 0
        while some := await self._pending(first, COUNTED_AT_ONCE):
            for change in some:
                counts[bisect_right(edges, change.time)] += 1
            first = some[-1].offset + 1
        return counts


def _originals(due: Sequence[tuple[Offset, Microseconds]], found: dict[Offset, bytes]) -> list[Original]:
    """In the order of due times."""
    return [(offset, found[offset]) for offset, _ in due]
