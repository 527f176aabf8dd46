"""The delayed messages of a partition, with what follows from them: the index on disk and the timers.

Events from the log are applied here in the log's order, once they are durable. Index and timers are updated a
moment later, in the same order. Nothing waits for the timers: what they name too late is no longer pending, or is
due at another time, and is left alone. A partition without delayed messages has no index and no timers.
"""

import logging
import math
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import islice
from typing import TypeVar

import trio

from goqueue.actors.delays.ids import DelayedIds
from goqueue.actors.delays.requests import CloseTimers, LoadTimers, OpenTimers, SetTimers, TakeDue
from goqueue.actors.runtime.ref import ActorRef
from goqueue.actors.statistics.delays import DelayCounts
from goqueue.core.delays.duetimes import DueTimes
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

ItemT = TypeVar("ItemT")
Timer = tuple[Offset, Microseconds]

COMPACTION_SECONDS_MIN = 60.0
LOADED_AT_ONCE = 4_000
TOLD_AT_ONCE = 1_000
"""Limit of index entries and of timer changes in one step: a few milliseconds of work."""
CHUNKS_AT_ONCE = 32
STALE_MAX = 10_000
"""Limit of the timers beyond twice the pending messages."""


class DelayedMessages:
    def __init__(
        self, volume: Volume, clock: WallClock, directory: str, timers: ActorRef | None, counts: DelayCounts
    ) -> None:
        self._volume = volume
        self._clock = clock
        self._directory = directory
        self._timers = timers
        self._counts = counts.of.begin(directory.split("/")[-2])
        self._lateness = counts.lateness
        self._index: DelayIndex | None = None
        self._owner: int | None = None
        self._listener: ActorRef | None = None
        self._name = ""
        self._log: Log | None = None
        self._unapplied: deque[DelayEvent] = deque()
        self._decided: dict[Offset, Microseconds] = {}
        """Messages that have fired, or were cancelled or moved, by records that are not durable yet: when they were
        due before that."""
        self._entries: list[DelayChange] = []
        self._unset: list[Timer] = []
        """Timers that are yet to be set."""
        self._timers_set = 0
        """The number of timers in the wheel, of pending messages and of others."""
        self._counted = 0
        """The number of pending messages that the broker's counters have of this partition."""
        self._reached: Offset = 0
        """The offset of the record that was applied last, or a later one with nothing about delays in between."""
        self._compacted_at = -math.inf
        self.delays = Delays()
        self.ids = DelayedIds(self.delays)
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
        self.delays.forget_below(log.log_start)
        self._count_pending(len(self.pending))
        await self.settle()

    async def _load(self) -> Offset:
        log = self.log
        self._index, loaded = await DelayIndex.open(
            self._volume, self._directory, log.log_start, log.high_watermark, thinned_to=log.thinned_to
        )
        dues = await self._load_timers(loaded)
        self.delays.load(loaded.pending, dues, loaded.hidden, loaded.finished)
        self._reached = loaded.applied_to
        return loaded.applied_to

    async def _load_timers(self, loaded: LoadedIndex) -> DueTimes:
        owner, count, dues = await self._open_timers(), len(loaded.offsets), DueTimes()
        for begin in range(0, count, LOADED_AT_ONCE):
            end = begin + LOADED_AT_ONCE
            some = loaded.offsets[begin:end], loaded.dues[begin:end]
            dues.set_all(*some)
            if self._timers is not None and owner is not None:
                await self._timers.call(LoadTimers(owner, *some, more=end < count))
        self._timers_set += count
        return dues

    async def _apply_found(self, events: Sequence[DelayEvent]) -> None:
        self._apply(events)
        await self.settle()

    async def close(self) -> None:
        """Write everything applied to the index, and give up the timers."""
        await self._write_all()
        if self._index is not None:
            self._mark(self._index)
            await self._index.close()
        if self._timers is not None and self._owner is not None:
            with suppress(ActorDied):
                await self._timers.call(CloseTimers(self._owner))

    def abandon(self) -> None:
        self._count_pending(0)
        if self._index is not None:
            self._index.abandon()

    # Events from the log

    def note_appended(self, events: Iterable[DelayEvent]) -> None:
        """The events are applied once they are durable."""
        now, appended = self._clock.now(), list(events)
        self._unapplied.extend(appended)
        for event in appended:
            if not isinstance(event, DelayedRecord) and (due := self.delays.dues.get(event.offset)) is not None:
                self._decided[event.offset] = due
            if isinstance(event, DelayedRecord | Moved) and event.due < now:
                self._asked_at[event.offset] = now

    def is_decided(self, offset: Offset) -> bool:
        """Whether a record about this message is written and not durable yet."""
        return offset in self._decided

    def show(self, durable: Offset) -> None:
        """Everything below `durable` is durable."""
        shown: list[DelayEvent] = []
        while self._unapplied and self._unapplied[0].at < durable:
            shown.append(self._unapplied.popleft())
        self._count(self._apply(shown))

    def _apply(self, events: Sequence[DelayEvent]) -> list[DelayChange]:
        changes = self.delays.apply_all(events)
        if changes:
            self._entries += changes
            self._reached = changes[-1].at
            self._unset += [(offset, time) for state, offset, time, _ in changes if state is DelayState.PENDING]
            self.has_news.set()
        return changes

    def _count(self, changes: Sequence[DelayChange]) -> None:
        now, decided, counts = self._clock.now(), self._decided, self._counts
        for state, offset, _, _ in changes:
            due = decided.pop(offset, None)
            if state is DelayState.PENDING:
                counts.rescheduled += due is not None
                continue
            asked_at = self._asked_at.pop(offset, 0)
            counts.note_ended(state)
            if state is DelayState.DELIVERED and due is not None:
                self._lateness.add(max(0.0, (now - max(due, asked_at)) / 1_000_000))
        self._count_pending(len(self.pending))

    def _count_pending(self, count: int) -> None:
        self._counts.pending += count - self._counted
        self._counted = count

    def remove_below(self, log_start: Offset) -> None:
        """The originals below `log_start` are gone. The index needs no entry for most of them: whatever is older
        than the log's start does not count."""
        gone, entries = self.delays.removed_below(log_start, self._clock.now(), self._reached)
        self._counts.expired += len(gone)
        self._count_pending(len(self.pending))
        if entries:
            self._entries += entries
            self.has_news.set()
        for times in (self._decided, self._asked_at):
            for offset in [offset for offset in times if offset in gone]:
                del times[offset]

    # Due times

    def still_due(self, named: Iterable[Timer], now: Microseconds) -> list[Timer]:
        """Those of the named timers that may fire, each once: the others were cancelled or moved. Never before the
        wall clock has reached the due time, even if it was set back just now (G8): such a timer is set again."""
        dues, decided, due, early = self.delays.dues, self._decided, list[Timer](), list[Timer]()
        for timer in dict.fromkeys(named):
            if dues.get(timer[0]) == timer[1] and timer[0] not in decided:
                (due if timer[1] <= now else early).append(timer)
        self.set_again(early)
        return due

    def set_again(self, timers: Sequence[Timer]) -> None:
        """These timers were taken, and their messages still have to fire."""
        if timers:
            self._unset += timers
            self.has_news.set()

    async def next_due(self) -> Microseconds | None:
        """The earliest due time. It looks at some at a time, however many there are."""
        earliest, chunks = list[Microseconds](), self.delays.dues.earliest_of_each()
        while some := list(islice(chunks, CHUNKS_AT_ONCE)):
            earliest.append(min(some))
            await trio.lowlevel.checkpoint()
        return min(earliest, default=None)

    async def take_due(self, count_max: int) -> Sequence[Timer]:
        """The timers that have fallen due, as far as the wheel knows, and no more than may fire now."""
        if self._timers is None or self._owner is None:
            return ()
        taken = await self._timers.call(TakeDue(self._owner, count_max))
        self._timers_set -= len(taken)
        return taken

    # Index and timers

    async def settle(self) -> None:
        """Pass all waiting updates to index and timers."""
        if self.has_news.is_set():  # else a task may be waiting for this event
            self.has_news = trio.Event()
        while self._entries or self._unset:  # some of each in turn: more may come as fast
            self._write_some()
            await self._set_timers(_taken_from(self._unset))

    async def _write_all(self) -> None:
        """Write all entries to the index, some at a time so that others can run. It ends without a pause."""
        while len(self._entries) > TOLD_AT_ONCE:
            self._write_some()
            await trio.lowlevel.checkpoint()
        self._write_some()

    def _write_some(self) -> None:
        """A new index begins at the first entry, even if the log begins behind it by now."""
        if self._index is None and self._entries:
            self._index = DelayIndex.create(self._volume, self._directory, self._entries[0].at)
        if self._index is not None and self._entries:
            self._index.append(_taken_from(self._entries))

    async def _open_timers(self) -> int | None:
        """The partition's owner number at the timers; None without timers."""
        if self._owner is None and self._timers is not None:
            assert self._listener is not None
            self._owner = await self._timers.call(OpenTimers(self._name, self._listener))
        return self._owner

    async def _set_timers(self, timers: Sequence[Timer]) -> None:
        owner = await self._open_timers() if timers else None
        if self._timers is not None and owner is not None:
            self._timers_set += len(timers)
            await self._timers.call(SetTimers(owner, timers))
        else:
            await trio.lowlevel.checkpoint()  # others want to run

    async def _drop_stale_timers(self) -> None:
        """When most timers are of messages that were cancelled, moved or removed, begin anew as another owner."""
        if self._timers_set > 2 * len(self.pending) + STALE_MAX:
            self._owner, self._timers_set = None, 0
            for timers in self.delays.dues.chunks():
                await self._set_timers(timers)

    async def sync_index(self) -> None:
        """Make everything that the log says so far durable in the index: then the log may lose those records."""
        await self._write_all()
        if self._index is not None:
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
            await self._drop_stale_timers()
            await self.ids.drop_stale()
            if self._index is not None and self._wants_compaction(self._index):
                with suppress(DiskFull, Closed):  # a stop may come in between
                    await self._compact(self._index)

    def _wants_compaction(self, index: DelayIndex) -> bool:
        is_time = trio.current_time() >= self._compacted_at + COMPACTION_SECONDS_MIN
        entries = len(self.pending) + self.hidden.words_max
        return is_time and (index.is_incomplete or index.has_grown(entries))

    async def _compact(self, index: DelayIndex) -> None:
        """The state of one moment: events that are applied meanwhile are appended afterwards."""
        self._compacted_at = trio.current_time()
        await self._write_all()
        offsets, finished = self.delays.pending.copy().offsets(), list(self.delays.finished.values())
        await index.compact(offsets, self.delays.dues.get, self.hidden.copy(), finished, self._reached)


def _taken_from(items: list[ItemT]) -> list[ItemT]:
    """Removes and returns the first `TOLD_AT_ONCE` items."""
    taken = items[:TOLD_AT_ONCE]
    del items[:TOLD_AT_ONCE]
    return taken
