"""The broker's session of one connection: what its requests need of the broker, and what they share.

The other files of this folder have a function for each request.
"""

from collections.abc import Sequence
from typing import cast
from uuid import UUID

import trio

from goqueue.actors.front.answers import AnswerWriter
from goqueue.actors.front.joining import Joins
from goqueue.actors.front.knownpartitions import KnownPartitions
from goqueue.actors.front.members import Members
from goqueue.actors.front.polls import Polls
from goqueue.actors.node.broker import Broker
from goqueue.actors.runtime.ref import ActorRef
from goqueue.actors.topics.requests import FindPartition, FindPartitions
from goqueue.errors import GoQueueError

UNSETTLED_BYTES_MAX = 64 * 1024 * 1024
"""Limit of batches that are not answered yet; beyond it nothing more is read from the connection."""
SETTLING_RUNS_MAX = 65_536
"""Limit of runs that are being settled, in the same way."""


class RequestLoad:
    """The amount of requests that are not answered yet. Adding more than the limit waits."""

    __slots__ = ("_most", "_waiting", "amount")

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting = trio.lowlevel.ParkingLot()
        self.amount = 0

    async def add(self, more: int) -> None:
        """A request larger than the limit waits until it is alone."""
        while self.amount and self.amount + more > self._most:
            await self._waiting.park()
        self.amount += more

    def remove(self, amount: int) -> None:
        self.amount -= amount
        self._waiting.unpark_all()


class BrokerSession:
    def __init__(self, broker: Broker, speaker: AnswerWriter, number: int) -> None:
        self.broker = broker
        self.statistics = broker.statistics
        self.speaker = speaker
        self.number = number
        """The number of the connection, unique in this broker."""
        self.polls = Polls()
        self.batches = RequestLoad(UNSETTLED_BYTES_MAX)
        self.settles = RequestLoad(SETTLING_RUNS_MAX)
        self.members = Members(self.statistics.groups)
        self.joins = Joins()
        self.describing = trio.CapacityLimiter(1)
        self.is_redriving = False
        self._partitions = KnownPartitions()

    @property
    def is_settling(self) -> bool:
        """Answers to batches or settlements are about to follow."""
        return bool(self.batches.amount or self.settles.amount)

    async def partitions(self, wanted: Sequence[tuple[bytes, int]]) -> list[ActorRef | GoQueueError]:
        """Each partition, or its error; unknown ones are looked up in one request."""
        found = [self._partitions.find(*each) for each in wanted]
        if all(found):
            return cast(list[ActorRef | GoQueueError], found)
        missing = [each for each, ref in zip(wanted, found, strict=True) if ref is None]
        question = FindPartitions([(UUID(bytes=topic), number) for topic, number in missing])
        try:
            answers = await self.broker.topics.call(question)
        except GoQueueError as error:
            answers = (error,) * len(missing)
        for place, answer in zip(missing, answers, strict=True):
            if isinstance(answer, ActorRef):
                self._partitions.note(*place, answer)
        rest = iter(answers)
        return [ref or next(rest) for ref in found]

    async def partition(self, topic: bytes, number: int) -> ActorRef:
        ref = self._partitions.find(topic, number)
        if ref is None:
            ref = await self.broker.topics.call(FindPartition(UUID(bytes=topic), number))
            self._partitions.note(topic, number, ref)
        return ref
