"""The log of a partition: a row of segments, appended to at one end and retired at the other.

Who may do what, when: `append` is atomic and never waits. Everything that waits (`commit`, `checkpoint`,
`truncate`, `delete_before`, `compact`, `close`) takes its turn, one at a time, while appends and
reads go on. Nothing is appended while `truncate` runs: its owner sees to that.

Offsets, from old to new:

    log_start ≤ high_watermark ≤ durable_offset ≤ end_offset

Below `durable_offset` everything is fsynced. The high watermark is moved by the owner, which knows the
replicas; readers see what lies below it.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import trio

from goqueue.config import LogConfig
from goqueue.core.batch import Batch, Envelope, envelope_for, seal_envelope
from goqueue.core.producers import ProducerStates
from goqueue.errors import Closed, DamagedData, DiskFull, LogStopped, OffsetOutOfRange, StorageError
from goqueue.storage.compaction import Keeps, Rewrite, put_in_place, rewrite
from goqueue.storage.index import BEGINNING
from goqueue.storage.logviews import LogSlice, LogStatistics
from goqueue.storage.recovery import Recovered, recover
from goqueue.storage.recoverypoint import RecoveryPoint, write_recovery_point
from goqueue.storage.segment import ClosedIndex, Segment
from goqueue.storage.segments import Segments
from goqueue.storage.summary import encode_summary
from goqueue.storage.volume import Volume
from goqueue.types import Buffer, Microseconds, Offset

RELATIVE_OFFSET_MAX = 2**31


class Log:
    """Opened by `Log.open`; use it from one task at a time, reads and commits apart."""

    def __init__(self, volume: Volume, directory: str, config: LogConfig, recovered: Recovered) -> None:
        self.config = config
        self.directory = directory
        self.leader_epoch = recovered.leader_epoch + 1
        self._volume = volume
        self._turn = trio.Lock()
        self._compaction = trio.Lock()
        self._closed = False
        self._failure: StorageError | None = None
        self._high_watermark: Offset = 0
        self._appended_batches = self._appended_records = self._appended_bytes = self._commits = 0
        self._adopt(recovered)

    @classmethod
    async def open(cls, volume: Volume, directory: str, config: LogConfig | None = None) -> "Log":
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
        self._log_start = recovered.log_start
        self._end = recovered.end_offset
        self._durable: Offset = self._log_start
        self.compacted_to = recovered.compacted_to
        self._append_time = recovered.append_time
        self._history.forget(self._log_start, self._append_time)
        self._damage, self._torn = recovered.damage, recovered.torn
        self._scanned_bytes = recovered.scanned_bytes
        self._names_synced = 0

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
        return self._history.producers

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
        """Write batches in one go, all or none (G2); the base offset of each. Durable after `commit`."""
        self._check_writable()
        if not batches:
            return []
        segment = self._segment_for(sum(batch.size for batch in batches), now)
        envelopes = self._envelopes(batches, max(now, self._append_time))
        buffers: list[Buffer] = []
        for envelope, batch in zip(envelopes, batches, strict=True):
            buffers += (seal_envelope(envelope), batch.body)
        self._write(segment, envelopes, buffers)
        return [envelope.base_offset for envelope in envelopes]

    def _envelopes(self, batches: Sequence[Batch], append_time: Microseconds) -> list[Envelope]:
        envelopes = []
        offset = self._end
        for batch in batches:
            envelope = envelope_for(
                batch,
                offset,
                leader_epoch=self.leader_epoch,
                append_time=append_time,
                durable_offset=self._durable,
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
        async with self._exclusively():
            if self._durable < wanted or self._segments.cut() or self._names_synced != self._segments.name_changes:
                await self._commit()
        return self._durable

    async def _commit(self) -> None:
        end, names, cut = self._end, self._segments.name_changes, self._segments.cut()
        directories = [self.directory] if names != self._names_synced else []
        try:
            await self._volume.sync(self._segments.unsynced(self._durable), directories)
        except StorageError as error:
            raise self._stop(error) from error
        for segment in cut:
            segment.unsynced_cut = False
        self._durable, self._names_synced = end, names
        self._commits += 1

    async def checkpoint(self) -> None:
        """Seal what is finished and move the recovery point up to here. Each 5 s, when idle, at shutdown."""
        async with self._exclusively():
            await self._checkpoint()

    async def _checkpoint(self) -> None:
        self._history.forget(self._log_start, self._append_time)
        growing = self._segments.growing
        closed = growing.closed_index() if growing is not None else None
        point = self._recovery_point(growing, closed)
        await self._commit()
        await self._segments.seal_finished(self._durable)
        if growing is not None and closed is not None:
            growing.write_closed_index(closed)
        await write_recovery_point(self._volume, self.directory, point)

    def _recovery_point(self, growing: Segment | None, closed: ClosedIndex | None) -> RecoveryPoint:
        """The state at this moment; to be written once everything below `end_offset` is durable."""
        scan_from, summary = BEGINNING, b""
        if growing is not None and closed is not None:
            scan_from = closed.unfinished
            history = replace(self._history, lanes=closed.lanes)
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
        async with self._turn:
            self._check_writable()
            try:
                yield
            except (DiskFull, DamagedData, LogStopped):
                raise
            except StorageError as error:
                raise self._stop(error) from error

    def _stop(self, error: StorageError) -> LogStopped:
        self._failure = error
        return LogStopped(f"{self.directory}: {error.message}; reopen the log", directory=self.directory)

    def _check_writable(self) -> None:
        if self._closed:
            raise Closed(f"the log in {self.directory} is closed")
        if self._failure is not None:
            raise self._stop(self._failure)

    async def close(self) -> None:
        """Everything durable, the recovery point written, every file closed (G15). Twice is once."""
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
        self._segments.close()

    # Reading

    async def read(self, offset: Offset, bytes_max: int, limit: Offset | None = None) -> LogSlice:
        """Batches from the one that holds `offset` on, at most `bytes_max` bytes but one batch at least.

        Up to the high watermark, or up to `limit`, which lies between two batches.
        """
        limit = self._high_watermark if limit is None else min(limit, self._end)
        self._check_readable(offset, limit)
        while offset < limit:
            segment = self._holding(offset)
            found = await segment.read(offset, bytes_max, limit)
            if found is not None:
                return self._slice(found.data, found.next_offset)
            offset = segment.end_offset
        return self._slice(b"", offset)

    def _holding(self, offset: Offset) -> Segment:
        segment = self._segments.holding(offset)
        if segment is None:
            raise DamagedData(self.directory, 0, 0, offset, self._segments.next_base(offset, self._end))
        return segment

    def _check_readable(self, offset: Offset, limit: Offset) -> None:
        if self._closed:
            raise Closed(f"the log in {self.directory} is closed")
        if not self._log_start <= offset <= limit:
            raise OffsetOutOfRange(
                f"offset {offset} is not between {self._log_start} and {limit}; read from one of these",
                start=self._log_start,
                end=limit,
            )

    def _slice(self, data: Buffer, next_offset: Offset) -> LogSlice:
        return LogSlice(data, next_offset, self._log_start, self._high_watermark)

    async def offset_at_time(self, time: Microseconds) -> Offset | None:
        """The first record of this time or later that readers can see, or None."""
        for segment in self._segments:
            if segment.summary.highest_timestamp >= time and segment.end_offset > self._log_start:
                offset = await segment.first_offset_at(time, self._log_start)
                if offset is not None:
                    return offset if offset < self._high_watermark else None
        return None

    async def next_of_lane(self, lane: int, offset: Offset) -> Offset | None:
        """The first record of this priority, from `offset` on, that readers can see, or None."""
        for segment in self._segments:
            if segment.summary.priority_mask >> lane & 1 and segment.end_offset > offset:
                found = await segment.first_offset_of_lane(lane, max(offset, self._log_start))
                if found is not None:
                    return found if found < self._high_watermark else None
        return None

    # Retiring

    async def truncate(self, offset: Offset) -> Offset:
        """Cut the log back so that nothing from `offset` on is left, at the end of a batch; the new end.

        The files are cut, then recovered as after a crash: so all indexes, summaries and producers agree.
        """
        async with self._exclusively():
            self._check_readable(offset, self._end)
            if offset == self._end:
                return offset
            segment = self._holding(offset)
            position, end = await segment.boundary_at(offset)
            await self._cut_files(segment, position, end)
            self._adopt(await recover(self._volume, self.directory))
            await self._commit()
            self._high_watermark = min(self._high_watermark, self._end)
            return self._end

    async def _cut_files(self, segment: Segment, position: int, end: Offset) -> None:
        """From the end backwards, so that a crash at any step leaves a log that is only longer."""
        self.compacted_to = min(self.compacted_to, end)
        point = replace(self._recovery_point(None, None), offset=min(self._durable, max(end, self._log_start)))
        await write_recovery_point(self._volume, self.directory, point)
        later = [each for each in self._segments if each.base_offset > segment.base_offset]
        self._segments.remove(later[::-1])
        self._segments.close()
        if end < self._log_start:  # the batch in which the log begins goes too, and the log begins anew
            segment.remove_files()
            Segment.create(self._volume, self.directory, self._log_start).close()
        else:
            await segment.cut(position)
        await self._volume.sync(directories=[self.directory])

    async def delete_before(self, offset: Offset) -> None:
        """Let the log begin at this offset; durable when it returns. Whole segments before it are removed."""
        async with self._exclusively():
            self._check_readable(max(offset, self._log_start), self._high_watermark)
            if offset == self._end:
                self._retire_growing()
            await self._begin_at(offset)

    def _retire_growing(self) -> None:
        """Roll, so that nothing but an empty segment is left; its name keeps the offset where the log goes on."""
        if self._segments.growing is None or self._segments.growing.summary.size:
            self._segments.roll(self._end, self._history)

    async def _begin_at(self, offset: Offset) -> None:
        """Say durably where the log begins, then remove what lies before."""
        if offset > self._log_start:
            self._log_start = offset
            await self._checkpoint()
            self._segments.remove([old for old in self._segments.finished() if old.end_offset <= offset])
            await self._commit()

    def roll(self) -> None:
        """Finish the growing segment, so that it can be compacted."""
        self._check_writable()
        self._retire_growing()

    def visible_segments(self) -> list[Segment]:
        """Those that readers can see whole, oldest first; the last may grow."""
        return [each for each in self._segments if each.end_offset <= self._high_watermark]

    def finished_segments(self) -> list[Segment]:
        """Those that grow no more and that readers can see whole."""
        return [each for each in self.visible_segments() if each is not self._segments.growing]

    async def compact(self, segment: Segment, keeps: Keeps) -> None:
        """Rewrite a finished segment with only some of its records; offsets, order and readers stay."""
        async with self._compaction:
            async with self._exclusively():
                await self._segments.seal_finished(self._durable)
            copy = await rewrite(segment, keeps)
            if copy is not None:
                await self._exchange(copy)

    async def _exchange(self, copy: Rewrite) -> None:
        try:
            async with self._exclusively():
                if copy.segment in self._segments:
                    smaller = await put_in_place(copy)
                    if smaller is not None:
                        self._segments.exchange(copy.segment, smaller)
                        await self._commit()
        finally:
            copy.close()
