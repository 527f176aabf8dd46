"""Settlements of the members of groups.

They go to their partition in the order of the frames, straight from the reader: no receive or other request
that waits delays them. A thousand messages are one run, and cost what one costs.
"""

import trio

from goqueue.actors.delivery.requests import SettleRuns
from goqueue.actors.front.ordered import OrderedRequest
from goqueue.actors.front.responders import Responder, Rest
from goqueue.actors.front.session import BrokerSession
from goqueue.actors.runtime.messages import Reply
from goqueue.actors.statistics.groups import GroupCounts
from goqueue.core.ledger.attempts import AttemptRuns
from goqueue.core.ledger.ledger import REASON_LENGTH_MAX
from goqueue.core.ledger.settlements import Action, check_settlement, named_messages
from goqueue.core.names import check_group_name
from goqueue.errors import GoQueueError
from goqueue.net.wire import groups as wire
from goqueue.net.wire.failures import error_body

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
