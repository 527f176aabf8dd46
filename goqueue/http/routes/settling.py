"""Settling by receipts: of any groups and topics at once, by anybody who has them."""

from functools import partial
from typing import Annotated, Any, NamedTuple, cast

import trio
from pydantic import Field

from goqueue.client.consuming.options import VISIBILITY_SECONDS_MAX, VISIBILITY_SECONDS_MIN
from goqueue.core.ledger.ledger import REASON_LENGTH_MAX
from goqueue.core.ledger.settlements import DELAY_MS_MAX, Action
from goqueue.errors import GoQueueError, UnknownTopic
from goqueue.http.members.receipts import DeliveryReceipts, ReceiptSettlement, portions_of, receipts_by_group
from goqueue.http.routing.answers import json_response
from goqueue.http.routing.route import HttpCall, Model, Route
from goqueue.http.server.exchange import Response
from goqueue.net.wire.failures import error_of
from goqueue.net.wire.groups import Settle, Settled, SettleDelivery
from goqueue.net.wire.messages import DescribeTopics

GROUP = "Settling"
RECEIPTS_MAX = 10_000

Receipts = Annotated[list[str], Field(min_length=1, max_length=RECEIPTS_MAX)]


class AckBody(Model):
    receipts: Receipts


class NackBody(Model):
    receipts: Receipts
    delay: Annotated[float, Field(ge=0, le=DELAY_MS_MAX / 1_000)] | None = None
    """Seconds until the retry, in place of the group's."""
    reason: Annotated[str, Field(max_length=REASON_LENGTH_MAX)] = ""


class RejectBody(Model):
    receipts: Receipts
    reason: Annotated[str, Field(max_length=REASON_LENGTH_MAX)] = ""


class VisibilityBody(Model):
    receipts: Receipts
    seconds: Annotated[float, Field(ge=VISIBILITY_SECONDS_MIN, le=VISIBILITY_SECONDS_MAX)]
    """From now on."""


class SettledAnswer(Model):
    settled: int
    stale: list[str]
    """Receipts that are no longer good: the lease has ended, or it was settled before."""
    failed: list[dict[str, Any]] | None = None
    """Receipts that could not be settled just now, and why."""


class AskedAction(NamedTuple):
    """What is to be done with all messages that the receipts of a request name."""

    action: Action
    delay_ms: int | None
    reason: str

    def of(self, named: DeliveryReceipts, topic: bytes) -> SettleDelivery:
        _, _, partition, nonce = named.key
        runs = named.delivery_runs
        return SettleDelivery(topic, partition, nonce, self.action, runs, self.delay_ms, self.reason, 0, ())


async def settle(call: HttpCall[None, Any], action: Action) -> Response:
    body, settlement = call.body, ReceiptSettlement()
    seconds: float | None = getattr(body, "seconds", getattr(body, "delay", None))
    delay_ms = None if seconds is None else round(1_000 * seconds)
    asked = AskedAction(action, delay_ms, getattr(body, "reason", ""))
    for group, named in (await receipts_by_group(body.receipts, settlement)).items():
        for portion in portions_of(named):
            await _settle_group(call, group, portion, asked, settlement)
    seats, now = call.gateway.seats, trio.current_time()
    for key, offsets in settlement.settled:
        if action is Action.EXTEND and seconds is not None:
            seats.note_extended(key, offsets, now + seconds)
        else:
            seats.note_settled(key, offsets)
    return json_response(settlement.in_json, settlement.status)


async def _settle_group(
    call: HttpCall[None, Any],
    group: str,
    named: list[DeliveryReceipts],
    asked: AskedAction,
    settlement: ReceiptSettlement,
) -> None:
    """A topic may have been made again since its id was known here: then it is settled by the new one."""
    again = await _settle_once(call, group, named, asked, settlement)
    if again:
        for each in again:
            call.gateway.topics.forget(each.key.topic)
        for each in await _settle_once(call, group, again, asked, settlement):
            settlement.note_stale(each.texts())


async def _settle_once(
    call: HttpCall[None, Any],
    group: str,
    named: list[DeliveryReceipts],
    asked: AskedAction,
    settlement: ReceiptSettlement,
) -> list[DeliveryReceipts]:
    """Returns those whose topic is another one than was known here."""
    known, deliveries, others = list[DeliveryReceipts](), list[SettleDelivery](), list[DeliveryReceipts]()
    for each in named:
        try:
            topic = await call.gateway.topics.find(each.key.topic, call.ask)
        except GoQueueError as error:
            settlement.note_failed(each.texts(), error)
        else:
            known.append(each)
            deliveries.append(asked.of(each, topic.uuid))
    if not known:
        return []
    try:
        answer = cast(Settled, await call.ask(Settle(group, tuple(deliveries))))
    except GoQueueError as error:
        for each in known:
            settlement.note_failed(each.texts(), error)
        return []
    for each, outcome in zip(known, answer.deliveries, strict=True):
        refused = None if outcome.error is None else error_of(outcome.error)
        if isinstance(refused, UnknownTopic):
            others.append(each)
        elif refused is not None:
            settlement.note_failed(each.texts(), refused)
        else:
            settlement.note_settled(each, outcome.stale)
    return others


def _route(name: str, action: Action, summary: str, body: type[Model]) -> Route:
    return Route(
        "POST",
        f"/messages/{name}",
        partial(settle, action=action),
        summary,
        GROUP,
        body=body,
        answer=SettledAnswer,
        also={207: "Some are settled; `stale` and `failed` name the others."},
        errors=("stale_receipt", "invalid_config", "protocol_error", "unavailable"),
        asks=(DescribeTopics, Settle),
    )


ROUTES = (
    _route("ack", Action.ACK, "These messages are done.", AckBody),
    _route(
        "nack", Action.NACK, "These failed: they are tried again, after `delay` or the group's backoff.", NackBody
    ),
    _route("reject", Action.REJECT, "These can never succeed: they become dead letters now.", RejectBody),
    _route("release", Action.RELEASE, "Give these back at once; the delivery does not count.", AckBody),
    _route("visibility", Action.EXTEND, "Let the leases of these end so many seconds from now.", VisibilityBody),
)
