"""A partition: the owner of one log, and of the parts that work on it.

    appending    what producers send, and what the broker itself writes
    reading      fetches, and readers that wait for more
    delivery     consumer groups: their ledgers, deliveries and waiters
    delays       delayed messages

A part is a plain object: it is given the log, and what it needs of the other parts. The partition starts and stops
the parts, tells them in this order that records have become durable or were removed, and looks after the log.
"""

import logging
from collections.abc import Sequence
from contextlib import ExitStack
from random import Random

import trio

from goqueue.actors.delays.delays import PartitionDelays
from goqueue.actors.delays.pending import DelayedMessages
from goqueue.actors.delivery.delivery import GroupDelivery
from goqueue.actors.delivery.requests import SettleRuns
from goqueue.actors.partition.appending import Appending
from goqueue.actors.partition.board import PartitionBoard
from goqueue.actors.partition.keeper import LogKeeper
from goqueue.actors.partition.reading import LogReading
from goqueue.actors.partition.requests import Configure, DeleteBefore, Maintain
from goqueue.actors.partition.validation import MessageValidation, no_schemas
from goqueue.actors.runtime.actor import Actor
from goqueue.actors.runtime.handlers import answers, defers
from goqueue.actors.runtime.messages import Letter, Reply
from goqueue.actors.runtime.ref import ActorRef
from goqueue.actors.statistics.delays import DelayCounts
from goqueue.actors.statistics.groups import GroupCounts
from goqueue.actors.statistics.schemas import SchemaCounts
from goqueue.config import LogConfig
from goqueue.core.deadlines import earliest
from goqueue.core.log.admission import DISK_FREE_MIN, Admission
from goqueue.core.slices.cachebudget import CacheBudget
from goqueue.environment import WallClock
from goqueue.errors import DiskFull
from goqueue.storage.compaction.bykey import compact_by_key
from goqueue.storage.compaction.retention import retain
from goqueue.storage.log.idrecall import recall_ids
from goqueue.storage.log.log import Log
from goqueue.storage.log.volume import Volume
from goqueue.types import Offset

logger = logging.getLogger("goqueue.partition")


class Partition(Actor):
    # The classes of its parts: the simulator plants bugs by replacing one.
    appending_class: type[Appending] = Appending
    delivery_class: type[GroupDelivery] = GroupDelivery
    delays_class: type[PartitionDelays] = PartitionDelays

    log: Log
    keeper: LogKeeper
    appending: Appending
    reading: LogReading
    delivery: GroupDelivery
    delays: PartitionDelays
    delayed: DelayedMessages

    def __init__(
        self,
        volume: Volume,
        clock: WallClock,
        directory: str,
        config: LogConfig,
        *,
        admission: Admission | None = None,
        validation: MessageValidation | None = None,
        disk_free_min: int = DISK_FREE_MIN,
        random: Random | None = None,
        counts: GroupCounts | None = None,
        budget: CacheBudget | None = None,
        timers: ActorRef | None = None,
        delay_counts: DelayCounts | None = None,
        dead_letters: ActorRef | None = None,
    ) -> None:
        """Without timers no delayed message fires, without `validation` no message is held to a schema.
        `dead_letters` is told of dead letters."""
        self._volume = volume
        self._clock = clock
        self._directory = directory
        self._config = config
        self._admission = admission or Admission()
        self._validation = validation or MessageValidation("", no_schemas, SchemaCounts())
        self._disk_free_min = disk_free_min
        self._random = random or Random()
        self._counts = counts or GroupCounts()
        self._budget = budget or CacheBudget()
        self._timers = timers
        self._delay_counts = delay_counts or DelayCounts()
        self._dead_letters = dead_letters
        self._to_give_back = ExitStack()

    # Its life

    async def start(self) -> None:
        self.log = log = await Log.open(self._volume, self._directory, self._config)
        self._to_give_back.callback(log.abandon)
        await log.look_at_damage()
        self._report_what_recovery_found()
        self._volume.logs.enter(log)
        self._to_give_back.callback(self._volume.logs.leave, log)
        self.keeper = LogKeeper(log, self._became_durable, self.wake)
        await self._make_parts(log)
        self.background(self.keeper.run, endless=True)
        await self.delivery.open()
        await self.delays.open()
        self.show(PartitionBoard(log, self.delayed, self.delivery.board))
        self._to_give_back.callback(self.show, None)

    async def _make_parts(self, log: Log) -> None:
        volume, clock, keeper = self._volume, self._clock, self.keeper
        self.delayed = DelayedMessages(volume, clock, self._directory, self._timers, self._delay_counts)
        self._to_give_back.callback(self.delayed.abandon)
        self.delivery = self.delivery_class(
            self,
            log,
            volume=volume,
            clock=clock,
            random=self._random,
            counts=self._counts,
            budget=self._budget,
            delays=self.delayed,
            note_awaited=keeper.note_awaited,
            dead_letters=self._dead_letters,
        )
        self._to_give_back.callback(self.delivery.ledgers.abandon)
        self._to_give_back.callback(self.delivery.cache.close)
        self.reading = LogReading(log, keeper, self, self.delivery.streams)
        self.appending = self.appending_class(
            log,
            keeper,
            self,
            clock=clock,
            disk=volume.disk,
            admission=self._admission,
            validation=self._validation,
            disk_free_min=self._disk_free_min,
            ids=await recall_ids(log),
            delayed=self.delayed,
            is_awaited=lambda: bool(len(self.reading.waiting) or len(self.delivery.waiters)),
            note_removed=self.note_removed,
        )
        self.delays = self.delays_class(self.delayed, log, self, clock, self.appending)
        self.add_parts(self.appending, self.reading, *self.delivery.parts, self.delays)

    def _report_what_recovery_found(self) -> None:
        found = self.log.statistics()
        for damage in found.damage:
            logger.warning("%s: offsets %d to %d are damaged", damage.path, damage.offset, damage.end_offset - 1)
        for torn in found.torn:
            logger.info("a torn tail, which nobody was promised, was cut off: %s", torn)

    async def stop(self) -> None:
        """Write everything accepted to disk, and answer all callers (G15)."""
        self._dismiss_waiters()
        await self.keeper.stop()
        await self.delivery.close()
        await self.delays.close()
        await self.log.close()
        self.appending.settle(self.log.durable_offset)

    def stop_asked(self) -> None:
        self._dismiss_waiters()
        self.log.hurry()

    def _dismiss_waiters(self) -> None:
        self.reading.dismiss()
        self.delivery.dismiss()

    def close(self) -> None:
        self._to_give_back.close()

    # Turns

    def next_deadline(self) -> float | None:
        return earliest(
            self.reading.waiting.next_deadline(), self.delivery.next_deadline(), self.keeper.next_deadline()
        )

    async def tick(self, now: float) -> None:
        self.reading.tick(now)
        self.delivery.tick(now)
        self.keeper.begin_what_is_due(now)

    async def handle_batch(self, batch: Sequence[Letter]) -> None:
        """Settlements that follow each other share a write. There are many of one message each: they do without the
        steps of a handler that may wait."""
        settling = self.delivery.settling
        for letter in batch:
            if isinstance(letter.message, SettleRuns):
                settling.gather_at_once(letter.message, letter.reply)
            else:
                settling.settle_gathered()
                await self.handle(letter)
        settling.settle_gathered()

    async def end_turn(self) -> None:
        await self.appending.end_turn()

    # The log

    def _became_durable(self, durable: Offset) -> None:
        """Everything below `durable` is durable: answer the producers that waited for it, let readers see it."""
        before = self.log.high_watermark
        self.log.advance_high_watermark(durable)
        self.appending.settle(durable)
        self.delays.show(durable)
        self.reading.reached(durable)
        if self.log.high_watermark > before:
            self.delivery.waiters.watermark_rose()

    def note_removed(self, below: Offset = 0) -> None:
        """Retention or a purge removed the messages before the log's start, or before `below`."""
        self.delivery.note_removed(max(below, self.log.log_start))
        self.delayed.remove_below(self.log.log_start)

    @answers(DeleteBefore)
    async def delete_before(self, message: DeleteBefore) -> None:
        if message.offset is None or message.offset > self.log.high_watermark:
            self._became_durable(await self.log.commit())  # unsynced records are removed, too
        end = self.log.high_watermark
        await self.log.delete_before(end if message.offset is None else message.offset)
        self.note_removed()

    @defers(Maintain)
    async def maintain(self, message: Maintain, reply: Reply[None]) -> None:
        self.background(self._maintain, message, reply)

    async def _maintain(self, message: Maintain, reply: Reply[None]) -> None:
        pending = self.delayed.delays.pending
        try:
            await self.delayed.sync_index()
            done_to = await self._done_to(message)
            self.note_removed(await retain(self.log, self._clock.now(), pending, done_to))
            if message.compact:
                began = trio.current_time()
                await compact_by_key(self.log, self._clock.now(), pending)
                self._volume.logs.compactions.add(trio.current_time() - began)
        except DiskFull as error:
            reply.fail(error)
        else:
            reply.resolve(None)

    async def _done_to(self, message: Maintain) -> Offset | None:
        """How far every group is done, if that decides what is removed."""
        if not self.log.config.retention_acked or message.readers is None:
            return None
        return await self.delivery.acked.done_to(message.readers)

    @answers(Configure)
    async def configure(self, message: Configure) -> None:
        self.log.config, self.appending.admission = message.config, message.admission
