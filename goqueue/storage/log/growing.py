"""The growing end of a log: appends batches and makes them durable.

`log.py` has the rest, and says which call may run when. Both share the fields: the list of segments, the start and
the end of the log, and the lock that every call takes which waits.
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
from goqueue.storage.log.openlogs import Appended
from goqueue.storage.log.producersnapshot import EncodedProducers, ProducerTail, encode_producers, write_producers
from goqueue.storage.log.recovery import Recovered, recover
from goqueue.storage.log.recoverypoint import NAME as RECOVERY_POINT
from goqueue.storage.log.recoverypoint import RecoveryPoint, write_recovery_point
from goqueue.storage.log.scan import Damage
from goqueue.storage.log.segment import ClosedIndex, Segment
from goqueue.storage.log.segments import Segments
from goqueue.storage.log.summary import History, Summary, encode_summary
from goqueue.storage.log.views import LogStatistics
from goqueue.storage.log.volume import Volume
from goqueue.types import Buffer, Microseconds, Offset

RELATIVE_OFFSET_MAX = 2**31


class CopiedBatch(NamedTuple):
    """A batch from another copy of the log: its envelope, and all its bytes including the envelope."""

    envelope: Envelope
    data: Buffer


class GrowingLog:
    """Opened by `open`. Use it from one task at a time; only reads and commits may run in others."""

    # A node has a log for each partition, and one for its groups: slots take half the memory.
    __slots__ = (
        "_append_time",
        "_appended_batches",
        "_appended_bytes",
        "_appended_records",
        "_checkpointed",
        "_closed",
        "_commits",
        "_damage",
        "_durable",
        "_end",
        "_failure",
        "_folder_is_new",
        "_high_watermark",
        "_history",
        "_is_closing",
        "_log_start",
        "_names_synced",
        "_producer_tail",
        "_scanned_bytes",
        "_segments",
        "_torn",
        "_turn",
        "_volume",
        "compacted_to",
        "config",
        "damage_met",
        "directory",
        "is_as_left",
        "leader_epoch",
    )

    def __init__(
        self,
        volume: Volume,
        directory: str,
        config: LogConfig,
        recovered: Recovered,
        leader_epoch: int | None = None,
    ) -> None:
        self.config = config
        self.directory = directory
        self.leader_epoch = recovered.leader_epoch + 1 if leader_epoch is None else leader_epoch
        self._volume = volume
        self._turn = trio.Lock()
        self._is_closing = False
        self._closed = False
        self._failure: StorageError | None = None
        self._folder_is_new = False
        """The first commit makes the name of the folder durable, too."""
        self._high_watermark: Offset = 0
        self._appended_batches = self._appended_records = self._appended_bytes = self._commits = 0
        self._adopt(recovered)

    @classmethod
    async def open(
        cls,
        volume: Volume,
        directory: str,
        config: LogConfig | None = None,
        *,
        leader_epoch: int | None = None,
    ) -> Self:
        """Recover the files and make them durable. `statistics()` names what was damaged or cut.

        Without a leader epoch it is one above the last, and recorded at once. The epoch of a log that follows
        another one is recorded there.
        """
        if leader_epoch is not None and not volume.disk.exists(directory):
            await volume.make_directories(_above(directory))
            return cls._begin(volume, directory, config or LogConfig(), leader_epoch)
        if leader_epoch is None or not volume.disk.exists(f"{directory}/{RECOVERY_POINT}"):  # else it is durable
            await volume.make_directories(directory)
        log = cls(volume, directory, config or LogConfig(), await recover(volume, directory), leader_epoch)
        try:
            await log.commit()
            log.advance_high_watermark(log.durable_offset)
            if leader_epoch is None:
                await log.checkpoint()
            elif log.is_as_left:
                log._checkpointed = log._point_now()  # but for the epoch, which the next batch says
        except DiskFull:
            pass  # the log can be read; the next checkpoint tries again
        except BaseException:
            log.abandon()
            raise
        return log

    @classmethod
    def _begin(cls, volume: Volume, directory: str, config: LogConfig, leader_epoch: int) -> Self:
        """Without a sync: nothing of it is durable before its first commit."""
        volume.disk.make_directory(directory)
        empty = Recovered(history=History(producers=ProducerStates(volume.producers.limits.partition_max)))
        log = cls(volume, directory, config, empty, leader_epoch)
        log._folder_is_new, log._names_synced = True, log._segments.name_changes
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
        """Damage that was found when the log was opened, or by a read since, and was there at the last look."""
        self._scanned_bytes = recovered.scanned_bytes
        self.is_as_left = recovered.as_left
        """The log was opened just as its recovery point says."""
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
    def segments(self) -> int:
        """The number of segments."""
        return len(self._segments)

    @property
    def appended(self) -> Appended:
        return Appended(self._appended_batches, self._appended_records, self._appended_bytes)

    @property
    def append_time(self) -> Microseconds:
        """The append time of the newest batch."""
        return self._append_time

    @property
    def growing_from(self) -> Offset:
        """The base offset of the growing segment; the end of the log if there is none."""
        return self._end if self._segments.growing is None else self._segments.growing.base_offset

    @property
    def epochs(self) -> list[tuple[int, Offset]]:
        """The leader epochs and the offsets at which they began, oldest first."""
        return self._history.epochs

    @property
    def producers(self) -> ProducerStates:
        assert self._history.producers is not None, "recovery finds them, wherever they are"
        return self._history.producers

    @property
    def known_damage(self) -> Sequence[Damage]:
        """The damage that was found when the log was opened."""
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
            appended=self.appended,
            commits=self._commits,
            damage=tuple(self._damage),
            torn=tuple(self._torn),
            scanned_bytes=self._scanned_bytes,
        )

    # Appending

    def append(self, batches: Sequence[Batch], now: Microseconds) -> list[Offset]:
        """Write batches, all or none (G2). Returns the base offset of each. Durable after `commit`.

        `now` is the wall clock. The append time is never below that of an earlier batch, whatever the clock says.
        """
        self._check_writable()
        if not batches:
            return []
        append_time, offset, size = max(now, self._append_time), self._end, 0
        bases, envelopes, buffers = list[Offset](), list[Envelope](), list[Buffer]()
        for batch in batches:
            envelope = envelope_for(
                batch,
                offset,
                leader_epoch=self.leader_epoch,
                append_time=append_time,
                durable_offset=self._durable,
                wall_time=now,
            )
            bases.append(offset)
            envelopes.append(envelope)
            buffers += (seal_envelope(envelope), batch.body)
            offset, size = envelope.end_offset, size + envelope.size
        self._write(self._segment_for(size, now), envelopes, buffers)
        return bases

    def append_copied(self, batches: Sequence[CopiedBatch]) -> None:
        """Write batches from another copy of this log unchanged, from the end of this one on.

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
        """The number of batches that fit into this segment, at least one; each begins where the last ended."""
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
        if growing is None or (growing.summary.size and self._is_finished(growing.summary, size, now)):
            return self._segments.roll(self._end, self._history)
        return growing

    def _is_finished(self, summary: Summary, more: int, now: Microseconds) -> bool:
        """The segment is full or old, or cannot count further."""
        return (
            summary.size + more > self.config.segment_bytes
            or now - summary.first_append_time >= self.config.segment_age
            or self._end - summary.base_offset >= RELATIVE_OFFSET_MAX
        )

    # Durability

    async def commit(self) -> Offset:
        """Make everything appended so far durable. Returns the durable offset.

        Callers that wait while another's commit covers them share that commit.
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
        has_new_names = self._folder_is_new or self._names_synced != self._segments.name_changes
        return has_new_names or bool(self._segments.cut())

    async def _commit(self) -> None:
        end, names, cut = self._end, self._segments.name_changes, self._segments.cut()
        directories = [self.directory] if names != self._names_synced else []
        if self._folder_is_new:
            directories.append(_above(self.directory))
        try:
            await self._volume.sync(self._segments.unsynced(self._durable), directories)
        except TooManyFiles:
            raise  # nothing was tried that could have failed halfway
        except StorageError as error:
            raise self._stop(error) from error
        for segment in cut:
            segment.unsynced_cut = False
        self._durable, self._names_synced, self._folder_is_new = end, names, False
        self._commits += 1
        growing = self._segments.growing
        if growing is not None and self._end == end and not growing.unsynced_cut:
            growing.rest()

    async def checkpoint(self, covering: Offset = 0) -> None:
        """Seal finished segments and move the recovery point to the end. Every 5 s, when idle, at shutdown.

        A start replays no batch below `covering` to restore the producers.
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
            encoded = None  # the file is newer, and a compaction may rely on it
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
        # stop may; a close does not even wait for the seals of a checkpoint that is under way.
        if seals:
            await self._segments.seal_finished(self._durable, lambda: self._closed or not self._is_closing)

    async def _encode_producers(self) -> EncodedProducers:
        limits = self._volume.producers.limits
        return await encode_producers(self.producers, lambda: self._end, limits.slice_seconds)

    async def _write_producers(self, encoded: EncodedProducers) -> None:
        await write_producers(self._volume, self.directory, encoded)
        self._producer_tail.begin_at(encoded.replay_from, encoded.noted, self._appended_bytes, in_file=True)

    def _few_producers(self) -> ProducerStates | None:
        """The producers that the recovery point itself holds; None when there are too many."""
        return self._history.few_producers(self._volume.producers.limits.inline_max)

    def _point_now(self) -> RecoveryPoint:
        growing = self._segments.growing
        return self._recovery_point(growing, growing.closed_index() if growing is not None else None)

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
        """Hold the lock. The caller gets a full disk or damage raised; any other disk failure stops the log."""
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
        """Take the lock, without a turn of the event loop when it is free."""
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
        """A close will follow: a checkpoint that is under way seals nothing more, so that the close can begin."""
        self._is_closing = True

    async def close(self) -> None:
        """Make everything durable, write the recovery point, close every file (G15). A second call does nothing."""
        self.hurry()
        async with self._turn:
            if self._closed:
                return
            self._closed = True  # an append from now on would not be covered
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


def _above(directory: str) -> str:
    return directory.rpartition("/")[0]
