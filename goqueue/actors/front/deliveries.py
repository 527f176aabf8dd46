"""Receives and settlements of the members of groups.

Settlements go to their partition in the order of the frames, straight from the reader: no receive or other request
that waits delays them. A thousand messages are one run, and cost what one costs.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import trio

from goqueue.actors.delivery.requests import AwaitDeliverable, SettleRuns, Take
from goqueue.actors.front.ordered import OrderedRequest
from goqueue.actors.front.receiving import (
    NOTHING,
    PAUSE_SECONDS,
    Outcome,
    Place,
    await_deliverable,
    leads_on,
    take_what_is_there,
)
from goqueue.actors.front.records import FETCH_BYTES_MAX
from goqueue.actors.front.responders import Responder, Rest
from goqueue.actors.front.session import BrokerSession
from goqueue.actors.runtime.messages import Reply
from goqueue.actors.statistics.groups import GroupCounts
from goqueue.core.groups.member import check_member_id
from goqueue.core.ledger.attempts import AttemptRuns
from goqueue.core.ledger.ledger import REASON_LENGTH_MAX
from goqueue.core.ledger.settlements import (
    MESSAGES_MAX,
    Action,
    check_lease,
    check_settlement,
    named_messages,
)
from goqueue.core.names import check_group_name
from goqueue.core.offsetset import OffsetSet
from goqueue.core.waiting.turns import ReceiveLimits
from goqueue.errors import GoQueueError
from goqueue.net.wire import groups as wire
from goqueue.net.wire.failures import error_body

# Receiving


async def receive(session: BrokerSession, request: wire.Receive) -> wire.Received:
    check_group_name(request.group)
    check_member_id(request.member)
    check_lease("visibility_ms", request.visibility_ms)
    deadline, given = trio.current_time() + request.max_wait_ms / 1_000, session.members.turns(_name(request)).given
    with session.polls.asking(len(request.partitions)) as poll:
        places = await session.partitions(request.partitions)
        asked = (
            None if _takes_at_once(session, request, places) else await _ready(session, places, request, deadline)
        )
        answer, tries = await _answer(session, request, Look(places, poll, deadline, asked, given)), 1
        while answer is None:
            asked = await _ready(session, places, request, deadline)
            patience = deadline if request.at_once else -math.inf  # a prefetch does not wait for last deliveries
            answer = await _answer(session, request, Look(places, poll, patience, asked, given))
            tries += 1
            if answer is None and tries > 2:
                await trio.sleep(PAUSE_SECONDS)
        return answer


@dataclass(frozen=True, slots=True)
class Look:
    """Which partitions to ask for messages, within which poll, and until when."""

    places: Sequence[Place]
    poll: trio.CancelScope
    deadline: float
    asked: set[int] | None
    given: int
    """The number of the member's deliveries when it asked."""


async def _answer(session: BrokerSession, request: wire.Receive, look: Look) -> wire.Received | None:
    """None when nothing is there and there is time to wait. An answer is given in the same turn, so that those of
    one member come in order."""
    name = _name(request)
    async with session.members.taking(name):
        limits = session.members.turns(name).admit(_limits(request), look.given)
        if limits is None:
            return wire.Received((_delivery(NOTHING),) * len(look.places))
        return await _received(session, request, limits, look)


def _name(request: wire.Receive) -> tuple[str, str]:
    return request.group, request.member


def _takes_at_once(session: BrokerSession, request: wire.Receive, places: Sequence[Place]) -> bool:
    """Take without asking which partitions have messages: there is one, or no time, or probably all have some."""
    if len(places) < 2 or not request.max_wait_ms:
        return True
    is_refused = any(isinstance(place, GoQueueError) for place in places)
    return is_refused or session.members.turns(_name(request)).has_backlog


async def _ready(
    session: BrokerSession, places: Sequence[Place], request: wire.Receive, deadline: float
) -> set[int]:
    served_at = session.members.turns(_name(request)).served_at
    question = AwaitDeliverable(request.group, request.member, deadline, request.instance, served_at)
    return await await_deliverable(places, question)


async def _received(
    session: BrokerSession, request: wire.Receive, limits: ReceiveLimits, look: Look
) -> wire.Received | None:
    """A delivery; None when no partition has messages and there is time to wait. As with fetches few read at once,
    and only when the client takes its answers. What is taken is answered: the poll cannot end in between."""
    turns = session.members.turns(_name(request))
    async with session.polls.reads:
        await session.wait_for_room()
        with session.polls.undisturbed(look.poll):
            share = turns.share(limits, request.partitions, trio.current_time(), look.asked)
            outcomes = await take_what_is_there(look.places, partial(_take, request), share)
    turns.note(share, request.partitions, trio.current_time())
    counts = session.statistics.groups.of[request.group]
    for outcome in outcomes:
        if not isinstance(outcome, GoQueueError) and outcome.size:
            counts.note_delivered(outcome.runs, outcome.sets, len(outcome.data))
    if any(map(leads_on, outcomes)) or not look.places or trio.current_time() >= look.deadline:
        return wire.Received(tuple(map(_delivery, outcomes)))
    return None


def _limits(request: wire.Receive) -> ReceiveLimits:
    """At least one message and one byte: a request for none would wait for ever."""
    messages_max = max(1, min(request.messages_max, MESSAGES_MAX))
    bytes_max = max(1, min(request.bytes_max, FETCH_BYTES_MAX))
    return ReceiveLimits(messages_max, bytes_max, request.at_once, request.is_busy)


def _take(request: wire.Receive, rest: ReceiveLimits) -> Take:
    return Take(
        request.group,
        request.member,
        request.generation,
        rest.messages_max,
        rest.bytes_max,
        request.visibility_ms / 1_000,
        rest.is_busy,
        rest.lasts_max,
        request.instance,
        request.tells_begun,
    )


def _delivery(outcome: Outcome) -> wire.ReceivedPartition:
    if isinstance(outcome, GoQueueError):
        return wire.ReceivedPartition(error_body(outcome), 0, (), False, False, b"")
    runs = cast(tuple[wire.DeliveryRun, ...], outcome.runs)  # the same three numbers
    sets = tuple(map(_delivery_set, outcome.sets))
    return wire.ReceivedPartition(
        None, outcome.nonce, runs, outcome.is_alone, outcome.alone_waits, bytes(outcome.data), sets
    )


def _delivery_set(each: tuple[int, OffsetSet]) -> wire.DeliverySet:
    attempt, offsets = each
    return wire.DeliverySet(attempt, tuple(map(wire.OffsetChunk._make, offsets.chunks())))


# Settling

_DONE = wire.SettledDelivery(None)


def begin_settle(
    session: BrokerSession, request: wire.Settle, responder: Responder, _: trio.Nursery
) -> Rest | None:
    check_group_name(request.group)
    return _SettleRequest(session, request, responder).pass_on()


class _SettleRequest(OrderedRequest[wire.SettleDelivery, wire.SettledDelivery]):
    kind = "settle"

    __slots__ = ("_group",)

    def __init__(self, session: BrokerSession, request: wire.Settle, responder: Responder) -> None:
        size = sum(len(each.runs) + 1 + sum(len(some.chunks) for some in each.sets) for each in request.deliveries)
        super().__init__(session, request.deliveries, session.settles, size, responder)
        self._group = request.group

    def question(self, item: wire.SettleDelivery) -> SettleRuns | None:
        question = _question(self._group, item)
        return question if question.size or question.action is Action.EXTEND else None

    def asked(self, number: int, question: SettleRuns, reply: Reply[AttemptRuns]) -> None:
        counts = self.session.statistics.groups
        reply.then(lambda settled: self.settle(number, _settled(counts, question, settled.outcome)))

    def refused(self, error: GoQueueError) -> wire.SettledDelivery:
        return wire.SettledDelivery(error_body(error))

    def unasked(self) -> wire.SettledDelivery:
        return _DONE

    def whole(self, pieces: tuple[wire.SettledDelivery, ...]) -> wire.Settled:
        return wire.Settled(pieces)


def _question(group: str, delivery: wire.SettleDelivery) -> SettleRuns:
    action, delay, whole = Action(delivery.action), delivery.delay_ms, delivery.whole
    check_settlement(action, delay, is_whole=bool(whole), is_named=bool(delivery.runs or delivery.sets))
    runs = named_messages(delivery.runs, delivery.sets)
    seconds, reason = None if delay is None else delay / 1_000, delivery.reason[:REASON_LENGTH_MAX]
    return SettleRuns(group, delivery.nonce, action, runs, seconds, reason, whole)


def _settled(
    counts: GroupCounts, question: SettleRuns, outcome: AttemptRuns | BaseException
) -> wire.SettledDelivery:
    if isinstance(outcome, tuple):
        counts.of[question.group].note_settled(question.action, question.size, outcome)
        return wire.SettledDelivery(None, tuple(map(wire.DeliveryRun._make, outcome)))
    assert isinstance(outcome, GoQueueError), "an actor refuses with typed errors, and its death is one"
    return wire.SettledDelivery(error_body(outcome))


ANSWERED: dict[type[Any], Callable[[BrokerSession, Any], Any]] = {wire.Receive: receive}
