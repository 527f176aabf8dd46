"""The broker's session of one client: what its requests share, and the one way in for all of them.

A session knows no socket. `take` is given a request and a responder and does not wait: a request that has to wait
for its answer gets a task in the nursery of the caller, one that only has to reach its partitions needs none. What
`take` returns is the rest of a request for which there is no room now, and the caller awaits it before it takes the
client's next request; so a client that asks for more than the broker can do is read no further. `call` is the same
for a caller that waits for its answer.

The other files of this folder have a function for each request, and serving.py says which.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast
from uuid import UUID

import trio

from goqueue.actors.front.bounds import Bounds, Polls, RequestLoad
from goqueue.actors.front.knownpartitions import KnownPartitions
from goqueue.actors.front.members import Joins, Members
from goqueue.actors.front.responders import AwaitedAnswer, Haste, Responder, Rest
from goqueue.actors.node.broker import Broker
from goqueue.actors.runtime.messages import Reply
from goqueue.actors.runtime.ref import ActorRef
from goqueue.actors.topics.requests import FindPartition, FindPartitions
from goqueue.core.security import audit
from goqueue.core.security.principals import ANONYMOUS, Principal
from goqueue.core.security.quotas import charge
from goqueue.core.security.rights import authorise
from goqueue.errors import ActorDied, GoQueueError
from goqueue.net.wire.codec import check_bounds
from goqueue.net.wire.groups import OffsetsCommitted
from goqueue.net.wire.kinds import KIND_NAMES, Answer, Request
from goqueue.net.wire.limits import Limits
from goqueue.nursery import PlainNursery

LIMITS = Limits()

logger = logging.getLogger("goqueue.requests")
audit_log = logging.getLogger("goqueue.audit")


async def _is_taken_at_once() -> None:
    """The room of a client that takes every answer at once."""


def _never() -> bool:
    return False


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
        self,
        broker: Broker,
        serving: Serving,
        bounds: Bounds,
        *,
        principal: Principal = ANONYMOUS,
        address: str | None = None,
        wait_for_room: Callable[[], Awaitable[None]] = _is_taken_at_once,
        has_room: Callable[[], bool] = _never,
    ) -> None:
        """`address` is that of the client's socket. `wait_for_room` waits until the client takes answers: none that
        is large is made before. `has_room`: it takes them now, and a request whose task would not wait needs none;
        never, where a request ends with the task of its caller."""
        self.broker = broker
        self.statistics = broker.statistics
        self.number = next(broker.session_numbers)
        """Unique in this broker."""
        self.principal = principal
        self.address = address
        self.wait_for_room = wait_for_room
        self.has_room = has_room
        self.takes: dict[Reply[Any], None] = {}
        """Deliveries that were asked for and have no task: dropped with the session."""
        self.polls = Polls(bounds)
        self.batches = RequestLoad(bounds.batch_bytes_max)
        self.settles = RequestLoad(bounds.settling_runs_max)
        self.members = Members(self.statistics.groups, bounds.members_max)
        self.joins = Joins()
        self.describing = trio.CapacityLimiter(1)
        self.is_redriving = False
        self.registry_pieces: Sequence[bytes] = ()
        """The schema registry at the moment of this session's last snapshot, until it was fetched."""
        self._begun, self._answered = serving.begun, serving.answered
        self._partitions = KnownPartitions()
        self.known_partition = self._partitions.find

    # The way in

    def take(self, request: Request, responder: Responder, tasks: trio.Nursery) -> Rest | None:
        """Serve a request. Await the rest, if one is returned, before the next request of this client is taken."""
        kind = KIND_NAMES[type(request)]
        self.statistics.requests_of[kind] += 1
        try:
            authorise(self.principal, kind, request)
            begin = self._begun.get(type(request))
            if begin is not None:
                return begin(self, request, responder, tasks)
            tasks.start_soon(self.serve, request, responder)
        except GoQueueError as error:
            responder.refuse(error)
        return None

    async def serve(
        self, request: Request, responder: Responder, work: Callable[[], Awaitable[Answer]] | None = None
    ) -> None:
        """Answer a request that was taken, when its function, or `work`, returns."""
        kind, outcome = KIND_NAMES[type(request)], audit.UNKNOWN
        try:
            answer = await (self._answered[type(request)](self, request) if work is None else work())
            outcome = _outcome(answer)
            haste = Haste.WITH_TURN if self.is_settling else Haste.AT_ONCE
            responder.answer(answer, charge(self.principal, kind, 0, 0), haste)
        except GoQueueError as error:
            outcome = error.code
            responder.refuse(error)
        except Exception:
            # A bug in the broker: it costs this request, and neither the connection nor its neighbours (G14).
            logger.exception("%s could not be served", kind)
            refusal = ActorDied(f"{kind} could not be served; the log of the broker says why")
            outcome = refusal.code
            responder.refuse(refusal)
        finally:
            if audit.is_audited(kind, request) and audit_log.isEnabledFor(logging.INFO):
                requester = audit.Requester(self.principal, self.address, self.number, responder.request_id)
                audit_log.info(audit.line(requester, kind, request, outcome, self._partitions.topic_name))

    async def call(self, request: Request, request_id: str = "") -> Answer:
        """The answer to a request that came in another way than in a frame, or its error. A cancelled call ends its
        long poll; what a partition was asked may still be done."""
        awaited = AwaitedAnswer(request_id)
        checked = check_bounds(request, LIMITS)
        async with PlainNursery() as tasks:
            rest = self.take(checked, awaited, tasks)
            if rest is not None:
                await rest
            await awaited.wait()
        return awaited.outcome

    def send_away(self) -> None:
        """The broker is going away: long polls end now, and later ones at once."""
        self.polls.send_away()

    @property
    def is_sent_away(self) -> bool:
        return self.polls.is_leaving

    def close(self) -> None:
        """The client is gone. No request of it is taken any more, and its groups are told."""
        self.polls.send_away()
        for reply in self.takes:
            reply.forget()
        self.takes.clear()
        self.members.lose_all(self.number)

    # What requests share

    @property
    def is_settling(self) -> bool:
        """Answers to batches or settlements are about to follow."""
        return bool(self.batches.amount or self.settles.amount)

    def known_partitions(self, wanted: Sequence[tuple[bytes, int]]) -> list[ActorRef] | None:
        """None if one of them has to be looked up."""
        found = [self._partitions.find(*each) for each in wanted]
        return cast(list[ActorRef], found) if all(found) else None

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


def _outcome(answer: Answer) -> str:
    """A commit has an outcome for each partition; the first refusal counts."""
    if isinstance(answer, OffsetsCommitted):
        return next((each.error.code for each in answer.partitions if each.error is not None), audit.DONE)
    return audit.DONE
