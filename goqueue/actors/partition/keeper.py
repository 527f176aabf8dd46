"""Makes a partition's log durable, in a task beside the partition: appends go on while a sync is under way.

One task for the whole life of the partition, since a task for each sync would cost a publish with acks=all as much
as the write. It works when it is told that a sync is due, and goes on while one is: producers of batches that were
written meanwhile do not wait for a turn of the partition, too.
"""

import logging
from collections.abc import Callable

import trio

from goqueue.core.deadlines import earliest
from goqueue.core.log.durability import CheckpointSchedule, SyncSchedule, idle_seconds_of
from goqueue.errors import DiskFull, TooManyFiles
from goqueue.storage.log.log import Log
from goqueue.types import Offset

logger = logging.getLogger("goqueue.partition")

RETRY_SECONDS = 1.0
"""The pause before a sync is tried again, when no descriptor was left for it."""


class LogKeeper:
    def __init__(self, log: Log, show: Callable[[Offset], None], wake: Callable[[], None]) -> None:
        """`show` gets the durable offset; `wake` is called when the next deadline has moved."""
        self._log = log
        self._show = show
        self._wake = wake
        self._syncs = SyncSchedule()
        self._checkpoints = CheckpointSchedule(idle_seconds_of(log.directory))
        self._is_busy = self._is_stopping = False
        self._work, self._rested = trio.Event(), trio.Event()

    def note_written(self, size: int, *, awaited: bool) -> None:
        now = trio.current_time()
        self._syncs.note_written(now, size, awaited=awaited)
        self._checkpoints.note_end(now, self._log.end_offset)

    def note_awaited(self) -> None:
        """A reader or producer waits for batches that are already written."""
        self._syncs.note_awaited()

    def next_deadline(self) -> float | None:
        """When to call `begin_what_is_due`. The task itself sees what falls due while it works."""
        syncs, checkpoints = self._syncs.next_deadline(), self._checkpoints.next_deadline()
        if syncs is None and checkpoints is None:
            return None
        if not self._is_busy:
            return earliest(syncs, checkpoints)
        now = trio.current_time()
        return min((each for each in (syncs, checkpoints) if each is not None and each > now), default=None)

    def begin_what_is_due(self, now: float) -> None:
        if not self._is_busy and self._is_due(now):
            self._is_busy, self._rested = True, trio.Event()
            self._work.set()

    def _is_due(self, now: float) -> bool:
        return self._syncs.is_due(now) or self._checkpoints.is_due(now)

    async def run(self) -> None:
        """Runs until cancelled. An error from it ends the partition."""
        while True:
            await self._work.wait()
            self._work = trio.Event()
            while self._is_due(now := trio.current_time()) and not self._is_stopping:
                await self._do_what_is_due(now)
            self._is_busy = False
            self._rested.set()

    async def stop(self) -> None:
        """Finish the sync under way and begin no other: from now on the partition syncs the log itself."""
        self._is_stopping = True
        if self._is_busy:
            await self._rested.wait()

    async def _do_what_is_due(self, now: float) -> None:
        self._syncs.begin()
        try:
            if self._checkpoints.is_due(now):
                await self._checkpoint()
            else:
                self._show(await self._log.commit())
        except TooManyFiles as error:
            logger.warning("%s", error.message)
            await trio.sleep(RETRY_SECONDS)
            self.note_written(0, awaited=True)

    async def _checkpoint(self) -> None:
        self._checkpoints.begin()
        self._show(await self._log.commit())  # nobody waits for the recovery point
        try:
            await self._log.checkpoint()
        except DiskFull:  # the data is durable; the recovery point follows when there is room
            self._checkpoints.note_failed(trio.current_time())
            self._wake()
        self._show(self._log.durable_offset)
