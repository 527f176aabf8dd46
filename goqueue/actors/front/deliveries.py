"""Receives and settlements of the members of groups.

A receive that asks for a delivery at once has no task: it is answered in the turn of the partition that has all
that the member wants. It gets a task when it has to ask further, or to wait.

Settlements go to their partition in the order of the frames, straight from the reader: no receive or other request
that waits delays them. A thousand messages are one run, and cost what one costs.
"""

import math
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import cast

import trio

from goqueue.actors.delivery.requests import AwaitDeliverable, SettleRuns, Take, Taken
from goqueue.actors.front.ordered import OrderedRequest
from goqueue.actors.front.receiving import (
    NOTHING,
    PAUSE_SECONDS,
    Outcome,
    Place,
    await_deliverable,
    leads_on,
    none_yet,
    take_on,
    take_what_is_there,
)
from goqueue.actors.front.records import FETCH_BYTES_MAX
from goqueue.actors.front.responders import Haste, Responder, Rest
from goqueue.actors.front.session import BrokerSession
from goqueue.actors.runtime.cycles import current_party
from goqueue.actors.runtime.messages import Reply
from goqueue.actors.runtime.ref import ActorRef
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
from goqueue.core.security.quotas import charge
from goqueue.core.waiting.turns import ReceiveLimits, ReceiveShare
from goqueue.errors import GoQueueError
from goqueue.net.wire import groups as wire
from goqueue.net.wire.failures import error_body

# Receiving


def begin_receive(
    session: BrokerSession, request: wire.Receive, responder: Responder, tasks: trio.Nursery
) -> Rest | None:
    asked = ReceiveRequest(session, request, responder, tasks)
    if not asked.take_at_once():
        asked.go_on(asked.poll)
    return None


class ReceiveRequest:
    __slots__ = (
        "_deadline",
        "_given",
        "_places",
        "_request",
        "_responder",
        "_session",
        "_tasks",
        "_turn",
        "_turns",
    )

    def __init__(
        self, session: BrokerSession, request: wire.Receive, responder: Responder, tasks: trio.Nursery
    ) -> None:
        check_group_name(request.group)
        check_member_id(request.member)
        check_lease("visibility_ms", request.visibility_ms)
        self._session = session
        self._request = request
        self._responder = responder
        self._tasks = tasks
        self._deadline = trio.current_time() + request.max_wait_ms / 1_000
        self._turns, self._turn = session.members.turns((request.group, request.member))
        self._given = self._turns.given
        """The number of the member's deliveries when it asked."""
        self._places: Sequence[Place] = ()

    # Without a task

    def take_at_once(self) -> bool:
        """Ask the first partition for a delivery. False if anything has to be waited for before."""
        session, wanted = self._session, self._request.partitions
        places = session.known_partitions(wanted)
        if not places or not session.has_room() or not session.polls.admit(len(wanted)):
            return False
        self._places = places
        if not self._takes_at_once() or not self._turn.take_at_once():
            return False
        if session.polls.reads.take_at_once():
            if self._ask_first(places):
                return True
            session.polls.reads.give_back()
        self._turn.give_back()
        return False

    def _ask_first(self, places: Sequence[ActorRef]) -> bool:
        limits = self._turns.admit(_limits(self._request), self._given)
        if limits is None:
            return False
        share = self._turns.share(limits, self._request.partitions, trio.current_time(), None)
        try:
            reply = places[share.order[0]].ask_at_once(self._take(share.rest()))
        except GoQueueError:
            return False
        if reply is not None:
            self._session.takes[reply] = None
            reply.then(partial(self._took, share))
        return reply is not None

    def _took(self, share: ReceiveShare, reply: Reply[Taken]) -> None:
        """The partition has answered; this runs in its turn."""
        outcome, outcomes, number = reply.outcome, none_yet(self._places), share.order[0]
        del self._session.takes[reply]
        assert isinstance(outcome, Taken | GoQueueError), "an actor refuses with typed errors, and its death is one"
        if isinstance(outcome, Taken) and outcome.size:
            share.admit(number, outcome.size, len(outcome.data), is_alone=outcome.is_alone)
        outcomes[number] = outcome
        if len(share.order) > 1 and not share.is_full(trio.current_time()):
            self.go_on(partial(self._ask_further, share, outcomes))
            return
        answer = self._answer(outcomes, share, self._deadline)
        self._give_back()
        if answer is None:
            self.go_on(self._poll_again)
        else:
            self._responder.answer(answer, charge(self._session.principal, "receive", 0, 0))

    def _give_back(self) -> None:
        self._session.polls.reads.give_back()
        self._turn.give_back()

    # In a task

    def go_on(self, work: Callable[[], Awaitable[wire.Received]]) -> None:
        """Unless the client is gone."""
        if not self._tasks.cancel_scope.cancel_called:
            self._tasks.start_soon(self._serve, work)

    async def _serve(self, work: Callable[[], Awaitable[wire.Received]]) -> None:
        current_party.set(None)  # it may have been begun in the turn of a partition
        await self._session.serve(self._request, self._responder, work)

    async def poll(self) -> wire.Received:
        with self._session.polls.asking(len(self._request.partitions)) as poll:
            self._places = await self._session.partitions(self._request.partitions)
            asked = None if self._takes_at_once() else await self._ready()
            answer = await self._take_in_turn(poll, self._deadline, asked)
            return answer or await self._poll_on(poll)

    async def _ask_further(self, share: ReceiveShare, outcomes: list[Outcome]) -> wire.Received:
        with self._session.polls.asking(len(self._request.partitions)) as poll:
            try:
                with self._session.polls.undisturbed(poll):
                    await take_on(self._places, self._take, share, outcomes, asked=1)
            finally:
                self._give_back()
            return self._answer(outcomes, share, self._deadline) or await self._poll_on(poll)

    async def _poll_again(self) -> wire.Received:
        with self._session.polls.asking(len(self._request.partitions)) as poll:
            return await self._poll_on(poll)

    async def _poll_on(self, poll: trio.CancelScope) -> wire.Received:
        """Nothing was there: wait until there is. A prefetch does not wait for last deliveries."""
        patience, tries = self._deadline if self._request.at_once else -math.inf, 1
        while True:
            answer = await self._take_in_turn(poll, patience, await self._ready())
            if answer is not None:
                return answer
            tries += 1
            if tries > 2:
                await trio.sleep(PAUSE_SECONDS)

    def _takes_at_once(self) -> bool:
        """Without asking which partitions have messages: there is one, or no time, or probably all have some."""
        if len(self._places) < 2 or not self._request.max_wait_ms or self._turns.has_backlog:
            return True
        return any(isinstance(place, GoQueueError) for place in self._places)

    async def _ready(self) -> set[int]:
        asked, served_at = self._request, self._turns.served_at
        question = AwaitDeliverable(asked.group, asked.member, self._deadline, asked.instance, served_at)
        return await await_deliverable(self._places, question)

    async def _take_in_turn(
        self, poll: trio.CancelScope, deadline: float, asked: set[int] | None
    ) -> wire.Received | None:
        """A delivery; None when no partition has messages and there is time to wait. As with fetches few read at
        once, and only when the client takes its answers. What is taken is answered: the poll cannot end in between.
        It is answered in the same turn, so that the deliveries of one member come in order."""
        session, turns = self._session, self._turns
        async with self._turn:
            limits = turns.admit(_limits(self._request), self._given)
            if limits is None:
                return wire.Received((_delivery(NOTHING),) * len(self._places))
            async with session.polls.reads:
                await session.wait_for_room()
                with session.polls.undisturbed(poll):
                    share = turns.share(limits, self._request.partitions, trio.current_time(), asked)
                    outcomes = await take_what_is_there(self._places, self._take, share)
            return self._answer(outcomes, share, deadline)

    # Its answer

    def _take(self, rest: ReceiveLimits) -> Take:
        asked = self._request
        return Take(
            asked.group,
            asked.member,
            asked.generation,
            rest.messages_max,
            rest.bytes_max,
            asked.visibility_ms / 1_000,
            rest.is_busy,
            rest.lasts_max,
            asked.instance,
            asked.tells_begun,
        )

    def _answer(self, outcomes: Sequence[Outcome], share: ReceiveShare, deadline: float) -> wire.Received | None:
        now = trio.current_time()
        self._turns.note(share, self._request.partitions, now)
        counts = self._session.statistics.groups.of[self._request.group]
        for outcome in outcomes:
            if not isinstance(outcome, GoQueueError) and outcome.size:
                counts.note_delivered(outcome.runs, outcome.sets, len(outcome.data))
        if any(map(leads_on, outcomes)) or not outcomes or now >= deadline:
            return wire.Received(tuple(map(_delivery, outcomes)))
        return None


def _limits(request: wire.Receive) -> ReceiveLimits:
    """At least one message and one byte: a request for none would wait for ever."""
    messages_max = max(1, min(request.messages_max, MESSAGES_MAX))
    bytes_max = max(1, min(request.bytes_max, FETCH_BYTES_MAX))
    return ReceiveLimits(messages_max, bytes_max, request.at_once, request.is_busy)


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
_ACTIONS = {int(action): action for action in Action}


def begin_settle(
    session: BrokerSession, request: wire.Settle, responder: Responder, _: trio.Nursery
) -> Rest | None:
    check_group_name(request.group)
    return _SettleRequest(session, request, responder).pass_on()


class _SettleRequest(OrderedRequest[wire.SettleDelivery, wire.SettledDelivery]):
    kind = "settle"

    __slots__ = ("_group", "haste")

    def __init__(self, session: BrokerSession, request: wire.Settle, responder: Responder) -> None:
        size = sum([len(each.runs) + 1 + _chunks_in(each.sets) for each in request.deliveries])
        super().__init__(session, request.deliveries, session.settles, size, responder)
        self._group = request.group
        self.haste = Haste.LATER if request.is_unhurried else Haste.AT_ONCE

    def question(self, item: wire.SettleDelivery) -> SettleRuns | None:
        action, delay, whole = _ACTIONS[item.action], item.delay_ms, item.whole
        check_settlement(action, delay, is_whole=bool(whole), is_named=bool(item.runs or item.sets))
        runs = named_messages(item.runs, item.sets)
        if not (runs or whole or action is Action.EXTEND):
            return None
        seconds, reason = None if delay is None else delay / 1_000, item.reason[:REASON_LENGTH_MAX]
        return SettleRuns(self._group, item.nonce, action, runs, seconds, reason, whole)

    def asked(self, number: int, question: SettleRuns, reply: Reply[AttemptRuns]) -> None:
        reply.then(partial(self._heard, number, question))

    def _heard(self, number: int, question: SettleRuns, reply: Reply[AttemptRuns]) -> None:
        outcome = reply.outcome
        if isinstance(outcome, tuple):
            counts = self.session.statistics.groups.of[question.group]
            counts.note_settled(question.action, question.size, outcome)
            stale = tuple(map(wire.DeliveryRun._make, outcome))
            self.settle(number, wire.SettledDelivery(None, stale) if stale else _DONE)
        else:
            assert isinstance(outcome, GoQueueError), "an actor refuses with typed errors, and its death is one"
            self.settle(number, self.refused(outcome))

    def refused(self, error: GoQueueError) -> wire.SettledDelivery:
        return wire.SettledDelivery(error_body(error))

    def unasked(self) -> wire.SettledDelivery:
        return _DONE

    def whole(self, pieces: tuple[wire.SettledDelivery, ...]) -> wire.Settled:
        return wire.Settled(pieces)


def _chunks_in(sets: Sequence[wire.DeliverySet]) -> int:
    return sum([len(each.chunks) for each in sets]) if sets else 0
