"""Reads messages of a topic without a group: from one partition, or from all of them.

A place in all partitions is a cursor, `0:15,1:3`: the next offset of each. So a client that goes on where it
stopped needs to remember one text, and the broker nothing.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import trio

from goqueue.client.reading.message import Message, Slice
from goqueue.errors import DamagedData, GoQueueError, OffsetOutOfRange
from goqueue.http.routing.topics import Ask, NamedTopic
from goqueue.http.server.errors import InvalidRequest, RangeNotThere
from goqueue.net.wire.failures import error_of
from goqueue.net.wire.messages import Fetch, Fetched, FetchedPartition, FetchPartition
from goqueue.storage.slices import Slices
from goqueue.types import Microseconds, Offset

FETCH_BYTES_MAX = 1024 * 1024
TAKE_SECONDS_MAX = 5.0
"""Limit of the search for the first message that a reader may see."""
CURSOR_SIZE_MAX = 64 * 1024
_CURSOR = re.compile(r"\d{1,10}:\d{1,19}(,\d{1,10}:\d{1,19})*", re.ASCII)


def cursor_of(positions: Mapping[int, Offset]) -> str:
    return ",".join(f"{partition}:{offset}" for partition, offset in sorted(positions.items()))


def positions_of(cursor: str) -> dict[int, Offset]:
    if len(cursor) > CURSOR_SIZE_MAX or not _CURSOR.fullmatch(cursor):
        raise InvalidRequest("this is no cursor; give the `next` of the answer before, or the id of an event")
    pairs = [pair.partition(":") for pair in cursor.split(",")]
    return {int(partition): int(offset) for partition, _, offset in pairs}


@dataclass(slots=True)
class TakenMessages:
    messages: list[Message]
    errors: dict[int, GoQueueError]
    """Partitions that cannot be read now; the others can."""
    size: int = 0
    """Bytes of keys, values and headers."""


class TopicReading:
    def __init__(self, ask: Ask, topic: NamedTopic, positions: dict[int, Offset], *, turn: int = 0) -> None:
        """`turn`: whose partition comes first, so that a full one does not keep the others back for ever."""
        self.positions = positions
        self._ask = ask
        self._topic = topic
        self._turn = turn

    async def take(self, count_max: int, bytes_max: int, wait_seconds: float, now: Microseconds) -> TakenMessages:
        """What is there, at least one message unless there is none by then. The error, if no partition can be
        read."""
        taken, room, began_at = TakenMessages([], {}), bytes_max, trio.current_time()
        while len(taken.messages) < count_max and room > 0:
            spent = trio.current_time() - began_at
            wait = 0 if taken.messages else round(1_000 * max(0.0, wait_seconds - spent))
            before = dict(self.positions)
            answer = await self._fetch(wait, min(room, FETCH_BYTES_MAX))
            room -= await self._take_from(answer, taken, count_max, room, now)
            if self.positions == before or spent > max(wait_seconds, TAKE_SECONDS_MAX):
                break  # a stretch without messages for readers is passed over
        if len(taken.errors) == len(self.positions) and not taken.messages:
            raise next(iter(taken.errors.values()))
        return taken

    async def _fetch(self, wait_ms: int, bytes_max: int) -> list[tuple[int, FetchedPartition]]:
        numbers = sorted(self.positions)
        first = self._turn % len(numbers)
        self._turn += 1
        numbers = numbers[first:] + numbers[:first]
        places = tuple([FetchPartition(self._topic.uuid, each, 0, self.positions[each]) for each in numbers])
        answer = cast(Fetched, await self._ask(Fetch(wait_ms, bytes_max, places)))
        return list(zip(numbers, answer.partitions, strict=True))

    async def _take_from(
        self,
        answer: list[tuple[int, FetchedPartition]],
        taken: TakenMessages,
        count_max: int,
        room: int,
        now: Microseconds,
    ) -> int:
        """The number of bytes that were taken."""
        slices, size = Slices(), 0
        for number, fetched in answer:
            if fetched.error is not None:
                self._note(number, error_of(fetched.error), taken)
                continue
            position = self.positions[number]
            is_whole = True
            for message in Slice(self._topic.name, number, fetched.data).messages(position, None, now):
                length = size_of(message)
                if len(taken.messages) >= count_max or (taken.messages and size + length > room):
                    is_whole = False
                    break
                taken.messages.append(message)
                size += length
                self.positions[number] = message.offset + 1
                await slices.step()
            if is_whole:
                self.positions[number] = max(self.positions[number], fetched.next_offset)
        taken.size += size
        return size

    def _note(self, number: int, error: GoQueueError, taken: TakenMessages) -> None:
        taken.errors[number] = placed(error, self._topic.name, number, self.positions[number])


def size_of(message: Message) -> int:
    headers = sum(len(name) + len(value) for name, value in message.headers.items())
    return len(message.value or b"") + len(message.key or b"") + headers


def placed(error: GoQueueError, topic: str, partition: int, offset: Offset) -> GoQueueError:
    """The error with what to do next over HTTP: an offset above the end is another status than one that is gone."""
    if isinstance(error, OffsetOutOfRange):
        start, end = error.details.get("start"), error.details.get("end")
        if isinstance(end, int) and offset > end:
            return RangeNotThere(
                f"{topic}/{partition} ends at offset {end}, so {offset} is not there yet", start=start, end=end
            )
    if isinstance(error, DamagedData):
        error.details.setdefault("go_on_at", error.end_offset)
    return error
