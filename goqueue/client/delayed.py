"""Delayed messages for a client, and its requests about them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from reprlib import repr as shortened
from typing import NamedTuple, Protocol, TypeVar
from uuid import UUID

from goqueue.client.link.arguments import check_any_partition, check_offset, check_whole, refusal
from goqueue.client.link.moments import Moment, due_of
from goqueue.client.link.topics import Topic
from goqueue.client.producing.content import check_content
from goqueue.client.producing.options import name_of
from goqueue.core.delays.pending import DelayState
from goqueue.core.names import check_publishable
from goqueue.core.records.record import DELAY_BIT
from goqueue.core.sending.partitioner import partition_of_key
from goqueue.environment import WallClock
from goqueue.errors import InvalidMessage, UnknownPartition, UnknownTopic
from goqueue.net.wire import delays as wire
from goqueue.net.wire.kinds import Answer, Request
from goqueue.types import Microseconds, Offset, Priority, Seconds

AnswerT = TypeVar("AnswerT", bound=Answer)
_MILLION = 1_000_000
TOPICS_MAX = 1_000
STRETCHES = (0, 1, 10, 60, 600, 3_600, 6 * 3_600, 86_400, 7 * 86_400, 30 * 86_400)
"""The ends of the histogram's buckets, in seconds from now; the one that ends at 0 holds overdue messages."""


@dataclass(frozen=True, slots=True)
class Delayed:
    """A delayed message, pending or finished. Partition and offset name it."""

    topic: str
    partition: int
    offset: Offset
    state: str
    """"pending", "delivered", "cancelled", or "expired" when it was purged or dropped before its time, or
    its ttl had ended by then."""
    due: float | None
    """When a pending message will be delivered, in seconds; else None."""
    finished_at: float | None
    """When it was delivered or cancelled."""
    delivered_offset: Offset | None
    """The offset of the message that was delivered."""
    priority: Priority
    key: bytes | None
    message_id: bytes | None = None
    """The id that it was published with."""


class PagePosition(NamedTuple):
    partition: int
    offset: Offset


class DelayedPage(list[Delayed]):
    """Some delayed messages, in the order of partitions and offsets; `next` leads to the following page."""

    def __init__(self, entries: Sequence[Delayed], pending: int, following: PagePosition | None) -> None:
        super().__init__(entries)
        self.pending = pending
        """The number of pending messages in these partitions."""
        self.next = following
        """Pass it as `after`; None after the last page."""


@dataclass(frozen=True, slots=True)
class DueCount:
    """The number of messages due within these seconds and not in the bucket before; None: later."""

    within: float | None
    count: int


class WhichDelayed(NamedTuple):
    """A message by its place, or all pending ones with an id."""

    partition: int | None
    offset: Offset | None
    message_id: bytes | str | None = None
    key: bytes | None = None


class DelayCaller(Protocol):
    """What these requests need: a client has it, and so has the gateway."""

    clock: WallClock

    async def call(self, request: Request, kind: type[AnswerT]) -> AnswerT: ...

    async def topic(self, name: str) -> Topic: ...


class DelayedQuestions:
    """Requests by a topic's name. Its id is remembered: a cancel costs one request, not two."""

    def __init__(self, client: DelayCaller) -> None:
        self._client = client
        self._topics: dict[str, UUID] = {}

    async def page(
        self, topic: str, partition: int | None, after: tuple[int, Offset] | None, limit: int, state: str
    ) -> DelayedPage:
        if state not in ("pending", "finished"):
            raise refusal(f'state={state!r} must be "pending" or "finished"')
        check_whole("limit", limit, 1, 1_000_000)
        begin = PagePosition(0, 0) if after is None else checked_position(after)
        found, pending = list[Delayed](), 0
        for number in await self._partitions(topic, partition):
            first = begin.offset if number == begin.partition else 0
            skipped = number < begin.partition
            while True:
                wanted = 1 if skipped else max(1, min(wire.PAGE_MAX, limit + 1 - len(found)))
                answer = await self._list(topic, number, first, wanted, state)
                if not skipped:
                    found += [_delayed(topic, number, each) for each in answer.entries]
                if skipped or not answer.entries or len(found) > limit:
                    break
                first = answer.entries[-1].offset + 1
            pending += answer.pending
        following = (
            PagePosition(found[limit - 1].partition, found[limit - 1].offset) if len(found) > limit else None
        )
        return DelayedPage(found[:limit], pending, following)

    async def cancel(self, topic: str, which: "WhichDelayed") -> bool:
        places = await self._places(topic, which)
        return any([await self._cancelled(topic, each) for each in places])

    async def move(
        self, topic: str, which: "WhichDelayed", delay: Seconds | None, deliver_at: Moment | None
    ) -> bool:
        if delay is None and deliver_at is None:
            raise InvalidMessage("neither delay nor deliver_at is given; give one of them")
        due = due_of(delay, deliver_at)
        at, after = (None, 0) if due is None else (None, due & ~DELAY_BIT) if due & DELAY_BIT else (due, None)
        places = await self._places(topic, which)
        return any([await self._moved(topic, each, at, after) for each in places])

    async def find(
        self, topic: str, message_id: bytes | str, partition: int | None, key: bytes | None
    ) -> list[Delayed]:
        """The pending messages with this id, those first that are due first.

        A key says which partition is asked first; partitions that were added may have moved it since.
        """
        name, numbers = name_of(message_id), list(await self._partitions(topic, partition))
        if name is None:
            raise InvalidMessage("the message_id is None; give the one that the message was published with")
        check_content(b"", key, None)
        if key is not None and partition is None:
            numbers.insert(0, numbers.pop(partition_of_key(key, len(numbers))))
        found = list[Delayed]()
        for number in numbers:
            found += [each for each in await self._find(topic, number, name) if key in (None, each.key)]
            if found and key is not None:
                break
        return sorted(found, key=lambda each: (each.due or 0, each.partition, each.offset))

    async def _find(self, topic: str, partition: int, name: bytes) -> list[Delayed]:
        found, first = list[Delayed](), 0
        while entries := (await self._found_from(topic, partition, name, first)).entries:
            found += [_delayed(topic, partition, each) for each in entries]
            first = entries[-1].offset + 1
        return found

    async def _found_from(self, topic: str, partition: int, name: bytes, first: Offset) -> wire.DelayedEntries:
        return await self._ask(
            topic, lambda uuid: wire.FindDelayed(uuid, partition, name, first), wire.DelayedEntries
        )

    async def _places(self, topic: str, which: "WhichDelayed") -> Sequence[PagePosition]:
        partition, offset, message_id, key = which
        if message_id is not None and offset is None:
            found = await self.find(topic, message_id, partition, key)
            return [PagePosition(each.partition, each.offset) for each in found]
        if message_id is not None or partition is None or offset is None or key is not None:
            raise refusal(
                "name the message by its partition and offset, or by message_id=, with key= if it has one"
            )
        return [_checked(partition, offset)]

    async def _cancelled(self, topic: str, place: PagePosition) -> bool:
        answer = await self._ask(topic, lambda uuid: wire.CancelDelayed(uuid, *place), wire.DelayChanged)
        return answer.is_so

    async def _moved(
        self, topic: str, place: PagePosition, at: Microseconds | None, after: Microseconds | None
    ) -> bool:
        answer = await self._ask(topic, lambda uuid: wire.MoveDelayed(uuid, *place, at, after), wire.DelayChanged)
        return answer.is_so

    async def histogram(self, topic: str, partition: int | None) -> list[DueCount]:
        now = self._client.clock.now()
        edges = tuple(now + seconds * _MILLION for seconds in STRETCHES)
        totals = [0] * (len(edges) + 1)
        for number in await self._partitions(topic, partition):
            counts = await self._counts(topic, number, edges)
            totals = [total + count for total, count in zip(totals, counts, strict=True)]
        return [DueCount(within, count) for within, count in zip((*STRETCHES, None), totals, strict=True)]

    async def count(self, topic: str, partition: int | None) -> int:
        return sum([sum(await self._counts(topic, each, ())) for each in await self._partitions(topic, partition)])

    async def _counts(self, topic: str, partition: int, edges: tuple[Microseconds, ...]) -> tuple[int, ...]:
        counted = await self._ask(topic, lambda uuid: wire.CountDelayed(uuid, partition, edges), wire.DelayedCounts)
        return counted.counts

    async def _list(
        self, topic: str, partition: int, first: Offset, count_max: int, state: str
    ) -> wire.DelayedEntries:
        return await self._ask(
            topic,
            lambda uuid: wire.ListDelayed(uuid, partition, first, count_max, state == "finished"),
            wire.DelayedEntries,
        )

    async def _partitions(self, topic: str, partition: int | None) -> Sequence[int]:
        found = await self._client.topic(check_publishable(topic))
        self._note(topic, found.uuid)
        if partition is None:
            return range(len(found.partitions))
        if check_any_partition(partition) >= len(found.partitions):
            raise UnknownPartition(f"topic {topic} has partitions 0 to {len(found.partitions) - 1}")
        return [partition]

    async def _ask(self, topic: str, question: Callable[[bytes], Request], answer: type[AnswerT]) -> AnswerT:
        """Ask by the known id; a topic that was created again has another one."""
        check_publishable(topic)
        if topic in self._topics:
            try:
                return await self._client.call(question(self._topics[topic].bytes), answer)
            except UnknownTopic:
                self._topics.pop(topic, None)  # another call may have found out before
        uuid = (await self._client.topic(topic)).uuid
        self._note(topic, uuid)
        return await self._client.call(question(uuid.bytes), answer)

    def _note(self, topic: str, uuid: UUID) -> None:
        if len(self._topics) >= TOPICS_MAX:
            self._topics.clear()
        self._topics[topic] = uuid


def _checked(partition: int, offset: Offset) -> PagePosition:
    return PagePosition(check_any_partition(partition), check_offset("offset", offset))


def checked_position(after: object) -> PagePosition:
    if not isinstance(after, tuple | list) or len(after) != 2:
        raise refusal(f"after={shortened(after)} must be a partition and an offset, as a page's `next` is")
    partition, offset = after
    return PagePosition(check_any_partition(partition), check_offset("after", offset) + 1)


def _delayed(topic: str, partition: int, entry: wire.DelayedEntry) -> Delayed:
    return Delayed(
        topic,
        partition,
        entry.offset,
        DelayState(entry.state).name.lower(),
        _seconds(entry.due),
        _seconds(entry.finished),
        entry.delivered_at,
        Priority(entry.priority),
        entry.key,
        entry.message_id,
    )


def _seconds(time: Microseconds | None) -> float | None:
    return None if time is None else time / _MILLION
