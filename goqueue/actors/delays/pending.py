"""The delayed messages of a partition, with what follows from them: the index on disk and the timers.

Events from the log are applied here in the log's order, once they are durable. Index and timers are updated a
moment later, in the same order: a question about a timer first passes on the updates that wait. A partition without
delayed messages has no index and no timers.
"""

import logging
import math
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import islice
from typing import TypeVar

import trio

from goqueue.actors.delays.timerrequests import (
    AskDueTimes,
    AskEarliest,
    CloseTimers,
    LoadTimers,
    OpenTimers,
    SetTimers,
)
from goqueue.actors.runtime.messages import Request
from goqueue.actors.runtime.ref import ActorRef
from goqueue.actors.statistics.delays import DelayCounts
from goqueue.core.delays.events import DelayedRecord, DelayEvent, Moved
from goqueue.core.delays.pending import DelayChange, Delays, DelayState
from goqueue.core.offsetset import OffsetSet
from goqueue.environment import WallClock
from goqueue.errors import ActorDied, Closed, DiskFull, StorageError
from goqueue.storage.delays.index import DelayIndex, LoadedIndex
from goqueue.storage.delays.scan import apply_delays
from goqueue.storage.log.log import Log
from goqueue.storage.log.volume import Volume
from goqueue.types import Microseconds, Offset

logger = logging.getLogger("goqueue.delays")

AnswerT = TypeVar("AnswerT")
ItemT = TypeVar("ItemT")

COMPACTION_SECONDS_MIN = 60.0
LOADED_AT_ONCE = 4_000
TOLD_AT_ONCE = 1_000
"""Limit of index entries, of timer changes and of due times in one step: a few milliseconds of work."""


class DelayedMessages:
    def __init__(
        self, volume: Volume, clock: WallClock, directory: str, timers: ActorRef | None, counts: DelayCounts
    ) -> None:
        self._volume = volume
        self._clock = clock
        self._directory = directory
        self._timers = timers
        self._counts = counts
        self._index: DelayIndex | None = None
        self._owner: int | None = None
        self._listener: ActorRef | None = None
        self._name = ""
        self._log: Log | None = None
        self._unapplied: deque[DelayEvent] = deque()
        self._entries: list[DelayChange] = []
        self._timer_changes: list[tuple[Offset, Microseconds | None]] = []
        self._gone = OffsetSet()
        """Originals that are gone and may still have timers. Nothing waits for their removal: only pending messages
        fire."""
        self._turn = trio.Lock()
        self._reached: Offset = 0
        """The offset of the record that was applied last, or a later one with nothing about delays in between."""
        self._compacted_at = -math.inf
        self.delays = Delays()
        self.taken: dict[Offset, Microseconds] = {}
        """Pending messages without a timer in the wheel: they are being fired, cancelled or moved."""
        self._asked_at: dict[Offset, Microseconds] = {}
        """When messages that were already due were written or moved: lateness counts from then."""
        self.has_news = trio.Event()
        """Index or timers have to be updated."""

    @property
    def is_used(self) -> bool:
        return self._owner is not None or bool(self._entries or self._unapplied)

    @property
    def pending(self) -> OffsetSet:
        return self.delays.pending

    @property
    def hidden(self) -> OffsetSet:
        """The offsets that are never delivered: all originals, and the records that move, cancel or end them."""
        return self.delays.hidden

    @property
    def has_unapplied(self) -> bool:
        return bool(self._unapplied)

    @property
    def log(self) -> Log:
        assert self._log is not None, "a book is opened with its log"
        return self._log

    # Its life

    async def open(self, log: Log, name: str, listener: ActorRef) -> None:
        """Load the index, then apply the part of the log that the index has not seen."""
        self._log, self._name, self._listener = log, name, listener
        if not DelayIndex.exists(self._volume, self._directory) and not log.segments_about_delays():
            return
        applied_to = await self._load()
        await apply_delays(log, applied_to, self._apply_found)
        self._let_go(self.delays.pending.take_below(log.log_start))
        self.delays.hidden.take_below(log.log_start)
        await self.settle()

    async def _load(self) -> Offset:
        log = self.log
        self._index, loaded = await DelayIndex.open(
            self._volume, self._directory, log.log_start, log.high_watermark, thinned_to=log.thinned_to
        )
        self.delays.load(loaded.pending, loaded.hidden, loaded.finished)
        self._reached = loaded.applied_to
        if self._timers is not None:
            await self._load_timers(self._timers, loaded)
        return loaded.applied_to

    async def _load_timers(self, timers: ActorRef, loaded: LoadedIndex) -> None:
        owner, count = await self._open_timers(timers), len(loaded.offsets)
        for begin in range(0, count, LOADED_AT_ONCE):
            end = begin + LOADED_AT_ONCE
            await timers.call(
                LoadTimers(owner, loaded.offsets[begin:end], loaded.dues[begin:end], more=end < count)
            )

    async def _apply_found(self, events: Sequence[DelayEvent]) -> None:
        self._apply(events)
        await self.settle()

    async def close(self) -> None:
        """Write everything applied to the index, and give up the timers."""
        await self.settle()
        if self._index is not None:
            self._mark(self._index)
            await self._index.close()
        if self._timers is not None and self._owner is not None:
            with suppress(ActorDied):
                await self._timers.call(CloseTimers(self._owner))

    def abandon(self) -> None:
        if self._index is not None:
            self._index.abandon()

    # Events from the log

    def note_appended(self, events: Iterable[DelayEvent]) -> None:
        """The events are applied once they are durable."""
        now, appended = self._clock.now(), list(events)
        self._unapplied.extend(appended)
        for event in appended:
            if isinstance(event, DelayedRecord | Moved) and event.due < now:
                self._asked_at[event.offset] = now

    def show(self, durable: Offset) -> None:
        """Everything below `durable` is durable."""
        shown: list[DelayEvent] = []
        while self._unapplied and self._unapplied[0].at < durable:
            shown.append(self._unapplied.popleft())
        self._count(self._apply(shown))

    def _apply(self, events: Sequence[DelayEvent]) -> list[DelayChange]:
        changes = self.delays.apply_all(events)
        self._note(changes)
        return changes

    def _note(self, changes: Sequence[DelayChange]) -> None:
        if changes:
            self._entries += changes
            self._reached = changes[-1].at
            self._timer_changes += [
                (offset, time if state is DelayState.PENDING else None)
                for state, offset, time, _ in changes
                if state is DelayState.PENDING or offset not in self.taken
            ]
            self.has_news.set()

    def _count(self, changes: Sequence[DelayChange]) -> None:
        now, taken, counts = self._clock.now(), self.taken, self._counts
        for state, offset, _, _ in changes:
            due = taken.pop(offset, None)
            if state is DelayState.PENDING:
                counts.rescheduled += due is not None
                continue
            asked_at = self._asked_at.pop(offset, 0)
            counts.note_ended(state)
            if state is DelayState.DELIVERED and due is not None:
                counts.lateness.add(max(0.0, (now - max(due, asked_at)) / 1_000_000))

    def remove_below(self, log_start: Offset) -> None:
        """The originals below `log_start` are gone."""
        gone, entries = self.delays.removed_below(log_start, self._clock.now(), self._reached)
        self._counts.expired += len(gone)
        self._entries += entries
        self._let_go(gone)

    def _let_go(self, gone: OffsetSet) -> None:
        """The index needs no entry for them: whatever is older than the log's start does not count."""
        if len(gone):
            for times in (self.taken, self._asked_at):
                for offset in [offset for offset in times if offset in gone]:
                    del times[offset]
            self._gone.update(gone)
            self.has_news.set()

    # Index and timers

    async def settle(self) -> None:
        """Pass all waiting updates to index and timers."""
        async with self._turn:
            await self._settle()

    async def ask(self, ask: Request[AnswerT]) -> AnswerT:
        """Ask the timers, after all events applied so far were passed to them."""
        assert self._timers is not None
        async with self._turn:
            await self._settle()
            return await self._timers.call(ask)

    async def owner(self) -> int | None:
        """The partition's owner number at the timers; None without timers."""
        if self._timers is None:
            return None
        async with self._turn:
            return await self._open_timers(self._timers)

    async def _open_timers(self, timers: ActorRef) -> int:
        if self._owner is None:
            assert self._listener is not None
            self._owner = await timers.call(OpenTimers(self._name, self._listener))
        return self._owner

    def set_again(self, timers: Iterable[tuple[Offset, Microseconds]]) -> None:
        """These timers were taken, and the messages still have to fire."""
        for offset, due in timers:
            if self.taken.pop(offset, None) is not None and offset in self.delays.pending:
                self._timer_changes.append((offset, due))
        self.has_news.set()

    async def _settle(self) -> None:
        if self.has_news.is_set():  # else a task may be waiting for this event
            self.has_news = trio.Event()
        for _ in range(0, len(self._entries), TOLD_AT_ONCE):
            self._write_some(await self._open_index(self._entries[0].at))
            await trio.lowlevel.checkpoint()  # others want to run
        for _ in range(0, len(self._timer_changes), TOLD_AT_ONCE):
            changes = _taken_from(self._timer_changes)
            await self._set_timers(changes)

    def _write_some(self, index: DelayIndex) -> None:
        index.append(_taken_from(self._entries))

    async def _write_all(self) -> None:
        """Write all entries. The last few are written in one step, without letting others run."""
        await self._settle()
        while self._entries and (self._index is None or len(self._entries) > TOLD_AT_ONCE):
            await self._settle()
        if self._index is not None:
            self._write_some(self._index)

    async def _set_timers(self, changes: Sequence[tuple[Offset, Microseconds | None]]) -> None:
        if self._timers is not None:
            owner = await self._open_timers(self._timers)
            await self._timers.call(SetTimers(owner, changes))

    async def _drop_timers(self) -> None:
        """Remove the timers of originals that are gone, some at a time: others may ask in between."""
        while some := list(islice(self._gone.offsets(), TOLD_AT_ONCE)):
            async with self._turn:
                await self._settle()
                self._gone.take_below(some[-1] + 1)
                await self._set_timers([(offset, None) for offset in some])

    async def _open_index(self, begin: Offset) -> DelayIndex:
        """A new index begins at the first entry, even if the log begins behind it by now."""
        if self._index is None:
            end = self.log.high_watermark
            self._index, _ = await DelayIndex.open(self._volume, self._directory, begin, end)
        return self._index

    async def sync_index(self) -> None:
        """Make everything that the log says so far durable in the index: then the log may lose those records."""
        async with self._turn:
            await self._write_all()
            if self._index is None:
                return
            self._mark(self._index)
        with suppress(StorageError):  # then it lacks entries, and the next start rebuilds it
            await self._index.sync()

    def _mark(self, index: DelayIndex) -> None:
        self._reached = self.log.high_watermark
        index.mark(self._reached)

    async def keep(self) -> None:
        """Pass updates on, and compact the index when it has grown, until cancelled."""
        while True:
            await self.has_news.wait()
            await self.settle()
            await self._drop_timers()
            if self._index is not None and self._wants_compaction(self._index):
                with suppress(DiskFull, Closed):  # a stop may come in between
                    await self._compact(self._index)

    def _wants_compaction(self, index: DelayIndex) -> bool:
        is_time = trio.current_time() >= self._compacted_at + COMPACTION_SECONDS_MIN
        entries = len(self.pending) + self.hidden.words_max
        return is_time and (index.is_incomplete or index.has_grown(entries))

    async def _compact(self, index: DelayIndex) -> None:
        """The state of one moment: events that are applied while the timers are asked are appended afterwards."""
        self._compacted_at = trio.current_time()
        async with self._turn:
            await self._write_all()
            offsets, reached = self.delays.pending.copy().offsets(), self._reached
            hidden, finished = self.hidden.copy(), list(self.delays.finished.values())
        await index.compact(offsets, self.due_times, hidden, finished, reached)

    async def due_times(self, offsets: Sequence[Offset]) -> list[Microseconds]:
        """The due times of these pending messages, at most `TOLD_AT_ONCE`."""
        async with self._turn:
            await self._settle()
            return await self._due_times(offsets)

    async def next_due(self) -> Microseconds | None:
        """The earliest due time. It asks for some timers at a time, however many there are."""
        owner = await self.owner() if self.delays.pending else None
        dues, first = list(self.taken.values()), None if owner is None else Offset(0)
        while owner is not None and first is not None:
            due, first = await self.ask(AskEarliest(owner, first))
            dues += [] if due is None else [due]
        return min(dues, default=None)

    async def _due_times(self, offsets: Sequence[Offset]) -> list[Microseconds]:
        if self._timers is None or self._owner is None:
            return [0] * len(offsets)
        # The timers learn only later of those that are set again meanwhile.
        untold = {offset: due for offset, due in self._timer_changes if due is not None} | self.taken
        times = await self._timers.call(AskDueTimes(self._owner, offsets))
        return [untold.get(offset, due or 0) for offset, due in zip(offsets, times, strict=True)]


def _taken_from(items: list[ItemT]) -> list[ItemT]:
    """Removes and returns the first `TOLD_AT_ONCE` items."""
    taken = items[:TOLD_AT_ONCE]
    del items[:TOLD_AT_ONCE]
    return taken
