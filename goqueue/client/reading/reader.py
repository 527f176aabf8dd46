"""Reads a topic without a group: an async iterator, and a context manager for loops that end early.

It keeps a position for each partition and fetches from there, all partitions in one request. Positions move only
when the answer is in the buffer, so a cancelled `async for` loses nothing and repeats nothing. While the program
handles one slice, the reader prefetches the next, when there is one.
It owns no task and no nursery: leaving the loop by `break` leaves nothing running.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from itertools import chain
from reprlib import repr as shortened
from types import TracebackType
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import trio

from goqueue.client.link.arguments import offset_in_range
from goqueue.client.link.caller import Caller
from goqueue.client.link.moments import UNREADABLE, clamped_microseconds_of
from goqueue.client.reading.message import Message, Slice
from goqueue.client.reading.prefetch import AskedAhead
from goqueue.core.groups.start import last_count
from goqueue.core.sending.partitioner import check_partition
from goqueue.errors import Closed, DamagedData, GoQueueError, InvalidMessage, OffsetOutOfRange
from goqueue.net.wire import messages as wire
from goqueue.net.wire.failures import PATIENCE_SECONDS, error_of, final
from goqueue.types import Microseconds, Offset

if TYPE_CHECKING:
    from goqueue.client.link.topics import Topic

Start: TypeAlias = Offset | float | str | datetime
WAIT_MS = 10_000
BYTES_MAX = 512 * 1024
PAUSE_SECONDS = 0.1
"""The pause before a partition that could not answer is asked again."""

REFRESH_SECONDS = 30.0
"""Limit of the time until a reader of all partitions notices an added one."""


AnswerT = TypeVar("AnswerT")


class Reader:
    def __init__(self, client: Caller, topic: str, partition: int | None, start: Start, end: Start | None) -> None:
        self._client = client
        self._name = topic
        self._partition = partition
        self._start = start
        self._end = end
        self._topic: Topic | None = None
        self._positions: dict[int, Offset] = {}
        self._firsts: dict[int, Offset] = {}
        self._ends: dict[int, Offset] = {}
        self._at_hand: Iterator[Message] = iter(())
        self._ahead = AskedAhead(client)
        self._refreshed_at = 0.0
        self._fails_since: float | None = None
        """In Trio's time."""
        self._is_closed = False
        self.on_damaged: Callable[[int, DamagedData], None] | None = None
        """Gets the partition and the damage; then reading goes on behind it. Without it, damage is an error."""
        self.begin_at: Mapping[int, Offset] = {}
        """Where to begin on these partitions, in place of `start`."""

    async def __aenter__(self) -> "Reader":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_closed = True
        self._at_hand = iter(())

    def __aiter__(self) -> "Reader":
        return self

    async def __anext__(self) -> Message:
        message = next(self._at_hand, None)
        return message or await self._next_of_more()

    async def _next_of_more(self) -> Message:
        self._check_open()
        if self._topic is None:
            await self._begin()
        while (message := next(self._at_hand, None)) is None:
            self._check_open()
            if not self._positions:
                raise StopAsyncIteration
            await self._fetch()
        return message

    async def next_batch(self) -> list[Message]:
        """All messages in the buffer, at least one; [] at the end. Nothing is fetched while there are some."""
        try:
            first = await anext(self)
        except StopAsyncIteration:
            return []
        return [first, *self._at_hand]

    def _check_open(self) -> None:
        if self._is_closed:
            raise Closed("the reader is closed; make another by client.read")

    # Begin and end

    async def _begin(self) -> None:
        topic = await self._client.topic(self._name)
        count = len(topic.partitions)
        wanted = range(count) if self._partition is None else [check_partition(self._partition, count)]
        for number in wanted:
            first = self.begin_at.get(number)
            first = await self._first_offset(topic, number) if first is None else first
            self._positions[number] = self._firsts[number] = first
            if self._end is not None:
                self._ends[number] = await self._end_offset(topic, number)
        self._topic, self._refreshed_at = topic, trio.current_time()
        self._drop_finished()

    async def _first_offset(self, topic: "Topic", number: int) -> Offset:
        partition = topic.partitions[number]
        if partition.error is not None:
            raise partition.error
        if self._start == "earliest":
            return partition.start
        if self._start == "latest":
            return partition.end
        if (count := last_count(self._start)) is not None:
            return max(partition.start, partition.end - count)
        if type(self._start) is int:
            return offset_in_range("start", self._start)
        words = "an offset, 'earliest', 'latest', 'last:N' nor a time"
        return await self._offset_at(topic, number, _microseconds("start", self._start, words))

    async def _end_offset(self, topic: "Topic", number: int) -> Offset:
        """Looked up once: what comes later is not read, whatever its time."""
        if self._end == "latest":
            return topic.partitions[number].end
        if type(self._end) is int:
            return offset_in_range("end", self._end)
        assert self._end is not None
        return await self._offset_at(
            topic, number, _microseconds("end", self._end, "an offset, 'latest' nor a time")
        )

    async def _offset_at(self, topic: "Topic", number: int, time: Microseconds) -> Offset:
        """The first offset at or after the time, else the end."""
        request = wire.OffsetAtTime(topic.uuid.bytes, number, time)
        found = (await self._client.call(request, wire.OffsetFound)).offset
        return topic.partitions[number].end if found is None else found

    def _drop_finished(self) -> None:
        for number in [each for each, end in self._ends.items() if self._positions.get(each, end) >= end]:
            self._positions.pop(number, None)

    # Fetching

    async def _fetch(self) -> None:
        if self._fails_since is not None:
            await trio.sleep(PAUSE_SECONDS)
        await self._look_for_added_partitions()
        request = self._request()
        answer = await self._ahead.answer(request)
        if answer is None:
            answer = await self._client.call(request, wire.Fetched)
        slices = []
        if all(found.error is None for found in answer.partitions):
            self._fails_since = None
        for (number, offset), found in zip(list(self._positions.items()), answer.partitions, strict=True):
            if found.error is not None:
                self._positions[number] = self._place_after(error_of(found.error), number, offset)
            else:
                slices.append((Slice(self._name, number, found.data), max(offset, self._firsts[number])))
                self._positions[number] = found.next_offset
        self._at_hand = self._messages(slices)
        self._drop_finished()
        if any(found.next_offset < found.high_watermark for found in answer.partitions) and self._positions:
            self._ahead.ask(self._request())

    def _request(self) -> wire.Fetch:
        assert self._topic is not None
        uuid = self._topic.uuid.bytes
        wanted = tuple(wire.FetchPartition(uuid, number, 0, offset) for number, offset in self._positions.items())
        return wire.Fetch(WAIT_MS, BYTES_MAX, wanted)

    def _messages(self, slices: list[tuple[Slice, Offset]]) -> Iterator[Message]:
        now = self._client.clock.now()
        return chain.from_iterable(
            found.messages(start, self._ends.get(found.partition), now) for found, start in slices
        )

    async def _look_for_added_partitions(self) -> None:
        """For a reader that follows all partitions. All messages of an added one came after the reader began."""
        follows_all = self._partition is None and self._end is None
        if not follows_all or trio.current_time() < self._refreshed_at + REFRESH_SECONDS:
            return
        topic = await self._client.topic(self._name)
        self._refreshed_at = trio.current_time()
        assert self._topic is not None
        if topic.uuid == self._topic.uuid:
            for partition in topic.partitions[len(self._topic.partitions) :]:
                self._positions[partition.number] = self._firsts[partition.number] = partition.start
            self._topic = topic

    def _place_after(self, error: GoQueueError, number: int, offset: Offset) -> Offset:
        """The offset to go on at, or the error. The reader waits for a partition that is restarted, as for a
        broker. If the topic was deleted, the next request says so."""
        if isinstance(error, DamagedData) and error.restart_at > offset:
            return self._behind_damage(error, number)
        if not error.retryable:
            return self._durable_end(number, offset, error)
        now = trio.current_time()
        self._fails_since = now if self._fails_since is None else self._fails_since
        if now >= self._fails_since + PATIENCE_SECONDS:
            raise final(error)
        return offset

    def _behind_damage(self, error: DamagedData, number: int) -> Offset:
        if self.on_damaged is None:
            error.details |= {"topic": self._name, "partition": number}
            raise error
        self.on_damaged(number, error)
        return error.restart_at

    def _durable_end(self, number: int, offset: Offset, error: GoQueueError) -> Offset:
        """The offset to wait at for messages that are confirmed and durable a moment later; else the error."""
        assert self._topic is not None
        durable = error.details.get("end")
        is_ahead = isinstance(error, OffsetOutOfRange) and isinstance(durable, int) and durable < offset
        if is_ahead and offset <= self._topic.partitions[number].end:
            return int(durable or 0)
        raise error


def _microseconds(name: str, time: Start, others: str) -> Microseconds:
    try:
        return clamped_microseconds_of(time)
    except UNREADABLE as error:
        raise InvalidMessage(f"{name}={shortened(time)} is neither {others} ({error})") from None
