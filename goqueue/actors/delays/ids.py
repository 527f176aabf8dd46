"""The message ids of a partition's pending messages, for those who ask for a message by its id.

Most partitions are never asked. The first question has the pending messages read from the log; from then on what is
appended is noted. A restart forgets everything, and the next question reads again: the log is the truth.
"""

from collections.abc import Sequence

import trio

from goqueue.core.delays.pending import Delays
from goqueue.core.delays.pendingids import PendingIds
from goqueue.core.records.record import MESSAGE_ID_HEADER, headers_at, walk_records
from goqueue.storage.delays.scan import read_originals
from goqueue.storage.log.log import Log
from goqueue.storage.log.segment import Segment
from goqueue.types import Offset

READ_AT_ONCE = 250
"""Limit of messages in one step: a few milliseconds of work."""
READ_BYTES_MAX = 1024 * 1024
STALE_MAX = 10_000
"""Limit of the entries beyond twice the pending messages."""
BUCKETS_AT_ONCE = 100


class DelayedIds:
    def __init__(self, delays: Delays) -> None:
        self._delays = delays
        self._ids: PendingIds | None = None
        """None until somebody asks."""
        self._are_complete = False
        self._reading = trio.Lock()

    def note(self, message_id: bytes, offset: Offset) -> None:
        """A delayed message with this id is appended."""
        if self._ids is not None:
            self._ids.add(message_id, offset)

    async def find(self, log: Log, message_id: bytes, first: Offset) -> list[Offset]:
        """The pending messages from this offset on that may have the id, in order."""
        async with self._reading:
            if not self._are_complete:
                await self._read_all(log)
        assert self._ids is not None
        return [each for each in self._ids.find(message_id) if each >= first and each in self._delays.pending]

    async def _read_all(self, log: Log) -> None:
        """What is appended meanwhile is noted, too. After an error the next question begins anew."""
        self._ids = PendingIds()
        for segment in [each for each in log.segments_about_delays() if each.summary.holds_ids]:
            await self._read_segment(log, segment, self._ids)
        self._are_complete = True

    async def _read_segment(self, log: Log, segment: Segment, ids: PendingIds) -> None:
        first, end = segment.base_offset, segment.end_offset
        while some := [each for each in self._delays.pending_from(first, READ_AT_ONCE) if each < end]:
            first = min(await self._read(log, some, ids), some[-1] + 1)
            await trio.lowlevel.checkpoint()  # reads from memory do not wait, and others want to run

    async def _read(self, log: Log, offsets: Sequence[Offset], ids: PendingIds) -> Offset:
        """Returns the offset from which on nothing was read."""
        found, unread_from = await read_originals(log, offsets, READ_BYTES_MAX)
        for offset, record in found.items():
            message_id = headers_at(memoryview(record), next(walk_records(record, 1))).get(MESSAGE_ID_HEADER)
            if message_id is not None:
                ids.add(message_id, offset)
        return unread_from

    async def drop_stale(self) -> None:
        """When most entries are of messages that have ended, forget these, some at a time."""
        ids, pending = self._ids, self._delays.pending
        if ids is None or len(ids) <= 2 * len(pending) + STALE_MAX:
            return
        bucket = 0
        while bucket < ids.bucket_count:
            ids.keep_only(bucket, pending.__contains__)
            bucket += 1
            if bucket % BUCKETS_AT_ONCE == 0:
                await trio.lowlevel.checkpoint()
