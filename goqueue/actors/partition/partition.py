"""A partition: the owner of one log.

All batches that arrive in a turn are written at once, and producers that wait for the disk are answered after the
sync that covers them, while the next turns go on: that is the group commit. Content is checked here, since every
way into the log passes here (G16).
"""

import logging
from bisect import bisect_right, insort
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from random import Random

import trio

from goqueue.actors.delays.delays import PartitionDelays
from goqueue.actors.delivery.board import LedgerBoard
from goqueue.actors.partition.arrivals import Arrival, Judged, WaitingProducer, moved_by_broker, records_in
from goqueue.actors.partition.keeper import LogKeeper
from goqueue.actors.partition.requests import (
    AwaitMore,
    Configure,
    DeleteBefore,
    Describe,
    Fetch,
    Maintain,
    OffsetAtTime,
    Produce,
    Produced,
)
from goqueue.actors.runtime.handlers import answers, defers
from goqueue.actors.runtime.messages import Reply
from goqueue.actors.runtime.ref import ActorRef
from goqueue.actors.statistics.delays import DelayCounts
from goqueue.actors.statistics.groups import GroupCounts
from goqueue.config import LogConfig
from goqueue.core.delays.events import Cancelled, DelayEvent, delay_events
from goqueue.core.delays.firing import fired_events
from goqueue.core.log.admission import DISK_FREE_MIN, Admission, check_disk
from goqueue.core.log.appending import AppendJudgement, originals_end
from goqueue.core.log.messageids import MessageIds, ids_in
from goqueue.core.log.producers import let_jump_ahead
from goqueue.core.records.batch import ABOUT_DELAYS, HOLDS_IDS, Attribute, Batch, accept
from goqueue.core.records.record import VALUE_SIZE_MAX
from goqueue.core.slices.cachebudget import CacheBudget
from goqueue.core.waiting.longpoll import LongPoll
from goqueue.environment import Space, WallClock
from goqueue.errors import BatchRefused, DamagedData, DiskFull, GoQueueError, TopicFull
from goqueue.storage.compaction.bykey import compact_by_key
from goqueue.storage.compaction.retention import retain
from goqueue.storage.log.idrecall import recall_ids
from goqueue.storage.log.log import Log
from goqueue.storage.log.views import LogSlice, LogStatistics
from goqueue.storage.log.volume import Volume
from goqueue.types import Acks, Microseconds, Offset

SPACE_KNOWN_SECONDS = 0.1

logger = logging.getLogger("goqueue.partition")


class Partition(PartitionDelays):
    def __init__(
        self,
        volume: Volume,
        clock: WallClock,
        directory: str,
        config: LogConfig,
        *,
        admission: Admission | None = None,
        disk_free_min: int = DISK_FREE_MIN,
        random: Random | None = None,
        counts: GroupCounts | None = None,
        budget: CacheBudget | None = None,
        timers: ActorRef | None = None,
        delay_counts: DelayCounts | None = None,
    ) -> None:
        """Without timers no delayed message fires."""
        super().__init__(
            volume,
            clock,
            directory,
            random or Random(),
            counts or GroupCounts(),
            budget=budget or CacheBudget(),
            timers=timers,
            delay_counts=delay_counts or DelayCounts(),
        )
        self._volume = volume
        self._clock = clock
        self._directory = directory
        self._config = config
        self._admission = admission or Admission()
        self._disk_free_min = disk_free_min
        self._arrived: list[Arrival] = []
        self._producers: list[WaitingProducer] = []
        """Sorted by the offset that they wait for."""
        self._readers: LongPoll[Reply[None]] = LongPoll()
        self._is_dropping = False
        self._space: Space | None = None
        self._space_known_until = 0.0
        self._open_log: Log | None = None
        self._keeper: LogKeeper | None = None
        self._ids = MessageIds()

    async def start(self) -> None:
        self._open_log = await Log.open(self._volume, self._directory, self._config)
        await self._open_log.look_at_damage()
        self._ids = await recall_ids(self._open_log)
        self._report_what_recovery_found()
        self._volume.logs.enter(self._open_log)
        self._keeper = LogKeeper(self._open_log, self._show, self.wake)
        self.background(self._keeper.run, endless=True)
        await self.open_ledgers()
        await self.open_delays()
        self.show(LedgerBoard(self.ledgers, self._open_log, self._clock, self.delays))

    def _report_what_recovery_found(self) -> None:
        found = self.log.statistics()
        for damage in found.damage:
            logger.warning("%s: offsets %d to %d are damaged", damage.path, damage.offset, damage.end_offset - 1)
        for torn in found.torn:
            logger.info("a torn tail, which nobody was promised, was cut off: %s", torn)

    async def stop(self) -> None:
        """Write everything accepted to disk, and answer all callers (G15)."""
        self._dismiss_readers()
        await self.keeper.stop()
        await self.close_ledgers()
        await self.close_delays()
        await self.log.close()
        self.settle(self.log.durable_offset)

    def stop_asked(self) -> None:
        self._dismiss_readers()
        self.log.hurry()

    def _dismiss_readers(self) -> None:
        """Answer the long polls at the end of the log: a stop does not wait for them."""
        for reply in self._readers.all():
            reply.resolve(None)
        self.dismiss_members()

    def close(self) -> None:
        self.show(None)
        if self._open_log is not None:
            self._volume.logs.leave(self._open_log)
            self._open_log.abandon()
        self.cache.close()
        self.ledgers.abandon()
        self.delayed.abandon()

    @property
    def log(self) -> Log:
        assert self._open_log is not None, "a partition has its log from its start on"
        return self._open_log

    @property
    def keeper(self) -> LogKeeper:
        assert self._keeper is not None, "likewise"
        return self._keeper

    def note_awaited(self) -> None:
        self.keeper.note_awaited()

    # Producing

    @defers(Produce)
    async def produce(self, message: Produce, reply: Reply[Produced]) -> None:
        if message.by_broker:
            self._arrived.append(moved_by_broker(message, reply))
            return
        self._admission.check_acks(message.acks)
        batch = accept(message.body, message.record_count, attributes=message.attributes, producer=message.producer)
        if self._admission.message_bytes_max < VALUE_SIZE_MAX:
            self._admission.check_sizes(records_in(batch), batch.record_count)
        ids = ids_in(records_in(batch), batch.record_count) if batch.attributes & HOLDS_IDS else ()
        self._arrived.append(Arrival(batch, message.acks, reply, ids))

    async def end_turn(self) -> None:
        """One write for everything that arrived in this turn; a repeat is answered with its first offset (G11)."""
        arrived, self._arrived = self._arrived, []
        if not arrived:
            return
        now = self._clock.now()
        judged = self._judged(arrived, now)
        try:
            self._check_room([arrival for arrival in judged.new if not arrival.by_broker])
            bases = self.log.append([arrival.batch for arrival in judged.new], now)
        except (TopicFull, DiskFull) as error:
            self._refuse(judged.all(), error)
            return
        self._note_written(judged.new, bases)
        self._note_delays([arrival.batch for arrival in judged.new], bases, now)
        for arrival, base in zip(judged.new, bases, strict=True):
            self.answer(arrival, Produced(base, self.log.append_time))
        for arrival, base in judged.repeated:
            self.answer(arrival, Produced(base))
        for arrival, refusal in judged.refused:
            self._tell(arrival, refusal, originals_end(refusal))
        self.keeper.begin_what_is_due(trio.current_time())  # producers need not wait for the next turn

    def append_own(self, batch: Batch, fired: Sequence[Offset] = ()) -> Offset:
        now = self._clock.now()
        try:
            [base] = self.log.append([batch], now)
        except DiskFull:
            self._cut_off_for_good()
            raise
        if fired and not batch.attributes & Attribute.HOLDS_EXPIRING:
            self.delayed.note_appended(fired_events(fired, base, now))
        else:
            self._note_delays([batch], [base], now)
        self.keeper.note_written(batch.size, awaited=True)
        self.keeper.begin_what_is_due(trio.current_time())
        return self.log.end_offset

    def sync_soon(self) -> None:
        self.keeper.note_awaited()
        self.keeper.begin_what_is_due(trio.current_time())

    def _note_delays(self, batches: Sequence[Batch], bases: Sequence[Offset], now: Microseconds) -> None:
        for batch, base in zip(batches, bases, strict=True):
            if batch.attributes & ABOUT_DELAYS:
                events = list(delay_events(batch.attributes, base, now, batch.record_count, batch.body))
                self.delayed.note_appended(events)
                if batch.attributes & Attribute.CONTROL:
                    self._free_ids(events)

    def _free_ids(self, events: Sequence[DelayEvent]) -> None:
        """At the append, when ids are noted, too: a message behind a cancel in the log may reuse its id."""
        for event in events:
            if isinstance(event, Cancelled):
                self._ids.free(event.offset)

    def _check_room(self, new: Sequence[Arrival]) -> None:
        if not new:
            return
        self._check_disk()
        if self._admission.is_unlimited:
            return
        size = self.log.size + sum(arrival.batch.size for arrival in new)
        messages = self.log.end_offset - self.log.log_start + sum(arrival.batch.record_count for arrival in new)
        self._admission.check_room(size, messages)
        if self._admission.excess(size, messages) and not self._is_dropping:
            self._is_dropping = True
            self.background(self._drop_oldest)

    def _check_disk(self) -> None:
        """Asking the system costs as much as a small write, so its answer is kept for a moment."""
        now = trio.current_time()
        if self._space is None or now >= self._space_known_until:
            self._space = self._volume.disk.space(self._directory)
            self._space_known_until = now + SPACE_KNOWN_SECONDS
        check_disk(self._space.free, self._space.total, least=self._disk_free_min)

    async def _drop_oldest(self) -> None:
        """Remove whole segments, oldest first, until the rest fits; the growing one stays."""
        with suppress(DiskFull):
            for segment in self.log.finished_segments():
                if self._admission.excess(self.log.size, self.log.end_offset - self.log.log_start):
                    await self.log.delete_before(segment.end_offset)
                    self.note_removed()
        self._is_dropping = False

    def _judged(self, arrived: Sequence[Arrival], now: Microseconds) -> Judged:
        """Splits arrivals into new ones, repeats and refusals. Other errors are answered at once."""
        now = max(now, self.log.append_time)
        for arrival in arrived:
            if arrival.by_broker:
                let_jump_ahead(self.log.producers, arrival.batch.producer, self.log.end_offset, now)
        judgement = AppendJudgement(self.log.producers, self._ids, self.log.end_offset, now)
        judged = Judged()
        for arrival in arrived:
            try:
                verdict = judgement.judge(arrival.batch, arrival.ids)
            except BatchRefused as refusal:
                judged.refused.append((arrival, refusal))
            except GoQueueError as error:
                arrival.reply.fail(error)
            else:
                if verdict.duplicate:
                    judged.repeated.append((arrival, verdict.base_offset))
                else:
                    judged.new.append(arrival)
        return judged

    def _refuse(self, arrived: Sequence[Arrival], error: GoQueueError) -> None:
        for arrival in arrived:
            arrival.reply.fail(error)
        self._cut_off_for_good()

    def _cut_off_for_good(self) -> None:
        """Sync the cut of a failed write; until the cut is durable nothing can be written."""
        self.keeper.note_written(0, awaited=True)
        self.keeper.begin_what_is_due(trio.current_time())

    def _note_written(self, arrived: Sequence[Arrival], bases: Sequence[Offset]) -> None:
        for arrival, base in zip(arrived, bases, strict=True):
            for relative_offset, message_id, is_delayed in arrival.ids:
                offset = base + relative_offset
                self._ids.note(message_id, offset, self.log.append_time, is_delayed=is_delayed)
        self._ids.forget(self.log.append_time)
        awaited = (
            bool(len(self._readers))
            or self.has_waiting_members
            or any(arrival.acks is Acks.ALL for arrival in arrived)
        )
        self.keeper.note_written(sum(arrival.batch.size for arrival in arrived), awaited=awaited)

    def answer(self, arrival: Arrival, answer: Produced) -> None:
        self._tell(arrival, answer, answer.base_offset + arrival.batch.record_count)

    def _tell(self, arrival: Arrival, answer: Produced | BatchRefused, end: Offset) -> None:
        """At once, or with acks=all when everything below `end` is durable: a repeat when its original is (G11)."""
        waiting = WaitingProducer(end, answer, arrival.reply)
        if arrival.acks is Acks.ALL and end > self.log.durable_offset:
            insort(self._producers, waiting, key=lambda each: each.end)
            self.keeper.note_awaited()
        else:
            waiting.tell()

    def settle(self, durable: Offset) -> None:
        count = bisect_right(self._producers, durable, key=lambda waiting: waiting.end)
        for waiting in self._producers[:count]:
            waiting.tell()
        del self._producers[:count]

    # Reading

    @defers(Fetch)
    async def fetch(self, message: Fetch, reply: Reply[LogSlice]) -> None:
        self.note_fetch(message.reader, message.offset)
        if self._is_warm(message.offset):
            reply.resolve(await self._slice(message))
        else:
            self.background(self._read, message, reply)

    def _is_warm(self, offset: Offset) -> bool:
        """The growing segment is in memory and is read without waiting; older parts may be on disk only."""
        return offset >= self.log.growing_from

    async def _read(self, message: Fetch, reply: Reply[LogSlice]) -> None:
        try:
            reply.resolve(await self._slice(message))
        except GoQueueError as error:
            reply.fail(error)

    async def _slice(self, message: Fetch) -> LogSlice:
        try:
            return await self.log.read(message.offset, message.bytes_max)
        except DamagedData as damage:
            self.note_damage(message.reader, message.offset, damage)
            raise

    @defers(AwaitMore)
    async def await_more(self, message: AwaitMore, reply: Reply[None]) -> None:
        if message.offset == self.log.high_watermark and message.deadline > trio.current_time():
            self._readers.wait(reply, message.offset, message.deadline)
            self.note_fetch_wait(message.reader, message.deadline, reply)
            self.keeper.note_awaited()
        else:
            reply.resolve(None)

    @answers(OffsetAtTime)
    async def offset_at_time(self, message: OffsetAtTime) -> Offset | None:
        return await self.log.offset_at_time(message.time)

    # Retiring

    @answers(DeleteBefore)
    async def delete_before(self, message: DeleteBefore) -> None:
        if message.offset is None or message.offset > self.log.high_watermark:
            self._show(await self.log.commit())  # unsynced records are removed, too
        end = self.log.high_watermark
        await self.log.delete_before(end if message.offset is None else message.offset)
        self.note_removed()

    @defers(Maintain)
    async def maintain(self, message: Maintain, reply: Reply[None]) -> None:
        self.background(self._maintain, message, reply)

    async def _maintain(self, message: Maintain, reply: Reply[None]) -> None:
        try:
            pending = self.delayed.delays.pending
            await self.delayed.sync_index()
            self.note_removed(await retain(self.log, self._clock.now(), pending))
            if message.compact:
                await compact_by_key(self.log, self._clock.now(), pending)
        except DiskFull as error:
            reply.fail(error)
        else:
            reply.resolve(None)

    @answers(Configure)
    async def configure(self, message: Configure) -> None:
        self.log.config, self._admission = message.config, message.admission

    @answers(Describe)
    async def describe(self, _: Describe) -> LogStatistics:
        found = self.log.statistics()
        return replace(found, damage=await self.log.look_at_damage()) if self.log.damage_met else found

    # Deadlines and syncs.

    def next_deadline(self) -> float | None:
        readers = _earlier(self._readers.next_deadline(), self.next_ledger_deadline())
        return _earlier(readers, self.keeper.next_deadline())

    async def tick(self, now: float) -> None:
        for reply in self._readers.expired(now):
            reply.resolve(None)
        self.tick_ledgers(now)
        self.keeper.begin_what_is_due(now)

    def _show(self, durable: Offset) -> None:
        """Everything below `durable` is durable: answer the producers that waited for it, let readers see it."""
        before = self.log.high_watermark
        self.log.advance_high_watermark(durable)
        self.settle(durable)
        self.show_to_delays(durable)
        for reply in self._readers.reached(durable):
            reply.resolve(None)
        if self.log.high_watermark > before:
            self.show_to_members()


def _earlier(one: float | None, other: float | None) -> float | None:
    if one is None or other is None:
        return one if other is None else other
    return min(one, other)
