"""Reads of a partition's log, and readers that wait at its end."""

from dataclasses import dataclass, field

import trio

from goqueue.actors.delivery.streams import GroupStreams
from goqueue.actors.partition.keeper import LogKeeper
from goqueue.actors.partition.requests import AwaitMore, Fetch, OffsetAtTime
from goqueue.actors.runtime.handlers import answers, defers
from goqueue.actors.runtime.messages import Reply
from goqueue.actors.runtime.parts import PartHost, answer
from goqueue.core.waiting.longpoll import LongPoll
from goqueue.errors import DamagedData
from goqueue.storage.log.log import Log
from goqueue.storage.log.views import LogSlice
from goqueue.types import Offset


@dataclass(eq=False, slots=True)
class LogReading:
    """A part of a partition."""

    log: Log
    keeper: LogKeeper
    host: PartHost
    streams: GroupStreams
    """Told who reads: members of groups in stream mode."""
    waiting: LongPoll[Reply[None]] = field(default_factory=LongPoll)

    @defers(Fetch)
    async def fetch(self, message: Fetch, reply: Reply[LogSlice]) -> None:
        self.streams.note_fetch(message.reader, message.offset)
        if self._is_warm(message.offset):
            reply.resolve(await self._slice(message))
        else:
            self.host.background(answer, reply, self._slice, message)

    def _is_warm(self, offset: Offset) -> bool:
        """The growing segment is in memory and is read without waiting; older parts may be on disk only."""
        return offset >= self.log.growing_from

    async def _slice(self, message: Fetch) -> LogSlice:
        try:
            return await self.log.read(message.offset, message.bytes_max)
        except DamagedData as damage:
            self.streams.note_damage(message.reader, message.offset, damage)
            raise

    @defers(AwaitMore)
    async def await_more(self, message: AwaitMore, reply: Reply[None]) -> None:
        if message.offset == self.log.high_watermark and message.deadline > trio.current_time():
            self.waiting.wait(reply, message.offset, message.deadline)
            self.streams.note_fetch_wait(message.reader, message.deadline, reply)
            self.keeper.note_awaited()
        else:
            reply.resolve(None)

    @answers(OffsetAtTime)
    async def offset_at_time(self, message: OffsetAtTime) -> Offset | None:
        return await self.log.offset_at_time(message.time)

    def dismiss(self) -> None:
        """Answer the long polls at the end of the log: a stop does not wait for them."""
        for reply in self.waiting.all():
            reply.resolve(None)

    def reached(self, durable: Offset) -> None:
        for reply in self.waiting.reached(durable):
            reply.resolve(None)

    def tick(self, now: float) -> None:
        for reply in self.waiting.expired(now):
            reply.resolve(None)
