"""Publishers that remember what was confirmed, and the check of what is there in the end."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import trio

import goqueue

TOPIC = "orders"


@dataclass
class History:
    """What publishers began, and what was confirmed to them: where each message lies."""

    begun: set[bytes] = field(default_factory=set)
    confirmed: dict[bytes, goqueue.Published] = field(default_factory=dict)
    _more: trio.Event = field(default_factory=trio.Event)

    async def publish(self, client: goqueue.Client, value: bytes, partition: int, acks: goqueue.Acks) -> None:
        self.begun.add(value)
        self.confirmed[value] = await client.publish(TOPIC, value, partition=partition, acks=acks)
        self._more.set()

    async def wait_for(self, more: int) -> None:
        """Until so many more are confirmed."""
        wanted = len(self.confirmed) + more
        while len(self.confirmed) < wanted:
            self._more = trio.Event()
            await self._more.wait()

    def check(self, messages: Sequence[goqueue.Message]) -> None:
        """Confirmed: once, where it was said. Others: at most once. Each publisher's in order (G1, G3, G11)."""
        found = {message.value: message for message in messages}
        assert Counter(message.value for message in messages).most_common(1)[0][1] == 1, "something is there twice"
        assert found.keys() <= self.begun
        for value, where in self.confirmed.items():
            assert value in found, f"{value!r} was confirmed as {where} and is not there"
            assert _place(found[value]) == where
        for row in _rows(messages):
            assert row == sorted(row), "a publisher's messages are out of order"


def _place(message: goqueue.Message) -> tuple[str, int, int]:
    return message.topic, message.partition, message.offset


def _rows(messages: Iterable[goqueue.Message]) -> Iterable[list[int]]:
    """For each publisher and partition, the numbers of its messages in the order of their offsets."""
    rows: dict[tuple[bytes, int], list[int]] = {}
    for message in sorted(messages, key=_place):
        publisher, number = message.value.split()
        rows.setdefault((publisher, message.partition), []).append(int(number))
    return rows.values()


class Publisher:
    """Publishes one message after the other until it is stopped, or so many."""

    def __init__(self, history: History, client: goqueue.Client, name: str, partition: Callable[[], int]) -> None:
        self._history, self._client, self._name, self._partition = history, client, name, partition
        self._number = 0

    async def run(self, acks: goqueue.Acks, count: int | None = None) -> None:
        while count is None or self._number < count:
            value = f"{self._name} {self._number}".encode()
            self._number += 1
            await self._history.publish(self._client, value, self._partition(), acks)


async def everything(client: goqueue.Client) -> list[goqueue.Message]:
    return [message async for message in client.read(TOPIC, end="latest")]
