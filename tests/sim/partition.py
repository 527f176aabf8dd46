"""The actor under test: a partition, as far as a log can be one. Group commit, deferred replies, ordered stop."""

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import trio

from goqueue.actors.base import Actor
from goqueue.actors.handlers import answers, defers
from goqueue.actors.messages import Reply, Request
from goqueue.config import LogConfig
from goqueue.core.durability import CheckpointSchedule, SyncSchedule
from goqueue.environment import WallClock
from goqueue.errors import DiskFull
from goqueue.storage.batch import Batch
from goqueue.storage.log import Log
from goqueue.storage.logviews import LogSlice, LogStatistics
from goqueue.storage.volume import Volume
from goqueue.types import Offset


@dataclass(frozen=True, slots=True)
class Publish(Request[Offset]):
    """Answered with the base offset: at once when it is in the file, or when it is durable."""

    batch: Batch
    durably: bool


@dataclass(frozen=True, slots=True)
class Fetch(Request[LogSlice]):
    offset: Offset
    bytes_max: int


@dataclass(frozen=True, slots=True)
class DeleteBefore(Request[None]):
    offset: Offset


@dataclass(frozen=True, slots=True)
class Describe(Request[LogStatistics]):
    pass


@dataclass(frozen=True, slots=True)
class Waiting:
    end: Offset
    base: Offset
    reply: Reply[Offset]


class Partition(Actor):
    def __init__(self, volume: Volume, clock: WallClock, directory: str, config: LogConfig) -> None:
        self._volume = volume
        self._clock = clock
        self._directory = directory
        self._config = config
        self._arrived: list[tuple[Publish, Reply[Offset]]] = []
        self._waiting: deque[Waiting] = deque()
        self._syncs = SyncSchedule()
        self._checkpoints = CheckpointSchedule()
        self._busy = False
        self.log: Log | None = None

    async def start(self) -> None:
        self.log = await Log.open(self._volume, self._directory, self._config)

    async def stop(self) -> None:
        await self._log.close()
        self.settle(self._log.durable_offset)

    def close(self) -> None:
        if self.log is not None:
            self.log.abandon()

    @property
    def _log(self) -> Log:
        assert self.log is not None
        return self.log

    @defers(Publish)
    async def publish(self, message: Publish, reply: Reply[Offset]) -> None:
        self._arrived.append((message, reply))

    @answers(Fetch)
    async def fetch(self, message: Fetch) -> LogSlice:
        return await self._log.read(message.offset, message.bytes_max)

    @answers(DeleteBefore)
    async def delete_before(self, message: DeleteBefore) -> None:
        await self._log.delete_before(message.offset)

    @answers(Describe)
    async def describe(self, _: Describe) -> LogStatistics:
        return self._log.statistics()

    async def end_turn(self) -> None:
        """One write for everything that arrived in this turn."""
        arrived, self._arrived = self._arrived, []
        if not arrived:
            return
        try:
            bases = self._log.append([message.batch for message, _ in arrived], self._clock.now())
        except DiskFull as error:
            for _, reply in arrived:
                reply.fail(error)
            self._syncs.note_written(trio.current_time(), 0, awaited=True)  # the cut has to be durable
            return
        self._note_written([message for message, _ in arrived])
        for (message, reply), base in zip(arrived, bases, strict=True):
            self.answer(message, base, reply)

    def _note_written(self, messages: Sequence[Publish]) -> None:
        now = trio.current_time()
        size = sum(message.batch.size for message in messages)
        self._syncs.note_written(now, size, awaited=any(message.durably for message in messages))
        self._checkpoints.note_end(now, self._log.end_offset)

    def answer(self, message: Publish, base: Offset, reply: Reply[Offset]) -> None:
        if message.durably:
            self._waiting.append(Waiting(base + message.batch.record_count, base, reply))
        else:
            reply.resolve(base)

    def settle(self, durable: Offset) -> None:
        while self._waiting and self._waiting[0].end <= durable:
            waiting = self._waiting.popleft()
            waiting.reply.resolve(waiting.base)

    # The disk, beside the mailbox: appends go on while a sync is under way.

    def next_deadline(self) -> float | None:
        if self._busy:
            return None
        deadlines = (self._syncs.next_deadline(trio.current_time()), self._checkpoints.next_deadline())
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    async def tick(self, now: float) -> None:
        if self._checkpoints.is_due(now):
            self._begin(self._checkpoint)
        elif self._syncs.is_due(now):
            self._begin(self._commit)

    def _begin(self, work: Callable[[], Awaitable[None]]) -> None:
        self._busy = True
        self._syncs.begin()
        self.background(work)

    async def _commit(self) -> None:
        self._done(await self._log.commit())

    async def _checkpoint(self) -> None:
        self._checkpoints.begin()
        with suppress(DiskFull):  # the data is durable; the recovery point follows when there is room
            await self._log.checkpoint()
        self._done(self._log.durable_offset)

    def _done(self, durable: Offset) -> None:
        self._log.advance_high_watermark(durable)
        self.settle(durable)
        self._busy = False
        self.wake()
