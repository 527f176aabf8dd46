"""The end at which a log grows: batches are appended there, and made durable.

`log.py` has the rest, and says who may do what, when. What both need of each other is what lies in the fields:
the row of segments, where the log begins and ends, and the turn that everything takes which waits.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import NamedTuple, Self

import trio

from goqueue.config import LogConfig
from goqueue.core.log.producers import ProducerStates
from goqueue.core.records.batch import Batch, Envelope, envelope_for, seal_envelope
from goqueue.errors import Closed, DamagedData, DiskFull, LogStopped, StorageError, TooManyFiles
from goqueue.storage.log.index import BEGINNING
from goqueue.storage.log.producersnapshot import EncodedProducers, ProducerTail, encode_producers, write_producers
from goqueue.storage.log.recovery import Recovered, recover
from goqueue.storage.log.recoverypoint import RecoveryPoint, write_recovery_point
from goqueue.storage.log.scan import Damage
from goqueue.storage.log.segment import ClosedIndex, Segment
from goqueue.storage.log.segments import Segments
from goqueue.storage.log.summary import encode_summary
from goqueue.storage.log.views import LogStatistics
from goqueue.storage.log.volume import Volume
from goqueue.types import Buffer, Microseconds, Offset

RELATIVE_OFFSET_MAX = 2**31


class CopiedBatch(NamedTuple):
    """A batch of another copy of the log: its envelope, and all its bytes, the envelope's too."""

    envelope: Envelope
    data: Buffer


class GrowingLog:
    """Opened by `open`; use it from one task at a time, reads and commits apart."""

    def __init__(self, volume: Volume, directory: str, config: LogConfig, recovered: Recovered) -> None:
        self.config = config
        self.directory = directory
        self.leader_epoch = recovered.leader_epoch + 1
        self._volume = volume
        self._turn = trio.Lock()
        self._is_closing = False
        self._closed = False
        self._failure: StorageError | None = None
        self._high_watermark: Offset = 0
        self._appended_batches = self._appended_records = self._appended_bytes = self._commits = 0
        self._adopt(recovered)

    @classmethod
    async def open(cls, volume: Volume, directory: str, config: LogConfig | None = None) -> Self:
        """Recover what is there and make it durable. What was damaged or cut is in `statistics()`."""
        await volume.make_directories(directory)
        log = cls(volume, directory, config or LogConfig(), await recover(volume, directory))
        try:
            await log.commit()
            log.advance_high_watermark(log.durable_offset)
            await log.checkpoint()
        except DiskFull:
            pass  # what is there can be read; the next checkpoint tries again
        except BaseException:
            log.abandon()
            raise
        return log

    def _adopt(self, recovered: Recovered) -> None:
        self._segments = Segments(self._volume, self.directory, recovered)
        self._history = recovered.history
        self._producer_tail = ProducerTail(self._volume.producers.limits)
        if recovered.producers_from is not None:
            self._producer_tail.begin_at(recovered.producers_from, 0, self._appended_bytes, in_file=True)
        self._log_start = recovered.log_start
        self._end = recovered.end_offset
        self._durable: Offset = self._log_start
        self.compacted_to = recovered.compacted_to
        self._append_time = recovered.append_time
        self._history.forget(self._log_start, self._append_time)
        self._volume.producers.enter(self.producers)
        self._damage, self._torn = recovered.damage, recovered.torn
        self.damage_met: list[Damage] = list(recovered.damage)
        """What was found when the log was opened, or read since, and was not sound when it was last read."""
        self._scanned_bytes = recovered.scanned_bytes
        self._checkpointed: RecoveryPoint | None = None
        # The recovery point was written once all names were durable. The file that grows is synced in any case: one
        # that was cut for want of room, by a process that was killed then, may have its old end back otherwise.
        self._names_synced = self._segments.name_changes if recovered.as_left else 0

    # Where things are

    @property
    def log_start(self) -> Offset:
        return self._log_start

    @property
    def end_offset(self) -> Offset:
        """The offset that the next record will get."""
        return self._end

    @property
    def durable_offset(self) -> Offset:
        return self._durable

    @property
    def high_watermark(self) -> Offset:
        return self._high_watermark

    def advance_high_watermark(self, offset: Offset) -> None:
        self._high_watermark = max(self._high_watermark, min(offset, self._durable))

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return self._segments.size()

    @property
    def append_time(self) -> Microseconds:
        """Of the newest batch."""
        return self._append_time

    @property
    def growing_from(self) -> Offset:
        """Where the growing segment begins."""
        return self._end if self._segments.growing is None else self._segments.growing.base_offset

    @property
    def epochs(self) -> list[tuple[int, Offset]]:
        """Which leader epoch began at which offset, oldest first."""
        return self._history.epochs

    @property
    def producers(self) -> ProducerStates:
        assert self._history.producers is not None, "recovery finds them, wherever they are"
        return self._history.producers

    @property
    def known_damage(self) -> Sequence[Damage]:
        """As it was found when the log was opened."""
        return self._damage

    def statistics(self) -> LogStatistics:
        return LogStatistics(
            log_start=self._log_start,
            end_offset=self._end,
            durable_offset=self._durable,
            high_watermark=self._high_watermark,
            leader_epoch=self.leader_epoch,
            segments=len(self._segments),
            size=self._segments.size(),
            appended_batches=self._appended_batches,
            appended_records=self._appended_records,
            appended_bytes=self._appended_bytes,
            commits=self._commits,
            damage=tuple(self._damage),
            torn=tuple(self._torn),
            scanned_bytes=self._scanned_bytes,
        )

    # Appending

    def append(self, batches: Sequence[Batch], now: Microseconds) -> list[Offset]:
        """Write batches in one go, all or none (G2); the base offset of each. Durable after `commit`.

        `now` is the wall clock. The append time is never below that of an earlier batch, whatever the clock says.
        """
        self._check_writable()
        if not batches:
            return []
        segment = self._segment_for(sum(batch.size for batch in batches), now)
        envelopes = self._envelopes(batches, now)
        buffers: list[Buffer] = []
        for envelope, batch in zip(envelopes, batches, strict=True):
            buffers += (seal_envelope(envelope), batch.body)
        self._write(segment, envelopes, buffers)
        return [envelope.base_offset for envelope in envelopes]

    def append_copied(self, batches: Sequence[CopiedBatch]) -> None:
        """Write batches of another copy of this log as they are there, from where this one ends.

        Offsets, epochs, times and producers stay. Segments are rolled as if each had come at its append time.
        """
        self._check_writable()
        waiting = list(batches)
        while waiting:
            first = waiting[0].envelope
            segment = self._segment_for(first.size, first.append_time)
            count = self._count_fitting(segment, waiting)
            run, waiting = waiting[:count], waiting[count:]
            self._write(segment, [each.envelope for each in run], [each.data for each in run])

    def _count_fitting(self, segment: Segment, batches: Sequence[CopiedBatch]) -> int:
        """How many go into this segment, one at least; each begins where the one before ended."""
        summary, end, size, count = segment.summary, self._end, segment.summary.size, 0
        begun = summary.first_append_time if summary.size else batches[0].envelope.append_time
        for envelope, _ in batches:
            assert envelope.base_offset == end, "a copy has no gaps"
            size, end = size + envelope.size, envelope.end_offset
            is_late = envelope.append_time - begun >= self.config.segment_age
            too_long = envelope.base_offset - summary.base_offset >= RELATIVE_OFFSET_MAX
            if count and (size > self.config.segment_bytes or is_late or too_long):
                break
            count += 1
        return count

    def _envelopes(self, batches: Sequence[Batch], now: Microseconds) -> list[Envelope]:
        envelopes = []
        append_time = max(now, self._append_time)
        offset = self._end
        for batch in batches:
            envelope = envelope_for(
                batch,
                offset,
                leader_epoch=self.leader_epoch,
                append_time=append_time,
                durable_offset=self._durable,
                wall_time=now,
            )
            envelopes.append(envelope)
            offset = envelope.end_offset
        return envelopes

    def _write(self, segment: Segment, envelopes: Sequence[Envelope], buffers: Sequence[Buffer]) -> None:
        try:
            segment.append(envelopes, buffers)
        except DiskFull:
            raise  # the tail is cut back, as if nothing had been tried
        except StorageError as error:
            raise self._stop(error) from error
        for envelope in envelopes:
            self._history.note(envelope)
            self._appended_records += envelope.record_count
            self._appended_bytes += envelope.size
        self._appended_batches += len(envelopes)
        self._end = envelopes[-1].end_offset
        self._append_time = envelopes[-1].append_time

    def _segment_for(self, size: int, now: Microseconds) -> Segment:
        """The growing segment; a new one when it is full or old, or when there is none."""
        growing = self._segments.growing
        if growing is not None and growing.unsynced_cut:
            raise DiskFull(f"{self.directory}: a write that failed is being cut off; commit, then try again")
        if growing is None or self._is_full(growing, size) or self._is_old(growing, now):
            return self._segments.roll(self._end, self._history)
        return growing

    def _is_full(self, segment: Segment, more: int) -> bool:
        summary = segment.summary
        too_long = self._end - summary.base_offset >= RELATIVE_OFFSET_MAX
        return bool(summary.size) and (summary.size + more > self.config.segment_bytes or too_long)

    def _is_old(self, segment: Segment, now: Microseconds) -> bool:
        summary = segment.summary
        return bool(summary.size) and now - summary.first_append_time >= self.config.segment_age

    # Durability

    async def commit(self) -> Offset:
        """Make everything appended so far durable; up to which offset that is.

        Whoever waits for a turn while another's commit covers it shares that one.
        """
        wanted = self._end
        await self._take_turn()
        try:  # for every publish with acks=all: without a context manager
            self._check_writable()
            if self._durable < wanted or self._has_unsynced_names_or_cuts():
                await self._commit()
        finally:
            self._turn.release()
        return self._durable

    def _has_unsynced_names_or_cuts(self) -> bool:
        return self._names_synced != self._segments.name_changes or bool(self._segments.cut())

    async def _commit(self) -> None:
        end, names, cut = self._end, self._segments.name_changes, self._segments.cut()
        directories = [self.directory] if names != self._names_synced else []
        try:
            await self._volume.sync(self._segments.unsynced(self._durable), directories)
        except TooManyFiles:
            raise  # nothing was tried that could have failed halfway
        except StorageError as error:
            raise self._stop(error) from error
        for segment in cut:
            segment.unsynced_cut = False
        self._durable, self._names_synced = end, names
        self._commits += 1
        growing = self._segments.growing
        if growing is not None and self._end == end and not growing.unsynced_cut:
            growing.rest()

    async def checkpoint(self, covering: Offset = 0) -> None:
        """Seal what is finished and move the recovery point up to here. Each 5 s, when idle, at shutdown.

        A start replays no batch below `covering` to know the producers again.
        """
        is_due = self._producers_outgrew() or covering > self._producer_tail.begin
        encoded = await self._encode_producers() if is_due else None
        async with self._exclusively():
            await self._checkpoint(encoded)

    def _producers_outgrew(self) -> bool:
        return self._producer_tail.has_outgrown(self.producers, self._appended_bytes)

    async def _checkpoint(self, encoded: EncodedProducers | None = None, *, seals: bool = True) -> None:
        self._history.forget(self._log_start, self._append_time)
        if encoded is not None and encoded.replay_from < self._producer_tail.begin:
            encoded = None  # a newer one is there, which a compaction may rely on
        if encoded is None and self._producers_outgrew() and not self._producer_tail.in_file:
            encoded = await self._encode_producers()
        growing = self._segments.growing
        closed = growing.closed_index() if growing is not None else None
        point, noted = self._recovery_point(growing, closed), self.producers.noted
        holds_producers = bool(point.growing) and self._few_producers() is not None
        if self._durable < self._end or self._has_unsynced_names_or_cuts():
            await self._commit()
        if encoded is not None:
            await self._write_producers(encoded)
        if point != self._checkpointed:  # else nothing has happened since: a stop of an idle log costs no sync
            if growing is not None and closed is not None:
                growing.write_closed_index(closed)
            await write_recovery_point(self._volume, self.directory, point)
            self._checkpointed = point
            if holds_producers:
                self._producer_tail.begin_at(point.offset, noted, self._appended_bytes, in_file=False)
        # Seals come last. They only make the next start faster, and on a slow disk many of them take longer than a
        # stop may; whoever closes the log does not even wait for those of a checkpoint that is under way.
        if seals:
            await self._segments.seal_finished(self._durable, lambda: self._closed or not self._is_closing)

    async def _encode_producers(self) -> EncodedProducers:
        limits = self._volume.producers.limits
        return await encode_producers(self.producers, lambda: self._end, limits.slice_seconds)

    async def _write_producers(self, encoded: EncodedProducers) -> None:
        await write_producers(self._volume, self.directory, encoded)
        self._producer_tail.begin_at(encoded.replay_from, encoded.noted, self._appended_bytes, in_file=True)

    def _few_producers(self) -> ProducerStates | None:
        """What a recovery point holds itself; None when the producers are too many."""
        return self._history.few_producers(self._volume.producers.limits.inline_max)

    def _recovery_point(self, growing: Segment | None, closed: ClosedIndex | None) -> RecoveryPoint:
        """The state at this moment; to be written once everything below `end_offset` is durable."""
        scan_from, summary = BEGINNING, b""
        if growing is not None and closed is not None:
            scan_from = closed.unfinished
            history = replace(self._history, lanes=closed.lanes, producers=self._few_producers())
            summary = encode_summary(growing.summary, closed.mark, history)
        return RecoveryPoint(
            offset=self._end,
            log_start=self._log_start,
            leader_epoch=self.leader_epoch,
            append_time=self._append_time,
            compacted_to=self.compacted_to,
            scan_from=scan_from,
            growing=summary,
        )

    @asynccontextmanager
    async def _exclusively(self) -> AsyncIterator[None]:
        """A turn. A full disk or damage is for the caller to hear; any other failure of the disk stops the log."""
        await self._take_turn()
        try:
            self._check_writable()
            yield
        except (DiskFull, DamagedData, LogStopped):
            raise
        except StorageError as error:
            raise self._stop(error) from error
        finally:
            self._turn.release()

    async def _take_turn(self) -> None:
        """Without a round of the event loop when nobody has it."""
        try:
            self._turn.acquire_nowait()
        except trio.WouldBlock:
            await self._turn.acquire()

    def _stop(self, error: StorageError) -> LogStopped:
        self._failure = error
        return LogStopped(f"{self.directory}: {error.message}; reopen the log", directory=self.directory)

    def _check_writable(self) -> None:
        if self._closed:
            raise Closed(f"the log in {self.directory} is closed")
        if self._failure is not None:
            raise self._stop(self._failure)

    def hurry(self) -> None:
        """A close will follow: a checkpoint that is under way seals no more, so that what it covers comes first."""
        self._is_closing = True

    async def close(self) -> None:
        """Everything durable, the recovery point written, every file closed (G15). Twice is once."""
        self.hurry()
        async with self._turn:
            if self._closed:
                return
            self._closed = True  # what is appended from now on would not be covered
            try:
                if self._failure is None:
                    await self._checkpoint()
            except DiskFull:
                pass  # the data is durable before anything else is written; only the next start takes longer
            finally:
                self.abandon()

    def abandon(self) -> None:
        """Close every file and leave the disk as it is: the owner crashed, and the next start recovers."""
        self._closed = True
        self._volume.producers.leave(self.producers)
        self._segments.close()
