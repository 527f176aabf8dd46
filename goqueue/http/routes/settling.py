"""Settling by receipts: of any groups and topics at once, by anybody who has them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, cast

import trio
from pydantic import Field

from goqueue.client.consuming.options import VISIBILITY_SECONDS_MAX, VISIBILITY_SECONDS_MIN
from goqueue.core.ledger.ledger import REASON_LENGTH_MAX
from goqueue.core.ledger.settlements import DELAY_MS_MAX, Action
from goqueue.core.receipts import Receipt
from goqueue.errors import GoQueueError, InvalidName, StaleReceipt, UnknownGroup, UnknownPartition, UnknownTopic
from goqueue.http.members.holding import DeliveryKey
from goqueue.http.messages.publishing import PARTLY, error_in_json
from goqueue.http.routing.answers import json_response
from goqueue.http.routing.route import HttpCall, Model, Route
from goqueue.http.server.errors import InvalidRequest, status_of
from goqueue.http.server.exchange import Response
from goqueue.net.wire.failures import error_of
from goqueue.net.wire.groups import DeliveryRun, Settle, Settled, SettleDelivery
from goqueue.net.wire.messages import DescribeTopics
from goqueue.storage.slices import Slices
from goqueue.types import Offset

GROUP = "Settling"
DELIVERIES_AT_ONCE = 200
"""Limit of the deliveries that are settled together: a request may name one for each receipt, and each is a
question to its partition."""
RECEIPTS_MAX = 10_000
GONE = (StaleReceipt, UnknownTopic, UnknownPartition, UnknownGroup, InvalidName)
"""What a receipt was for is no longer there."""

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


@dataclass(slots=True)
class Named:
    """The messages of one delivery, with the receipts that name them."""

    key: DeliveryKey
    receipts: dict[int, tuple[Receipt, str]] = field(default_factory=dict)

    @property
    def runs(self) -> tuple[DeliveryRun, ...]:
        runs: list[DeliveryRun] = []
        for offset, (receipt, _) in sorted(self.receipts.items()):
            if runs and runs[-1].last == offset - 1 and runs[-1].attempt == receipt.attempt:
                runs[-1] = runs[-1]._replace(last=offset)
            else:
                runs.append(DeliveryRun(offset, offset, receipt.attempt))
        return tuple(runs)


@dataclass(slots=True)
class ReceiptSettlement:
    action: Action
    delay_ms: int | None = None
    reason: str = ""
    settled: list[tuple[DeliveryKey, list[Offset]]] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)
    failed: list[dict[str, Any]] = field(default_factory=list)
    statuses: set[int] = field(default_factory=set)

    def status(self) -> int:
        if not self.stale and not self.failed:
            return 200
        if self.settled:
            return PARTLY
        return max(self.statuses, default=409)

    def note_settled(self, named: Named, stale: Sequence[DeliveryRun]) -> None:
        settled = list[Offset]()
        for offset, (_, text) in named.receipts.items():
            if any(run.first <= offset <= run.last for run in stale):
                self.note_stale([text])
            else:
                settled.append(offset)
        if settled:
            self.settled.append((named.key, settled))

    def note_stale(self, receipts: Iterable[str]) -> None:
        self.stale += receipts
        self.statuses.add(status_of(StaleReceipt("")))

    def note_failed(self, receipts: Iterable[str], error: GoQueueError) -> None:
        if isinstance(error, GONE):
            self.note_stale(receipts)
            return
        self.statuses.add(status_of(error))
        self.failed += [{"receipt": each, **error_in_json(error)} for each in receipts]


async def settle(call: HttpCall[None, Any], action: Action) -> Response:
    body = call.body
    seconds: float | None = getattr(body, "seconds", getattr(body, "delay", None))
    delay_ms = None if seconds is None else round(1_000 * seconds)
    settlement = ReceiptSettlement(action, delay_ms, getattr(body, "reason", ""))
    for group, named in (await _by_group(body.receipts, settlement)).items():
        for begin in range(0, len(named), DELIVERIES_AT_ONCE):
            await _settle_group(call, group, named[begin : begin + DELIVERIES_AT_ONCE], settlement)
    seats, now = call.gateway.seats, trio.current_time()
    for key, offsets in settlement.settled:
        if action is Action.EXTEND and seconds is not None:
            seats.note_extended(key, offsets, now + seconds)
        else:
            seats.note_settled(key, offsets)
    count = sum(len(offsets) for _, offsets in settlement.settled)
    answer: dict[str, Any] = {"settled": count, "stale": settlement.stale}
    if settlement.failed:
        answer["failed"] = settlement.failed
    return json_response(answer, settlement.status())


async def _by_group(receipts: Sequence[str], settlement: ReceiptSettlement) -> dict[str, list[Named]]:
    found: dict[DeliveryKey, Named] = {}
    slices = Slices()
    for text in receipts:
        await slices.step()
        try:
            receipt = Receipt.parse(text)
        except StaleReceipt:
            settlement.note_stale([text])
            continue
        key = DeliveryKey(receipt.group, receipt.topic, receipt.partition, receipt.nonce)
        named = found.setdefault(key, Named(key))
        if receipt.offset in named.receipts and named.receipts[receipt.offset][1] != text:
            raise InvalidRequest(f"two receipts are of the same message, {text} one of them; send the newest")
        named.receipts[receipt.offset] = (receipt, text)
    groups: dict[str, list[Named]] = {}
    for named in found.values():
        groups.setdefault(named.key.group, []).append(named)
    return groups


async def _settle_group(
    call: HttpCall[None, Any], group: str, named: list[Named], settlement: ReceiptSettlement
) -> None:
    """A topic may have been made again since its id was known here: then it is settled by the new one."""
    again = await _settle_once(call, group, named, settlement)
    if again:
        for each in again:
            call.gateway.topics.forget(each.key.topic)
        for each in await _settle_once(call, group, again, settlement):
            settlement.note_stale(_texts(each))


async def _settle_once(
    call: HttpCall[None, Any], group: str, named: list[Named], settlement: ReceiptSettlement
) -> list[Named]:
    """Returns those whose topic is another one than was known here."""
    known, deliveries, others = list[Named](), list[SettleDelivery](), list[Named]()
    for each in named:
        try:
            topic = await call.gateway.topics.find(each.key.topic, call.ask)
        except GoQueueError as error:
            settlement.note_failed(_texts(each), error)
        else:
            known.append(each)
            deliveries.append(_delivery(each, topic.uuid, settlement))
    if not known:
        return []
    try:
        answer = cast(Settled, await call.ask(Settle(group, tuple(deliveries))))
    except GoQueueError as error:
        for each in known:
            settlement.note_failed(_texts(each), error)
        return []
    for each, outcome in zip(known, answer.deliveries, strict=True):
        refused = None if outcome.error is None else error_of(outcome.error)
        if isinstance(refused, UnknownTopic):
            others.append(each)
        elif refused is not None:
            settlement.note_failed(_texts(each), refused)
        else:
            settlement.note_settled(each, outcome.stale)
    return others


def _delivery(named: Named, uuid: bytes, asked: ReceiptSettlement) -> SettleDelivery:
    key, runs = named.key, named.runs
    return SettleDelivery(uuid, key.partition, key.nonce, asked.action, runs, asked.delay_ms, asked.reason, 0, ())


def _texts(named: Named) -> list[str]:
    return [text for _, text in named.receipts.values()]


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
