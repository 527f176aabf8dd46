"""The delays of a partition: fires, cancels and moves delayed messages.

The log is the truth. A delayed message that falls due is written as an ordinary one, and that record is also the
mark that it has fired: neither a crash nor a power cut loses or doubles it (G8).

The timer wheel only says that something may be due. A message fires if it is pending then, due by the partition's
own account, and no cancel or move of it is written.
"""

import logging
from bisect import bisect_right
from collections.abc import Sequence
from typing import Protocol

import trio

from goqueue.actors.delays.listing import delayed_views
from goqueue.actors.delays.pending import DelayedMessages, Timer
from goqueue.actors.delays.requests import (
    CancelDelayed,
    CountDelayed,
    DelayedView,
    DelayedViews,
    FindDelayed,
    ListDelayed,
    MoveDelayed,
    TimersDue,
)
from goqueue.actors.runtime.handlers import defers, hears
from goqueue.actors.runtime.messages import Reply
from goqueue.actors.runtime.parts import PartHost, answer
from goqueue.core.delays.events import cancel_batch, due_time, move_batch
from goqueue.core.delays.firing import Original, fired_batch
from goqueue.core.delays.pending import DelayChange, DelayState
from goqueue.core.records.batch import Batch
from goqueue.core.records.record import TIMESTAMP_MAX
from goqueue.environment import WallClock
from goqueue.errors import DiskFull
from goqueue.storage.delays.scan import read_originals
from goqueue.storage.log.log import Log
from goqueue.types import Microseconds, Offset

logger = logging.getLogger("goqueue.delays")

FIRED_AT_ONCE = 500
READ_BYTES_MAX = 4 * 1024 * 1024
"""Limit of originals that are read together, so that firing takes little memory."""
COUNTED_AT_ONCE = 1_000
DISK_FULL_SECONDS = 1.0


class OwnAppends(Protocol):
    """Appends of the broker itself."""

    def append_own(self, batch: Batch, fired: Sequence[Offset] = ()) -> Offset:
        """Write a batch of the broker's own, and have it synced. Returns its end. `DiskFull` writes nothing.

        For messages that fired, `fired` names the originals, so that they need not be parsed from the batch.
        """

    def sync_soon(self) -> None:
        """A caller waits for unsynced records."""


class PartitionDelays:
    """A part of a partition."""

    def __init__(
        self, delayed: DelayedMessages, log: Log, host: PartHost, clock: WallClock, appends: OwnAppends
    ) -> None:
        self._delayed = delayed
        self._log = log
        self._host = host
        self._clock = clock
        self._appends = appends
        self._is_keeping = self._is_ending = False
        self._fell_due = trio.Event()
        self._waiting_for_disk = trio.lowlevel.ParkingLot()

    async def open(self) -> None:
        await self._delayed.open(self._log, self._host.name, self._host.ref)
        if self._delayed.is_used:
            self._keep()

    async def close(self) -> None:
        self._is_ending = True
        await self._delayed.close()

    def show(self, durable: Offset) -> None:
        """Everything below `durable` is durable."""
        self._delayed.show(durable)
        if not self._is_keeping and self._delayed.has_news.is_set():
            self._keep()
        self._waiting_for_disk.unpark_all()

    def _keep(self) -> None:
        self._is_keeping = True
        self._fell_due.set()  # some may have fallen due before
        self._host.background(self._delayed.keep, endless=True)
        self._host.background(self._fire_what_is_due, endless=True)

    # Firing

    @hears(TimersDue)
    async def fell_due(self, _: str, __: TimersDue) -> None:
        self._fell_due.set()

    async def _fire_what_is_due(self) -> None:
        while True:
            await self._fell_due.wait()
            self._fell_due = trio.Event()
            count = FIRED_AT_ONCE
            while count == FIRED_AT_ONCE and not self._is_ending:  # after fewer, the timers tell when more may fire
                named = await self._delayed.take_due(FIRED_AT_ONCE)
                await self.fire(named)
                count = len(named)

    async def fire(self, named: Sequence[Timer]) -> None:
        waiting = self._still_due(named)
        while waiting:
            found, unread_from = await read_originals(self._log, [offset for offset, _ in waiting], READ_BYTES_MAX)
            read = [timer for timer in waiting if timer[0] < unread_from]
            waiting = [timer for timer in waiting if timer[0] >= unread_from]
            if self._is_ending:
                return  # they are pending, and fire after the next start
            await self._write_fired(self._still_due(read), found)

    def _still_due(self, timers: Sequence[Timer]) -> list[Timer]:
        return self._delayed.still_due(timers, self._clock.now())

    async def _write_fired(self, due: Sequence[Timer], found: dict[Offset, bytes]) -> None:
        ready = [timer for timer in due if timer[0] in found]
        if len(ready) < len(due):
            self._warn_of_unread([offset for offset, _ in due if offset not in found])
        if not ready:
            return
        try:
            originals = self.originals(ready, found)
            self._appends.append_own(fired_batch(originals), [offset for offset, _ in originals])
        except DiskFull:
            self._delayed.set_again(ready)
            await trio.sleep(DISK_FULL_SECONDS)

    def originals(self, due: Sequence[Timer], found: dict[Offset, bytes]) -> list[Original]:
        """In the order of due times, in which they are appended."""
        return [(offset, found[offset]) for offset, _ in due]

    def _warn_of_unread(self, offsets: Sequence[Offset]) -> None:
        for offset in offsets:
            if offset >= self._log.log_start:
                logger.warning("the delayed message at offset %d of %s cannot be read", offset, self._host.name)

    # Changes

    @defers(CancelDelayed)
    async def cancel_delayed(self, message: CancelDelayed, reply: Reply[bool]) -> None:
        self._host.background(answer, reply, self._cancel, message.offset)

    async def _cancel(self, offset: Offset) -> bool:
        if not await self._may_change(offset):
            return self._delayed.delays.was_cancelled(offset)
        return await self.change(cancel_batch(offset, self._clock.now()))

    @defers(MoveDelayed)
    async def move_delayed(self, message: MoveDelayed, reply: Reply[bool]) -> None:
        self._host.background(answer, reply, self._move, message)

    async def _move(self, message: MoveDelayed) -> bool:
        if not await self._may_change(message.offset):
            return False
        now = self._clock.now()
        moved = min(due_time(message.due, now), TIMESTAMP_MAX)
        return await self.change(move_batch(message.offset, moved, now))

    async def _may_change(self, offset: Offset) -> bool:
        """Whether the message is pending. What is written about it must be durable and applied first."""
        await self._until_durable(min(offset + 1, self._log.end_offset))
        while self._delayed.is_decided(offset):
            await self._until_durable(self._log.end_offset)
        return offset in self._delayed.pending

    async def change(self, batch: Batch) -> bool:
        """From the append on the message cannot fire as before. `DiskFull` changes nothing."""
        await self._until_durable(self._appends.append_own(batch))
        return True

    async def _until_durable(self, end: Offset) -> None:
        while self._log.high_watermark < end:
            self._appends.sync_soon()
            await self._waiting_for_disk.park()

    async def _until_applied(self) -> None:
        """A question sees all confirmed messages, including those confirmed with acks=leader."""
        if self._delayed.has_unapplied:
            await self._until_durable(self._log.end_offset)

    # Questions

    @defers(ListDelayed)
    async def list_delayed(self, message: ListDelayed, reply: Reply[DelayedViews]) -> None:
        self._host.background(answer, reply, self._list, message)

    async def _list(self, message: ListDelayed) -> DelayedViews:
        await self._until_applied()
        delays = self._delayed.delays
        if message.finished:
            changes = delays.finished_from(message.first, message.count_max)
        else:
            changes = self._pending_changes(delays.pending_from(message.first, message.count_max))
        return DelayedViews(await delayed_views(self._log, changes), len(delays.pending))

    def _pending_changes(self, offsets: Sequence[Offset]) -> list[DelayChange]:
        dues = self._delayed.delays.dues
        return [DelayChange(DelayState.PENDING, offset, dues[offset], offset) for offset in offsets]

    @defers(FindDelayed)
    async def find_delayed(self, message: FindDelayed, reply: Reply[DelayedViews]) -> None:
        self._host.background(answer, reply, self._find, message)

    async def _find(self, message: FindDelayed) -> DelayedViews:
        """Goes on until it has found one: an empty answer says that there are no more."""
        await self._until_applied()
        found, first = list[DelayedView](), message.first
        while not found:
            offsets = await self._delayed.ids.find(self._log, message.message_id, first)
            views = await delayed_views(self._log, self._pending_changes(offsets[: message.count_max]))
            if not views:
                break
            found = [view for view in views if view.message_id == message.message_id]
            first = views[-1].offset + 1
        return DelayedViews(found, len(self._delayed.pending))

    @defers(CountDelayed)
    async def count_delayed(self, message: CountDelayed, reply: Reply[Sequence[int]]) -> None:
        self._host.background(answer, reply, self._count_delayed, message.edges)

    async def _count_delayed(self, edges: Sequence[Microseconds]) -> Sequence[int]:
        """Counts some at a time, so that others can run."""
        await self._until_applied()
        if not edges:
            return [len(self._delayed.delays.pending)]
        delays, counts, first = self._delayed.delays, [0] * (len(edges) + 1), 0
        while some := delays.pending_from(first, COUNTED_AT_ONCE):
            for offset in some:
                counts[bisect_right(edges, delays.dues[offset])] += 1
            first = some[-1] + 1
            await trio.lowlevel.checkpoint()
        return counts
