"""The log of a partition: a list of segments, appended to at one end and removed at the other.

Which call may run when: `append` is atomic and never waits. The calls that wait (`commit`, `checkpoint`,
`truncate`, `delete_before`, `compact`, `close`) run one at a time, while appends and reads go on. The owner makes
sure that nothing is appended while `truncate` runs.

Offsets, from old to new:

    log_start ≤ high_watermark ≤ durable_offset ≤ end_offset

Below `durable_offset` everything is fsynced. The owner, which knows the replicas, moves the high watermark;
readers see the log below it.
"""

import math
from dataclasses import replace
from functools import partial

import trio

from goqueue.config import LogConfig
from goqueue.core.log.retention import RemovalCause
from goqueue.errors import Closed, DamagedData, DiskFull, OffsetOutOfRange
from goqueue.storage.log.growing import GrowingLog
from goqueue.storage.log.producersnapshot import encode_producers, write_producers
from goqueue.storage.log.recovery import Recovered, recover
from goqueue.storage.log.recoverypoint import write_recovery_point
from goqueue.storage.log.rewriting import (
    Keeps,
    Rewrite,
    Untouched,
    joined,
    put_in_place,
    put_joined_in_place,
    rewrite,
)
from goqueue.storage.log.scan import Damage
from goqueue.storage.log.segment import Segment
from goqueue.storage.log.views import LogSlice
from goqueue.storage.log.volume import Volume
from goqueue.types import Buffer, Microseconds, Offset

DAMAGE_MET_MAX = 100
"""Maximum number of damaged ranges that are kept to report them to operators."""


class Log(GrowingLog):
    """Opened by `Log.open`. Appends and commits are in its base class; reads and removal are here."""

    __slots__ = ("_compaction", "past_changes")

    def __init__(
        self,
        volume: Volume,
        directory: str,
        config: LogConfig,
        recovered: Recovered,
        leader_epoch: int | None = None,
    ) -> None:
        super().__init__(volume, directory, config, recovered, leader_epoch)
        self._compaction: trio.Lock | None = None
        self.past_changes = 0
        """The number of changes that removed something readers could see: what was read before may be gone."""

    @property
    def records(self) -> int:
        """Records of all segments: hidden ones count, those that compaction removed do not."""
        return sum(segment.summary.records for segment in self._segments)

    # Reading

    async def read(self, offset: Offset, bytes_max: int, limit: Offset | None = None) -> LogSlice:
        """Batches from the one that holds `offset` on: at most `bytes_max` bytes, but at least one batch.

        They end at the high watermark, or at `limit`, which lies between two batches.
        """
        limit = self._high_watermark if limit is None else min(limit, self._end)
        self._check_readable(offset, limit)
        while offset < limit:
            try:
                segment = self._holding(offset)
                found = await segment.read(offset, bytes_max, limit)
            except DamagedData as damage:
                self._note_damage(damage)
                raise
            if found is not None:
                return self._slice(found.data, found.next_offset)
            offset = segment.end_offset
            self._check_open()
        return self._slice(b"", offset)

    def _note_damage(self, met: DamagedData) -> None:
        is_known = any(each.offset <= met.offset and met.end_offset <= each.end_offset for each in self.damage_met)
        if not is_known and len(self.damage_met) < DAMAGE_MET_MAX:
            place = (met.path, met.position, met.end_position, met.offset, met.end_offset)
            self.damage_met.append(Damage(*place))

    async def look_at_damage(self) -> tuple[Damage, ...]:
        """The damage that is still there: some may have been repaired, or removed."""
        for damage in self.damage_met[:]:
            offset = max(damage.offset, self._log_start)
            try:
                if offset < damage.end_offset:
                    await self.read(offset, 1, self._end)
            except (DamagedData, OffsetOutOfRange):
                continue
            if damage in self.damage_met:
                self.damage_met.remove(damage)
        return tuple(self.damage_met)

    def _holding(self, offset: Offset) -> Segment:
        segment = self._segments.holding(offset)
        if segment is None:
            raise DamagedData(self.directory, 0, 0, offset, self._segments.next_base(offset, self._end))
        return segment

    def _check_readable(self, offset: Offset, limit: Offset) -> None:
        self._check_open()
        if not self._log_start <= offset <= limit:
            raise OffsetOutOfRange(
                f"offset {offset} is not between {self._log_start} and {limit}; read from one of these",
                start=self._log_start,
                end=limit,
            )

    def _check_open(self) -> None:
        """Also before each further segment: the files of a log that was closed meanwhile may be gone."""
        if self._closed:
            raise Closed(f"the log in {self.directory} is closed")

    def _slice(self, data: Buffer, next_offset: Offset) -> LogSlice:
        return LogSlice(data, next_offset, self._log_start, self._high_watermark)

    async def offset_at_time(self, time: Microseconds) -> Offset | None:
        """The first record of this time or later that readers can see, or None."""
        for segment in self._segments.walk(self._log_start):
            self._check_open()
            if segment.summary.highest_timestamp >= time and segment.end_offset > self._log_start:
                offset = await segment.first_offset_at(time, self._log_start)
                if offset is not None:
                    return offset if offset < self._high_watermark else None
        return None

    async def next_of_lane(self, lane: int, offset: Offset) -> Offset | None:
        """The first record of this priority, from `offset` on, that readers can see, or None."""
        for segment in self._segments.walk(offset):
            self._check_open()
            if segment.summary.priority_mask >> lane & 1 and segment.end_offset > offset:
                found = await segment.first_offset_of_lane(lane, max(offset, self._log_start))
                if found is not None:
                    return found if found < self._high_watermark else None
        return None

    def lanes_from(self, offset: Offset) -> int:
        """The priorities that may occur from this offset on, as a mask."""
        return self._segments.lanes_from(offset)

    async def stretch_of_lane(self, lane: int, offset: Offset, end: Offset) -> Offset | None:
        """The offset to read from for the next record of this priority before `end`; None when there is none.

        By the lane index alone: the stretches in between are not read.
        """
        for segment in self._segments.walk(offset):
            self._check_open()
            if segment.base_offset >= end:
                break
            if segment.summary.priority_mask >> lane & 1 and segment.end_offset > offset:
                found = await segment.stretch_of_lane(lane, max(offset, self._log_start))
                if found is not None:
                    return found if found < end else None
        return None

    # Retiring

    async def truncate(self, offset: Offset) -> Offset:
        """Cut off everything from `offset` on, at the end of a batch. Returns the new end.

        The files are cut, then recovered as after a crash: so all indexes, summaries and producers agree.
        """
        async with self._exclusively():
            self._check_readable(offset, self._end)
            if offset == self._end:
                return offset
            segment = self._holding(offset)
            position, end = await segment.boundary_at(offset)
            await self._cut_producers(end)
            await self._cut_files(segment, position, end)
            self._adopt(await recover(self._volume, self.directory))
            self.past_changes += 1
            await self._commit()
            self._high_watermark = min(self._high_watermark, self._end)
            return self._end

    async def _cut_producers(self, end: Offset) -> None:
        """No producer state may name an offset from `end` on, since other records will get it."""
        self._volume.producers.leave(self.producers)
        self.producers.cut(end)
        encoded = await encode_producers(self.producers, lambda: end, math.inf)
        await write_producers(self._volume, self.directory, encoded)

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

    async def delete_before(self, offset: Offset, cause: RemovalCause = RemovalCause.PURGE) -> None:
        """Move the log's start to this offset; durable when it returns. Whole segments before it are removed.

        At the end of the log that is all of them, and a new segment begins. A full disk has a reserve for this.
        """
        await self._volume.reserve.with_room(partial(self._delete_before, offset, cause))

    async def _delete_before(self, offset: Offset, cause: RemovalCause) -> None:
        async with self._exclusively():
            self._check_readable(max(offset, self._log_start), self._high_watermark)
            if offset == self._end:
                self._retire_growing()
            await self._begin_at(offset, cause)

    def _retire_growing(self) -> None:
        """Roll, so that only an empty segment grows; its name keeps the offset at which the log goes on."""
        if self._segments.growing is None or self._segments.growing.summary.size:
            self._segments.roll(self._end, self._history)

    async def _begin_at(self, offset: Offset, cause: RemovalCause) -> None:
        """Make the new start durable, then remove the segments before it."""
        before = self._log_start
        if offset > before:
            self._log_start = offset
            self.past_changes += 1
            try:
                await self._checkpoint(seals=False)  # they would mostly be of segments about to go
            except DiskFull:
                self._log_start = before  # it is not durable, and a repeat has to write it
                raise
            self._volume.logs.note_removed(self.directory, cause, offset - before)
            self._segments.remove([old for old in self._segments.finished() if old.end_offset <= offset])
            await self._commit()

    def roll(self) -> None:
        """Finish the growing segment, so that it can be compacted."""
        self._check_writable()
        self._retire_growing()

    def visible_segments(self) -> list[Segment]:
        """The segments that readers can see whole, oldest first; the last may grow."""
        return [each for each in self._segments if each.end_offset <= self._high_watermark]

    def finished_segments(self) -> list[Segment]:
        """The segments that no longer grow and that readers can see whole."""
        return [each for each in self.visible_segments() if each is not self._segments.growing]

    def segments_about_delays(self) -> list[Segment]:
        """The segments with delayed messages, or records that end a delay, oldest first; the last may grow."""
        return [each for each in self._segments if each.summary.holds_delayed]

    @property
    def thinned_to(self) -> Offset:
        """The offset from which retention and compaction have removed nothing from the middle of the log."""
        thinned = [each for each in self._segments if each.summary.records < each.end_offset - each.base_offset]
        return max((each.end_offset for each in thinned), default=0)

    def segments_since(self, append_time: Microseconds) -> list[Segment]:
        """The segments that may hold batches appended at this time or later, oldest first; the last may grow."""
        filled = [each for each in self._segments if each.summary.size]
        return [each for each in filled if each.summary.last_append_time >= append_time]

    def _compacting(self) -> trio.Lock:
        """Held by the one compaction that runs. Most logs never have one."""
        self._compaction = self._compaction or trio.Lock()
        return self._compaction

    async def compact(self, segment: Segment, keeps: Keeps, cause: RemovalCause = RemovalCause.COMPACTION) -> bool:
        """Rewrite a finished segment with only some of its records; offsets, order and readers stay.

        Returns whether only these are left: a damaged segment stays as it is.
        """
        async with self._compacting():
            await self._prepare_rewrite(segment.end_offset)
            copy = await rewrite(segment, keeps)
            if isinstance(copy, Untouched):
                return copy is Untouched.NOTHING_GOES
            return await self._exchange(copy, cause)

    async def _prepare_rewrite(self, end: Offset) -> None:
        if self._producer_tail.begin < end:
            await self.checkpoint(covering=end)  # the numbers of producers are lost with the batches that go
        async with self._exclusively():
            await self._segments.seal_finished(self._durable)

    async def merge(self, run: list[Segment]) -> None:
        """Join finished neighbours into one file; offsets, records and readers stay. Damaged ones are left."""
        async with self._compacting():
            await self._prepare_rewrite(run[-1].end_offset)
            if self._segments.hold(run):
                copy = await joined(run)
                if copy is not None:
                    await self._exchange_run(run, copy)

    async def _exchange_run(self, run: list[Segment], copy: Rewrite) -> None:
        """The files that the new one replaces are removed once its name is durable."""
        try:
            async with self._exclusively():
                new = await put_joined_in_place(copy, run[-1]) if self._segments.hold(run) else None
                if new is not None:
                    self._segments.merge(run, new)
                    freed = sum(each.summary.size for each in run) - new.summary.size
                    self._volume.logs.note_compacted(self.directory, freed)
                    await self._commit()
                    for segment in run[:0:-1]:
                        segment.remove_files()
                    self._segments.name_changes += 1
                    await self._commit()
        finally:
            copy.close()

    async def _exchange(self, copy: Rewrite, cause: RemovalCause) -> bool:
        try:
            async with self._exclusively():
                if copy.segment not in self._segments:
                    return True  # it is gone as a whole
                smaller = await put_in_place(copy)
                if smaller is not None:
                    self._segments.exchange(copy.segment, smaller)
                    old, new = copy.segment.summary, smaller.summary
                    self._volume.logs.note_removed(self.directory, cause, old.records - new.records)
                    self._volume.logs.note_compacted(self.directory, old.size - new.size)
                    self.past_changes += 1
                    await self._commit()
                return smaller is not None
        finally:
            copy.close()
