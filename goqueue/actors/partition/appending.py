"""Appends to a partition's log: judges batches, writes those of a turn at once, and answers their producers.

All batches that arrive in a turn are written at once, and producers that wait for the disk are answered after the
sync that covers them, while the next turns go on: that is the group commit. Content is checked here, since every
way into the log passes here (G16).
"""

from bisect import bisect_right, insort
from collections.abc import Callable, Sequence
from contextlib import suppress

import trio

from goqueue.actors.delays.pending import DelayedMessages
from goqueue.actors.partition.arrivals import (
    Arrival,
    Judged,
    WaitingProducer,
    moved_by_broker,
    records_in,
    tell,
)
from goqueue.actors.partition.keeper import LogKeeper
from goqueue.actors.partition.requests import Produce, Produced
from goqueue.actors.partition.validation import MessageValidation
from goqueue.actors.runtime.handlers import defers
from goqueue.actors.runtime.messages import Reply
from goqueue.actors.runtime.parts import PartHost
from goqueue.core.delays.events import Cancelled, DelayEvent, delay_events
from goqueue.core.delays.firing import fired_events
from goqueue.core.log.admission import Admission, check_disk
from goqueue.core.log.appending import AppendJudgement, originals_end
from goqueue.core.log.messageids import MessageIds, ids_in
from goqueue.core.log.producers import let_jump_ahead
from goqueue.core.log.retention import RemovalCause
from goqueue.core.records.batch import ABOUT_DELAYS, HOLDS_IDS, Attribute, Batch, accept
from goqueue.environment import Disk, Space, WallClock
from goqueue.errors import BatchRefused, DiskFull, GoQueueError, TopicFull
from goqueue.storage.log.log import Log
from goqueue.types import Acks, Microseconds, Offset

SPACE_KNOWN_SECONDS = 0.1


class Appending:
    """A part of a partition, which calls `end_turn` after each of its turns."""

    def __init__(
        self,
        log: Log,
        keeper: LogKeeper,
        host: PartHost,
        *,
        clock: WallClock,
        disk: Disk,
        admission: Admission,
        validation: MessageValidation,
        disk_free_min: int,
        ids: MessageIds,
        delayed: DelayedMessages,
        is_awaited: Callable[[], bool],
        note_removed: Callable[[], None],
    ) -> None:
        """`is_awaited`: a reader or a member waits for what is written. `note_removed`: messages were dropped."""
        self._log = log
        self._keeper = keeper
        self._host = host
        self._clock = clock
        self._disk = disk
        self.admission = admission
        self._validation = validation
        self._disk_free_min = disk_free_min
        self._ids = ids
        self._delayed = delayed
        self._is_awaited = is_awaited
        self._note_removed = note_removed
        self._arrived: list[Arrival] = []
        self._producers: list[WaitingProducer] = []
        """Sorted by the offset that they wait for."""
        self._is_dropping = False
        self._space: Space | None = None
        self._space_known_until = 0.0

    @defers(Produce)
    async def produce(self, message: Produce, reply: Reply[Produced]) -> None:
        if message.by_broker:
            self._arrived.append(moved_by_broker(message, reply))
            return
        self.admission.check_acks(message.acks)
        batch = accept(message.body, message.record_count, attributes=message.attributes, producer=message.producer)
        refusal = await self._refusal(batch)
        ids = ids_in(records_in(batch), batch.record_count) if batch.attributes & HOLDS_IDS else ()
        self._arrived.append(Arrival(batch, message.acks, reply, ids, refusal=refusal))

    async def _refusal(self, batch: Batch) -> BatchRefused | None:
        """What the rules of the topic say against it, by now: it may repeat one that they let pass."""
        schemas = self._validation.schemas()
        try:
            if self.admission.checks_records:
                self.admission.check_records(records_in(batch), batch.record_count)
            if schemas is not None and self.admission.validates:
                await self._validation.check(batch, schemas, self.admission)
        except BatchRefused as refusal:
            return refusal
        return None

    async def end_turn(self) -> None:
        """One write for everything that arrived in this turn; a repeat is answered with its first offset (G11)."""
        arrived, self._arrived = self._arrived, []
        if not arrived:
            return
        now = self._clock.now()
        judged = self._judged(arrived, now)
        try:
            self._check_room([arrival for arrival in judged.new if not arrival.by_broker])
            bases = self._log.append([arrival.batch for arrival in judged.new], now)
        except (TopicFull, DiskFull) as error:
            self._refuse(judged.all(), error)
            return
        self._note_written(judged.new, bases)
        self.note_delays([arrival.batch for arrival in judged.new], bases, now)
        for arrival, base in zip(judged.new, bases, strict=True):
            self.answer(arrival, Produced(base, self._log.append_time))
        for arrival, base in judged.repeated:
            self.answer(arrival, Produced(base))
        for arrival, refusal in judged.refused:
            self._tell(arrival, refusal, originals_end(refusal))
        self._keeper.begin_what_is_due(trio.current_time())  # producers need not wait for the next turn

    def append_own(self, batch: Batch, fired: Sequence[Offset] = ()) -> Offset:
        """Write a batch of the broker's own, and have it synced. Returns its end. `DiskFull` writes nothing.

        For messages that fired, `fired` names the originals, so that they need not be parsed from the batch.
        """
        now = self._clock.now()
        try:
            [base] = self._log.append([batch], now)
        except DiskFull:
            self._cut_off_for_good()
            raise
        if fired and not batch.attributes & Attribute.HOLDS_EXPIRING:
            self._delayed.note_appended(fired_events(fired, base, now))
        else:
            self.note_delays([batch], [base], now)
        self._keeper.note_written(batch.size, awaited=True)
        self._keeper.begin_what_is_due(trio.current_time())
        return self._log.end_offset

    def sync_soon(self) -> None:
        """A caller waits for unsynced records."""
        self._keeper.note_awaited()
        self._keeper.begin_what_is_due(trio.current_time())

    def note_delays(self, batches: Sequence[Batch], bases: Sequence[Offset], now: Microseconds) -> None:
        for batch, base in zip(batches, bases, strict=True):
            if batch.attributes & ABOUT_DELAYS:
                events = list(delay_events(batch.attributes, base, now, batch.record_count, batch.body))
                self._delayed.note_appended(events)
                if batch.attributes & Attribute.CONTROL:
                    self.free_ids(events)

    def free_ids(self, events: Sequence[DelayEvent]) -> None:
        """At the append, when ids are noted, too: a message behind a cancel in the log may reuse its id."""
        for event in events:
            if isinstance(event, Cancelled):
                self._ids.free(event.offset)

    def _check_room(self, new: Sequence[Arrival]) -> None:
        if not new:
            return
        self._check_disk()
        if self.admission.is_unlimited:
            return
        size = self._log.size + sum(arrival.batch.size for arrival in new)
        messages = self._log.end_offset - self._log.log_start + sum(arrival.batch.record_count for arrival in new)
        self.admission.check_room(size, messages)
        if self.admission.excess(size, messages) and not self._is_dropping:
            self._is_dropping = True
            self._host.background(self._drop_oldest)

    def _check_disk(self) -> None:
        """Asking the system costs as much as a small write, so its answer is kept for a moment."""
        now = trio.current_time()
        if self._space is None or now >= self._space_known_until:
            self._space = self._disk.space(self._log.directory)
            self._space_known_until = now + SPACE_KNOWN_SECONDS
        check_disk(self._space.free, self._space.total, least=self._disk_free_min)

    async def _drop_oldest(self) -> None:
        """Remove whole segments, oldest first, until the rest fits; the growing one stays."""
        with suppress(DiskFull):
            for segment in self._log.finished_segments():
                if self.admission.excess(self._log.size, self._log.end_offset - self._log.log_start):
                    await self._log.delete_before(segment.end_offset, RemovalCause.LIMIT)
                    self._note_removed()
        self._is_dropping = False

    def _judged(self, arrived: Sequence[Arrival], now: Microseconds) -> Judged:
        """Splits arrivals into new ones, repeats and refusals. Other errors are answered at once."""
        now = max(now, self._log.append_time)
        for arrival in arrived:
            if arrival.by_broker:
                let_jump_ahead(self._log.producers, arrival.batch.producer, self._log.end_offset, now)
        judgement = AppendJudgement(self._log.producers, self._ids, self._log.end_offset, now)
        judged = Judged()
        for arrival in arrived:
            try:
                verdict = judgement.judge(arrival.batch, arrival.ids, arrival.refusal)
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
        self._keeper.note_written(0, awaited=True)
        self._keeper.begin_what_is_due(trio.current_time())

    def _note_written(self, arrived: Sequence[Arrival], bases: Sequence[Offset]) -> None:
        for arrival, base in zip(arrived, bases, strict=True):
            for relative_offset, message_id, is_delayed in arrival.ids:
                offset = base + relative_offset
                self._ids.note(message_id, offset, self._log.append_time, is_delayed=is_delayed)
                if is_delayed:
                    self._delayed.ids.note(message_id, offset)
        self._ids.forget(self._log.append_time)
        awaited = self._is_awaited() or any(arrival.acks is Acks.ALL for arrival in arrived)
        self._keeper.note_written(sum([arrival.batch.size for arrival in arrived]), awaited=awaited)

    def answer(self, arrival: Arrival, answer: Produced) -> None:
        self._tell(arrival, answer, answer.base_offset + arrival.batch.record_count)

    def _tell(self, arrival: Arrival, answer: Produced | BatchRefused, end: Offset) -> None:
        """At once, or with acks=all when everything below `end` is durable: a repeat when its original is (G11)."""
        if arrival.acks is Acks.ALL and end > self._log.durable_offset:
            insort(self._producers, WaitingProducer(end, answer, arrival.reply), key=lambda each: each.end)
            self._keeper.note_awaited()
        else:
            tell(arrival.reply, answer)

    def settle(self, durable: Offset) -> None:
        count = bisect_right(self._producers, durable, key=lambda waiting: waiting.end)
        for waiting in self._producers[:count]:
            tell(waiting.reply, waiting.answer)
        del self._producers[:count]
