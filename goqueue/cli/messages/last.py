"""The last messages of a topic, as `tail` shows the last lines of a file.

Offsets do not count messages: hidden records have offsets, and compaction leaves gaps. So each partition is read
backwards in windows that double, until it has given enough messages. Of all partitions the newest count, by their
time; they come in the order of time, which between partitions is the only order that there is.
"""

from collections.abc import Callable, Mapping
from heapq import nlargest
from typing import NamedTuple

from goqueue.client.client import Client
from goqueue.client.link.topics import Partition
from goqueue.client.reading.message import Message
from goqueue.errors import DamagedData
from goqueue.types import Offset

LAST_MAX = 10_000
"""They are held in memory until the newest are known."""

OnDamaged = Callable[[int, DamagedData], None]


class LastMessages(NamedTuple):
    messages: list[Message]
    """In order of time."""
    ends: Mapping[int, Offset]
    """Where each partition goes on."""


async def last_messages(
    client: Client, topic: str, partition: int | None, count: int, on_damaged: OnDamaged | None
) -> LastMessages:
    partitions = (await client.topic(topic)).partitions
    wanted = [each for each in partitions if partition in (None, each.number)]
    newest: list[Message] = []
    for each in wanted:
        newest += await _last_of(client, topic, each, count, on_damaged)
        newest = nlargest(count, newest, key=_age)
    return LastMessages(sorted(newest, key=_age), {each.number: each.end for each in wanted})


def _age(message: Message) -> tuple[float, int, int]:
    return message.timestamp, message.partition, message.offset


async def _last_of(
    client: Client, topic: str, partition: Partition, count: int, on_damaged: OnDamaged | None
) -> list[Message]:
    if partition.error is not None:
        raise partition.error
    found: list[Message] = []
    end, width = partition.end, count
    while len(found) < count and end > partition.start:
        start = max(partition.start, end - width)
        async with client.read(topic, partition=partition.number, start=start, end=end) as reader:
            reader.on_damaged = on_damaged
            found = [message async for message in reader] + found
        end, width = start, width * 2
    return found[-count:]
