"""The broker's session of one client: what its requests share, and the one way in for all of them.

A session knows no socket. `take` is given a request and a responder and does not wait: a request that has to wait
for its answer gets a task in the nursery of the caller, one that only has to reach its partitions needs none. What
`take` returns is the rest of a request for which there is no room now, and the caller awaits it before it takes the
client's next request; so a client that asks for more than the broker can do is read no further. `call` is the same
for a caller that waits for its answer.

The other files of this folder have a function for each request, and serving.py says which.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast
from uuid import UUID

import trio

from goqueue.actors.front.knownpartitions import KnownPartitions
from goqueue.actors.front.members import Joins, Members
from goqueue.actors.front.polls import Polls
from goqueue.actors.front.responders import AwaitedAnswer, Responder, Rest
from goqueue.actors.node.broker import Broker
from goqueue.actors.runtime.ref import ActorRef
from goqueue.actors.topics.requests import FindPartition, FindPartitions
from goqueue.errors import GoQueueError
from goqueue.net.wire.kinds import Answer, Request
from goqueue.nursery import PlainNursery

UNSETTLED_BYTES_MAX = 64 * 1024 * 1024
"""Limit of batches that are not answered yet; beyond it no more requests are taken from the client."""
SETTLING_RUNS_MAX = 65_536
"""Limit of runs that are being settled, in the same way."""


class RequestLoad:
    """The amount of requests that are not answered yet. Adding more than the limit waits."""

    __slots__ = ("_most", "_waiting", "amount")

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting = trio.lowlevel.ParkingLot()
        self.amount = 0

    def add_at_once(self, more: int) -> bool:
        """False if there is no room. A request larger than the limit has room when it is alone."""
        if self.amount and self.amount + more > self._most:
            return False
        self.amount += more
        return True

    async def add(self, more: int) -> None:
        while not self.add_at_once(more):
            await self._waiting.park()

    def remove(self, amount: int) -> None:
        self.amount -= amount
        if self._waiting:
            self._waiting.unpark_all()


async def _is_taken_at_once() -> None:
    """The room of a client that takes every answer at once."""


Begin: TypeAlias = Callable[["BrokerSession", Any, Responder, trio.Nursery], Rest | None]
Serve: TypeAlias = Callable[["BrokerSession", Any], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class Serving:
    """The function that serves each kind of request."""

    begun: Mapping[type[Any], Begin]
    """Kinds that begin in the order in which they came."""
    answered: Mapping[type[Any], Serve]
    """Kinds that are answered when their function returns."""


class BrokerSession:
    def __init__(
        self, broker: Broker, serving: Serving, wait_for_room: Callable[[], Awaitable[None]] = _is_taken_at_once
    ) -> None:
        """`wait_for_room` waits until the client takes answers; large ones are not read before."""
        self.broker = broker
        self.statistics = broker.statistics
        self.number = next(broker.session_numbers)
        """Unique in this broker."""
        self.wait_for_room = wait_for_room
        self.polls = Polls()
        self.batches = RequestLoad(UNSETTLED_BYTES_MAX)
        self.settles = RequestLoad(SETTLING_RUNS_MAX)
        self.members = Members(self.statistics.groups)
        self.joins = Joins()
        self.describing = trio.CapacityLimiter(1)
        self.is_redriving = False
        self._begun, self._answered = serving.begun, serving.answered
        self._partitions = KnownPartitions()

    # The way in

    def take(self, request: Request, responder: Responder, tasks: trio.Nursery) -> Rest | None:
        """Serve a request. Await the rest, if one is returned, before the next request of this client is taken."""
        self.statistics.requests += 1
        begin = self._begun.get(type(request))
        if begin is None:
            tasks.start_soon(self.serve, request, responder)
            return None
        try:
            return begin(self, request, responder, tasks)
        except GoQueueError as error:
            responder.refuse(error)
            return None

    async def serve(self, request: Request, responder: Responder) -> None:
        try:
            answer = await self._answered[type(request)](self, request)
        except GoQueueError as error:
            responder.refuse(error)
        else:
            responder.answer(answer, is_last=not self.is_settling)

    async def call(self, request: Request, request_id: str = "") -> Answer:
        """The answer to a request, or its error. A cancelled call ends its long poll; what a partition was given
        may still be done."""
        awaited = AwaitedAnswer(request_id)
        async with PlainNursery() as tasks:
            rest = self.take(request, awaited, tasks)
            if rest is not None:
                await rest
            await awaited.wait()
        return awaited.outcome

    def send_away(self) -> None:
        """The broker is going away: long polls end now, and later ones at once."""
        self.polls.send_away()

    def close(self) -> None:
        """The client is gone. No request of it is taken any more, and its groups are told."""
        self.polls.send_away()
        self.members.lose_all(self.number)

    # What requests share

    @property
    def is_settling(self) -> bool:
        """Answers to batches or settlements are about to follow."""
        return bool(self.batches.amount or self.settles.amount)

    def known_partition(self, topic: bytes, number: int) -> ActorRef | None:
        """The partition, if this client has used it before."""
        return self._partitions.find(topic, number)

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
