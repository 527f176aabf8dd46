"""A range of one partition, as the broker's own bytes: whole batches, prefetched for the task that parses them.

For programs that turn batches into something else than messages. The end of a fetch is known only from its answer,
so there is one under way at a time; the next is sent as soon as one has come, until the prefetch is full.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar
from uuid import UUID

import trio

from goqueue.client.link.caller import Caller
from goqueue.client.link.connection import CALL_SECONDS_MAX, RECONNECT_SECONDS_MAX, RECONNECT_SECONDS_MIN
from goqueue.errors import DataLost, GoQueueError, OffsetOutOfRange, UnknownTopic
from goqueue.net.wire import messages as wire
from goqueue.net.wire.failures import error_of, final
from goqueue.types import Offset

WAIT_MS = 10_000
BYTES_MAX = 1024 * 1024
AHEAD_BYTES_MAX = 4 * BYTES_MAX
"""Limit of the prefetch: beyond it nothing more is fetched."""

AnswerT = TypeVar("AnswerT")


@dataclass(frozen=True, slots=True)
class SliceRange:
    """Offsets of one partition of the topic with this UUID, all below the high watermark when it was read."""

    topic: str
    uuid: UUID
    partition: int
    start: Offset
    end: Offset


class FetchedSlice(NamedTuple):
    start: Offset
    """The first wanted offset. Messages before it in the first batch are not wanted, or are deleted."""
    data: bytes
    """Whole batches; the last one may end behind the range."""


class SliceFetcher:
    """`run` in one task fetches, `next` in another takes."""

    def __init__(self, client: Caller, wanted: SliceRange, *, fail_on_data_loss: bool) -> None:
        self._client = client
        self._wanted = wanted
        self._position = wanted.start
        self._fails = fail_on_data_loss
        self._slices: list[FetchedSlice] = []
        self._bytes_ahead = 0
        self._error: GoQueueError | None = None
        self._is_over = False
        self._changed = trio.Event()
        self._scope = trio.CancelScope()

    async def next(self) -> Sequence[FetchedSlice]:
        """All fetched slices; none after the last."""
        while not self._slices:
            if self._error is not None:
                raise self._error
            if self._is_over:
                break
            await self._changed.wait()
        taken, self._slices, self._bytes_ahead = self._slices, [], 0
        self._note_change()
        return taken

    def close(self) -> None:
        self._scope.cancel()

    async def run(self) -> None:
        """Never raises: `next` raises the error."""
        try:
            with self._scope:
                while self._position < self._wanted.end:
                    await self._wait_for_room()
                    await self._fetch()
        except GoQueueError as error:
            self._error = error
        finally:
            self._is_over = True
            self._note_change()

    async def _wait_for_room(self) -> None:
        while self._bytes_ahead >= AHEAD_BYTES_MAX:
            await self._changed.wait()

    def _note_change(self) -> None:
        changed, self._changed = self._changed, trio.Event()
        changed.set()

    async def _fetch(self) -> None:
        found = await self._found()
        self._check_reach(found.high_watermark)
        if found.data:
            self._slices.append(FetchedSlice(self._position, found.data))
            self._bytes_ahead += len(found.data)
            self._note_change()
        self._position = found.next_offset

    async def _found(self) -> wire.FetchedPartition:
        """Waits for a partition that is being restarted, as for a broker."""
        deadline, pause = trio.current_time() + CALL_SECONDS_MAX, RECONNECT_SECONDS_MIN
        while True:
            found = await self._ask()
            if found.error is None:
                return found
            error = error_of(found.error)
            if isinstance(error, OffsetOutOfRange):
                self._pass_over(error)
            elif not error.retryable or trio.current_time() + pause > deadline:
                raise final(error)
            else:
                await trio.sleep(pause)
                pause = min(2 * pause, RECONNECT_SECONDS_MAX)

    async def _ask(self) -> wire.FetchedPartition:
        wanted = self._wanted
        place = wire.FetchPartition(wanted.uuid.bytes, wanted.partition, 0, self._position)
        try:
            answer = await self._client.call(wire.Fetch(WAIT_MS, BYTES_MAX, (place,)), wire.Fetched)
        except UnknownTopic:
            raise UnknownTopic(
                f"topic {wanted.topic} of UUID {wanted.uuid} was deleted while it was being read, or deleted and "
                f"made anew under its name; read it again"
            ) from None
        return answer.partitions[0]

    def _pass_over(self, error: OffsetOutOfRange) -> None:
        """Retention removed messages: raise an error, or skip them."""
        start, end = error.details.get("start"), error.details.get("end")
        if not isinstance(start, int) or not isinstance(end, int):
            raise error
        self._check_reach(end)
        if self._fails:
            raise removed(self._wanted.topic, self._wanted.partition, self._position, min(start, self._wanted.end))
        self._position = start

    def _check_reach(self, high_watermark: Offset) -> None:
        wanted = self._wanted
        if high_watermark < wanted.end:
            raise cut_back(wanted.topic, wanted.partition, wanted.end, high_watermark)


def removed(topic: str, partition: int, start: Offset, end: Offset) -> DataLost:
    return DataLost(
        f"offsets {start} to {end - 1} of {topic}/{partition} are no longer there: retention, a purge or a "
        f"delete-before has removed them before they were read. Set failOnDataLoss to false to go on behind them"
    )


def cut_back(topic: str, partition: int, reached: Offset, end: Offset) -> DataLost:
    return DataLost(
        f"{topic}/{partition} ends at offset {end}, though it had reached {reached}: the broker has lost messages, "
        f"or an older copy of its data was put in place"
    )
