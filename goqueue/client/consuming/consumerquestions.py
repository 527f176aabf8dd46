"""What a consumer asks its broker for, for whom, and what comes of it before it is taken apart."""

from dataclasses import dataclass
from typing import NamedTuple

import trio

from goqueue.errors import GoQueueError
from goqueue.net.wire.groups import AssignedPartition, Receive, Received, count_named


class Waiter:
    """Somebody who wants messages now, and shows so many of them to the program at once."""

    def __init__(self, count: int, at_once: int, deadline: float) -> None:
        self.count, self.at_once, self.deadline = count, at_once, deadline
        self.woken = trio.Event()
        self.error: GoQueueError | None = None

    async def wait(self) -> None:
        await self.woken.wait()
        if self.error is not None:
            raise self.error


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    request: Receive
    partitions: tuple[AssignedPartition, ...]
    """In the order of the request."""
    until: float
    """So long the broker may wait for something."""


class Need(NamedTuple):
    """What is to be asked for: so many messages, of which the program sees some at once, until then."""

    messages: int
    at_once: int
    until: float


class Arrived(NamedTuple):
    """What an answer holds, before it is taken apart."""

    messages: int
    size: int
    is_alone: bool


NOTHING = Arrived(0, 0, is_alone=False)


def arrived_in(answer: Received) -> Arrived:
    partitions = answer.partitions
    return Arrived(
        sum(count_named(each.runs, each.sets) for each in partitions),
        sum(len(each.data) for each in partitions),
        any(each.is_alone or each.alone_waits for each in partitions),
    )
